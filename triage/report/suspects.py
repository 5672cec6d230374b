"""Report of `triage suspects`: terminal and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from triage.bisect.result import ReleaseBranch
from triage.git_history import Branch, place_of
from triage.model.outcome import Failure
from triage.report.branches import branch_facts
from triage.report.elements import facts_table, failure_text, plural
from triage.report.registry import Report
from triage.report.shapes import FailureShape, Shape, optional_failure

if TYPE_CHECKING:  # it imports numerics, which the reports do not need
    from triage.bisect.prior import Suspect


@dataclass(frozen=True)
class RankedCommitShape(Shape):
    """A change between two revisions with its probability. `with_commits` are its further commits, such as a revert of it."""

    name: str
    commit: str
    date: str
    subject: str
    probability: float
    pull_request: int | None
    url: str | None
    reasons: list[str]
    with_commits: list[str]
    branch: str | None


@dataclass(frozen=True)
class SuspectsShape(Shape):
    """JSON of `triage suspects`."""

    failure: FailureShape | None
    evidence: str | None
    suspects: list[RankedCommitShape]
    branches: Sequence[ReleaseBranch] = ()


@dataclass(frozen=True, slots=True)
class SuspectsReport(Report):
    """Changes ranked by how suspicious the failure makes them, out of `total` commits between the two revisions.

    `evidence` is what the passes of both ends showed; `branches` are those that the revisions lie on; `lacking` has the commits
    that only the good one has, with words that say so.
    """

    suspects: Sequence[Suspect]
    failure: Failure | None
    total: int
    evidence: str | None = None
    branches: Sequence[Branch] = ()
    lacking: Mapping[str, str] = field(default_factory=dict)

    def shape(self) -> SuspectsShape:
        ranked = [_ranked_commit(suspect, self._place(suspect)) for suspect in self.suspects]
        return SuspectsShape(optional_failure(self.failure), self.evidence, ranked, list(map(ReleaseBranch.of, self.branches)))

    def _place(self, suspect: Suspect) -> str | None:
        sha = suspect.commit.sha
        return "; ".join(filter(None, [place_of(sha, self.branches), self.lacking.get(sha)])) or None

    def blocks(self) -> Iterable[RenderableType]:
        """Show a line for each commit, with the reasons for its rank."""
        if self.failure:
            yield Text(failure_text(self.failure, 400), style="bold")
        if self.evidence:
            yield Text(self.evidence)
        table = Table.grid(padding=(0, 2))
        for suspect in self.suspects:
            words = Text(suspect.commit.subject)
            if place := self._place(suspect):
                words.append(f"\n{place}")
            if suspect.reasons:
                words.append(f"\n{'; '.join(reason.text for reason in suspect.reasons)}", style="dim")
            if suspect.others:
                further = "; ".join(f"{commit.sha[:10]} {commit.subject}" for commit in suspect.others)
                words.append(f"\nthe same change: {further}", style="dim")
            sha = Text(suspect.commit.sha[:10], style="bold")
            table.add_row(f"{suspect.probability:.1%}", sha, suspect.commit.date[:10], words)
        yield table
        if self.branches:
            yield facts_table(branch_facts(map(ReleaseBranch.of, self.branches)))
        yield Text(f"\n{len(self.suspects)} of {plural(self.total, 'commit')}, ranked by what they change; nothing was built")


def _ranked_commit(suspect: Suspect, branch: str | None) -> RankedCommitShape:
    return RankedCommitShape(
        name=suspect.commit.sha[:10],
        commit=suspect.commit.sha,
        date=suspect.commit.date[:10],
        subject=suspect.commit.subject,
        probability=round(suspect.probability, 5),
        pull_request=suspect.pull_request,
        url=suspect.url,
        reasons=[reason.text for reason in suspect.reasons],
        with_commits=[commit.sha for commit in suspect.others],
        branch=branch,
    )
