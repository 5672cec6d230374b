"""Count what finding a culprit takes, next to `git bisect`.

Run: `python -m benchmarks.culprits [--cases CASES --commits COMMITS]`. Without files, a
git repository of 240 commits that build a small native compiler is bisected with
`triage bisect` and with `git bisect run`. A fifth of its commits does not build, has
another failure or crashes, but none next to the culprit.

With files, known regressions are searched without compiling: each test tells the truth
and the ends are known. CASES has one JSON object a line: id, class, backend,
diagnostics, good (excluded), bad (included), culprit. COMMITS, gzipped, has one a line:
sha, parent, date, subject, files as [path, added, removed]. The rows are plain (git
bisect's midpoint), uniform (triage without a prior) and ours.

Commits that cannot change the compiler are not candidates of triage. The features,
their words and their weights were chosen by people who had seen these cases. The
standard error of the mean over 60 cases is 0.26 tests.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import TRIAGE, Ratio, cost_of
from tests.bisect.driving import COMMAND, CULPRIT, MIXED, PROJECT, SCRIPT
from tests.bisect.small_compiler import CALLS, PROGRAM, RECIPE, SmallCompiler, begin
from tests.git_history.history import ENV
from triage.bisect.belief import Belief, Tally
from triage.bisect.prior import Clues, chances_of, feature_rows
from triage.bisect.result import Side
from triage.model.revision import Commit
from triage.toolchains.sources.project import find_project

Floats = NDArray[np.float64]
BUILD, DOWNLOAD = 1800.0, 60.0  # seconds
SKIPPED = 0.3  # share of untestable candidates, in the part about them
# of the probability that the shares of culprits are compared in
BINS = (0.0, 0.002, 0.005, 0.02, 0.1, 0.3, 1.01)


@dataclass(frozen=True, slots=True)
class Known:
    """A regression whose culprit is known.

    matrix: the features of each commit of its range. culprit: a row.
    nightlies: rows of the last commit of each day (UTC), for which there would be a
    package.
    """

    name: str
    matrix: Sequence[Mapping[str, float]]
    culprit: int
    nightlies: tuple[int, ...]
    commits: tuple[Commit, ...]


def read_cases(cases: Path, commits: Path) -> list[Known]:
    """Read the regressions and compute the features of the commits in their ranges."""
    by_sha = {}
    with gzip.open(commits, "rt", encoding="utf-8") as lines:
        for line in lines:
            one = json.loads(line)
            files = tuple(path for path, *_ in one["files"])
            by_sha[one["sha"]] = Commit(
                one["sha"], one["parent"], one["date"], one["subject"], files
            )
    known = []
    for line in cases.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        found, sha = [], case["bad"]
        while sha != case["good"]:
            found.append(by_sha[sha])
            sha = by_sha[sha].parent
        known.append(
            known_case(
                case["culprit"],
                tuple(reversed(found)),
                case["diagnostics"],
            )
        )
    return known


def known_case(
    sha: str, span: Sequence[Commit], text: str, *, noticed: bool = True
) -> Known:
    """Return a case of the commits of a range, oldest first.

    Args:
        sha: Of the culprit.
        span: The range.
        text: What the failure prints.
        noticed: Whether the range ends where the failure was noticed, not at a release.
    """
    culprit = next(index for index, commit in enumerate(span) if commit.sha == sha)
    days = [
        datetime.fromisoformat(commit.date).astimezone(UTC).date() for commit in span
    ]
    nightlies = tuple(
        row for row, (day, following) in enumerate(pairwise(days)) if following > day
    )
    return Known(
        sha,
        feature_rows(span, Clues(text, noticed=noticed), find_project("iree")),
        culprit,
        nightlies,
        tuple(span),
    )


def merged(prior: Floats, case: Known) -> tuple[Floats, Known]:
    """Leave out the commits that cannot change the compiler, as a bisect does; their
    nightlies stand for the commit before.
    """
    changes = find_project("iree").can_change
    kept = [
        row
        for row, commit in enumerate(case.commits)
        if not commit.files or any(changes(path) for path in commit.files)
    ]
    before = np.searchsorted(kept, [*case.nightlies, case.culprit], side="right") - 1
    nightlies = tuple(
        sorted({int(row) for row in before[:-1] if 0 <= row < len(kept) - 1})
    )
    chances = prior[kept] / prior[kept].sum()
    return chances, replace(
        case,
        matrix=[case.matrix[row] for row in kept],
        culprit=int(before[-1]),
        nightlies=nightlies,
    )


def plain(
    count: int, culprit: int, skipped: frozenset[int] = frozenset()
) -> tuple[int, range]:
    """Test git bisect's midpoint, or the nearest testable commit; return the tests and
    the suspects left.
    """
    low, high, tests = -1, count - 1, 0
    while free := [index for index in range(low + 1, high) if index not in skipped]:
        middle = low + (high - low) // 2
        chosen = min(free, key=lambda index: (abs(index - middle), index))
        tests += 1
        low, high = (low, chosen) if chosen >= culprit else (chosen, high)
    return tests, range(low + 1, high + 1)


def plain_with_nightlies(case: Known) -> tuple[int, int]:
    """Halve the nightlies, then the commits between two of them; return the downloads
    and the builds.
    """
    low, high, downloads = -1, len(case.matrix) - 1, 0
    while inside := [row for row in case.nightlies if low < row < high]:
        middle = inside[(len(inside) - 1) // 2]
        downloads += 1
        low, high = (low, middle) if middle >= case.culprit else (middle, high)
    return downloads, plain(high - low, case.culprit - low - 1)[0]


def ours(
    prior: Floats, culprit: int, jobs: int = 1, skipped: frozenset[int] = frozenset()
) -> tuple[int, int, range]:
    """Return the tests with a result, the rounds, and the suspects left (0 is the first
    commit after the good end).
    """
    tallies: dict[int, Tally] = {}
    rounds = 0
    while True:
        belief = Belief([1.0, *prior], tallies, Side.NEW)
        chosen = belief.dividing(jobs, [1.0] * len(belief.weights))
        if not chosen:
            break
        rounds += 1
        for index in chosen:
            if index - 1 in skipped:
                tallies[index] = Tally(skipped=1)
            else:
                tallies[index] = _truth(index, culprit)
    low, high = belief.pair
    return sum(tally.tested for tally in tallies.values()), rounds, range(low, high)


def _truth(index: int, culprit: int) -> Tally:
    return Tally(new=1) if index - 1 >= culprit else Tally(old=1)


def ours_with_nightlies(prior: Floats, case: Known) -> tuple[int, int]:
    """Return the nightlies that are downloaded and the commits that are built."""
    prior, case = merged(prior, case)
    seconds = np.full(len(prior) + 1, BUILD)
    seconds[[row + 1 for row in case.nightlies]] = DOWNLOAD
    probes = [0, 0]
    tallies: dict[int, Tally] = {}
    while chosen := Belief([1.0, *prior], tallies, Side.NEW).dividing(1, list(seconds)):
        [index] = chosen
        probes[int(seconds[index] == BUILD)] += 1
        tallies[index] = _truth(index, case.culprit)
    return probes[0], probes[1]


def search_known(known: Sequence[Known]) -> float:
    """Search all known regressions in each way, print a row for each, and return the
    mean tests of `ours`.
    """
    priors: dict[str, list[Floats]] = {
        "uniform": [np.full(len(case.matrix), 1 / len(case.matrix)) for case in known],
        "ours": [np.array(chances_of(case.matrix)) for case in known],
    }
    reference = mean(plain(len(case.matrix), case.culprit)[0] for case in known)
    downloads, builds = (
        mean(column)
        for column in zip(*(plain_with_nightlies(case) for case in known), strict=True)
    )
    print(
        f"{len(known)} known regressions\n{'':10} tests  rounds of 4  rank 1  top 3  top 10  with nightlies: downloads, builds"
    )
    print(f"{'plain':10} {reference:5.2f} {'':54} {downloads:5.2f}, {builds:5.2f}")
    tests = reference
    for name, of_cases in priors.items():
        shorter = [
            merged(prior, case) for prior, case in zip(of_cases, known, strict=True)
        ]
        tests = mean(ours(prior, case.culprit)[0] for prior, case in shorter)
        rounds = mean(ours(prior, case.culprit, 4)[1] for prior, case in shorter)
        ranks = [
            rank(prior, case.culprit)
            for prior, case in zip(of_cases, known, strict=True)
        ]
        tops = "  ".join(
            f"{mean(rank <= top for rank in ranks):6.0%}" for top in (1, 3, 10)
        )
        pairs = [
            ours_with_nightlies(prior, case)
            for prior, case in zip(of_cases, known, strict=True)
        ]
        downloads, builds = (mean(column) for column in zip(*pairs, strict=True))
        print(
            f"{name:10} {tests:5.2f}  {rounds:11.2f}  {tops}  {'':18} {downloads:5.2f}, {builds:5.2f}"
        )
    _print_untestable(known, priors["ours"])
    _print_reliability(known, priors["ours"])
    return tests


def rank(prior: Floats, culprit: int) -> float:
    """Return 1 for the likeliest commit; among equals the middle."""
    away = prior / prior[culprit] - 1
    return 1 + int((away > 1e-9).sum()) + (int((np.abs(away) <= 1e-9).sum()) - 1) / 2


def _print_untestable(known: Sequence[Known], priors: Sequence[Floats]) -> None:
    """Search with a share of untestable candidates: how often is the answer one wrong
    commit?
    """
    random = np.random.default_rng(1)
    wrong, held, tests = (
        {"plain": 0, "ours": 0},
        {"plain": 0, "ours": 0},
        {"plain": 0, "ours": 0},
    )
    for case, prior in zip(known, priors, strict=True):
        count = len(case.matrix)
        skipped = frozenset(
            int(index) for index in np.flatnonzero(random.random(count - 1) < SKIPPED)
        )
        spent, left = plain(count, case.culprit, skipped)
        own_spent, _, own_left = ours(prior, case.culprit, 1, skipped)
        for name, number, suspects in (
            ("plain", spent, left),
            ("ours", own_spent, own_left),
        ):
            tests[name] += number
            held[name] += case.culprit in suspects
            wrong[name] += len(suspects) == 1 and case.culprit not in suspects
    for name in wrong:
        mean_tests = tests[name] / len(known)
        print(
            f"{SKIPPED:.0%} untestable, {name}: {mean_tests:.2f} tests, {wrong[name]} wrong, {held[name]} hold the culprit"
        )


def _print_reliability(known: Sequence[Known], priors: Sequence[Floats]) -> None:
    """Compare the probabilities of all commits with the shares of culprits among them."""
    every = np.concatenate(priors)
    culprits = np.concatenate(
        [np.arange(len(case.matrix)) == case.culprit for case in known]
    )
    for low, high in pairwise(BINS):
        inside = (every >= low) & (every < high)
        if inside.any():
            chance, share = every[inside].mean(), culprits[inside].mean()
            print(
                f"{int(inside.sum()):6} commits of {chance:6.2%} on average: {share:6.2%} are culprits"
            )


@dataclass(frozen=True)
class Bisected:
    """One bisect of the small compiler: commits built, compiles, wall seconds, and
    whether the culprit alone was named.
    """

    built: int
    compiles: int
    seconds: float
    right: bool


def _prepared(folder: Path) -> dict[str, str]:
    """Write recipe, project and build script into a new folder; return the environment
    to bisect in.
    """
    folder.mkdir()
    script = folder / "toolchain.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    (folder / "m.mlir").write_text(PROGRAM)
    (folder / "attention.yaml").write_text(RECIPE)
    (folder / "triage.yaml").write_text(PROJECT + COMMAND.format(script=script))
    (folder / "calls").touch()
    own = {
        CALLS: str(folder / "calls"),
        "TRIAGE_HOME": str(folder / "home"),
    }
    return os.environ | ENV | own


def _bisected(
    folder: Path, small: SmallCompiler, seconds: float, named: set[str]
) -> Bisected:
    events = [line.split()[1] for line in (folder / "calls").read_text().splitlines()]
    return Bisected(
        events.count("build"),
        len(events) - events.count("build"),
        seconds,
        named == {small.sha},
    )


def with_triage(folder: Path, small: SmallCompiler) -> Bisected:
    """Bisect the commits with triage, which also verifies the ends and confirms the
    answer.
    """
    env = _prepared(folder)
    ends = [
        "--good",
        f"commit:{small.shas[0]}",
        "--bad",
        f"commit:{small.shas[-1]}",
        "--jobs",
        "1",
    ]
    where = [
        "--repo",
        str(small.path),
        "--project",
        str(folder / "triage.yaml"),
        "--format",
        "json",
    ]
    # the small compiler notes its calls outside of its folder
    done = cost_of(
        [
            *TRIAGE,
            "--unsealed",
            "bisect",
            str(folder / "attention.yaml"),
            *ends,
            *where,
        ],
        env=env,
        codes=(0, 3),
    )
    named = {suspect["commit"] for suspect in json.loads(done.stdout)["suspects"]}
    return _bisected(folder, small, done.wall, named)


def with_git(folder: Path, small: SmallCompiler, missing: int) -> Bisected:
    """Bisect with `git bisect run`. missing: exit code of the test where a commit does
    not build (1 is bad, 125 skips).
    """
    env = _prepared(folder)
    flags = "--iree-hal-target-backends=rocm --iree-hip-target=gfx942 --compile-to=executable-targets"
    test = folder / "test"
    test.write_text(f"""#!/bin/sh
