"""Decide what to change in a repository's issues after a night: pure functions of the night and the issues."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from triage.issues.tracked import Marker, TrackedIssue
from triage.model.revision import Revision

_CASES = 100  # names that a marker holds; an issue is closed without a look at further ones


class ActionKind(StrEnum):
    """What is done to an issue, in the order in which it is done."""

    CLOSE = "close"
    REOPEN = "reopen"
    OPEN = "open"
    COMMENT = "comment"


class ActionCause(StrEnum):
    """Why an issue is changed."""

    NEW = "new"  # no issue has the signature
    AGAIN = "again"  # it was closed, and the failure is back
    MORE = "more"  # further cases fail in the same way
    FIXED = "fixed"  # all of its cases pass
    DUPLICATE = "duplicate"  # it has the signature of an older issue


@dataclass(frozen=True, slots=True)
class NightFailure:
    """The cases that fail with one signature. title: of its issue; is_new: a case regressed or failed differently before;
    is_expected: all cases are known failures.
    """

    signature: str
    title: str
    cases: tuple[str, ...]
    is_new: bool
    is_expected: bool = False


@dataclass(frozen=True, slots=True)
class NightResult:
    """What a night says of failures, by signature. passing: the cases that pass on its toolchain."""

    toolchain: Revision
    failures: Mapping[str, NightFailure]
    passing: frozenset[str]


@dataclass(frozen=True, slots=True)
class Action:
    """One change.

    issue: None to open one; cases: those that it is about; original: the issue that this one is a duplicate of;
    marker: the issue's from now on, None to leave it; event: identifies the comment, which is written once, empty for none.
    """

    kind: ActionKind
    cause: ActionCause
    signature: str
    title: str
    issue: TrackedIssue | None = None
    cases: tuple[str, ...] = ()
    original: int | None = None
    marker: Marker | None = None
    event: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to change. left: what the limit leaves for the next time; notes: what is left alone."""

    actions: tuple[Action, ...]
    left: tuple[Action, ...] = ()
    notes: tuple[str, ...] = ()


def plan(night: NightResult, issues: Sequence[TrackedIssue], limit: int) -> Plan:
    """Return what to change after a night, at most `limit` actions."""
    owners: dict[str, TrackedIssue] = {}
    actions = []
    for issue in sorted(issues, key=lambda issue: issue.number):
        owner = owners.setdefault(issue.marker.signature, issue)
        if owner is not issue and issue.is_open:
            closing = Action(ActionKind.CLOSE, ActionCause.DUPLICATE, issue.marker.signature, issue.title, issue)
            actions.append(replace(closing, original=owner.number, event=f"duplicate {owner.number}"))
    actions += [action for issue in owners.values() if (action := _update(night, issue))]
    new = [failure for failure in night.failures.values() if failure.is_new and failure.signature not in owners]
    actions += [_opening(failure, night.toolchain) for failure in sorted(new, key=lambda failure: -len(failure.cases))]
    actions.sort(key=lambda action: list(ActionKind).index(action.kind))
    notes = [f"#{issue.number} stays closed: {why}" for issue in owners.values() if (why := _why_closed(night, issue))]
    return Plan(tuple(actions[:limit]), tuple(actions[limit:]), tuple(notes))


def _update(night: NightResult, issue: TrackedIssue) -> Action | None:
    """Return what a night changes in the issue of a signature."""
    failure, revision, known = night.failures.get(issue.marker.signature), night.toolchain, issue.marker.cases
    if not issue.marker.reaches(revision):
        return None
    failing = failure.cases if failure else ()
    action = Action(ActionKind.COMMENT, ActionCause.MORE, issue.marker.signature, issue.title, issue, failing)
    marker = replace(issue.marker, cases=tuple(dict.fromkeys((*known, *failing)))[:_CASES], toolchain=revision)
    added = tuple(case for case in failing if case not in known)
    if failure and not issue.is_open:
        if failure.is_expected or _why_closed(night, issue):
            return None
        event = _event(ActionCause.AGAIN, revision)
        return replace(action, kind=ActionKind.REOPEN, cause=ActionCause.AGAIN, event=event, marker=marker)
    if added and len(known) < _CASES:
        return replace(action, cases=added, event=_event(ActionCause.MORE, revision, added), marker=marker)
    if not failure and issue.is_open and known and night.passing.issuperset(known):
        event = _event(ActionCause.FIXED, revision)
        return replace(action, kind=ActionKind.CLOSE, cause=ActionCause.FIXED, cases=known, event=event, marker=marker)
    return None


def _why_closed(night: NightResult, issue: TrackedIssue) -> str | None:
    """Return why a closed issue stays closed although its failure is there; None where it does not."""
    revision, closed_on = night.toolchain, (issue.closed_at or "")[:10]
    if issue.is_open or not issue.marker.reaches(revision) or issue.marker.signature not in night.failures:
        return None
    if issue.state_reason in ("not_planned", "duplicate"):
        return f"it was closed as {issue.state_reason.replace('_', ' ')}"
    closed_by_night = any(event.startswith(ActionCause.FIXED) for event in issue.events)
    if not closed_by_night and revision.date and revision.date <= closed_on:
        return f"{revision.name} is of {revision.date}, and the issue was closed on {closed_on}"
    return None


def _opening(failure: NightFailure, revision: Revision) -> Action:
    marker = Marker(failure.signature, failure.cases[:_CASES], revision)
    return Action(ActionKind.OPEN, ActionCause.NEW, failure.signature, failure.title, cases=failure.cases, marker=marker)


def _event(cause: ActionCause, revision: Revision, cases: Sequence[str] = ()) -> str:
    digest = hashlib.sha256("\n".join(cases).encode()).hexdigest()[:12] if cases else ""
    return " ".join(filter(None, (cause, revision.name, (revision.commit or "")[:10], digest)))
