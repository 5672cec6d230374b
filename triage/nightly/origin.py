"""Find what brought a regression of a night: along releases, nightlies and local builds, or along the commits of a clone."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from triage.bisect.result import Answer, Bisection, BisectKind
from triage.bisect.versions import VersionRange, is_release, rev_text, versions_between
from triage.execution.runner import ProbeRunner
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.toolchains.registry import ToolchainRef

if TYPE_CHECKING:  # numpy is slow to import
    from triage.bisect.search import BisectSearch


@dataclass(frozen=True)
class CaseOrigin:
    """A bisect of a change, with the toolchains around it where they are known."""

    bisection: Bisection
    before: ToolchainRef | None = None
    after: ToolchainRef | None = None


@dataclass(frozen=True)
class OriginFinder:
    """Bisects cases between a baseline and a toolchain; `finder_between` makes one.

    between: the toolchains to search; fixes: those from the toolchain to the newest release. scope: what is searched, what is
    not, and why. repo: a clone whose commits are searched instead.
    """

    runner: ProbeRunner
    baseline: ToolchainRef
    toolchain: ToolchainRef
    between: VersionRange
    fixes: VersionRange
    scope: str
    repo: Path | None = None
    project_file: Path | None = None

    def find(self, case: Case) -> tuple[CaseOrigin, ...]:
        """Bisect a regression of a case, and its fix where the newest release has one."""
        regression, fix = self.bisect(case), self.find_fix(case)
        return (regression, fix) if fix else (regression,)

    def find_fix(self, case: Case) -> CaseOrigin | None:
        """Bisect the fix of a failure after the toolchain; None where the newest release has none."""
        fix = self.bisect(case, BisectKind.FIX) if self.fixes.refs else None
        return fix if fix and fix.bisection.after is not None else None

    def bisect(self, case: Case, kind: BisectKind = BisectKind.REGRESSION) -> CaseOrigin:
        """Bisect a regression of a case, or its fix. Without an answer the bisection has the reason."""
        from triage.bisect.search import run_search

        search = self.search(case, kind)
        if isinstance(search, Bisection):
            return CaseOrigin(search)
        bisection = run_search(search)
        refs = {search.range.revision(index).name: search.range.ref(index) for index in range(len(search.range))}
        before, after = (refs.get(revision.name) if revision else None for revision in (bisection.before, bisection.after))
        return CaseOrigin(bisection, before, after)

    def find_slower(self, case: Case, function: str | None, budget: float) -> Bisection:
        """Bisect where the run of a function became slower, or without one the compile.

        budget: seconds to measure each candidate for. A candidate whose interval reaches the threshold is never named.
        """
        from triage.bisect.search import run_search
        from triage.bisect.slower import compile_time_judge, run_time_judge

        kind, ends = BisectKind.REGRESSION, (self.baseline, self.toolchain)
        if self.between.problem is not None:
            return Bisection(case, kind, Answer.INCONCLUSIVE, reason=self.between.problem)
        try:
            with ExitStack() as opened:
                if function is None:
                    judge = compile_time_judge(self.runner, case, ends, threshold=None, budget=budget)
                else:
                    judging = run_time_judge(self.runner, case, ends, function=function, ratio=None, budget=budget)
                    judge = opened.enter_context(judging)
                search = replace(self, runner=self.runner.with_threshold(judge)).search(case)
                return search if isinstance(search, Bisection) else run_search(replace(search, witness=None))
        except BadInput as error:  # the ends do not differ any more
            return Bisection(case, kind, Answer.INCONCLUSIVE, reason=str(error))

    def search(self, case: Case, kind: BisectKind = BisectKind.REGRESSION) -> BisectSearch | Bisection:
        """Plan the search for a change of a case; the answer instead where there is nothing to search."""
        from triage.bisect.candidates import ReleaseCandidates
        from triage.bisect.plan import BisectRequest, plan, search_on

        request = BisectRequest(self.runner, case, self.repo, self.project_file, kind)
        if self.repo is not None and kind is BisectKind.REGRESSION:
            return plan(request, rev_text(self.baseline), rev_text(self.toolchain))
        versions = self.between if kind is BisectKind.REGRESSION else self.fixes
        if versions.problem is not None:
            return Bisection(case, kind, Answer.INCONCLUSIVE, reason=versions.problem)
        return search_on(replace(request, repo=None), ReleaseCandidates(versions.refs, self.runner.registry))


def finder_between(
    runner: ProbeRunner,
    case: Case,
    baseline: ToolchainRef,
    toolchain: ToolchainRef,
    repo: Path | None = None,
    project_file: Path | None = None,
) -> OriginFinder:
    """Make a finder for the cases of a night. case: any of them. Probes nothing.

    A clone whose commits cannot be searched is left out, and `scope` says why.
    """
    old, new, releases = baseline.revision.name, toolchain.revision.name, runner.registry.releases(toolchain.family)
    between = versions_between(runner.registry, baseline, toolchain)
    is_newest = toolchain.path is not None or not releases or releases[-1].revision.name == new
    fixes = VersionRange() if is_newest else versions_between(runner.registry, toolchain, releases[-1])
    problem = _problem(runner, case, (rev_text(baseline), rev_text(toolchain)), repo, project_file) if repo else None
    if repo is not None and problem is None:
        scope = f"bisects search the commits of {repo} between {old} and {new}"
    elif between.problem is not None:
        scope = f"nothing between {old} and {new} can be bisected: {between.problem}"
    elif len(between.refs) == 2:
        scope = f"nothing that can be searched lies between {old} and {new}: bisects confirm this pair"
    else:
        scope = f"bisects search {between.contents} between {old} and {new}"
    if problem is not None:
        scope += f"; the commits of {repo} cannot be searched: {problem}"
    elif repo is None and not (is_release(releases, baseline) and is_release(releases, toolchain)):
        scope += "; commits are searched with --repo and a clone of the compiler"
    scope += f"; {between.skipped}" if between.skipped else ""
    return OriginFinder(runner, baseline, toolchain, between, fixes, scope, None if problem else repo, project_file)


def _problem(runner: ProbeRunner, case: Case, ends: tuple[str, str], repo: Path, project_file: Path | None) -> str | None:
    """Return why the commits between two toolchains cannot be searched."""
    from triage.bisect.plan import BisectRequest, candidates_of

    try:
        candidates_of(BisectRequest(runner, case, repo, project_file), *ends)
    except (BadInput, EnvironmentFailure) as error:
        return str(error)
    return None
