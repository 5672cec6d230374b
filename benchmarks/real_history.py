"""Search the real history of IREE for the commits of known changes, with packages that are missing and builds that fail.

    python benchmarks/real_history.py --repo CLONE [--cases N] [--format json]

The cases are those of known_changes.yaml, the search is that of `triage bisect` between both releases. Real are the history and
the tags of its nightlies, the listing, download and installation of nightlies and artifacts (from loopback), the compilers of
both releases and the evidence that they give. Simulated are the outcomes at the commits between the releases, and the packages
and builds: stubs, whose times are assumed. The artifacts of the older half of a range have expired, the run of every third
commit failed, 4 % of the commits do not build, 2 % have a compiler that does not start. In a second part the failure is flaky:
15 % of the probes from the culprit on pass.

The others obtain a compiler where triage would: `git bisect` is real and follows the line of merges; a commit that cannot be
tested is skipped. mozregression's order halves the nightlies, then the commits between two of them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import numpy as np
import yaml
from known_changes import CASES

from benchmarks.held_out_remedies import case_of
from tests.toolchains.loopback import make_wheel, serve
from tests.toolchains.sources.loopback_github import TOKEN, archive, serve_github
from triage.bisect.candidates import CommitCandidates
from triage.bisect.pass_evidence import PassEvidence
from triage.bisect.plan import BisectRequest, plan_commits
from triage.bisect.result import Answer
from triage.bisect.search import BisectSearch, run_search
from triage.cli.context import open_runner
from triage.cli.screen import AppContext
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.git_history import Timeline
from triage.model.errors import Unobtainable
from triage.model.outcome import Cause, Compiled, Failed, Failure, Measured, Outcome, Probe, Untestable
from triage.model.progress import Silent
from triage.toolchains.home import home_path
from triage.toolchains.registry import ToolchainRef
from triage.toolchains.sources.project import find_project
from triage.toolchains.workspace import CostModel

DOWNLOAD, FIRST_BUILD, NEXT_BUILD = 40.0, 45 * 60.0, 8 * 60.0  # seconds, assumed
COMPARISON = 12.0  # compiles that comparing two compilers takes, because they print their IR
FAILED_RUNS, NO_BUILD, NO_START, PASSES = 3, 0.04, 0.02, 0.15
SILENT = Failure("unknown", "unknown", "changed", "")  # of a change that does not fail
PROJECT = """name: iree
compiler: iree
distribution: iree-base-compiler
nightlies: {{find-links: "{links}", tags: "iree-{{version}}"}}
artifacts: {{workflow: pkgci.yml, artifact: linux_x86_64_release_packages, branch: main, repository: iree-org/iree}}
command: {{run: {folder}/build}}
paths: {paths}
"""
BUILD = """#!/bin/sh
here="$(dirname "$0")"
if grep -q "$1" "$here/broken"; then exit 1; fi
mkdir -p "$here/built/$1" && echo "$here/built/$1"
"""


class AssumedCosts(CostModel):
    """The times that the simulation assumes; the stubs' own mean nothing."""

    def seconds(self, kind: str, default: float) -> float:  # noqa: ARG002
        return FIRST_BUILD if kind.startswith("command:") else DOWNLOAD

    def learn(self, kind: str, seconds: float) -> None:
        pass


@dataclass
class World:
    """What there is of one case: its line of commits, oldest first and with the good end, and what each of them does."""

    line: tuple[str, ...]
    culprit: int
    nightlies: frozenset[str]
    failure: Failure
    compile_seconds: float
    flaky: bool = False
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    @cached_property
    def index(self) -> dict[str, int]:
        return {sha: index for index, sha in enumerate(self.line)}

    def has_artifact(self, sha: str) -> bool:
        return self.index[sha] > len(self.line) // 2 and self.has_run(sha)

    def has_run(self, sha: str) -> bool:
        return crc32(sha.encode()) % FAILED_RUNS != 0

    def builds(self, sha: str) -> bool:
        return crc32(b"build" + sha.encode()) % 1000 >= 1000 * NO_BUILD

    def starts(self, sha: str) -> bool:
        return sha in (self.line[0], self.line[-1]) or crc32(b"start" + sha.encode()) % 1000 >= 1000 * NO_START

    def outcome(self, sha: str) -> Outcome:
        if not self.starts(sha):
            return Untestable(Cause.TOOLCHAIN, "the compiler does not start")
        fails = self.index[sha] >= self.culprit and not (self.flaky and sha != self.line[-1] and self.random.random() < PASSES)
        return Failed(self.failure) if fails else Compiled()


