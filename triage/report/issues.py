"""The report of `triage issues sync`, and what it writes into issues and comments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from triage.nightly.issues import Action, ActionCause
from triage.nightly.result import Night
from triage.report.elements import failure_text, plural, revision_text
from triage.report.printable import visible
from triage.report.registry import Report
from triage.report.shapes import Shape

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
class ActionShape(Shape):
    """A change. action: open, comment, reopen or close; issue: null where it is to be opened; cause: new, again, more, fixed
    or duplicate.
    """

    action: str
    cause: str
    issue: int | None
    title: str
    signature: str
    cases: list[str]


@dataclass(frozen=True)
class IssuesShape(Shape):
    """JSON of `triage issues sync`. applied: Whether the changes were made; left: those that --limit leaves for the next time;
    notes: issues that are left alone.
    """

    repository: str
    applied: bool
    changes: list[ActionShape]
    left: list[ActionShape]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class IssuesReport(Report):
    """What was changed, or would be changed. changes: with the numbers of their issues, None for one that is not opened yet."""

    repository: str
    applied: bool
    changes: tuple[tuple[Action, int | None], ...]
    left: tuple[Action, ...] = ()
    notes: tuple[str, ...] = ()

    def shape(self) -> IssuesShape:
        changes = [_action_shape(action, number) for action, number in self.changes]
        left = [_action_shape(action, action.issue.number if action.issue else None) for action in self.left]
        return IssuesShape(self.repository, self.applied, changes, left, list(self.notes))

    def blocks(self) -> Iterable[RenderableType]:
        for action, number in self.changes:
            at = f"#{number}" if number else "new"
            yield Text(f"{action.kind.value:8} {at:>6}  {title_of(action)} ({reason_text(action)})")
        yield from (Text(note, style="yellow") for note in self.notes)
        left = f", {len(self.left)} left for the next run" if self.left else ""
        hint = "" if self.applied or not self.changes else "; nothing was changed, pass --apply"
        yield Text(f"{self.repository}: {plural(len(self.changes), 'change')}{left}{hint}")


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


def reason_text(action: Action) -> str:
    """Return why an issue is changed."""
    return _REASONS[action.cause].format(cases=plural(len(action.cases), "case"), original=action.original)


def _action_shape(action: Action, number: int | None) -> ActionShape:
    return ActionShape(action.kind.value, action.cause.value, number, title_of(action), action.signature, list(action.cases))


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
