#!/bin/bash
#SBATCH --job-name=triage-workers
#SBATCH --array=1-16
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=64G
#SBATCH --time=08:00:00
export TRIAGE_HOME="${TMPDIR:-/tmp}/triage"
exec dask worker "${TRIAGE_SCHEDULER:?such as tcp://head:8786}" --nworkers "$SLURM_CPUS_PER_TASK" --nthreads 1 --memory-limit 0 --no-dashboard