@dataclass
class Bill:
    """What a search used. seconds: assumed for downloads and builds, measured for compiles."""

    downloads: int = 0
    builds: int = 0
    compiles: int = 0
    comparisons: int = 0
    failed_builds: int = 0

    def seconds(self, compile_seconds: float) -> float:
        builds = self.builds + self.failed_builds
        building = FIRST_BUILD + (builds - 1) * NEXT_BUILD if builds else 0.0
        return building + self.downloads * DOWNLOAD + (self.compiles + COMPARISON * self.comparisons) * compile_seconds


class SimulatedProber:
    """Obtains the compilers of commits from the sources, and says what they do."""

    jobs = 1
    progress = Silent()

    def __init__(self, world: World, ends: dict[str, int]) -> None:
        self.world, self.ends, self.bill = world, ends, Bill()
        self.obtained: dict[str, str | None] = {}

    def probe_all(self, jobs: Sequence[ProbeJob], what: str = "") -> Iterator[Probe]:  # noqa: ARG002
        for job in jobs:
            seconds = Measured(seconds=self.world.compile_seconds)
            yield Probe(job.case, job.ref.revision, None, self._outcome(job.ref), seconds, cached=False)

    def _outcome(self, ref: ToolchainRef) -> Outcome:
        sha = ref.revision.commit or ""
        if ref.revision.name in self.ends:
            sha = self.world.line[self.ends[ref.revision.name]]
        elif (problem := self._obtain(ref, sha)) is not None:
            return Untestable(Cause.TOOLCHAIN, problem)
        self.bill.compiles += 1
        return self.world.outcome(sha)

    def _obtain(self, ref: ToolchainRef, sha: str) -> str | None:
        if sha not in self.obtained:
            assert ref.bring is not None
            try:
                is_built = ref.bring().parent.name == "built"
            except Unobtainable as error:
                self.obtained[sha] = str(error)
                self.bill.failed_builds += 1
            else:
                self.obtained[sha] = None
                self.bill.builds += is_built
                self.bill.downloads += not is_built
        return self.obtained[sha]


@dataclass(frozen=True)
class Run:
    """One search. answer: right, several (the culprit among them), wrong or inconclusive."""

    case: str
    strategy: str
    downloads: int
    builds: int
    compiles: int
    hours: float
    answer: str


def triage(
    name: str, search: BisectSearch, world: World, evidence: Callable[..., PassEvidence | None] | None, *, key: str
) -> Run:
    """Run the search with the evidence of the ends; there are no compilers between them to compare again."""
    ends = {search.range.revision(0).name: 0, search.range.revision(search.last).name: len(world.line) - 1}
    prober = SimulatedProber(world, ends)

    def witness(good: ToolchainRef, bad: ToolchainRef) -> PassEvidence | None:
        if {good.revision.name, bad.revision.name} != set(ends) or evidence is None:
            return None
        prober.bill.comparisons += 1
        return evidence(good, bad)

    fresh = replace(search, runner=prober, witness=witness, outcomes={}, foreign=set(), expected_seconds={})
    result = run_search(fresh)
    named = [revision.commit for revision, _ in result.suspects]
    if result.answer is Answer.INCONCLUSIVE:
        answer = "inconclusive"
    else:
        answer = answer_of([world.index[sha] for sha in named if sha], world)
    return run_of(name, key, prober.bill, world, answer)


def answer_of(named: Sequence[int], world: World) -> str:
    if world.culprit not in named:
        return "wrong"
    return "right" if len(named) == 1 else "several"


