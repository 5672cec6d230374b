"""The report of `triage issues sync`, and what it writes into issues and comments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from triage.nightly.issues import Action, ActionCause
from triage.nightly.result import Night
from triage.report.document import Block, Document, Inline, Paragraph, Span, Table
from triage.report.elements import failure_text, plural, revision_text
from triage.report.printable import visible
from triage.report.registry import DocumentReport

if TYPE_CHECKING:  # templates are slow to import
    from triage.report.markdown import Markdown

_TITLE = 200  # characters; GitHub takes 256
_REASONS = {
    ActionCause.NEW: "{cases} regressed",
    ActionCause.AGAIN: "{cases} failed again",
    ActionCause.MORE: "{cases} more",
    ActionCause.FIXED: "{cases} passed",
    ActionCause.DUPLICATE: "duplicate of #{original}",
}


@dataclass(frozen=True)
class IssueChange:
    """A change of an issue."""

    action: str
    """Open, comment, reopen or close."""
    cause: str
    """New, again, more, fixed or duplicate."""
    issue: int | None
    """Null where it is to be opened."""
    title: str
    signature: str
    cases: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class IssueChanges:
    """What was changed, or would be changed."""

    repository: str
    applied: bool
    changes: list[IssueChange]
    left: list[IssueChange]
    """Changes that --limit leaves for the next time."""
    notes: tuple[str, ...]
    """Issues that are left alone."""


@dataclass(frozen=True, slots=True)
class IssuesReport(DocumentReport):
    """The changes of a repository's issues."""

    result: IssueChanges

    def document(self) -> Document:
        result = self.result
        rows: list[list[Inline]] = [
            [one.action, f"#{one.issue}" if one.issue else "new", one.title, Span(one.reason, "dim")] for one in result.changes
        ]
        left = f", {len(result.left)} left for the next run" if result.left else ""
        hint = "" if result.applied or not result.changes else "; nothing was changed, pass --apply"
        total = Paragraph(f"{result.repository}: {plural(len(result.changes), 'change')}{left}{hint}")
        tables: list[Block] = [Table(("change", "issue", "title", "why"), rows)] if rows else []
        return Document("Issues", [*tables, *(Paragraph(Span(note, "warning")) for note in result.notes), total])


def issue_change(action: Action, number: int | None = None) -> IssueChange:
    """Return what is reported of a change. number: of an issue that was opened."""
    at = number or (action.issue.number if action.issue else None)
    why = _REASONS[action.cause].format(cases=plural(len(action.cases), "case"), original=action.original)
    return IssueChange(action.kind.value, action.cause.value, at, title_of(action), action.signature, action.cases, why)


def action_text(action: Action, night: Night) -> Markdown | None:
    """Return the Markdown of a new issue or of a comment; None where a change needs none."""
    from triage.report.markdown import render_markdown

    if action.cause is not ActionCause.NEW and not action.event:
        return None
    return render_markdown(
        "issues.md.j2",
        cause=action.cause.value,
        cases=action.cases,
        original=action.original,
        toolchain=revision_text(night.toolchain),
        draft=_draft(action, night) if action.cause is ActionCause.NEW else "",
        plural=plural,
    )


def title_of(action: Action) -> str:
    """Return the title of an issue; that of a new one is made of its failure."""
    if action.issue:
        return action.issue.title
    assert action.failure
    return visible(" ".join(failure_text(action.failure, _TITLE).split()))[:_TITLE]


def _draft(action: Action, night: Night) -> Markdown:
    """Return what the night knows of a failure."""
    from triage.report.night_issue import issue_text

    return issue_text(next(each for each in night.clusters if each.signature == action.signature), night)
