"""Bisects between releases on branches of a real repository, with a simulated compiler:
what a commit does to the case.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from tests.bisect.letters import case_named, outcome
from triage.bisect import commits
from triage.bisect.line import BisectRequest
from triage.bisect.result import Bisection, BisectKind
from triage.bisect.search import find_changes
from triage.execution.task import ProbeJob
from triage.git_history.timeline import Timeline
from triage.model.errors import BadInput
from triage.model.outcome import Probe
from triage.model.revision import Revision, Toolchain
from triage.toolchains.home import Home, Progress, Workspace
from triage.toolchains.index import Release
from triage.toolchains.install import Package
from triage.toolchains.registry import ToolchainRef
from triage.toolchains.sources import Build

PROJECT = 'name: letters\ncompiler: iree\ndistribution: letters\nreleases: {tags: ["v{version}", "letters-{version}"]}\n'


class EverySource:
    """A source with a compiler for every commit but those named."""

    name = "every"

    def __init__(self, missing: Sequence[int] = (), seconds: float = 1.0) -> None:
        self.missing = set(missing)
        self.seconds = seconds

    def __call__(self, timeline: Timeline, indices: range) -> list[Build]:
        builds = []
        for index in sorted({*indices} - self.missing):
            revision = timeline.commits[index].revision
            obtain = partial(self.obtain, index)
            builds.append(Build(self.name, revision, index, self.seconds, obtain))
        return builds

    def obtain(self, index: int, package: str | None) -> Path:
        raise AssertionError("no compiler is needed")


@dataclass
class Compilers:
    """Stands where an Engine and its registry stand. `letters`: the outcome of each
    commit; `tagged`: those of releases;
    reported: whether toolchains report them.
    """

    repo: Path
    letters: Mapping[str, str]
    tagged: Mapping[str, str]
    home: Path
    reported: bool = False
    jobs: int = 1
    asked: list[str] = field(default_factory=list)
    progress = Progress()

    def __post_init__(self) -> None:
        self.workspace = Workspace(Home(self.home), Progress(), threading.Event())

    @property
    def registry(self) -> Compilers:
        return self

    def package(self, family: str) -> Package:
        return Package(self.workspace, "")

    def resolve(self, text: str, family: str) -> ToolchainRef:
        if text not in self.tagged:
            raise BadInput(f"no release {text}")
        release = Release("letters", text, "", "", None, None)
        return ToolchainRef(family, Revision(text), release)

    def obtain(self, ref: ToolchainRef) -> Toolchain:
        commit = self.tagged[ref.revision.name] if self.reported else None
        revision = replace(ref.revision, commit=commit)
        return Toolchain(ref.family, revision, "", self.home, self.home, None)  # type: ignore[arg-type]

    def releases(self, family: str) -> list[ToolchainRef]:
        return [self.resolve(name, family) for name in self.tagged]

    installed_releases = releases

    def revision(self, ref: ToolchainRef) -> Revision:
        return ref.revision

    def is_installed(self, ref: ToolchainRef) -> bool:
        return True

    def reported_commit(self, family: str, root: Path) -> None:
        return None

    def probe_all(self, jobs: Sequence[ProbeJob], what: str = "") -> Iterator[Probe]:
        by_name = {sha[:10]: letter for sha, letter in self.letters.items()}
        by_name |= {name: self.letters[sha] for name, sha in self.tagged.items()}
        for job in jobs:
            name = job.ref.revision.name
            self.asked.append(name)
            yield Probe(job.case, job.ref.revision, None, outcome(by_name[name]))


def bisect(
    compilers: Compilers,
    old: str,
    new: str,
    kind: BisectKind = BisectKind.REGRESSION,
) -> Bisection:
    """Search the commits between two revisions, the old one first."""
    (compilers.home / "triage.yaml").write_text(PROJECT)
    request = BisectRequest(compilers, case_named("case"), compilers.repo, kind)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(compilers.home)
        patched.setattr(commits, "sources_of", lambda *_: (EverySource(),))
        ends = (commits.line_end(request, text) for text in (old, new))
        return find_changes(commits.plan_commits(request, *ends))


def is_true(
    bisection: Bisection, letters: Mapping[str, str], parents: Mapping[str, str | None]
) -> bool:
    """Whether a confirmed culprit really changes the outcome of its first parent, in
    the way that the answer says.
    """
    [suspect] = bisection.suspects
    assert bisection.before
    assert bisection.after
    culprit, parent = suspect.commit or "", parents[suspect.commit or ""] or ""
    states = "PF" if bisection.kind is BisectKind.REGRESSION else "FP"
    ends = (bisection.before.commit, bisection.after.commit) == (parent, culprit)
    return ends and letters[parent] + letters[culprit] == states