def run_of(name: str, key: str, bill: Bill, world: World, answer: str) -> Run:
    builds = bill.builds + bill.failed_builds
    return Run(name, key, bill.downloads, builds, bill.compiles, bill.seconds(world.compile_seconds) / 3600, answer)


def tested(world: World, index: int, bill: Bill, *, only_builds: bool) -> bool | None:
    """Obtain and compile at a commit as the other strategies do; None where it cannot be tested."""
    sha = world.line[index]
    if not only_builds and (sha in world.nightlies or world.has_artifact(sha)):
        bill.downloads += 1
    elif world.builds(sha):
        bill.builds += 1
    else:
        bill.failed_builds += 1
        return None
    bill.compiles += 1
    outcome = world.outcome(sha)
    return None if isinstance(outcome, Untestable) else isinstance(outcome, Failed)


def git_bisect(name: str, clone: Path, world: World, key: str, *, only_builds: bool) -> Run:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=clone, check=False, capture_output=True, text=True).stdout

    bill = Bill()
    git("bisect", "reset")
    output = git("bisect", "start", "--no-checkout", "--first-parent", world.line[-1], world.line[0])
    while not (done := re.search(r"^([0-9a-f]{40}) is the first|could be any of:", output, re.MULTILINE)):
        fails = tested(world, world.index[git("rev-parse", "BISECT_HEAD").strip()], bill, only_builds=only_builds)
        output = git("bisect", "skip" if fails is None else "bad" if fails else "good")
    shas = [done[1]] if done[1] else re.findall(r"^[0-9a-f]{40}$", output[done.end() :], re.MULTILINE)
    return run_of(name, key, bill, world, answer_of([world.index[sha] for sha in shas], world))


