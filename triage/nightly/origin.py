"""Find what brought a regression of a night: along releases, nightlies and local builds, or along the commits of a clone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from triage.bisect.result import Answer, Bisection, BisectKind
from triage.bisect.versions import VersionRange, is_release, rev_text, versions_between
from triage.execution.engine import Engine
from triage.execution.judge import Metric
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Failure
from triage.toolchains.registry import ToolchainRef

if TYPE_CHECKING:  # numpy is slow to import
    from triage.bisect.plan import BisectRequest
    from triage.bisect.search import BisectSearch

Ends = tuple[ToolchainRef, ToolchainRef]  # the one without the failure first


@dataclass(frozen=True)
class CaseOrigin:
    """A bisect of a change, with the toolchains around it where they are known."""

    bisection: Bisection
    ends: Ends | None = None


@dataclass
class OriginFinder:
    """Bisects cases between a baseline and a toolchain; `finder_between` makes one."""

    runner: Engine
    baseline: ToolchainRef
    toolchain: ToolchainRef
    repo: Path | None = None
    """A clone whose commits are searched between two releases, or instead of releases."""
    project_file: Path | None = None
    scope: str = ""
    """What is searched, what is not, and why."""
    compare_passes: bool = True
    """Before a search along commits, to rank them."""
    _without_nightlies: str | None = None
    """Why there is no list of nightlies; asking for it again may take long."""

    @cached_property
    def releases(self) -> tuple[ToolchainRef, ...]:
        try:
            return self.runner.registry.releases(self.toolchain.family)
        except BadInput:  # a compiler without releases
            return ()

    @cached_property
    def between(self) -> VersionRange:
        """The toolchains to search."""
        return versions_between(self.runner.registry, self.baseline, self.toolchain)

    @cached_property
    def fixes(self) -> VersionRange:
        """The toolchains from the new one to the newest release."""
        name = self.toolchain.revision.name
        if self.toolchain.path is not None or not self.releases or self.releases[-1].revision.name == name:
            return VersionRange()
        return versions_between(self.runner.registry, self.toolchain, self.releases[-1])

    def find_fix(self, case: Case) -> CaseOrigin | None:
        """Bisect the fix of a failure after the toolchain. Returns None if the newest release has no fix."""
        fix = self.bisect(case, kind=BisectKind.FIX) if self.fixes.refs else None
        return fix if fix and fix.bisection.after is not None else None

    def find_slower(self, case: Case, function: str | None, budget: float) -> Bisection:
        """Bisect where the run of a function became slower, or without one the compile.

        budget: seconds to measure each candidate for. A candidate whose interval reaches the threshold is never named.
        """
        from triage.bisect.slower import judged_by_time

        metric = Metric.CPU_SECONDS if function is None else Metric.RUN_SECONDS
        kind, ends = BisectKind.REGRESSION, (self.baseline, self.toolchain)
        if self.between.problem is not None:
            return Bisection(case.name, kind, Answer.INCONCLUSIVE, reason=self.between.problem)
        try:
            with judged_by_time(self.runner, case, ends, metric, function, budget) as judging:
                finder = replace(self, runner=judging, compare_passes=False)
                origin = finder.bisect(case)
                if self.repo and origin.ends and self.can_narrow(origin.ends):
                    inside = finder.narrow(case, origin.ends)
                    if isinstance(inside, CaseOrigin) and inside.bisection.after is not None:
                        return inside.bisection
                return origin.bisection
        except BadInput as error:  # the ends do not differ any more
            return Bisection(case.name, kind, Answer.INCONCLUSIVE, reason=str(error))

    def bisect(self, case: Case, changed: Failure | None = None, kind: BisectKind = BisectKind.REGRESSION) -> CaseOrigin:
        """Bisect a regression of a case along releases, or its fix; where an end is not a release, at once along the commits of
        the clone. Without an answer the bisection has the reason.
        """
        from triage.bisect.plan import plan_commits, search_versions

        is_fix, request = kind is BisectKind.FIX, self.request(case, kind)
        if self.repo is not None and not is_fix and not self.can_narrow((self.baseline, self.toolchain)):
            return _run(plan_commits(request, rev_text(self.baseline), rev_text(self.toolchain)), changed)
        versions = self.fixes if is_fix else self.between
        if versions.problem is not None:
            return CaseOrigin(Bisection(case.name, kind, Answer.INCONCLUSIVE, reason=versions.problem))
        return _run(search_versions(request, versions.refs), changed)

    def narrow(self, case: Case, ends: Ends, changed: Failure | None = None) -> CaseOrigin | str:
        """Bisect what lies between two releases: the commits of the clone, or else nightlies. Return why there is nothing.

        Raises:
            EnvironmentFailure: There is nothing else, and no source of compilers of commits can be asked.
        """
        from triage.bisect.plan import plan_commits, search_versions

        names, request = " and ".join(end.revision.name for end in ends), self.request(case)
        problems, failure = [], None
        if self.repo is not None:
            try:
                commits = plan_commits(request, *map(rev_text, ends))
                if len(commits.range.candidates) - len(commits.range.closed) > len(ends):
                    return _run(commits, changed)
                problems.append(f"no source has a compiler of a commit between {names}")
            except BadInput as error:
                problems.append(f"the commits of {self.repo} cannot be searched: {error}")
            except EnvironmentFailure as error:
                failure = error
        without = self.without_nightlies(ends)
        if without is None:
            nightlies = versions_between(self.runner.registry, *ends, nightlies=True).refs
            return _run(search_versions(request, nightlies), changed)
        if failure is not None:
            raise failure
        return "; ".join([*problems, without])

    def can_narrow(self, ends: Ends) -> bool:
        """Return whether both ends are releases: between others, everything was searched at once."""
        return all(is_release(self.releases, end) for end in ends)

    def without_nightlies(self, ends: Ends) -> str | None:
        """Return why there is no nightly between two releases; None where there is one."""
        if self._without_nightlies is None:
            inside = versions_between(self.runner.registry, *ends, nightlies=True)
            if len(inside.refs) > len(ends):
                return None
            self._without_nightlies = inside.skipped
        return self._without_nightlies or f"there is no nightly between {ends[0].revision.name} and {ends[1].revision.name}"

    def request(self, case: Case, kind: BisectKind = BisectKind.REGRESSION) -> BisectRequest:
        """Return what the search of a case needs."""
        from triage.bisect.plan import BisectRequest

        return BisectRequest(self.runner, case, self.repo, self.project_file, kind, attribute=self.compare_passes)


def finder_between(
    runner: Engine, case: Case, ends: Ends, repo: Path | None = None, project_file: Path | None = None
) -> OriginFinder:
    """Make a finder for the cases of a night. case: any of them. Probes nothing.

    A clone whose commits cannot be searched is left out, and `scope` says why.
    """
    from triage.bisect.plan import candidates_of

    finder, problem = OriginFinder(runner, *ends, repo, project_file), None
    if repo is not None:
        try:
            candidates_of(finder.request(case), *map(rev_text, ends))
        except (BadInput, EnvironmentFailure) as error:
            problem, finder.repo = str(error), None
    (old, new), between = (end.revision.name for end in ends), finder.between
    if finder.repo is not None and not finder.can_narrow(ends):
        finder.scope = f"bisects search the commits of {repo} between {old} and {new}"
    elif between.problem is not None:
        finder.scope = f"nothing between {old} and {new} can be bisected: {between.problem}"
    elif len(between.refs) > len(ends):
        finder.scope = f"bisects search {between.contents} between {old} and {new}"
    else:
        finder.scope = f"{old} and {new} are neighbours"
    if problem is not None:
        finder.scope += f"; the commits of {repo} cannot be searched: {problem}"
    elif repo is None:
        finder.scope += "; --repo with a clone of the compiler finds the commit"
    elif finder.can_narrow(ends):
        finder.scope += f", then the commits of {repo} between the releases around a change"
    finder.scope += f"; {between.skipped}" if between.skipped else ""
    return finder


def _run(search: BisectSearch, changed: Failure | None) -> CaseOrigin:
    from triage.bisect.releases import search_change
    from triage.bisect.search import run_search

    bisection = search_change(search, changed) if changed else run_search(search)
    refs = {candidate.revision.name: candidate.ref for candidate in search.range.candidates}
    pair = (bisection.after, bisection.before) if bisection.undone else (bisection.before, bisection.after)
    old, new = (refs.get(revision.name) if revision else None for revision in pair)
    return CaseOrigin(bisection, (old, new) if old and new else None)
