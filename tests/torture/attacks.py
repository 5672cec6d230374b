"""The attacks of `make torture`: each runs commands on real processes and checks what must hold afterwards."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import platformdirs

from tests.bisect.driving import PROJECT, fates
from tests.bisect.driving import words as bisect_words
from tests.bisect.small_compiler import PROGRAM, RECIPE, begin
from tests.conftest import ROOT
from tests.git_history.history import ENV
from tests.git_history.test_checkout import snapshot
from tests.torture.arena import Arena, Job, Undisturbed, killed_round, undisturbed
from tests.torture.fake_releases import FakeReleases, environment, fake_releases, write_case

_PER_ROUND = 6  # kills, before a command may come to its end
_BUILD = """build:
  submodules: false
  commands:
    - echo "start $TRIAGE_COMMIT" >> BUILDS
    - mkdir -p "$TRIAGE_OUT/tools"
    - cc -O0 "-DCOMMIT=\\"$TRIAGE_COMMIT\\"" -o "$TRIAGE_OUT/tools/iree-compile" $(find "$TRIAGE_SOURCE" -name "*.c")
"""
_CULPRIT = 31
_NAMESPACE = ("unshare", "--mount", "sh", "-c")


@dataclass(frozen=True)
class Row:
    """One line of the table. times: kills or repetitions; 0 where this machine does not allow the attack."""

    attack: str
    times: int
    checks: int
    findings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Field:
    """What all attacks share: releases, recipes, and where arenas are made. toolchains: real ones, in place of the releases."""

    folder: Path
    releases: FakeReleases
    random: Random
    toolchains: Path | None = None

    def arena(self, name: str) -> Arena:
        folder = self.folder / "arenas" / f"{name}-{self.random.randrange(1 << 40):x}"
        arena = Arena(folder, environment(self.releases, folder / "home"), self.releases.log)
        if self.toolchains:
            (arena.home / "toolchains").symlink_to(self.toolchains)
            del arena.env["TRIAGE_INDEX_URL"]
        return arena

    @property
    def cases(self) -> str:
        return str(self.folder / "cases")

    @property
    def nightly(self) -> Job:
        words = ("nightly", self.cases, "-t", "1.6.0", "-b", "1.1.0", "--jobs", "1", "--bisect", "--reduce", "--out", "out")
        return Job("nightly", (*words, "--format", "json"))

    @property
    def run(self) -> Job:
        words = ("run", self.cases, "-t", "1.1.0", "-t", "1.4.0", "-t", "1.6.0", "--jobs", "2", "--format", "json")
        return Job("run", words, jobs=2)

    @property
    def bisect(self) -> Job:
        ends = ("--good", "1.0.0", "--bad", "1.7.0", "--jobs", "1", "--format", "json")
        return Job("bisect of releases", ("bisect", f"{self.cases}/breaks.yaml", *ends))

    @property
    def reduce(self) -> Job:
        words = ("reduce", f"{self.cases}/breaks.yaml", "-t", "1.6.0", "--good", "1.1.0", "--jobs", "1", "--resume")
        return Job("reduce", (*words, "--out", "reproducers", "--format", "json"))

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
        write_case(folder / "cases", "breaks", "breaks-5", *(f"word{number}" for number in range(6)))
        write_case(folder / "cases", "back", "breaks-4", "fixed-7", "word")
        yield Field(folder, releases, Random(seed))


def kills(field: Field, job: Job, count: int, deadline: float) -> Row:
    """Kill a command `count` times, in rounds that begin with an empty home."""
    model_arena = field.arena("undisturbed")
    model = undisturbed(model_arena, job)
    return _rounds(field, job, count, deadline, model, model_arena)


def _rounds(field: Field, job: Job, count: int, deadline: float, model: Undisturbed, first: Arena) -> Row:
    done, checks, findings = 0, first.checks, list(first.findings)
    while done < count and time.monotonic() < deadline:
        arena = field.arena("killed")
        done += killed_round(arena, job, model, field.random, min(_PER_ROUND, count - done))
        checks, findings = checks + arena.checks, findings + arena.findings
        if not arena.findings:
            shutil.rmtree(arena.folder, ignore_errors=True)
    return Row(f"kill -9 during {job.name}", done, checks, tuple(findings))


def commit_kills(field: Field, count: int, deadline: float) -> Row:
    """Kill a bisect that builds commits. The repository must not change."""
    os.environ.update(ENV)
    folder = field.folder / "commits"
    small = begin(folder / "repo", fates(BROKEN=(20, 21))[:48], _CULPRIT, suspicious=10)
    (folder / "triage.yaml").write_text(PROJECT + _BUILD.replace("BUILDS", str(folder / "builds.log")))
    (folder / "m.mlir").write_text(PROGRAM)
    (folder / "attention.yaml").write_text(RECIPE)
    words = bisect_words(small, folder / "attention.yaml", folder / "triage.yaml", "--jobs", "1", last=47)
    job = Job("bisect of commits with builds", tuple(words), codes=(0,))
    field = replace(field, releases=replace(field.releases, log=folder / "builds.log"))
    before, arena = snapshot(small.path), field.arena("undisturbed")
    model = undisturbed(arena, job)
    row = _rounds(field, job, count, deadline, model, arena)
    changed = () if snapshot(small.path) == before else ("the user's repository was changed",)
    return replace(row, checks=row.checks + 1, findings=(*row.findings, *changed))


def real_kills(field: Field, count: int, deadline: float) -> Row:
    """Kill a run of two real releases of IREE, which are installed already."""
    cache = Path(os.environ.get("TRIAGE_TEST_TOOLCHAINS") or platformdirs.user_cache_dir("triage", appauthor=False))
    recipes = [str(ROOT / "recipes" / f"{name}.yaml") for name in ("cuda-matmul-f32", "conv-nchw", "static-matmul")]
    words = ("run", *recipes, "-t", "3.2.0", "-t", "3.3.0", "--jobs", "2", "--format", "json")
    job = Job("run of IREE 3.2.0 and 3.3.0", words, jobs=2)
    if not (cache / "toolchains").is_dir():
        return Row(f"kill -9 during {job.name}", 0, 0)
    field = replace(field, toolchains=cache / "toolchains", releases=replace(field.releases, log=field.folder / "none.log"))
    return kills(field, job, count, deadline)


def full_disk(field: Field, count: int) -> Row:
    """Run a nightly with a home of random size, then with room enough: exit 4 and no traceback, then the right answer."""
    name, checks, findings, times = "full disk in the middle of a nightly, then space again", 0, list[str](), 0
    for _ in range(count):
        arena, size = field.arena("full"), field.random.randrange(150, 2500)
        nightly = shlex.join(_program(field.nightly))
        script = (
            f"mount -t tmpfs -o size={size}k tmpfs {arena.home} || exit 77; {nightly} > first.out 2> first.err; "
            "echo $? > first.code; "
            f"mount -o remount,size=1g {arena.home}; {nightly} > stdout 2> stderr; echo $? > code"
        )
        done = subprocess.run([*_NAMESPACE, script], cwd=arena.folder, env=arena.env, check=False, capture_output=True)
        if done.returncode != 0:
            return Row(name, times, checks, tuple(findings))
        code, error = int((arena.folder / "first.code").read_text()), (arena.folder / "first.err").read_text()
        arena.hold(code in (0, 1, 4), f"full disk ({size} KiB): exit code {code}: {error[-800:]}")
        arena.hold("Traceback" not in error, f"full disk ({size} KiB): traceback: {error[-1500:]}")
        report = arena.folder / "out" / "nightly.json"
        error = (arena.folder / "stderr").read_text()
        try:
            answer = json.loads((arena.folder / "stdout").read_text())
        except ValueError:
            answer = {}
        same = _essence(answer) == _essence(field.night.answer) and report.exists()
        arena.hold(same, f"full disk ({size} KiB): not the right answer with space again: {answer} {error[-800:]}")
        times, checks, findings = times + 1, checks + arena.checks, findings + arena.findings
    return Row(name, times, checks, tuple(findings))


def read_only_home(field: Field, count: int) -> Row:
    """Run every command on a home that cannot be written: exit 4 and no traceback."""
    times, checks, findings = 0, 0, list[str]()
    for job in (field.run, field.nightly, field.bisect, field.reduce)[:count]:
        arena = field.arena("read-only")
        undisturbed(arena, job) if times % 2 else None  # with and without evidence
        mount = f"mount --bind {arena.home} {arena.home} && mount -o remount,bind,ro {arena.home} || exit 77"
        script = f"{mount}; {shlex.join(_program(job))} > stdout 2> stderr; echo $? > code"
        done = subprocess.run([*_NAMESPACE, script], cwd=arena.folder, env=arena.env, check=False, capture_output=True)
        if done.returncode != 0:
            break
        code, error = int((arena.folder / "code").read_text()), (arena.folder / "stderr").read_text()
        arena.hold(code == 4, f"read-only home: {job.name}: exit code {code}: {error[-500:]}")
        arena.hold("Traceback" not in error, f"read-only home: {job.name}: {error[-1500:]}")
        times, checks, findings = times + 1, checks + arena.checks, findings + arena.findings
    return Row("read-only home", times, checks, tuple(findings))


def clock_set_back(field: Field, count: int) -> Row:
    """Date all that a home knows 70 years ahead, as after a wrong clock: the same answer, nothing compiled again."""
    checks, findings = 0, list[str]()
    for _ in range(count):
        arena = field.arena("clock")
        model = undisturbed(arena, field.nightly)
        with closing(sqlite3.connect(arena.home / "evidence.db")) as db:
            # A row's checksum does not cover this column, which repeats what the facts say.
            db.execute("UPDATE probes SET at = '2096' || substr(at, 5)")
            db.commit()
        ahead = time.time() + 70 * 365 * 86400
        for path in (arena.home, *arena.home.rglob("*")):
            if not path.is_symlink():
                os.utime(path, (ahead, ahead))
        starts, repeated = arena.starts(), len(arena.records())
        arena.hold(arena.run(field.nightly) == model.answer, "clock set back: another answer")
        fresh = len(arena.records()) - repeated
        arena.hold(arena.starts() - starts == fresh <= model.repeated, f"clock set back: {fresh} compiled again")
        arena.expect_no_leftovers()
        checks, findings = checks + arena.checks, findings + arena.findings
    return Row("clock set back by 70 years", count, checks, tuple(findings))


def damaged_files(field: Field, count: int) -> Row:
    """Flip a bit, cut or remove files of installed toolchains and caches: the right answer or exit 4, never a wrong answer."""
    checks, findings, random = 0, list[str](), field.random
    arena = field.arena("damaged")
    model = undisturbed(arena, field.run)
    for _ in range(count):
        files = [path for path in arena.home.rglob("*") if path.is_file() and not path.is_symlink() and path.stat().st_size]
        files = [path for path in files if not path.name.startswith("evidence.db")]  # tests/execution attacks the evidence
        path, way = random.choice(files), random.choice(("flip", "cut", "remove"))
        data = bytearray(path.read_bytes())
        if way == "flip":
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
            path.write_bytes(data)
        elif way == "cut":
            path.write_bytes(data[: len(data) // 2])
        else:
            path.unlink()
        (arena.home / "evidence.db").unlink(missing_ok=True)  # so that the toolchains are used
        for rest in arena.home.glob("evidence.db-*"):
            rest.unlink()
        job = replace(field.run, codes=(1, 4))
        answer = arena.run(job)
        where = f"{way} of {path.relative_to(arena.home)}"
        for right, result in zip(model.answer["results"], (answer or {}).get("results", ()), strict=False):
            same = result["status"] in (right["status"], "untestable")
            arena.hold(
                same, f"{where}: {result['case']} on {result['toolchain']['name']} is {result['status']}: {result['reason']}"
            )
        arena.hold(arena.run(job) is not None, f"{where}: no second answer")
    checks, findings = checks + arena.checks, findings + arena.findings
    return Row("bits flipped, files cut and removed in the home", count, checks, tuple(findings))


def two_at_once(field: Field, count: int) -> Row:
    """Run two nightlies at once on one home, and a nightly beside prunes that remove what is not in use."""
    checks, findings = 0, list[str]()
    for number in range(count):
        arena, other = field.arena("two"), field.arena("other")
        other.env["TRIAGE_HOME"] = str(arena.home)
        model = field.night
        first = arena.start(field.nightly.words)
        if number % 2 == 0:
            second = other.start(field.nightly.words)
            answers = [arena.finish(first, field.nightly), other.finish(second, field.nightly)]
        else:
            while first.poll() is None:
                prune = Job("prune", ("toolchains", "prune", "--keep", "0", "--format", "json"), codes=(0,))
                other.run(prune)
            answers = [arena.finish(first, field.nightly)]
        for answer in answers:
            arena.hold(_essence(answer) == _essence(model.answer), f"two at once: another answer: {answer}")
        arena.expect_no_process()
        arena.expect_no_leftovers()
        checks, findings = checks + arena.checks + other.checks, findings + arena.findings + other.findings
    return Row("two programs at once on one home", count, checks, tuple(findings))


def _program(job: Job) -> list[str]:
    return [sys.executable, "-c", "from triage.cli import main; main()", *job.words]


def _essence(night: Any) -> Any:
    """What a night says about its cases, without the reductions, whose order depends on what is known."""
    if not night:
        return None
    origins = [
        (pair["case"], [(each["kind"], each["before"]["name"], each["after"]["name"]) for each in pair["bisections"]])
        for pair in night["regressed"]
    ]
    examples = [cluster["operations"] for cluster in night["clusters"]]
    return origins, examples, night["unchanged"], night["partial"]
