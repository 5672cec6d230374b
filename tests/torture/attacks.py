"""The attacks of `make torture`: each runs commands on real processes and checks what
must hold afterwards.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from tests.fake_releases import FakeReleases, environment, fake_releases, write_case
from tests.torture.arena import Arena, Job, Undisturbed, killed_round, undisturbed

_PER_ROUND = 6  # kills, before a command may come to its end
_NAMESPACE = ("unshare", "--mount", "sh", "-c")


@dataclass(frozen=True)
class Row:
    """One line of the table. times: kills or repetitions; 0 where this machine does not
    allow the attack.
    """

    attack: str
    times: int
    checks: int
    findings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Field:
    """What all attacks share: releases, recipes, and where arenas are made."""

    folder: Path
    releases: FakeReleases
    random: Random

    def arena(self, name: str) -> Arena:
        folder = self.folder / "arenas" / f"{name}-{self.random.randrange(1 << 40):x}"
        return Arena(
            folder, environment(self.releases, folder / "home"), self.releases.log
        )

    @property
    def cases(self) -> str:
        return str(self.folder / "cases")

    @property
    def nightly(self) -> Job:
        words = (
            "nightly",
            self.cases,
            "-t",
            "1.6.0",
            "-b",
            "1.1.0",
            "--jobs",
            "1",
            "--bisect",
            "--reduce",
            "--out",
            "out",
        )
        return Job("nightly", (*words, "--format", "json"))

    @property
    def run(self) -> Job:
        words = (
            "run",
            self.cases,
            "-t",
            "1.1.0",
            "-t",
            "1.4.0",
            "-t",
            "1.6.0",
            "--jobs",
            "2",
            "--format",
            "json",
        )
        return Job("run", words, jobs=2)

    @property
    def bisect(self) -> Job:
        ends = ("--good", "1.0.0", "--bad", "1.7.0", "--jobs", "1", "--format", "json")
        return Job("bisect of releases", ("bisect", f"{self.cases}/breaks.yaml", *ends))

    @property
    def reduce(self) -> Job:
        words = (
            "reduce",
            f"{self.cases}/breaks.yaml",
            "-t",
            "1.6.0",
            "--good",
            "1.1.0",
            "--jobs",
            "1",
            "--resume",
        )
        return Job("reduce", (*words, "--out", "reproducers", "--format", "json"))

    @property
    def why(self) -> Job:
        words = (
            "why",
            f"{self.cases}/breaks.yaml",
            "--budget",
            "1h",
            "--format",
            "json",
        )
        return Job("why", words, codes=(1,), jobs=2)

    @property
    def install(self) -> Job:
        words = (
            "toolchains",
            "install",
            *self.releases.versions[:4],
            "--format",
            "json",
        )
        names = ("name", "version", "identity", "revision")
        return Job(
            "install",
            words,
            jobs=4,
            reads=lambda answer: [
                [one[name] for name in names] for one in answer["toolchains"]
            ],
        )

    @property
    def site(self) -> Job:
        names = ("nights", "cases", "failures", "files")
        words = ("site", "--out", "public", "--format", "json")
        return Job(
            "site",
            words,
            after=(self.nightly,),
            reads=lambda answer: {name: answer[name] for name in names},
        )

    @cached_property
    def night(self) -> Undisturbed:
        """The nightly when nothing disturbs it."""
        return undisturbed(self.arena("model"), self.nightly)


@contextmanager
def field(folder: Path, seed: int) -> Iterator[Field]:
    """Make the field, and end it."""
    with fake_releases(folder / "releases") as releases:
        for number in range(5):
            write_case(folder / "cases", f"steady{number}")
        write_case(
            folder / "cases",
            "breaks",
            "breaks-5",
            *(f"word{number}" for number in range(6)),
        )
        write_case(folder / "cases", "back", "breaks-4", "fixed-7", "word")
        yield Field(folder, releases, Random(seed))


def kills(field: Field, job: Job, count: int, deadline: float) -> Row:
    """Kill a command `count` times, in rounds that begin with an empty home."""
    first = field.arena("undisturbed")
    model = undisturbed(first, job)
    done, checks, findings = 0, first.checks, list(first.findings)
    while done < count and time.monotonic() < deadline:
        arena = field.arena("killed")
        done += killed_round(
            arena, job, model, field.random, min(_PER_ROUND, count - done)
        )
        checks, findings = checks + arena.checks, findings + arena.findings
        if not arena.findings:
            shutil.rmtree(arena.folder, ignore_errors=True)
    return Row(f"kill -9 during {job.name}", done, checks, tuple(findings))


def full_disk(field: Field, count: int) -> Row:
    """Run a nightly with a home of random size, then with room enough: exit 4 and no
    traceback, then the right answer.
    """
    name, checks, findings, times = (
        "full disk in the middle of a nightly, then space again",
        0,
        list[str](),
        0,
    )
    for _ in range(count):
        arena, size = field.arena("full"), field.random.randrange(150, 2500)
        nightly = shlex.join(_program(field.nightly))
        script = (
            f"mount -t tmpfs -o size={size}k tmpfs {arena.home} || exit 77; {nightly} > first.out 2> first.err; "
            "echo $? > first.code; "
            f"mount -o remount,size=1g {arena.home}; {nightly} > stdout 2> stderr; echo $? > code"
        )
        done = subprocess.run(
            [*_NAMESPACE, script],
            cwd=arena.folder,
            env=arena.env,
            check=False,
            capture_output=True,
        )
        if done.returncode != 0:
            return Row(name, times, checks, tuple(findings))
        code, error = (
            int((arena.folder / "first.code").read_text()),
            (arena.folder / "first.err").read_text(),
        )
        arena.hold(
            code in (0, 1, 4),
            f"full disk ({size} KiB): exit code {code}: {error[-800:]}",
        )
        arena.hold(
            "Traceback" not in error,
            f"full disk ({size} KiB): traceback: {error[-1500:]}",
        )
        report = arena.folder / "out" / "nightly.json"
        error = (arena.folder / "stderr").read_text()
        try:
            answer = json.loads((arena.folder / "stdout").read_text())
        except ValueError:
            answer = {}
        same = _essence(answer) == _essence(field.night.answer) and report.exists()
        arena.hold(
            same,
            f"full disk ({size} KiB): not the right answer with space again: {answer} {error[-800:]}",
        )
        times, checks, findings = (
            times + 1,
            checks + arena.checks,
            findings + arena.findings,
        )
    return Row(name, times, checks, tuple(findings))


def read_only_home(field: Field) -> Row:
    """Run every command on a home that cannot be written: exit 4 and no traceback."""
    times, checks, findings = 0, 0, list[str]()
    for job in (
        field.run,
        field.nightly,
        field.bisect,
        field.reduce,
        field.why,
        field.install,
        field.site,
    ):
        arena = field.arena("read-only")
        undisturbed(arena, job) if times % 2 else None  # with and without evidence
        mount = f"mount --bind {arena.home} {arena.home} && mount -o remount,bind,ro {arena.home} || exit 77"
        script = (
            f"{mount}; {shlex.join(_program(job))} > stdout 2> stderr; echo $? > code"
        )
        done = subprocess.run(
            [*_NAMESPACE, script],
            cwd=arena.folder,
            env=arena.env,
            check=False,
            capture_output=True,
        )
        if done.returncode != 0:
            break
        code, error = (
            int((arena.folder / "code").read_text()),
            (arena.folder / "stderr").read_text(),
        )
        arena.hold(
            code == 4, f"read-only home: {job.name}: exit code {code}: {error[-500:]}"
        )
        arena.hold(
            "Traceback" not in error, f"read-only home: {job.name}: {error[-1500:]}"
        )
        times, checks, findings = (
            times + 1,
            checks + arena.checks,
            findings + arena.findings,
        )
    return Row("read-only home", times, checks, tuple(findings))


def damaged_files(field: Field, count: int) -> Row:
    """Flip a bit, cut or remove files of installed toolchains and caches: the right
    answer or exit 4, never a wrong answer.
    """
    checks, findings, random = 0, list[str](), field.random
    arena = field.arena("damaged")
    model = undisturbed(arena, field.run)
    for _ in range(count):
        files = [
            path
            for path in arena.home.rglob("*")
            if path.is_file() and not path.is_symlink() and path.stat().st_size
        ]
        # tests/execution attacks the evidence
        files = [path for path in files if not path.name.startswith("evidence.db")]
        path, way = random.choice(files), random.choice(("flip", "cut", "remove"))
        data = bytearray(path.read_bytes())
        if way == "flip":
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
            path.write_bytes(data)
        elif way == "cut":
            path.write_bytes(data[: len(data) // 2])
        else:
            path.unlink()
        # so that the toolchains are used
        (arena.home / "evidence.db").unlink(missing_ok=True)
        for rest in arena.home.glob("evidence.db-*"):
            rest.unlink()
        job = replace(field.run, codes=(1, 4))
        answer = arena.run(job)
        where = f"{way} of {path.relative_to(arena.home)}"
        for right, result in zip(
            model.answer["results"], (answer or {}).get("results", ()), strict=False
        ):
            same = result["status"] in (right["status"], "untestable")
            arena.hold(
                same,
                f"{where}: {result['case']} on {result['toolchain']['name']} is {result['status']}: {result['reason']}",
            )
        arena.hold(arena.run(job) is not None, f"{where}: no second answer")
    checks, findings = checks + arena.checks, findings + arena.findings
    return Row(
        "bits flipped, files cut and removed in the home",
        count,
        checks,
        tuple(findings),
    )


def _program(job: Job) -> list[str]:
    return [sys.executable, "-c", "from triage.cli import main; main()", *job.words]


def _essence(night: Any) -> Any:
    """What a night says about its cases, without the reductions, whose order depends on
    what is known.
    """
    if not night:
        return None
    origins = [
        (
            pair["case"],
            [
                (each["kind"], each["before"]["name"], each["after"]["name"])
                for each in pair["bisections"]
            ],
        )
        for pair in night["regressed"]
    ]
    examples = [cluster["size"] for cluster in night["clusters"]]
    return origins, examples, night["unchanged"], night["partial"]
