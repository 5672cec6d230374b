"""The attacks of `make torture`: each runs commands on real processes and checks what
must hold afterwards. It returns how often it attacked: 0 where this machine does not
allow it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import Any

from tests.execution.damage import do, flipped
from tests.fake_releases import FakeReleases, environment, fake_releases, write_case
from tests.torture.arena import (
    Arena,
    Checks,
    Job,
    Undisturbed,
    killed_round,
    undisturbed,
)
from triage.model.content import is_regular

_PER_ROUND = 6  # kills, before a command may come to its end


@dataclass(frozen=True)
class Field:
    """What all attacks share: releases, recipes, and where arenas are made."""

    folder: Path
    releases: FakeReleases
    random: Random
    checks: Checks = field(default_factory=Checks)

    def arena(self, name: str) -> Arena:
        folder = self.folder / "arenas" / f"{name}-{self.random.randrange(1 << 40):x}"
        env = environment(self.releases, folder / "home")
        return Arena(folder, env, self.releases.log, self.checks)

    @cached_property
    def jobs(self) -> dict[str, Job]:
        """The commands that are attacked, by name."""
        cases = self.folder / "cases"
        breaks = f"{cases}/breaks.yaml"
        night = (
            f"nightly {cases} -t 1.6.0 -b 1.1.0 --jobs 1 --bisect --reduce --out out"
        )
        nightly = Job("nightly", night)
        run = f"run {cases} -t 1.1.0 -t 1.4.0 -t 1.6.0 --jobs 2"
        reduce = f"reduce {breaks} -t 1.6.0 --good 1.1.0 --jobs 1 --out reproducers"
        releases = " ".join(self.releases.versions[:4])
        jobs = (
            Job("run", run, jobs=2),
            nightly,
            Job("bisect", f"bisect {breaks} --good 1.0.0 --bad 1.7.0 --jobs 1"),
            Job("reduce", reduce),
            Job("why", f"why {breaks} --budget 1h", codes=(1,), jobs=2),
            Job("install", f"toolchains install {releases}", jobs=4),
            Job("site", "site --out public", after=nightly),
        )
        return {job.name: job for job in jobs}

    @cached_property
    def night(self) -> Undisturbed:
        """The nightly when nothing disturbs it."""
        return undisturbed(self.arena("model"), self.jobs["nightly"])


@contextmanager
def field_in(folder: Path, seed: int) -> Iterator[Field]:
    """Make the field, and end it."""
    cases = folder / "cases"
    with fake_releases(folder / "releases", paced=True) as releases:
        for number in range(5):
            write_case(cases, f"steady{number}")
        words = (f"word{number}" for number in range(6))
        write_case(cases, "breaks", "breaks-5", *words)
        write_case(cases, "back", "breaks-4", "fixed-7", "word")
        yield Field(folder, releases, Random(seed))


def attacks_in(
    field: Field, count: int, deadline: float
) -> dict[str, Callable[[], int]]:
    """Return the attacks by name, with `count` kills together."""
    share, few = max(1, count // len(field.jobs)), max(1, count // 20)
    attacks: dict[str, Callable[[], int]] = {
        f"kill -9 during {name}": partial(kills, field, job, share, deadline)
        for name, job in field.jobs.items()
    }
    return attacks | {
        "full disk, then space again": partial(full_disk, field, few),
        "read-only home": partial(read_only_home, field),
        "damaged files": partial(damaged_files, field, 3 * few),
    }


def kills(field: Field, job: Job, count: int, deadline: float) -> int:
    """Kill a command `count` times, in rounds that begin with an empty home."""
    model = undisturbed(field.arena("undisturbed"), job)
    done = 0
    while done < count and time.monotonic() < deadline:
        arena, before = field.arena("killed"), len(field.checks.findings)
        most = min(_PER_ROUND, count - done)
        done += killed_round(arena, job, model, field.random, most)
        if len(field.checks.findings) == before:
            shutil.rmtree(arena.folder, ignore_errors=True)
    return done


def full_disk(field: Field, count: int) -> int:
    """Run a nightly with a home of random size, then with room enough: exit 4 and no
    traceback, then the right answer.
    """
    for times in range(count):
        arena, size = field.arena("full"), field.random.randrange(150, 2500)
        full = f"mount -t tmpfs -o size={size}k tmpfs {arena.home}"
        mounts = {full: (0, 1, 4), f"mount -o remount,size=1g {arena.home}": (0, 1)}
        answers = arena.run_mounted(mounts, field.jobs["nightly"])
        if answers is None:
            return times
        is_right = _essence(answers[1]) == _essence(field.night.answer)
        is_right = is_right and (arena.folder / "out" / "nightly.json").exists()
        arena.hold(is_right, f"{full}: then with space: {answers[1]}")
    return count


def read_only_home(field: Field) -> int:
    """Run every command on a home that cannot be written: exit 4 and no traceback."""
    for times, job in enumerate(field.jobs.values()):
        arena = field.arena("read-only")
        if times % 2:  # with evidence
            undisturbed(arena, job)
        home = arena.home
        mount = f"mount --bind {home} {home} && mount -o remount,bind,ro {home}"
        if arena.run_mounted({mount: (4,)}, job) is None:
            return times
    return len(field.jobs)


def damaged_files(field: Field, count: int) -> int:
    """Flip a bit, cut or remove files of installed toolchains and caches: the right
    answer or exit 4, never a wrong answer.
    """
    random, arena = field.random, field.arena("damaged")
    job = replace(field.jobs["run"], codes=(1, 4))
    model = undisturbed(arena, job)
    for _ in range(count):
        files = [path for path in arena.home.rglob("*") if is_regular(path)]
        # tests/execution damages the evidence
        path = random.choice([path for path in files if "evidence.db" not in path.name])
        way = random.choice(("flip", "cut", "remove"))
        if way == "remove":
            path.unlink()
        elif way == "cut":
            do("half", path)
        else:
            path.write_bytes(flipped(path.read_bytes(), random))
        for cache in arena.home.glob("evidence.db*"):  # so that compilers are used
            cache.unlink()
        for _ in range(2):
            answer = arena.run(job) or {"results": ()}
            pairs = zip(model.answer["results"], answer["results"], strict=False)
            for right, result in pairs:
                is_right = result["status"] in (right["status"], "untestable")
                where = f"{way} of {path.relative_to(arena.home)}"
                arena.hold(is_right, f"{where}: {result}")
    return count


def _essence(night: Any) -> Any:
    """What a night says about its cases, without the reductions, whose order depends on
    what is known.
    """
    if not night:
        return None
    origins = [
        (cluster["cases"], culprit["kind"], culprit["after"]["name"])
        for cluster in night["clusters"]
        if (culprit := cluster["culprit"])
    ]
    sizes = [cluster["size"] for cluster in night["clusters"]]
    return origins, sizes, night["unchanged"], night["partial"]
