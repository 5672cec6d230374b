"""Find what brought a regression of a night: along releases, nightlies and local builds, or along the commits of a clone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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

Ends = tuple[ToolchainRef, ToolchainRef]  # the one in the state of the older end first


@dataclass(frozen=True)
class CaseOrigin:
    """A bisect of a change, with the toolchains around it where they are known."""

    bisection: Bisection
    ends: Ends | None = None


@dataclass(frozen=True)
class OriginFinder:
    """Bisects cases between a baseline and a toolchain; `finder_between` makes one.

    between: the toolchains to search; fixes: those from the toolchain to the newest release. scope: what is searched, what is
    not, and why. releases: of the compiler. repo: a clone whose commits are searched between two releases, or instead.
    compare_passes: before a search along commits, as evidence about them.
    """

    runner: Engine
    baseline: ToolchainRef
    toolchain: ToolchainRef
    between: VersionRange
    fixes: VersionRange
    scope: str
    releases: tuple[ToolchainRef, ...] = ()
    repo: Path | None = None
    project_file: Path | None = None
    compare_passes: bool = True
    _inside: dict[tuple[str, str], VersionRange] = field(default_factory=dict, compare=False)

    def find(self, case: Case, changed: Failure | None = None) -> tuple[CaseOrigin, ...]:
        """Bisect a regression of a case, to the commit where there is a clone, and its fix where the newest release has one.

        changed: the new failure of a case that failed in another way before.
        """
        regression, fix = self.find_change(case, changed), self.find_fix(case)
        return (regression, fix) if fix else (regression,)

    def find_change(self, case: Case, changed: Failure | None = None) -> CaseOrigin:
        """Bisect a regression, and with a clone the commits between the releases around it."""
        origin = self.bisect(case, changed)
        if self.repo is None or origin.ends is None or not self.can_narrow(origin.ends):
            return origin
        try:
            inside = self.narrow(case, origin.ends, changed)
        except EnvironmentFailure as error:
            inside = str(error)
        if isinstance(inside, CaseOrigin) and inside.bisection.after is not None:
            return inside
        reason = inside if isinstance(inside, str) else inside.bisection.reason
        self.runner.progress.note(f"{case.name}: its pair of releases was not narrowed further: {reason}")
        return origin

    def find_fix(self, case: Case) -> CaseOrigin | None:
        """Bisect the fix of a failure after the toolchain; None where the newest release has none."""
        fix = self.bisect(case, kind=BisectKind.FIX) if self.fixes.refs else None
        return fix if fix and fix.bisection.after is not None else None

    def bisect(self, case: Case, changed: Failure | None = None, kind: BisectKind = BisectKind.REGRESSION) -> CaseOrigin:
        """Bisect a regression of a case, or its fix. Without an answer the bisection has the reason."""
        search = self.search(case, kind)
        return CaseOrigin(search) if isinstance(search, Bisection) else self._run(search, changed)

    def narrow(self, case: Case, ends: Ends, changed: Failure | None = None) -> CaseOrigin | str:
        """Bisect what lies between two releases; return why there is nothing to search. Errors as of `search_inside`."""
        search = self.search_inside(case, ends)
        return search if isinstance(search, str) else self._run(search, changed)

    def can_narrow(self, ends: Ends) -> bool:
        """Return whether both ends are releases: between others, everything was searched at once."""
        return all(is_release(self.releases, end) for end in ends)

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
                return replace(self, runner=judging, compare_passes=False).find_change(case).bisection
        except BadInput as error:  # the ends do not differ any more
            return Bisection(case.name, kind, Answer.INCONCLUSIVE, reason=str(error))

    def search(self, case: Case, kind: BisectKind = BisectKind.REGRESSION) -> BisectSearch | Bisection:
        """Plan the search for a change of a case between both toolchains, or of its fix: along releases, or at once along
        the commits of the clone where an end is no release; the answer instead where there is nothing to search.
        """
        from triage.bisect.candidates import ReleaseCandidates
        from triage.bisect.plan import plan_commits, search_on

        is_fix, request = kind is BisectKind.FIX, self._request(case, kind)
        if self.repo is not None and not is_fix and not self.can_narrow((self.baseline, self.toolchain)):
            return plan_commits(request, rev_text(self.baseline), rev_text(self.toolchain))
        versions = self.fixes if is_fix else self.between
        if versions.problem is not None:
            return Bisection(case.name, kind, Answer.INCONCLUSIVE, reason=versions.problem)
        return search_on(replace(request, repo=None), ReleaseCandidates(versions.refs, self.runner.registry))

    def search_inside(self, case: Case, ends: Ends) -> BisectSearch | str:
        """Plan the search between two releases: along the commits of the clone, or else along nightlies; return why there is
        nothing to search.

        Raises:
            EnvironmentFailure: There is nothing else, and no source of compilers of commits can be asked.
        """
        from triage.bisect.candidates import ReleaseCandidates
        from triage.bisect.plan import plan_commits, search_on

        names, request = " and ".join(end.revision.name for end in ends), self._request(case)
        problems, failure = [], None
        if self.repo is not None:
            try:
                commits = plan_commits(request, *map(rev_text, ends))
                if len(commits.range) - len(commits.range.closed()) > len(ends):
                    return commits
                problems.append(f"no source has a compiler of a commit between {names}")
            except BadInput as error:
                problems.append(f"the commits of {self.repo} cannot be searched: {error}")
            except EnvironmentFailure as error:
                failure = error
        if len(nightlies := self.nightlies_inside(ends).refs) > len(ends):
            return search_on(replace(request, repo=None), ReleaseCandidates(nightlies, self.runner.registry))
        if failure is not None:
            raise failure
        return "; ".join([*problems, self.nightlies_inside(ends).skipped or f"there is no nightly between {names}"])

    def nightlies_inside(self, ends: Ends) -> VersionRange:
        """Return two releases with the nightlies between them, which are listed once."""
        key = (ends[0].revision.name, ends[1].revision.name)
        if key not in self._inside:
            skipped = next((known.skipped for known in self._inside.values() if known.skipped), None)  # it may take long
            known = VersionRange(ends, skipped=skipped)
            self._inside[key] = known if skipped else versions_between(self.runner.registry, *ends, nightlies=True)
        return self._inside[key]

    def _request(self, case: Case, kind: BisectKind = BisectKind.REGRESSION) -> BisectRequest:
        from triage.bisect.plan import BisectRequest

        return BisectRequest(self.runner, case, self.repo, self.project_file, kind, attribute=self.compare_passes)

    def _run(self, search: BisectSearch, changed: Failure | None) -> CaseOrigin:
        from triage.bisect.failure_path import search_change
        from triage.bisect.search import run_search

        bisection = search_change(search, changed) if changed else run_search(search)
        refs = {search.range.revision(index).name: search.range.ref(index) for index in range(len(search.range))}
        pair = (bisection.after, bisection.before) if bisection.undone else (bisection.before, bisection.after)
        old, new = (refs.get(revision.name) if revision else None for revision in pair)
        return CaseOrigin(bisection, (old, new) if old and new else None)


def finder_between(
    runner: Engine,
    case: Case,
    baseline: ToolchainRef,
    toolchain: ToolchainRef,
    repo: Path | None = None,
    project_file: Path | None = None,
) -> OriginFinder:
    """Make a finder for the cases of a night. case: any of them. Probes nothing.

    A clone whose commits cannot be searched is left out, and `scope` says why.
    """
    old, new = baseline.revision.name, toolchain.revision.name
    try:
        releases = runner.registry.releases(toolchain.family)
    except BadInput:  # a compiler without releases
        releases = ()
    between = versions_between(runner.registry, baseline, toolchain)
    is_newest = toolchain.path is not None or not releases or releases[-1].revision.name == new
    fixes = VersionRange() if is_newest else versions_between(runner.registry, toolchain, releases[-1])
    problem = _problem(runner, case, (rev_text(baseline), rev_text(toolchain)), repo, project_file) if repo else None
    are_releases = is_release(releases, baseline) and is_release(releases, toolchain)
    if repo is not None and problem is None and not are_releases:
        scope = f"bisects search the commits of {repo} between {old} and {new}"
    elif between.problem is not None:
        scope = f"nothing between {old} and {new} can be bisected: {between.problem}"
    elif len(between.refs) == 2:
        scope = f"{old} and {new} are neighbours; bisects confirm this pair"
    else:
        scope = f"bisects search {between.contents} between {old} and {new}"
    if problem is not None:
        scope += f"; the commits of {repo} cannot be searched: {problem}"
    elif repo is not None and are_releases:
        scope += f", then search the commits of {repo} between the releases around a change"
    elif repo is None and are_releases:
        scope += ", and --repo finds the commit"
    elif repo is None and not are_releases:
        scope += "; commits are searched with --repo and a clone of the compiler"
    scope += f"; {between.skipped}" if between.skipped else ""
    return OriginFinder(runner, baseline, toolchain, between, fixes, scope, releases, None if problem else repo, project_file)


def _problem(runner: Engine, case: Case, ends: tuple[str, str], repo: Path, project_file: Path | None) -> str | None:
    """Return why the commits between two toolchains cannot be searched."""
    from triage.bisect.plan import BisectRequest, candidates_of

    try:
        candidates_of(BisectRequest(runner, case, repo, project_file), *ends)
    except (BadInput, EnvironmentFailure) as error:
        return str(error)
    return None
