"""What a cluster costs: a simulated one on a virtual clock, a million cached results, and the overhead of Dask on this machine.

Run: `python -m benchmarks.cluster simulate|rows|overhead [--rows N] [--cases N]`. `simulate` measures what client and
scheduler need for one job, in CPU time, and lets 100 to 10,000 workers make jobs with the durations of recorded or
typical compiles. `rows` fills an evidence store. `overhead` compiles the same programs with the local pool and with 1,
2 and 4 Dask workers. docs/scaling.md has the figures.
"""

from __future__ import annotations

import argparse
import heapq
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.overhead import times, write_cases
from triage.cli.context import open_runner
from triage.cli.screen import AppContext
from triage.execution.cache import Evidence, Record, parse_record, record_json
from triage.execution.compile_task import CompileTask
from triage.execution.delivery import packed_job
from triage.execution.judge import judge, rules_of
from triage.model.case import Case, Input, InputKind, Target
from triage.model.execution import Captured, Ending, Execution
from triage.toolchains.home import home_path

BUSY = 0.9  # share of the time that 1,000 workers must compile, with jobs of 2 s
_FIRST = 8  # cases that start all workers
OUTPUT = (
    "iree-compile: note: %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>]} ins(%1 : tensor<4x8xf32>)\n"
)


@dataclass(frozen=True)
class Costs:
    """CPU seconds for each job: of the client before and after it, of the scheduler, and of the worker beside the compile."""

    send: float
    receive: float
    schedule: float
    worker: float = 0.010


def record(number: int, seconds: float = 2.0) -> Record:
    """Return a result like those of a real failing compile: about 2 KB of JSON."""
    text = "".join(OUTPUT.replace("%3", f"%{number + line}") for line in range(12))
    execution = Execution(
        ("iree-compile", f"input:{number:012x}"), Ending.EXITED, 1, None, seconds, seconds, 300.0, Captured(), Captured(text)
    )
    key = sha256(str(number).encode()).hexdigest()
    return Record(key, f"case-{number % 100_000}", f"3.{number % 16}.0", "2026-01-01T00:00:00+00:00", execution)


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


def simulate(workers: int, durations: Sequence[float], costs: Costs, jobs: int, together: int = 1) -> tuple[float, ...]:
    """Let workers make jobs on a virtual clock; return the share of the time that workers compile until the last job is
    placed, that the client works, and that the scheduler works. together: jobs that are sent as one task.
    """
    choose, client, scheduler = random.Random(1), Server(), Server()
    events: list[tuple[float, int, str]] = []
    idle, queued, sent, busy, number = workers, 0, 0, 0.0, 0

    def later(time: float, what: str) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (time, number, what))

    def send(now: float) -> None:
        nonlocal sent
        sent += 1
        later(client.serve(now, costs.send * together), "sent")

    tasks = jobs // together
    for _ in range(min(2 * workers + 1, tasks)):
        send(0.0)
    while events:
        now, _, what = heapq.heappop(events)
        if what == "sent":
            later(scheduler.serve(now, costs.schedule / 2), "placed")
        elif what == "done":
            later(client.serve(now, costs.receive * together), "received")
        elif what == "received" and sent < tasks:
            send(now)
        if what in ("placed", "ended"):
            queued, idle = queued + (what == "placed"), idle + (what == "ended")
        if what == "ended":
            later(scheduler.serve(now, costs.schedule / 2), "done")
        if queued and idle:
            queued, idle = queued - 1, idle - 1
            work = sum(choose.choice(durations) for _ in range(together))
            busy += work
            later(now + work + costs.worker * together, "ended")
        if sent == tasks:
            break
    busy -= sum(end - now - costs.worker for end, _, what in events if what == "ended")
    return busy / (now * workers), min(1.0, client.busy / now), min(1.0, scheduler.busy / now)


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-m", "dask", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def cpu_of(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def answer_of(text: str, _: object) -> str:
    return text


