"""Find what brought a regression of a night: along releases, nightlies and local
builds, or along the commits of a clone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from triage.bisect.changes import find_change, find_changes
from triage.bisect.commits import plan_commits, release_end
from triage.bisect.history import known_range
from triage.bisect.line import BisectRequest
from triage.bisect.plan import bisect_between
from triage.bisect.releases import release_line, rev_text, versions_between
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.bisect.search import Search, whole_search
from triage.execution.engine import Engine
from triage.execution.number_judge import Metric, engine_with_judge
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import Cause, Failure, NoAnswer
from triage.toolchains.registry import ToolchainRef

ToolchainPair = tuple[ToolchainRef, ToolchainRef]
"""The toolchain without the failure, and the one with it."""


@dataclass
class OriginFinder:
    """Bisects cases between a baseline, if there is one, and a toolchain."""

    engine: Engine
    pair: tuple[ToolchainRef | None, ToolchainRef]
    repo: Path | None = None
    """A clone whose commits are searched between two releases, or instead of releases.
    """
    toolchains: dict[str, ToolchainRef] = field(default_factory=dict)
    """All that were searched, by name."""

    def bisect(self, case: Case, changed: Failure | None = None) -> Bisection:
        """Bisect a regression of a case along releases, or along the commits of the
        clone if an end is not a release. Without a baseline, search all releases.

        changed: the last failure of a case that failed in another way before.
        """
        registry, (old, new) = self.engine.registry, self.pair
        if old is None:
            before = None
            if not new.is_release:
                before = registry.releases(new.family)[-1].revision.name
            request = BisectRequest(self.engine, case, repeats=1)
            return bisect_between(request, before, rev_text(new))
        if self.repo is not None and not is_of_releases((old, new)):
            search = self._commits(case, (old, new))
        else:
            search = self._search(case, versions_between(registry, old, new))
        return self._bisect_along(search, changed)

    def pair_of(self, bisection: Bisection | None) -> ToolchainPair | None:
        """Return the toolchains around a change, the good one first."""
        if not (bisection and bisection.before and bisection.after):
            return None
        before, after = (
            self.toolchains.get(revision.name)
            or self.engine.registry.resolve(revision.name, self.pair[1].family)
            for revision in (bisection.before, bisection.after)
        )
        return bisection.kind.in_order(before, after)

    def narrow(
        self, case: Case, pair: ToolchainPair, changed: Failure | None = None
    ) -> Bisection:
        """Bisect between two releases: along the commits of the clone that a source has
        compilers of, or else along nightlies.

        Raises:
            BadInput: There is nothing between them.
            EnvironmentFailure: Every source of compilers fails.
        """
        if self.repo is not None:
            commits = self._commits(case, pair)
            untestable = [candidate.untestable for candidate in commits.line.candidates]
            if untestable.count(None) > len(pair):
                return self._bisect_along(commits, changed)
        refs = versions_between(self.engine.registry, *pair, nightlies=True)
        if len(refs) == len(pair):
            names = " and ".join(ref.revision.name for ref in pair)
            raise BadInput(f"nothing between {names} has a compiler")
        return self._bisect_along(self._search(case, refs), changed)

    def known(self, case: Case, failure: Failure) -> Bisection | None:
        """Return what is known of a failure from the stored probes alone, where a
        bisect was not finished; None if nothing is.
        """
        named = [ref for ref in self.pair if ref]
        if any(ref.release is None for ref in named):
            return None
        bad = self.pair[1].revision.name
        return known_range(self.engine, case, named, failure, bad)

    def find_fix(self, case: Case) -> Bisection | None:
        """Bisect the fix of a failure between the failing toolchain and the newest
        release, in a night the newest installed one; None if there is none.
        """
        registry, (old, new) = self.engine.registry, self.pair
        if new.path is not None:  # its family may have no releases
            return None
        releases = registry.installed_releases(new.family)
        if old is None:
            releases = registry.releases(new.family)
        if not releases or releases[-1].version <= new.version:
            return None
        request = BisectRequest(self.engine, case, kind=BisectKind.FIX)
        fix = bisect_between(request, rev_text(new), releases[-1].revision.name)
        return fix if fix.after else None

    def find_slower(self, case: Case, function: str, budget: float) -> Bisection:
        """Bisect the change that made a function run slower.

        Each candidate is measured for `budget` seconds. One whose interval reaches the
        threshold is never named.
        """
        old, new = self.pair
        assert old is not None
        metric = Metric("run_seconds", function)
        try:
            with engine_with_judge(
                self.engine, case, (old, new), metric, budget
            ) as judging:
                finder = replace(self, engine=judging)
                bisection = finder.bisect(case)
                pair = finder.pair_of(bisection)
                if self.repo and pair and is_of_releases(pair):
                    return finder.narrow(case, pair)
                return bisection
        except BadInput as error:  # such as two toolchains that do not differ any more
            why = NoAnswer(Cause.NOT_FOUND, str(error))
            kind = BisectKind.REGRESSION
            return Bisection(case.name, kind, Answer.INCONCLUSIVE, unanswered=why)

    def _request(self, case: Case) -> BisectRequest:
        return BisectRequest(self.engine, case, self.repo)

    def _commits(self, case: Case, pair: ToolchainPair) -> Search:
        request = self._request(case)
        old, new = (release_end(request, ref) for ref in pair)
        return plan_commits(request, old, new)

    def _search(self, case: Case, refs: Sequence[ToolchainRef]) -> Search:
        return whole_search(release_line(self._request(case), refs))

    def _bisect_along(self, search: Search, changed: Failure | None) -> Bisection:
        for candidate in search.line.candidates:
            self.toolchains[candidate.revision.name] = candidate.ref
        if changed:
            return find_change(search, changed)
        return find_changes(search)


def is_of_releases(pair: ToolchainPair) -> bool:
    """Return whether both are releases. Between others, `bisect` already searches every
    nightly and commit.
    """
    return all(ref.is_stable for ref in pair)
