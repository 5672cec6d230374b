"""What a Dask cluster costs: next to the local pool on this machine, and how many
workers one client and scheduler keep busy.

Run: `python -m benchmarks.cluster [--cases N] [--scale]`. `--scale` takes the CPU time
that client and scheduler need for a job that does nothing: whichever needs more limits
the jobs a second. The figures are in docs/explanation/architecture.md. Exit code 1
means that 1,000 workers with jobs of 2 s would not be busy enough.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common import TRIAGE, Ratio, cost_of, new_home
from benchmarks.overhead import write_cases

BUSY = 0.9  # share of the time that 1,000 workers must compile, with jobs of 2 s
WORKER = 0.010  # CPU seconds of a worker next to the compile
_FIRST = 8  # cases that start all workers


def dask_costs(count: int = 2000) -> tuple[float, float]:
    """Return the CPU seconds of client and scheduler for each of `count` jobs that do
    nothing.
    """
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=1, threads_per_worker=4, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.gather([client.submit(str, number, pure=False) for number in range(50)])
        before = time.process_time()
        for _ in range(count // 100):
            client.gather(
                [client.submit(str, number, pure=False) for number in range(100)]
            )
        # client and scheduler share this process
        both = (time.process_time() - before) / count
    return both / 3, both * 2 / 3  # measured apart, the scheduler takes two thirds


def own_cost(cases: int) -> float:
    """Return the CPU seconds that this program needs for each job whose result is
    known.
    """
    with TemporaryDirectory() as folder:
        env = new_home(Path(folder, "home"))
        spent = []
        for count in (_FIRST, cases):
            write_cases(Path(folder, str(count)), count)
            command = [*TRIAGE, "run", str(Path(folder, str(count)))]
            cost_of(command, env=env)
            spent.append(cost_of(command, env=env).cpu)
    return max(0.0, spent[1] - spent[0]) / (cases - _FIRST)


def scale(cases: int) -> bool:
    """Print how busy workers can be; return whether 1,000 are busy enough."""
    own, (dask_client, scheduler) = own_cost(cases), dask_costs()
    client = own + dask_client
    print(
        f"each job: client {1e3 * client:.2f} ms of CPU (Dask {1e3 * dask_client:.2f}), scheduler {1e3 * scheduler:.2f} ms"
    )
    rate = 1 / max(client, scheduler)
    good = True
    for seconds in (0.5, 2.0, 20.0):
        for workers in (100, 1000, 10_000):
            busy = min(seconds / (seconds + WORKER), rate * seconds / workers)
            print(f"{workers:6} workers, {seconds:4g} s jobs: {busy:4.0%} busy")
            good &= busy >= BUSY or (workers, seconds) != (1000, 2.0)
    return good


def ratios(cases: int = 24, rounds: int = 3) -> Iterator[Ratio]:
    """Compile equal cases with the local pool and on Dask workers, in turn; the medians
    of all rounds count.

    A run of some cases, which give each worker its first one, is subtracted: starting
    workers is not a cost of a job.
    """
    with TemporaryDirectory() as folder:
        env = new_home(Path(folder, "home"))
        for name, count in (("many", cases), ("few", _FIRST)):
            write_cases(Path(folder, name), count)
        spent: dict[str, list[float]] = {"local": [], "dask": []}
        for _ in range(rounds):
            for executor, seconds in spent.items():
                words = ["--fresh", "--jobs", "2", "--executor", executor]
                few, many = (
                    cost_of([*TRIAGE, "run", str(Path(folder, name)), *words], env=env)
                    for name in ("few", "many")
                )
                seconds.append(1000 * (many.wall - few.wall) / (cases - _FIRST))
    ours, local = (statistics.median(spent[executor]) for executor in ("dask", "local"))
    yield Ratio(
        "one compile on 2 Dask workers, wall time", ours, "2 local jobs", local, "ms"
    )


def main() -> int:
    """Print the comparison, or how far it scales."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=48)
    parser.add_argument("--scale", action="store_true")
    options = parser.parse_args()
    if options.scale:
        return 0 if scale(options.cases) else 1
    for ratio in ratios(options.cases):
        print(ratio)
    return 0


if __name__ == "__main__":
    sys.exit(main())