def nightlies_first(name: str, world: World, key: str) -> Run:
    low, high, bill = 0, len(world.line) - 1, Bill()
    for places in ([i for i, sha in enumerate(world.line) if sha in world.nightlies], range(len(world.line))):
        free = set(places)
        while inside := sorted(index for index in free if low < index < high):
            middle = inside[len(inside) // 2] if len(places) < len(world.line) else (low + high) // 2
            chosen = min(inside, key=lambda index: (abs(index - middle), index))
            fails = tested(world, chosen, bill, only_builds=False)
            free.remove(chosen)
            if fails is not None:
                low, high = (low, chosen) if fails else (chosen, high)
    return run_of(name, key, bill, world, answer_of(range(low + 1, high + 1), world))


def searches(
    entry: dict[str, Any], runner: ProbeRunner, place: Path, timeline: Timeline, clone: Path, stub: bytes
) -> Iterator[Run]:
    """Run every strategy on one case, beginning with no compiler but those of the releases."""
    case = case_of(entry, place)
    good, bad = str(entry["good"]), str(entry["bad"])
    name = f"{case.name} {good} -> {bad} {entry['culprit']}"
    probes = [runner.probe(case, runner.registry.resolve(release, "iree")) for release in (good, bad)]
    assert isinstance(probes[0].outcome, Compiled), name
    failure = probes[1].outcome.failure if isinstance(probes[1].outcome, Failed) else SILENT
    ends = [runner.registry.obtain(runner.registry.resolve(release, "iree")).revision.commit or "" for release in (good, bad)]
    span = timeline.between(*ends)
    commits = timeline.commits[span.good.index : span.bad.index + 1]
    line = tuple(commit.sha for commit in commits)
    culprit = next(index for index, sha in enumerate(line) if sha.startswith(entry["culprit"]))
    nightlies = frozenset(tag.sha for tag in timeline.tags("iree-*rc*")) & set(line[1:-1])
    world = World(line, culprit, nightlies, failure, probes[1].measured.seconds)
    (place / "broken").write_text("".join(f"{sha}\n" for sha in line if not world.builds(sha)))
    with serve_github() as github:
        for commit in commits:
            if not world.has_run(commit.sha):
                github.run(commit.sha, commit.date, conclusion="failure")
            else:
                github.run(commit.sha, commit.date, stub, expired=not world.has_artifact(commit.sha))
        os.environ |= {"GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN}
        request = BisectRequest(runner, case, timeline.repository.path, place / "project.yaml")
        search = plan_commits(request, good, bad)
        assert isinstance(search.range, CommitCandidates)
        for flaky in (False, True):
            part = "flaky, " if flaky else ""
            yield triage(name, search, shaken(world, flaky), search.witness, key=f"{part}triage")
            yield triage(name, search, shaken(world, flaky), None, key=f"{part}triage without the compilers' evidence")
            yield nightlies_first(name, shaken(world, flaky), f"{part}nightlies, then commits")
            yield git_bisect(name, clone, shaken(world, flaky), f"{part}git bisect, packages or builds", only_builds=False)
            yield git_bisect(name, clone, shaken(world, flaky), f"{part}git bisect, builds", only_builds=True)


def shaken(world: World, flaky: bool) -> World:
    return replace(world, flaky=flaky, random=np.random.default_rng(world.culprit))


def show(runs: Sequence[Run]) -> None:
    strategies = dict.fromkeys(run.strategy for run in runs)
    print(f"{'':42s} downloads  builds  compiles  hours  right  several  wrong  inconclusive")
    for strategy in strategies:
        own = [run for run in runs if run.strategy == strategy]
        answers = Counter(run.answer for run in own)
        means = [mean(getattr(run, name) for run in own) for name in ("downloads", "builds", "compiles", "hours")]
        row = "{:9.2f}  {:6.2f}  {:8.2f}  {:5.2f}".format(*means)
        counts = f"{answers['right']:5d}  {answers['several']:7d}  {answers['wrong']:5d}  {answers['inconclusive']:12d}"
        print(f"{strategy:42s} {row}  {counts}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repo", type=Path, required=True, help="a clone of iree-org/iree with its tags")
    parser.add_argument("--cases", type=int, help="only so many cases")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args()
    timeline, origin = Timeline(options.repo.absolute()), home_path()
    paths = json.dumps(find_project("iree").paths)
    entries = yaml.safe_load(CASES.read_text())[: options.cases]
    runs: list[Run] = []
    with TemporaryDirectory() as place:
        web, clone = Path(place) / "web", Path(place) / "clone"
        (web / "wheels").mkdir(parents=True)
        stub = archive(make_wheel(web, "9.9.9.dev0"))
        versions = [tag.name.removeprefix("iree-") for tag in timeline.tags("iree-*rc*")]
        names = [make_wheel(web / "wheels", version).name for version in versions]
        (web / "links.html").write_text("\n".join(f"<a href=wheels/{name}>{name}</a>" for name in names))
        subprocess.run(
            ["git", "clone", "--quiet", "--shared", "--no-checkout", str(timeline.repository.path), str(clone)], check=True
        )
        with serve(web) as index:
            for number, entry in enumerate(entries):
                home, folder = Path(place) / f"home{number}", Path(place) / f"case{number}"
                (home / "toolchains").mkdir(parents=True)
                folder.mkdir()
                for toolchain in (origin / "toolchains").glob("iree-base-*"):
                    (home / "toolchains" / toolchain.name).symlink_to(toolchain.resolve())
                for name in ("state.db", "evidence.db"):
                    if (origin / name).exists():
                        shutil.copy(origin / name, home / name)
                links = index.url.replace("/simple/", "/links.html")
                (folder / "project.yaml").write_text(PROJECT.format(links=links, folder=folder, paths=paths))
                (folder / "build").write_text(BUILD)
                (folder / "build").chmod(0o755)
                os.environ["TRIAGE_HOME"] = str(home)
                with open_runner(AppContext(quiet=True), ()) as runner:
                    vars(runner.registry.workspace)["costs"] = AssumedCosts(runner.registry.workspace.state.section("costs"))
                    runs += searches(entry, runner, folder, timeline, clone, stub)
                shutil.rmtree(home)
    if options.format == "json":
        print(json.dumps([asdict(run) for run in runs], indent=1))
    else:
        show(runs)


if __name__ == "__main__":
    main()