def dask_costs(count: int) -> tuple[float, float]:
    """Return CPU seconds of the client and of the scheduler for each of `count` jobs that do nothing."""
    from distributed import Client

    with TemporaryDirectory() as folder:
        file = Path(folder, "scheduler.json")
        text, job = record_json(record(1)), Case("a", "a", "", "iree", Path("a"), Input(Path("a"), InputKind.MLIR), Target("x"))
        with (
            started("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)) as head,
            started("worker", "--scheduler-file", str(file), "--nthreads", "4", "--no-nanny", "--no-dashboard"),
            closing(Client(scheduler_file=str(file), set_as_default=False, timeout=60)) as client,
        ):
            client.wait_for_workers(1)
            client.gather([client.submit(answer_of, text, job, pure=False) for _ in range(50)])
            before = time.process_time(), cpu_of(head)
            for _ in range(count // 100):
                client.gather([client.submit(answer_of, text, job, pure=False) for _ in range(100)])
            return (time.process_time() - before[0]) / count, (cpu_of(head) - before[1]) / count


def own_costs(count: int) -> tuple[float, float]:
    """Return CPU seconds of this program before and after a job: plan, look up and pack; read, keep and judge."""
    with TemporaryDirectory() as folder:
        write_cases(Path(folder, "cases"), 1)
        os.environ["TRIAGE_HOME"] = os.environ.get("TRIAGE_HOME") or folder
        from triage.cli.context import load_cases

        [case] = load_cases([Path(folder, "cases")])
        with open_runner(AppContext(quiet=True), [case]) as runner, closing(Evidence(Path(folder, "e.db"))) as evidence:
            toolchain = runner.registry.obtain(runner.registry.installed_releases("iree")[-1])
            texts = [record_json(record(number)) for number in range(count)]
            rules = rules_of(case)
            judge(parse_record(texts[0]).execution, rules)
            begun = time.process_time()
            for _ in range(count):
                task = runner.prober.plan(case, toolchain)
                assert isinstance(task, CompileTask)
                evidence.find(task.key())
                packed_job(task, "3.2.0", fresh=False)
            between = time.process_time()
            for first in range(0, count, 10):  # about as many answers arrive at once
                read = [(text, parse_record(text)) for text in texts[first : first + 10]]
                evidence.add_read(read)
                for _, made in read:
                    judge(made.execution, rules)
            return (between - begun) / count, (time.process_time() - between) / count


def recorded_durations(home: Path | None, mean: float) -> list[float]:
    """Return durations of real compiles, scaled to a mean; without a home those of a typical suite."""
    durations = [0.3, 0.4, 0.4, 0.5, 0.5, 0.6, 0.7, 0.9, 1.1, 1.3, 1.8, 2.5, 3.5, 4.6, 9.0, 21.0]
    if home and (home / "evidence.db").exists():
        with closing(Evidence(home / "evidence.db")) as evidence:
            durations = [parse_record(line).execution.seconds for line in evidence.export()] or durations
    scale = mean / statistics.fmean(durations)
    return [duration * scale for duration in durations]


def simulation(home: Path | None) -> bool:
    """Print the simulated clusters; return whether 1,000 workers are busy enough."""
    dask_client, schedule = dask_costs(2000)
    send, receive = own_costs(500)
    costs = Costs(send + dask_client / 2, receive + dask_client / 2, schedule)
    print(f"each job: client {1e3 * (costs.send + costs.receive):.2f} ms (Dask {1e3 * dask_client:.2f}), ", end="")
    print(f"scheduler {1e3 * schedule:.2f} ms of CPU")
    good = True
    for mean in (0.5, 2.0, 20.0):
        durations = recorded_durations(home, mean)
        for workers in (100, 1000, 10_000):
            for together in (1, 8) if workers > 200 else (1,):
                shares = [costs.send - dask_client / 2 + dask_client / 2 / together, costs.receive - dask_client / 2]
                of_batch = replace(costs, send=shares[0], receive=shares[1] + dask_client / 2 / together)
                busy, client, scheduler = simulate(workers, durations, of_batch, workers * 20 * together, together)
                print(
                    f"{workers:6} workers, {mean:4g} s jobs, {together} together: {busy:4.0%} busy, "
                    f"client {client:4.0%}, scheduler {scheduler:4.0%}"
                )
            good &= busy >= BUSY or (workers, mean) != (1000, 2.0)
    return good


def rows(count: int) -> None:
    """Fill a store with `count` results; print size, lookups, and the time of a nightly whose results are all known."""
    with TemporaryDirectory() as folder:
        home, path = Path(folder, "home"), Path(folder, "home", "evidence.db")
        home.mkdir()
        (home / "toolchains").symlink_to(home_path() / "toolchains")
        write_cases(Path(folder, "cases"), 20)
        night = [sys.executable, "-c", "from triage.cli import main; main()", "--quiet", "nightly", str(Path(folder, "cases"))]
        night += ["-t", "latest", "-b", "previous", "--out", str(Path(folder, "out"))]
        environ = {**os.environ, "TRIAGE_HOME": str(home)}
        times(night, env=environ)
        known = times(night, env=environ)[0]
        _fill(path, count)
        print(f"{count} rows: {path.stat().st_size / 1e6:.0f} MB, {path.stat().st_size / count:.0f} bytes a row")
        print(f"nightly of 20 known cases: {known:.2f} s before, {times(night, env=environ)[0]:.2f} s with these rows")
        opened = time.process_time()
        with closing(Evidence(path)) as evidence:
            print(f"open: {1e3 * (time.process_time() - opened):.1f} ms")
            keys = [sha256(str(random.randrange(2 * count)).encode()).hexdigest() for _ in range(5000)]
            for what, action in (
                ("find", evidence.find),
                ("last_peak_mb", lambda key: evidence.last_peak_mb(f"case-{int(key[:8], 16) % 100_000}")),
                ("add", lambda key: evidence.add(replace(record(0), key=key))),
            ):
                begun, wall = time.process_time(), time.perf_counter()
                for key in keys:
                    action(key)
                spent, wall = time.process_time() - begun, time.perf_counter() - wall
                print(f"{what}: {len(keys) / spent:.0f} a second of CPU time, {len(keys) / wall:.0f} a second")


def _fill(path: Path, count: int) -> None:
    first = record(0)
    template = record_json(first)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN")
        (start,) = db.execute("SELECT coalesce(max(id), 0) + 1 FROM probes").fetchone()
        for number in range(count):
            key, name = sha256(str(number).encode()).hexdigest(), f"case-{number % 100_000}"
            data = template.replace(first.key, key, 1).replace('"case-0"', f'"{name}"', 1).encode()
            row = (start + number, sha256(data).hexdigest(), key, name, f"3.{number % 16}.0", first.at, 300.0)
            db.execute("INSERT INTO probes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, zlib.compress(data, 1)))
        db.execute("COMMIT")


def overhead(cases: int, rounds: int = 3) -> None:
    """Compile equal cases here and on Dask workers; print the time and the CPU time that each job takes, and the difference.

    The two executors take turns, so that a slower minute of the machine meets both; the medians of all rounds count. A run of
    some cases, which give each worker its first one, is subtracted: starting workers is no cost of a job.
    """
    command = [sys.executable, "-c", "from triage.cli import main; main()", "--quiet", "run"]
    with TemporaryDirectory() as folder:
        write_cases(Path(folder, "many"), cases)
        write_cases(Path(folder, "few"), _FIRST)
        for jobs in (1, 2, 4):
            spent: dict[str, list[tuple[float, float]]] = {"local": [], "dask": []}
            for _ in range(rounds):
                for executor, times_of_jobs in spent.items():
                    words = ["--fresh", "--jobs", str(jobs), "--executor", executor]
                    few, many = (times([*command, str(Path(folder, name)), *words]) for name in ("few", "many"))
                    times_of_jobs.append(((many[0] - few[0]) / (cases - _FIRST), (many[1] - few[1]) / (cases - _FIRST)))
            wall, cpu = (
                {name: statistics.median(pair[at] for pair in pairs) for name, pairs in spent.items()} for at in (0, 1)
            )
            for name in spent:
                print(f"{name:5} {jobs} at once: {1e3 * wall[name]:.0f} ms, {1e3 * cpu[name]:.0f} ms of CPU for each job")
            beyond = wall["dask"] - wall["local"]
            print(f"      beyond the local pool: {1e3 * beyond:.0f} ms, {beyond / wall['local']:.1%}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["simulate", "rows", "overhead"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--home", type=Path, help="TRIAGE_HOME whose results have the durations to simulate")
    options = parser.parse_args()
    if options.what == "rows":
        rows(options.rows)
    elif options.what == "overhead":
        overhead(options.cases)
    else:
        return 0 if simulation(options.home) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
