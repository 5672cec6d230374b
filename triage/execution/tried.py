"""What is known of a case on the releases of its family.

Only a release that was probed says anything. Two that agree say nothing of those
between them, since a failure may come and go between two releases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from packaging.version import Version

from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.outcome import Outcome
from triage.model.revision import Revision
from triage.toolchains.registry import ToolchainRef


@dataclass(frozen=True, slots=True)
class KnownReleases:
    """Neighbouring releases on which a case ended alike. outcome: passed, failed,
    untestable, or not tried.
    """

    outcome: str
    first: Revision
    last: Revision


@dataclass(frozen=True, slots=True)
class TriedReleases:
    """The outcomes of a case, None where it was not tried, oldest release first."""

    revisions: Sequence[Revision]
    outcomes: Sequence[Outcome | None]
    are_all: bool
    """Whether there is no other release."""

    @classmethod
    def recall(
        cls, engine: Engine, case: Case, others: Sequence[ToolchainRef]
    ) -> TriedReleases:
        """Look up what is known on all releases and on other toolchains."""
        releases, are_all = engine.registry.installed_releases(case.compiler), False
        try:
            releases = engine.registry.listed_releases(case.compiler)
            are_all = True
        except (BadInput, EnvironmentFailure):  # it has none, or there is no network
            pass
        refs = {ref.revision.name: ref for ref in (*releases, *others)}
        names = sorted(refs, key=Version)
        probes = [engine.recall(ProbeJob(case, refs[name])) for name in names]
        return cls(
            [refs[name].revision for name in names],
            [probe.outcome if probe else None for probe in probes],
            are_all,
        )

    def known(self) -> tuple[KnownReleases, ...]:
        """Join neighbours that ended alike, unless a release may lie between two."""
        known: list[KnownReleases] = []
        for revision, outcome in zip(self.revisions, self.outcomes, strict=True):
            status = outcome.plain_status if outcome else "not tried"
            if self.are_all and known and known[-1].outcome == status:
                known[-1] = replace(known[-1], last=revision)
            else:
                known.append(KnownReleases(status, revision, revision))
        return tuple(known)
