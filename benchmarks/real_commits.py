"""Bisect real fixes in the public history of a compiler, next to `git bisect run`.

Run: `python -m benchmarks.real_commits CLONE FOLDER --tests PATTERN`. FOLDER has the
project file `triage.yaml`, whose `build` makes the compiler of a commit, and
`recipe.yaml`. In the recipe, `input` is replaced by a test of the compiler's own;
`@NAMES@` by the tests that a commit adds to a file of many, `@FOLDER@` by the folder of
the test and of the files that share its stem.

A truth is a commit that changes the compiler and a test that fails with the parent and
passes with the commit. Commits are drawn at random with a seed. A range around each
is used if the test fails at its old end and passes at its new one; where the fix lies
in it is drawn, too. `git bisect run` uses a script with the same commands. Each search
begins without compilers and without results.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePosixPath
from statistics import mean, median
from tempfile import TemporaryDirectory

import yaml

from benchmarks import small_history
from benchmarks.common import TRIAGE, Ratio, cost_of
from triage.git_history.repository import Repository
from triage.git_history.timeline import Timeline
from triage.model.revision import Commit
from triage.toolchains.sources.project import Project, load_project

_ENDS_TRIED = 3  # ranges around one commit
_SECONDS = 600  # of the build and the test of one commit
_ADDED = re.compile(r"^\+\s*def (test_\w+)", re.MULTILINE)
_SCRIPT = """#!/bin/sh
# Build the checked-out commit and run the test: 0 if it fails, 1 if it passes, because
# the old state of a fix is that it fails; 125 if the commit does not build.
echo build >> {work}/builds
rm -rf {work}/out && mkdir -p {work}/out {work}/build
export TRIAGE_SOURCE="$PWD" TRIAGE_BUILD={work}/build TRIAGE_OUT={work}/out
export TRIAGE_JOBS="$(nproc)"
{{ {steps}
}} >{work}/log 2>&1 || exit 125
mkdir -p {work}/run && cd {work}/run || exit 125
timeout {seconds} {command} >{work}/log 2>&1 && exit 1
exit 0
"""


@dataclass(frozen=True)
class Subject:
    """A compiler: its history, how a commit is built, and how a test is run."""

    timeline: Timeline
    project: Project
    folder: Path
    tests: Sequence[str]
    by_name: bool
    """A test is one function of a file."""
    match: str = "signature"
    """Which failures count, for `triage bisect --match`."""
    only: Sequence[str] = ()
    """The beginnings of the shas to draw; all if it is empty."""

    @property
    def clone(self) -> Path:
        return self.timeline.repository.path

    def drawn(self, seed: int, newest: int) -> Iterator[tuple[int, str]]:
        """Yield the positions of commits at random that change the compiler and a test,
        with the test's path.
        """
        last = len(self.timeline)
        span = range(max(1, last - newest), last)
        commits = self.timeline.with_files(span)
        indices = [
            index
            for index, commit in zip(span, commits, strict=True)
            if any(map(self.project.can_change, commit.files))
            and any(map(self._is_test, commit.files))
            and (not self.only or commit.sha.startswith(tuple(self.only)))
        ]
        random.Random(seed).shuffle(indices)
        for index in indices:
            files = commits[index - span.start].files
            yield index, next(filter(self._is_test, files))

    def _is_test(self, path: str) -> bool:
        return any(fnmatchcase(path, pattern) for pattern in self.tests)

    def lacks_files(self, old: str, new: str) -> bool:
        """Return whether the clone lacks files that commits of a range brought."""
        words = ["rev-list", "--objects", "--missing=print", f"{old}..{new}"]
        listed = self.timeline.repository.text(*words)
        return any(line.startswith("?") for line in listed.splitlines())

    def write_case(self, commit: Commit, path: str, folder: Path) -> Path | None:
        """Write the test of a commit and its recipe into a folder; None if it adds no
        test by name, or removes the file.
        """
        repository = self.timeline.repository
        names = ""
        if self.by_name:
            diff = repository.text(
                "show", "--first-parent", "-m", commit.sha, "--", path
            )
            names = " or ".join(dict.fromkeys(_ADDED.findall(diff)))
            if not names:
                return None
        place, stem = str(PurePosixPath(path).parent), PurePosixPath(path).stem
        listed = repository.text("ls-tree", "--name-only", commit.sha, f"{place}/")
        folder.mkdir(parents=True)
        for one in listed.splitlines():
            if PurePosixPath(one).stem == stem and PurePosixPath(one).suffix:
                data = repository.ask("cat-file", "blob", f"{commit.sha}:{one}")
                (folder / PurePosixPath(one).name).write_bytes(data)
        test = folder / PurePosixPath(path).name
        if not test.exists():
            return None
        text = (self.folder / "recipe.yaml").read_text()
        text = (
            text.replace("@NAMES@", names)
            .replace("@FOLDER@", str(folder))
            .replace("@STEM@", test.stem)
        )
        keys = {**yaml.safe_load(text), "input": test.name}
        recipe = folder / "recipe.yaml"
        recipe.write_text(yaml.safe_dump(keys, sort_keys=False))
        return recipe

    def write_script(self, recipe: Path, work: Path) -> Path:
        """Write the script that `git bisect run` runs."""
        build = self.project.build
        assert build is not None
        steps = [*build.configure, *build.commands]
        for name in build.copy_:
            target = shlex.quote(str(PurePosixPath(name).parent))
            steps.append(
                f'mkdir -p "$TRIAGE_OUT"/{target} && '
                f'cp -r {shlex.quote(name)} "$TRIAGE_OUT"/{target}'
            )
        keys = yaml.safe_load(recipe.read_text())
        places = {
            "{input}": str(recipe.parent / keys["input"]),
            "{output}": str(work / "run" / "output"),
            "{toolchain}": str(work / "out"),
        }
        words = [str(word) for word in keys["command"]]
        for place, value in places.items():
            words = [word.replace(place, value) for word in words]
        work.mkdir(parents=True)
        script = work / "test.sh"
        text = _SCRIPT.format(
            work=work,
            steps=" &&\n".join(f"( {step} )" for step in steps),
            seconds=_SECONDS,
            command=shlex.join(words),
        )
        script.write_text(text)
        script.chmod(0o755)
        return script


@dataclass(frozen=True)
class Checkout:
    """A clone in which a script tests one commit after another."""

    path: Path
    script: Path

    @classmethod
    def new(cls, clone: Path, path: Path, script: Path) -> Checkout:
        shared = ["git", "clone", "--quiet", "--shared", "--no-checkout"]
        subprocess.run([*shared, str(clone), str(path)], check=True)
        return cls(path, script)

    def passes(self, sha: str) -> bool | None:
        """Return whether the test passes with a commit; None if it does not build."""
        try:
            _git(self.path, "checkout", "--quiet", "--force", "--detach", sha)
        except subprocess.CalledProcessError:  # the clone lacks files of it
            return None
        done = subprocess.run([str(self.script)], cwd=self.path, check=False)
        return {0: False, 1: True}.get(done.returncode)


@dataclass(frozen=True)
class Row:
    """One search for one truth."""

    truth: str
    subject: str
    commits: int
    by: str
    answer: str
    """`exact`, `suspects` with the truth among them, `other` (another commit that also
    turns the test from failing to passing), `wrong`, or `none`."""
    named: tuple[str, ...]
    builds: int
    probes: int
    rounds: int
    seconds: float
    cpu: float = 0.0
    """Seconds of all cores together, which other work on the machine changes less."""
    reason: str | None = None


@dataclass(frozen=True)
class Truth:
    """A fix, the range around it, and its test."""

    commit: Commit
    old: str
    new: str
    commits: int
    recipe: Path
    subject: Subject

    def is_one_too(self, sha: str, work: Path) -> bool:
        """Return whether another commit also turns the test from failing to passing."""
        script = self.subject.write_script(self.recipe, work)
        checkout = Checkout.new(self.subject.clone, work / "clone", script)
        return bool(checkout.passes(sha)) and checkout.passes(f"{sha}^") is False

    def row(self, by: str, named: Sequence[str], work: Path, **cost: object) -> Row:
        if list(named) == [self.commit.sha]:
            answer = "exact"
        elif self.commit.sha in named:
            answer = "suspects"
        elif len(named) == 1 and self.is_one_too(named[0], work / "other"):
            answer = "other"
        elif named:
            answer = "wrong"
        else:
            answer = "none"
        subject = self.commit.subject[:60]
        own = (self.commit.sha[:10], subject, self.commits, by, answer, tuple(named))
        return Row(*own, **cost)  # type: ignore[arg-type]

    def with_triage(self, jobs: int, work: Path) -> Row:
        env = {"TRIAGE_HOME": str(work / "home")}
        words = ["--bad", f"commit:{self.old}", "--good", f"commit:{self.new}"]
        words += ["--repo", str(self.subject.clone), "--find", "fix", "-j", str(jobs)]
        words += ["--project", str(self.subject.folder / "triage.yaml")]
        words += ["--match", self.subject.match]
        done = cost_of(
            [*TRIAGE, "bisect", str(self.recipe), *words, "--format", "json"],
            env=_environment(env),
            codes=(0, 2, 3, 4),  # 2: an end cannot be tested
        )
        if not done.stdout:
            sys.exit(f"triage ended with exit code {done.code} for {self.recipe}")
        found = json.loads(done.stdout)
        change = found["broke"] or found  # what git names
        named = [suspect["commit"] for suspect in change["suspects"]]
        if not change["confirmed"] and len(named) == 1:
            named += ["not confirmed"]  # so that it is not called exact
        return self.row(
            f"triage -j {jobs}",
            named,
            work,
            builds=len({probe["revision"] for probe in found["log"]}),
            probes=found["probes"],
            rounds=found["rounds"],
            seconds=round(done.wall, 1),
            cpu=round(done.cpu, 1),
            reason=found.get("reason"),
        )

    def with_git(self, work: Path) -> Row:
        """Bisect with `git bisect run`, which trusts its two ends. Its builds do not
        count them."""
        script = self.subject.write_script(self.recipe, work)
        checkout = Checkout.new(self.subject.clone, work / "clone", script)
        terms = ["--term-old=broken", "--term-new=fixed"]
        ends = ["--first-parent", self.new, self.old]
        _git(checkout.path, "checkout", "--quiet", "--detach", self.new)
        _git(checkout.path, "bisect", "start", *terms, *ends)
        done = cost_of(
            ["git", "bisect", "run", str(script)],
            cwd=checkout.path,
            env=_environment({}),
            codes=(0, 1, 2, 3, 4, 128),
        )
        first = re.search(r"^(\w{40}) is the first fixed commit", done.stdout, re.M)
        several = done.stdout.partition("could be any of:")[2]
        named = re.findall(r"^[0-9a-f]{40}$", several, re.MULTILINE)
        if first:
            named = [first[1]]
        builds = len((work / "builds").read_text().splitlines())
        cost = {"builds": builds, "probes": builds, "rounds": builds}
        return self.row(
            "git bisect run",
            named,
            work,
            **cost,
            seconds=round(done.wall, 1),
            cpu=round(done.cpu, 1),
        )


def _environment(own: dict[str, str]) -> dict[str, str]:
    return {**os.environ, **own}


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def truths(
    subject: Subject, options: argparse.Namespace, folder: Path
) -> Iterator[Truth]:
    """Yield fixes whose test fails with the parent and passes with the commit."""
    where = random.Random(options.seed)
    commits = subject.timeline.commits
    for index, path in subject.drawn(options.seed, options.newest):
        commit = commits[index]
        short = commit.sha[:10]
        recipe = subject.write_case(commit, path, folder / short)
        if recipe is None:
            continue
        work = folder / f"{short}-truth"
        script = subject.write_script(recipe, work)
        checkout = Checkout.new(subject.clone, work / "clone", script)
        kept = False
        if (
            checkout.passes(commit.sha)
            and checkout.passes(commits[index - 1].sha) is False
        ):
            for _ in range(_ENDS_TRIED):
                old = index - where.randint(1, options.commits)
                new = old + options.commits
                if old < 0 or new >= len(commits):
                    continue
                if subject.lacks_files(commits[old].sha, commits[new].sha):
                    continue
                kept = (
                    checkout.passes(commits[old].sha) is False
                    and checkout.passes(commits[new].sha) is True
                )
                if kept:
                    yield Truth(
                        commit,
                        commits[old].sha,
                        commits[new].sha,
                        options.commits,
                        recipe,
                        subject,
                    )
                    break
        print(f"{short} {path}: {'a truth' if kept else 'no truth'}", file=sys.stderr)
        shutil.rmtree(work, ignore_errors=True)


def searches(
    truth: Truth, jobs: Sequence[int], work: Path, known: Sequence[Row]
) -> Iterator[Row]:
    """Yield the answers of `git bisect run` and of triage for a truth that are not
    known yet.
    """
    has = {row.by for row in known if row.truth == truth.commit.sha[:10]}
    for by in ("git", *jobs):
        if ("git bisect run" if by == "git" else f"triage -j {by}") in has:
            continue
        with TemporaryDirectory(dir=work) as scratch:
            if by == "git":
                row = truth.with_git(Path(scratch, "git"))
            else:
                row = truth.with_triage(int(by), Path(scratch))
        yield row


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the table. Costs are those of searches with an answer."""
    yield "| search | truths | exact | other | suspects | wrong | none | builds | probes | rounds | seconds | CPU |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for by in dict.fromkeys(row.by for row in rows):
        own = [row for row in rows if row.by == by]
        ended = [row for row in own if row.answer != "none"]
        answers = [row.answer for row in own]
        counts = [
            answers.count(word)
            for word in ("exact", "other", "suspects", "wrong", "none")
        ]
        costs = [
            f"{mean(values):.1f}"
            for values in (
                [row.builds for row in ended] or [0],
                [row.probes for row in ended] or [0],
                [row.rounds for row in ended] or [0],
            )
        ]
        cells = [by, len(own), *counts, *costs]
        cells += [f"{median([row.seconds for row in ended] or [0]):.0f}"]
        cells += [f"{median([row.cpu for row in ended] or [0]):.0f}"]
        yield "| " + " | ".join(map(str, cells)) + " |"


