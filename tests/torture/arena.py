"""A place to attack the program in: a home, a temporary folder and a compiler log of
its own, and what must hold afterwards.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import time
import zlib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import psutil

from tests.programs import TRIAGE

# Numbers and places that differ between two runs with the same answer.
_VOLATILE = """
seconds cpu_seconds peak_rss_mb cached compiles probes rounds oracle_calls reports
reproducer artifact_bytes metrics untestable other_failures calls summary evidence passes
tried command compile_seconds started obtained log
"""
_LEFTOVERS = (".tmp", "tmp_pack", "tmp_obj", ".taking-", ".writable-", ".corrupt")


@dataclass(frozen=True)
class Job:
    """A command to attack."""

    name: str
    line: str
    codes: tuple[int, ...] = (0, 1)
    """Its right exit codes."""
    jobs: int = 1
    """Compiles at once."""
    after: Job | None = None
    """Runs undisturbed before it."""

    @property
    def command(self) -> list[str]:
        return [*TRIAGE, *self.line.split(), "--format", "json"]


@dataclass
class Checks:
    """What was checked, and what did not hold."""

    count: int = 0
    findings: list[str] = field(default_factory=list)

    def hold(self, what: object, message: str) -> None:
        """Count a check, and note a finding where it fails."""
        self.count += 1
        if not what:
            self.findings.append(message)


@dataclass
class Arena:
    """Runs commands in one home."""

    folder: Path
    env: dict[str, str]
    log: Path
    checks: Checks

    def __post_init__(self) -> None:
        self.home, self.temporary = self.folder / "home", self.folder / "tmp"
        for name, path in (("TRIAGE_HOME", self.home), ("TMPDIR", self.temporary)):
            path.mkdir(parents=True)
            self.env = {**self.env, name: str(path)}
        self.hold = self.checks.hold

    def start(self, job: Job) -> subprocess.Popen[bytes]:
        """Start triage in a process group of its own; its output goes to files, so that
        no pipe keeps it.
        """
        return subprocess.Popen(
            ["sh", "-c", 'exec "$@" > 0.out 2> 0.err', "sh", *job.command],
            cwd=self.folder,
            env=self.env,
            start_new_session=True,
        )

    def finish(self, running: subprocess.Popen[bytes], job: Job) -> Any:
        """Wait for a command and return the comparable part of its answer."""
        return self._answer(0, running.wait(timeout=900), job.codes, job.name)

    def run(self, job: Job) -> Any:
        return self.finish(self.start(job), job)

    def run_mounted(
        self, mounts: Mapping[str, tuple[int, ...]], job: Job
    ) -> list[Any] | None:
        """Run a command after each of some mounts, in a namespace of its own, and
        return the answers; None where this machine does not allow it.

        mounts: the right exit codes after each.
        """
        command = shlex.join(job.command)
        lines = [
            f"{mount} || exit 77; {command} > {number}.out 2> {number}.err; echo $?"
            for number, mount in enumerate(mounts)
        ]
        script = ["unshare", "--mount", "sh", "-c", "\n".join(lines)]
        done = subprocess.run(
            script, cwd=self.folder, env=self.env, capture_output=True
        )
        if done.returncode != 0:
            return None
        answers = []
        for number, (mount, codes) in enumerate(mounts.items()):
            code = int(done.stdout.split()[number])
            what = f"{job.name} after {mount}"
            answers.append(self._answer(number, code, codes, what))
        return answers

    def _answer(self, number: int, code: int, codes: tuple[int, ...], what: str) -> Any:
        stdout = (self.folder / f"{number}.out").read_text()
        stderr = (self.folder / f"{number}.err").read_text()
        self.hold(code in codes, f"{what}: exit code {code}: {stderr[-800:]}")
        self.hold("Traceback" not in stderr, f"{what}: {stderr[-1500:]}")
        if code == 4:
            return None
        try:
            return stable(json.loads(stdout.replace(str(self.folder), "ARENA")))
        except ValueError:
            self.hold(None, f"{what}: no JSON: {stdout[-200:]!r} {stderr[-500:]!r}")
            return None

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
            state = db.execute("PRAGMA integrity_check").fetchone()
        self.hold(state == ("ok",), "the evidence is damaged")
        for _, _, facts in rows:
            record = json.loads(zlib.decompress(facts))
            self.hold(isinstance(record, dict), "a record cannot be read")
        return {str(number): key for number, key, _ in rows}

    def processes(self) -> list[str]:
        """The command lines of processes that belong to this arena."""
        lines = []
        for process in psutil.process_iter(["cmdline", "environ"]):
            line = " ".join(process.info["cmdline"] or ())
            about = f"{line} {process.info['environ']}"
            if str(self.folder) in about and process.pid != os.getpid():
                lines.append(line[:200])
        return lines

    def expect_no_process(self) -> None:
        """Wait for the end of what a killed program left, which its watchdog ends."""
        deadline = time.monotonic() + 15
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.hold(not left, f"processes are left: {left}")

    def expect_no_leftovers(self) -> None:
        """Check that no temporary file is left in the home and in the temporary folder."""
        left = [*self.temporary.iterdir(), *(self.home / "scratch").glob("*")]
        for path in self.home.rglob("*"):
            within = path.relative_to(self.home).parts[:-1]
            is_of_build = {"source", "build"}.intersection(within)
            if not is_of_build and any(mark in path.name for mark in _LEFTOVERS):
                left.append(path)
        self.hold(not left, f"temporary files are left: {[*map(str, left[:8])]}")


def stable(value: Any) -> Any:
    """Return a JSON value without what differs between two runs."""
    if isinstance(value, dict):
        kept = value.keys() - _VOLATILE.split()
        return {key: stable(value[key]) for key in kept}
    return [stable(each) for each in value] if isinstance(value, list) else value


def repeated(records: Mapping[str, str]) -> int:
    """Return how many records have a key that another one has."""
    return len(records) - len({*records.values()})


@dataclass(frozen=True)
class Undisturbed:
    """What a command does when nothing disturbs it."""

    answer: Any
    starts: int
    records: int
    seconds: float
    repeated: int
    """Records of a key that has one already."""


def undisturbed(arena: Arena, job: Job) -> Undisturbed:
    if job.after:
        arena.run(job.after)
    before, begun = arena.starts(), time.monotonic()
    answer = arena.run(job)
    seconds, starts = time.monotonic() - begun, arena.starts() - before
    records = arena.records()
    arena.expect_no_process()
    arena.expect_no_leftovers()
    return Undisturbed(answer, starts, len(records), seconds, repeated(records))


def killed_round(
    arena: Arena, job: Job, model: Undisturbed, random: Random, most: int
) -> int:
    """Kill a command at random moments until it comes to its end, at most `most` times;
    check it. Return the kills.
    """
    if job.after:
        arena.run(job.after)
    kills, records, before = 0, arena.records(), arena.starts()

    def look_at_records() -> None:
        nonlocal records
        known, records = records, arena.records()
        lost = known.keys() - records.keys()
        arena.hold(not lost, f"{job.name}: {len(lost)} records are lost")

    running = arena.start(job)
    while kills < most:
        try:
            running.wait(timeout=random.uniform(0.2, 0.6 + 0.7 * model.seconds))
            break
        except subprocess.TimeoutExpired:
            # sometimes the program alone, sometimes with its group, as the kernel and
            # a CI system do
            kill = os.killpg if random.random() < 0.3 else os.kill
            kill(running.pid, signal.SIGKILL)
            running.wait()
        kills += 1
        arena.expect_no_process()
        look_at_records()
        running = arena.start(job)
    answer = arena.finish(running, job)
    look_at_records()
    what = f"{job.name}: after {kills} kills of {job.jobs} at once"
    is_same = answer == model.answer
    arena.hold(is_same, f"{what}: {answer} instead of {model.answer}")
    # Each finished compile has its record; where some runs only name a pass, the same
    # ones are needed as without kills.
    needed = len(records) if model.starts == model.records else model.starts
    in_vain = arena.starts() - before - needed
    arena.hold(in_vain <= kills * job.jobs, f"{what}: {in_vain} in vain")
    # a pair of a bisect is confirmed again by every run that gets so far
    twice, allowed = repeated(records), model.repeated * (kills + 1)
    arena.hold(twice <= allowed, f"{what}: {twice} compiled twice, not {allowed}")
    arena.expect_no_process()
    arena.expect_no_leftovers()
    return kills