export TRIAGE_COMMIT="$(git rev-parse BISECT_HEAD)" TRIAGE_SOURCE={folder}/source TRIAGE_OUT={folder}/out
rm -rf "$TRIAGE_SOURCE" "$TRIAGE_OUT"
mkdir "$TRIAGE_SOURCE" "$TRIAGE_OUT"
git archive BISECT_HEAD | tar -x -C "$TRIAGE_SOURCE"
{folder}/toolchain.sh >/dev/null 2>&1 || exit {missing}
"$TRIAGE_OUT/tools/iree-compile" {flags} {folder}/m.mlir -o /dev/null 2>/dev/null || exit 1
""")
    test.chmod(0o755)
    clone = folder / "clone"
    subprocess.run(
        [
            "git",
            "clone",
            "--quiet",
            "--shared",
            "--no-checkout",
            str(small.path),
            str(clone),
        ],
        env=env,
        check=True,
    )
    start = [
        "git",
        "bisect",
        "start",
        "--no-checkout",
        "--first-parent",
        small.shas[-1],
        small.shas[0],
    ]
    subprocess.run(start, cwd=clone, env=env, check=True, capture_output=True)
    done = cost_of(
        ["git", "bisect", "run", str(test)], cwd=clone, env=env, codes=(0, 1, 2, 3)
    )
    culprit = re.search(
        r"^([0-9a-f]{40}) is the first bad commit", done.stdout, re.MULTILINE
    )
    several = done.stdout.partition("could be any of:")[2]
    named = (
        {culprit[1]}
        if culprit
        else set(re.findall(r"^[0-9a-f]{40}$", several, re.MULTILINE))
    )
    return _bisected(folder, small, done.wall, named)


def ratios() -> Iterator[Ratio]:
    """Bisect two histories: the culprit's subject is suspicious in the first, another
    commit's in the second.
    """
    with TemporaryDirectory() as scratch:
        for name, suspicious in (("helpful", None), ("misleading", 180)):
            small = begin(Path(scratch, name), MIXED, CULPRIT, suspicious=suspicious)
            mine = with_triage(Path(scratch, f"{name}-triage"), small)
            for peer, missing in (
                ("git, missing is bad", 1),
                ("git, missing is skipped", 125),
            ):
                theirs = with_git(Path(scratch, f"{name}-{missing}"), small, missing)
                answers = f"{'right' if mine.right else 'WRONG'}, git {'right' if theirs.right else 'wrong'}"
                yield Ratio(
                    f"{len(MIXED) - 1} commits, {name} subjects ({answers})",
                    mine.built,
                    peer,
                    theirs.built,
                    "builds",
                )


def main() -> None:
    """Print the rows of the known regressions, or of the small compiler without files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--commits", type=Path)
    options = parser.parse_args()
    if not options.cases:
        for ratio in ratios():
            print(ratio, flush=True)
        return
    known = read_cases(options.cases, options.commits)
    search_known(known)


if __name__ == "__main__":
    main()