def ratios(count: int = 2, commits: int = 30) -> Iterator[Ratio]:
    """Bisect fixes in the history of a small compiler that this writes."""
    with TemporaryDirectory() as scratch:
        clone, folder = Path(scratch, "clone"), Path(scratch, "fold")
        small_history.begin(clone)
        folder.mkdir()
        (folder / "triage.yaml").write_text(small_history.PROJECT)
        (folder / "recipe.yaml").write_text(small_history.RECIPE)
        subject = Subject(
            Timeline(Repository(clone)),
            load_project(folder / "triage.yaml"),
            folder,
            [small_history.TESTS],
            by_name=False,
        )
        options = argparse.Namespace(seed=1, newest=1000, commits=commits)
        found = truths(subject, options, Path(scratch, "truths"))
        rows = [
            row
            for truth in islice(found, count)
            for row in searches(truth, [1, 2], Path(scratch), [])
        ]
    by: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by[row.by].append(row)
    git = by.pop("git bisect run")
    for name, mine in by.items():
        exact = [sum(row.answer == "exact" for row in each) for each in (mine, git)]
        what = f"{count} fixes in {commits} commits, {name}"
        answers = f"{exact[0]} exact, git {exact[1]}"
        for unit in ("builds", "rounds", "seconds"):
            ours, theirs = (
                mean(getattr(row, unit) for row in each) for each in (mine, git)
            )
            yield Ratio(f"{what} ({answers})", ours, "git bisect run", theirs, unit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("clone", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tests", action="append", required=True)
    parser.add_argument("--by-name", action="store_true")
    parser.add_argument("--truths", type=int, default=10)
    parser.add_argument("--commits", type=int, default=100, help="of a range")
    parser.add_argument("--newest", type=int, default=3000, help="commits to draw from")
    parser.add_argument("--jobs", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], help="a sha to draw")
    parser.add_argument("--match", default="signature", help="of triage bisect")
    parser.add_argument(
        "--rows", type=Path, help="a file for the rows; those in it are known"
    )
    options = parser.parse_args()
    subject = Subject(
        Timeline(Repository(options.clone)),
        load_project(options.folder / "triage.yaml"),
        options.folder.absolute(),
        options.tests,
        options.by_name,
        options.match,
        options.only,
    )
    rows: list[Row] = []
    if options.rows and options.rows.exists():
        rows += [Row(**json.loads(line)) for line in options.rows.open()]
    with TemporaryDirectory() as scratch:
        found = truths(subject, options, Path(scratch))
        for _, truth in zip(range(options.truths), found, strict=False):
            for row in searches(truth, options.jobs, Path(scratch), rows):
                rows.append(row)
                line = json.dumps(asdict(row))
                print(line, file=sys.stderr, flush=True)
                if options.rows:
                    with options.rows.open("a") as file:
                        file.write(f"{line}\n")
    print("\n".join(summary(rows)))


if __name__ == "__main__":
    main()
