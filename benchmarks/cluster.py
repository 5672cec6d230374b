"""What a Dask cluster costs: next to the local pool on this machine, and simulated with up to 10,000 workers.

Run: `python -m benchmarks.cluster [--cases N] [--simulate]`. The simulation takes the CPU time that client and scheduler need
for a job that does nothing, and lets workers make jobs of typical durations on a virtual clock. The figures are in
docs/scaling.md.
Exit code 1 means that a simulated cluster of 1,000 workers with jobs of 2 s is not busy enough.
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common import TRIAGE, Ratio, cost_of, new_home
from benchmarks.overhead import write_cases

BUSY = 0.9  # share of the time that 1,000 workers must compile, with jobs of 2 s
WORKER = 0.010  # CPU seconds of a worker next to the compile
DURATIONS = (0.3, 0.4, 0.4, 0.5, 0.5, 0.6, 0.7, 0.9, 1.1, 1.3, 1.8, 2.5, 3.5, 4.6, 9.0, 21.0)  # seconds, of a typical suite
_FIRST = 8  # cases that start all workers


@dataclass
class Server:
    """Does one thing after another."""

    free: float = 0.0
    busy: float = 0.0

    def serve(self, now: float, cost: float) -> float:
        """Return when a thing that arrives now is done."""
        self.free = max(self.free, now) + cost
        self.busy += cost
        return self.free


def simulate(workers: int, durations: Sequence[float], client_cost: float, scheduler_cost: float) -> tuple[float, float, float]:
    """Let workers make 20 jobs each on a virtual clock.

    Return the share of the time that workers compile until the last job is placed, that the client works, and that the
    scheduler works. The costs are CPU seconds for each job.
    """
    choose, client, scheduler = random.Random(1), Server(), Server()
    events: list[tuple[float, int, str]] = []
    idle, queued, sent, busy, number, jobs, now = workers, 0, 0, 0.0, 0, workers * 20, 0.0

    def later(moment: float, what: str) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (moment, number, what))

    while sent < min(2 * workers + 1, jobs):
        sent += 1
        later(client.serve(0.0, client_cost / 2), "sent")
    while events and sent < jobs:
        now, _, what = heapq.heappop(events)
        if what == "sent":
            later(scheduler.serve(now, scheduler_cost / 2), "placed")
        elif what == "done":
            later(client.serve(now, client_cost / 2), "received")
        elif what == "received":
            sent += 1
            later(client.serve(now, client_cost / 2), "sent")
        elif what == "placed":
            queued += 1
        elif what == "ended":
            idle += 1
            later(scheduler.serve(now, scheduler_cost / 2), "done")
        if queued and idle:
            queued, idle = queued - 1, idle - 1
            work = choose.choice(durations)
            busy += work
            later(now + work + WORKER, "ended")
    busy -= sum(end - now - WORKER for end, _, what in events if what == "ended")
    return busy / (now * workers), min(1.0, client.busy / now), min(1.0, scheduler.busy / now)


def dask_costs(count: int = 2000) -> tuple[float, float]:
    """Return the CPU seconds of client and scheduler for each of `count` jobs that do nothing."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=4, processes=True, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.gather([client.submit(str, number, pure=False) for number in range(50)])
        before = time.process_time()
        for _ in range(count // 100):
            client.gather([client.submit(str, number, pure=False) for number in range(100)])
        both = (time.process_time() - before) / count  # client and scheduler share this process
    return both / 3, both * 2 / 3  # measured apart, the scheduler takes two thirds


def own_cost(cases: int) -> float:
    """Return the CPU seconds that this program needs for each job whose result is known."""
    with TemporaryDirectory() as folder:
        env = new_home(Path(folder, "home"))
        spent = []
        for count in (_FIRST, cases):
            write_cases(Path(folder, str(count)), count)
            command = [*TRIAGE, "run", str(Path(folder, str(count)))]
            cost_of(command, env=env)
            spent.append(cost_of(command, env=env).cpu)
    return max(0.0, spent[1] - spent[0]) / (cases - _FIRST)


def simulation(cases: int) -> bool:
    """Print the simulated clusters; return whether 1,000 workers are busy enough."""
    own, (dask_client, scheduler) = own_cost(cases), dask_costs()
    print(f"each job: client {1e3 * (own + dask_client):.2f} ms of CPU (Dask {1e3 * dask_client:.2f}), ", end="")
    print(f"scheduler {1e3 * scheduler:.2f} ms")
    good = True
    for mean in (0.5, 2.0, 20.0):
        durations = [duration * mean / statistics.fmean(DURATIONS) for duration in DURATIONS]
        for workers in (100, 1000, 10_000):
            busy, client, schedule = simulate(workers, durations, own + dask_client, scheduler)
            print(f"{workers:6} workers, {mean:4g} s jobs: {busy:4.0%} busy, client {client:4.0%}, scheduler {schedule:4.0%}")
            good &= busy >= BUSY or (workers, mean) != (1000, 2.0)
    return good


def ratios(cases: int = 24, rounds: int = 3) -> Iterator[Ratio]:
    """Compile equal cases with the local pool and on Dask workers, in turn; the medians of all rounds count.

    A run of some cases, which give each worker its first one, is subtracted: starting workers is not a cost of a job.
    """
    with TemporaryDirectory() as folder:
        env = new_home(Path(folder, "home"))
        for name, count in (("many", cases), ("few", _FIRST)):
            write_cases(Path(folder, name), count)
        spent: dict[str, list[float]] = {"local": [], "dask": []}
        for _ in range(rounds):
            for executor, seconds in spent.items():
                words = ["--fresh", "--jobs", "2", "--executor", executor]
                few, many = (cost_of([*TRIAGE, "run", str(Path(folder, name)), *words], env=env) for name in ("few", "many"))
                seconds.append(1000 * (many.wall - few.wall) / (cases - _FIRST))
    ours, local = (statistics.median(spent[executor]) for executor in ("dask", "local"))
    yield Ratio("one compile on 2 Dask workers, wall time", ours, "2 local jobs", local, "ms")


def main() -> int:
    """Print the comparison, or the simulation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=48)
    parser.add_argument("--simulate", action="store_true")
    options = parser.parse_args()
    if options.simulate:
        return 0 if simulation(options.cases) else 1
    for ratio in ratios(options.cases):
        print(ratio)
    return 0


if __name__ == "__main__":
    sys.exit(main())
