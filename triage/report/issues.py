"""The report of `triage issues sync`, and what it writes into issues and comments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from triage.issues.plan import Action, ActionCause, NightFailure, NightResult
from triage.model.outcome import FAILING, PASSING, Status
from triage.nightly.compare import CaseChangeKind
from triage.report.elements import failure_text, plural, revision_text
from triage.report.night_record import CaseRecord, NightRecord, failure_of
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
            yield Text(f"{action.kind.value:8} {at:>6}  {action.title} ({reason_text(action)})")
        yield from (Text(note, style="yellow") for note in self.notes)
        left = f", {len(self.left)} left for the next run" if self.left else ""
        hint = "" if self.applied or not self.changes else "; nothing was changed, pass --apply"
        yield Text(f"{self.repository}: {plural(len(self.changes), 'change')}{left}{hint}")


def result_of(night: NightRecord) -> NightResult:
    """Return what a night says of failures. Flaky cases say nothing."""
    cases = [case for case in night.cases if case.change != CaseChangeKind.FLAKY]
    groups: dict[str, list[CaseRecord]] = {}
    for case in cases:
        if case.failure and case.status in FAILING:
            groups.setdefault(case.failure.signature, []).append(case)
    failures = {
        signature: NightFailure(
            signature,
            title=_title(members[0]),
            cases=tuple(case.case for case in members),
            is_new=any(case.counts for case in members),
            is_expected=all(case.status == Status.XFAIL for case in members),
        )
        for signature, members in groups.items()
    }
    passing = frozenset(case.case for case in cases if case.status in PASSING)
    return NightResult(night.toolchain, failures, passing)


def issue_text(action: Action, night: NightRecord, folder: Path) -> Markdown | None:
    """Return the Markdown of a new issue or of a comment; None where a change needs none. folder: that of the report."""
    from triage.report.markdown import render_markdown

    if action.cause is not ActionCause.NEW and not action.event:
        return None
    return render_markdown(
        "issues.md.j2",
        cause=action.cause.value,
        cases=action.cases,
        original=action.original,
        toolchain=revision_text(night.toolchain),
        draft=_draft(action, night, folder) if action.cause is ActionCause.NEW else "",
        plural=plural,
    )


def reason_text(action: Action) -> str:
    """Return why an issue is changed."""
    return _REASONS[action.cause].format(cases=plural(len(action.cases), "case"), original=action.original)


def _action_shape(action: Action, number: int | None) -> ActionShape:
    return ActionShape(action.kind.value, action.cause.value, number, action.title, action.signature, list(action.cases))


def _title(case: CaseRecord) -> str:
    assert case.failure
    return visible(" ".join(failure_text(failure_of(case.failure), _TITLE).split()))[:_TITLE]


def _draft(action: Action, night: NightRecord, folder: Path) -> Markdown:
    """Return the issue that an investigation wrote, or else what the night knows of the failure."""
    from triage.report.markdown import Markdown
    from triage.report.night_issue import issue_text as text_of

    cluster = next(each for each in night.clusters if each.signature == action.signature)
    files = [Path(cluster.issue), folder / "issues" / Path(cluster.issue).name] if cluster.issue else []
    file = next((file for file in files if file.is_file()), None)
    if file:
        return Markdown(file.read_text("utf-8", "replace"))
    is_changed = all(case.change == CaseChangeKind.CHANGED for case in night.cases if case.case in cluster.cases)
    return Markdown(text_of(cluster, night.baseline, night.toolchain, fails_before=is_changed))
