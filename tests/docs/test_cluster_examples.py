"""The examples of the cluster guide: their files are valid, and Dask knows every
option.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
FILES = [
    DOCS / "how-to" / "cluster.md",
    *sorted((DOCS / "examples").glob("*-workers.*")),
]


def dask_lines(path: Path) -> list[list[str]]:
    """Return the words after `dask` of each command in a file."""
    commands = re.findall(
        r"(?<![`\w-])dask ((?:scheduler|worker) [^\n'`]*)", path.read_text()
    )
    return [
        shlex.split(re.sub(r'"\$\{?\w+[^"]*"', "8", command).removesuffix('"]'))
        for command in commands
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_dask_knows_every_option(path: Path) -> None:
    from distributed.cli import dask_scheduler, dask_worker

    commands = {"scheduler": dask_scheduler.main, "worker": dask_worker.main}
    lines = dask_lines(path)
    assert lines
    for name, *words in lines:
        commands[name].make_context(name, words, resilient_parsing=False)


def test_the_slurm_job_is_valid_and_starts_a_worker_for_each_core(
    tmp_path: Path,
) -> None:
    script = DOCS / "examples" / "slurm-workers.sh"
    fake = tmp_path / "dask"
    fake.write_text('#!/bin/sh\necho "$TRIAGE_HOME $*"\n')
    fake.chmod(0o755)
    env = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "TRIAGE_SCHEDULER": "tcp://head:8786",
        "SLURM_CPUS_PER_TASK": "16",
    }
    done = subprocess.run(
        ["bash", script], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(
        "/tmp/triage worker tcp://head:8786 --nworkers 16 --nthreads 1"
    )
