"""A place to attack the program in: a home, a temporary folder and a compiler log of
its own, and what must hold afterwards.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

# Numbers and places that differ between two runs with the same answer.
_VOLATILE = frozenset(
    [
        "seconds",
        "cpu_seconds",
        "peak_rss_mb",
        "cached",
        "compiles",
        "probes",
        "rounds",
        "oracle_calls",
        "reports",
        "reproducer",
        "artifact_bytes",
        "metrics",
        "untestable",
        "other_failures",
        "calls",
        "summary",
        "evidence",
        "passes",
        "tried",
        "command",
        "compile_seconds",
        "started",
        "obtained",
        "log",
    ]
)
_LEFTOVERS = (
    ".tmp",
    "tmp_pack",
    "tmp_obj",
    ".taking-",
    ".writable-",
    ".corrupt",
)


@dataclass(frozen=True)
class Job:
    """A command to attack. codes: its right exit codes; jobs: compiles at once; reads:
    what is compared of its answer.

    after: commands that run undisturbed before it.
    """

    name: str
    words: tuple[str, ...]
    codes: tuple[int, ...] = (0, 1)
    jobs: int = 1
    reads: Callable[[Any], Any] = lambda answer: answer
    after: tuple[Job, ...] = ()


@dataclass
class Arena:
    """Runs commands in one home. `findings` lists what did not hold."""

    folder: Path
    env: dict[str, str]
    log: Path
    findings: list[str] = field(default_factory=list)
    checks: int = 0

    def __post_init__(self) -> None:
        for path in (self.home, self.temporary):
            path.mkdir(parents=True)
        self.env = {
            **self.env,
            "TRIAGE_HOME": str(self.home),
            "TMPDIR": str(self.temporary),
        }

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    def start(self, words: Sequence[str]) -> subprocess.Popen[str]:
        """Start triage in a process group of its own; its output goes to files, so that
        no pipe keeps it.
        """
        with (
            (self.folder / "stdout").open("w") as stdout,
            (self.folder / "stderr").open("w") as stderr,
        ):
            command = [
                sys.executable,
                "-c",
                "from triage.cli import main; main()",
                *words,
            ]
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.env,
                stdout=stdout,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )

    def finish(self, running: subprocess.Popen[str], job: Job) -> Any:
        """Wait for a command and return the comparable part of its answer."""
        running.wait(timeout=900)
        stdout, stderr = (
            (self.folder / name).read_text() for name in ("stdout", "stderr")
        )
        self.hold(
            running.returncode in job.codes,
            f"{job.name}: exit code {running.returncode}: {stderr[-800:]}",
        )
        self.hold("Traceback" not in stderr, f"{job.name}: traceback: {stderr[-1500:]}")
        try:
            return job.reads(stable(json.loads(stdout)))
        except ValueError:
            self.hold(None, f"{job.name}: no JSON: {stdout[-200:]!r} {stderr[-500:]!r}")
            return None

    def run(self, job: Job) -> Any:
        return self.finish(self.start(job.words), job)

    def hold(self, what: object, message: str) -> None:
        """Count a check, and note a finding where it fails."""
        self.checks += 1
        if not what:
            self.findings.append(message)

    def starts(self) -> int:
        """How many compiles began, as the compilers themselves wrote."""
        text = self.log.read_text() if self.log.exists() else ""
        return sum(line.startswith("start ") for line in text.splitlines())

    def records(self) -> dict[str, str]:
        """Return the key of each record in the evidence by its number; a damaged one is
        a finding.
        """
        path = self.home / "evidence.db"
        if not path.exists():
            return {}
        with closing(sqlite3.connect(path)) as db:
            try:
                rows = db.execute("SELECT id, key, facts FROM probes").fetchall()
            except sqlite3.OperationalError:  # killed before the table was created
                return {}
            self.hold(
                db.execute("PRAGMA integrity_check").fetchone() == ("ok",),
                "the evidence is damaged",
            )
        for _, _, facts in rows:
            self.hold(
                isinstance(json.loads(zlib.decompress(facts)), dict),
                "a record cannot be read",
            )
        return {str(number): key for number, key, _ in rows}

    def processes(self) -> list[str]:
        """The command lines of processes that belong to this arena."""
        mark, mine, left = str(self.folder).encode(), os.getpid(), []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == mine:
                continue
            try:
                words = (entry / "cmdline").read_bytes()
                if mark in words or mark in (entry / "environ").read_bytes():
                    left.append(
                        words.replace(b"\0", b" ").decode("utf-8", "replace")[:200]
                    )
            except OSError:
                continue
        return left

    def expect_no_process(self) -> None:
        """Wait for the end of what a killed program left, which its watchdog ends."""
        deadline = time.monotonic() + 15
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.hold(not left, f"processes are left: {left}")

    def expect_no_leftovers(self) -> None:
        """Check that no temporary file is left in the home and in the temporary folder."""
        left = [str(path) for path in self.temporary.iterdir()]
        left += [str(path) for path in (self.home / "scratch").glob("*")]
        for parent, folders, names in os.walk(self.home):
            left += [
                f"{parent}/{name}"
                for name in (*folders, *names)
                if any(mark in name for mark in _LEFTOVERS)
            ]
            folders[:] = [name for name in folders if name not in ("source", "build")]
        self.hold(not left, f"temporary files are left: {left[:8]}")


def stable(value: Any) -> Any:
    """Return a JSON value without what differs between two runs."""
    if isinstance(value, dict):
        return {
            key: stable(each) for key, each in value.items() if key not in _VOLATILE
        }
    return [stable(each) for each in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class Undisturbed:
    """What a command does when nothing disturbs it. repeated: records of a key that has
    one already.
    """

    answer: Any
    starts: int
    records: int
    seconds: float
    repeated: int


def undisturbed(arena: Arena, job: Job) -> Undisturbed:
    for earlier in job.after:
        arena.run(earlier)
    before, begun = arena.starts(), time.monotonic()
    answer = arena.run(job)
    records = arena.records()
    arena.expect_no_process()
    arena.expect_no_leftovers()
    repeated = len(records) - len(set(records.values()))
    return Undisturbed(
        answer,
        arena.starts() - before,
        len(records),
        time.monotonic() - begun,
        repeated,
    )


def killed_round(
    arena: Arena, job: Job, model: Undisturbed, random: Random, most: int
) -> int:
    """Kill a command at random moments until it comes to its end, at most `most` times;
    check it. Return the kills.
    """
    for earlier in job.after:
        arena.run(earlier)
    kills, known, before = 0, set(arena.records()), arena.starts()
    while True:
        running = arena.start(job.words)
        if kills < most:
            try:
                running.wait(timeout=random.uniform(0.2, 0.6 + 0.7 * model.seconds))
            except subprocess.TimeoutExpired:
                # Sometimes the program alone, sometimes with its group, as the kernel
                # and a CI system do.
                (os.killpg if random.random() < 0.3 else os.kill)(
                    running.pid, signal.SIGKILL
                )
                running.wait()
                kills += 1
                arena.expect_no_process()
                records = set(arena.records())
                arena.hold(
                    known <= records,
                    f"{job.name}: {len(known - records)} records are lost",
                )
                known = records
                continue
        answer = arena.finish(running, job)
        break
    records = arena.records()
    arena.hold(
        answer == model.answer,
        f"{job.name}: another answer after {kills} kills: {answer} instead of {model.answer}",
    )
    arena.hold(known <= set(records), f"{job.name}: records are lost")
    # Each finished compile has its record; where some runs only name a pass, the same
    # ones are needed as without kills.
    lost = (
        arena.starts()
        - before
        - (len(records) if model.starts == model.records else model.starts)
    )
    arena.hold(
        lost <= kills * job.jobs,
        f"{job.name}: {lost} began in vain in {kills} kills of {job.jobs} at once",
    )
    repeated = len(records) - len(set(records.values()))
    # a pair of a bisect is confirmed again by every run that gets so far
    allowed = model.repeated * (kills + 1)
    arena.hold(
        repeated <= allowed,
        f"{job.name}: {repeated} results were compiled twice, not {allowed}",
    )
    arena.expect_no_process()
    arena.expect_no_leftovers()
    return kills
