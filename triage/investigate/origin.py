"""Find what brought a regression of a night: along releases, nightlies and local
builds, or along the commits of a clone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from triage.bisect.candidates import BisectRange, release_range
from triage.bisect.changes import find_change, find_changes
from triage.bisect.plan import (
    VersionRange,
    candidates_of,
    plan_commits,
    rev_text,
    search_versions,
    versions_between,
    whole_search,
)
from triage.bisect.request import BisectRequest
from triage.bisect.result import Bisection, BisectKind
from triage.bisect.search import Search
from triage.execution.engine import Engine
from triage.execution.metric import Metric
from triage.execution.number_judge import MetricChoice, engine_with_judge
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Cause, Failure, NoAnswer
from triage.toolchains.registry import ToolchainRef

_ABSENT = "it is not installed"

ToolchainPair = tuple[ToolchainRef, ToolchainRef]
"""The toolchain without the failure, and the one with it."""


@dataclass(frozen=True)
class CaseOrigin:
    """The bisection of a change, and the toolchains before and after it if known."""

    bisection: Bisection
    pair: ToolchainPair | None = None


@dataclass
class OriginFinder:
    """Bisects cases between a baseline and a toolchain; call `describe` before the
    first search.
    """

    engine: Engine
    pair: ToolchainPair
    repo: Path | None = None
    """A clone whose commits are searched between two releases, or instead of releases.
    """
    project_file: Path | None = None
    _without_nightlies: str | None = None
    """Why there is no list of nightlies; asking for it again may take long."""

    @cached_property
    def between(self) -> VersionRange:
        """The toolchains to search."""
        return versions_between(self.engine.registry, *self.pair)

    @cached_property
    def newer_releases(self) -> VersionRange:
        """The toolchains from the new one to the newest release that is installed; one
        of them may have a fix.
        """
        registry, new = self.engine.registry, self.pair[1]
        if new.path is not None:  # its family may have no releases
            return VersionRange()
        installed = registry.installed_releases(new.family)
        if not installed:
            return VersionRange()
        return versions_between(registry, new, installed[-1])

    def find_fix(self, case: Case) -> Bisection | None:
        """Look for a newer release that fixes the failure, and bisect the fix.

        Only installed releases are probed, because a nightly run installs no more than
        the two that it compares. Returns None if no newer release has a fix.
        """
        refs = self.newer_releases.refs
        if not refs:
            return None
        registry = self.engine.registry
        candidates = []
        for candidate in release_range(registry, refs).candidates:
            if registry.is_installed(candidate.ref):
                candidates.append(candidate)
            else:
                candidates.append(replace(candidate, untestable=_ABSENT))
        request = replace(self._request(case), kind=BisectKind.FIX)
        search = whole_search(request, BisectRange(tuple(candidates)))
        fix = _search_origin(search, None).bisection
        if fix.after is None:
            return None
        return fix

    def find_slower(self, case: Case, function: str | None, budget: float) -> Bisection:
        """Bisect the change that made a function run slower; without a function, the
        change that made the compile slower.

        Each candidate is measured for `budget` seconds. One whose interval reaches the
        threshold is never named.
        """
        metric = Metric.CPU_SECONDS if function is None else Metric.RUN_SECONDS
        choice = MetricChoice(metric, budget, function or "")
        if self.between.problem is not None:
            return Bisection.inconclusive(case, self.between.problem)
        try:
            with engine_with_judge(self.engine, case, self.pair, choice) as judging:
                finder = replace(self, engine=judging)
                return finder.bisect_and_narrow(case).bisection
        except BadInput as error:  # the two toolchains do not differ any more
            why = NoAnswer(Cause.NOT_FOUND, str(error))
            return Bisection.inconclusive(case, why)

    def bisect_and_narrow(self, case: Case) -> CaseOrigin:
        """Bisect a regression along releases and, with a clone, then along commits."""
        origin = self.bisect(case)
        if self.repo is None or origin.pair is None or not self.can_narrow(origin.pair):
            return origin
        try:
            inside = self.narrow(case, origin.pair)
        except BadInput:
            return origin
        return origin if inside.pair is None else inside

    def bisect(self, case: Case, changed: Failure | None = None) -> CaseOrigin:
        """Bisect a regression of a case along releases.

        If there is a clone and an end is not a release, bisect along the commits of the
        clone at once. A bisection without an answer has the reason.
        """
        if self.repo is None or self.can_narrow(self.pair):
            return self._search_versions(case, self.between, changed)
        return _search_origin(
            plan_commits(self._request(case), *map(rev_text, self.pair)), changed
        )

    def narrow(
        self, case: Case, pair: ToolchainPair, changed: Failure | None = None
    ) -> CaseOrigin:
        """Bisect between two releases: along the commits of the clone, or else along
        nightlies.

        Raises:
            BadInput: There is nothing between them.
            EnvironmentFailure: There is no nightly between them, and every source of
                compilers of commits fails.
        """
        problems = []
        failure = None
        names = " and ".join(ref.revision.name for ref in pair)
        if self.repo is not None:
            try:
                commits = plan_commits(self._request(case), *map(rev_text, pair))
                untestable = [one.untestable for one in commits.line.range.candidates]
                if untestable.count(None) > len(pair):
                    return _search_origin(commits, changed)
                problems.append(f"no source has a compiler of a commit between {names}")
            except BadInput as error:
                problems.append(
                    f"the commits of {self.repo} cannot be searched: {error}"
                )
            except EnvironmentFailure as error:
                failure = error
        inside = VersionRange(skipped=self._without_nightlies)
        if inside.skipped is None:
            inside = versions_between(self.engine.registry, *pair, nightlies=True)
        if len(inside.refs) > len(pair):
            return self._search_versions(case, inside, changed)
        self._without_nightlies = inside.skipped
        if failure is not None:
            raise failure
        problems.append(inside.skipped or f"there is no nightly between {names}")
        raise BadInput("; ".join(problems))

    def can_narrow(self, pair: ToolchainPair) -> bool:
        """Return whether both are releases. Between others, `bisect` already searches
        every nightly and commit.
        """
        return all(ref.is_stable for ref in pair)

    def _search_versions(
        self, case: Case, versions: VersionRange, changed: Failure | None
    ) -> CaseOrigin:
        if versions.problem is not None:
            return CaseOrigin(Bisection.inconclusive(case, versions.problem))
        return _search_origin(
            search_versions(self._request(case), versions.refs), changed
        )

    def _request(self, case: Case) -> BisectRequest:
        return BisectRequest(
            self.engine,
            case,
            self.repo,
            self.project_file,
        )

    def describe(self, case: Case) -> str:
        """Describe what bisects will search, and drop a clone whose commits cannot be
        searched. Probes nothing; any case will do.
        """
        repo, problem = self.repo, None
        if repo is not None:
            try:
                candidates_of(self._request(case), *map(rev_text, self.pair))
            except (BadInput, EnvironmentFailure) as error:
                problem, self.repo = error, None
        ends = " and ".join(ref.revision.name for ref in self.pair)
        if self.repo is not None and not self.can_narrow(self.pair):
            parts = [f"bisects search the commits of {repo} between {ends}"]
        elif self.between.problem is not None:
            why = self.between.problem.reason
            parts = [f"nothing between {ends} can be bisected: {why}"]
        elif len(self.between.refs) > len(self.pair):
            count = len(self.between.refs) - len(self.pair)
            what = f"{count} toolchain{'' if count == 1 else 's'}"
            parts = [f"bisects search {what} between {ends}"]
        else:
            parts = [f"{ends} are neighbours"]
        if problem is not None:
            parts.append(f"the commits of {repo} cannot be searched: {problem}")
        elif repo is None:
            parts.append("--repo with a clone of the compiler finds the commit")
        elif self.can_narrow(self.pair):
            parts.append(
                f"then the commits of {repo} between the releases around a change"
            )
        if self.between.skipped:
            parts.append(self.between.skipped)
        return "; ".join(parts)


def _search_origin(search: Search, changed: Failure | None) -> CaseOrigin:
    """Bisect. changed: the last failure of a case that failed in another way before."""
    if changed:
        bisection = find_change(search, changed)
    else:
        bisection = find_changes(search)
    refs = {one.revision.name: one.ref for one in search.line.range.candidates}
    old, new = (
        refs.get(revision.name) if revision else None
        for revision in (bisection.before, bisection.after)
    )
    return CaseOrigin(bisection, (old, new) if old and new else None)
