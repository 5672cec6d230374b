"""Decide what to change in a repository's issues after a night: pure functions of the night and the issues."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from triage.issues.tracked import Marker, TrackedIssue, is_older
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
    UNFIXED = "unfixed"  # it fails with a compiler that should have the fix
    FIXED = "fixed"  # all of its cases pass
    INVALID = "invalid"  # a collaborator says that it is no bug
    DUPLICATE = "duplicate"  # a collaborator says so, or it has the signature of an older issue


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
    """What to change. left: what the limit leaves for the next time; notes: what is left alone, and commands that are not
    understood.
    """

    actions: tuple[Action, ...]
    left: tuple[Action, ...] = ()
    notes: tuple[str, ...] = ()


def plan(night: NightResult, issues: Sequence[TrackedIssue], limit: int) -> Plan:
    """Return what to change after a night, at most `limit` actions."""
    register = _Register.of(issues)
    owners = register.owners()
    actions = [*_closed_by_people(register), *(action for issue in owners for action in _updates(night, register, issue))]
    new = [failure for failure in night.failures.values() if failure.is_new and failure.signature not in register.owner_of]
    actions += [_opening(failure, night.toolchain) for failure in sorted(new, key=lambda failure: -len(failure.cases))]
    actions.sort(key=lambda action: list(ActionKind).index(action.kind))
    notes = [f"#{issue.number}: not understood: {text}" for issue in issues for text in issue.standing.problems]
    notes += [f"#{issue.number} stays closed: {why}" for issue in owners if (why := _why_closed(night, register, issue))]
    return Plan(tuple(actions[:limit]), tuple(actions[limit:]), tuple(notes))


@dataclass(frozen=True, slots=True)
class _Register:
    """All issues by number, and for each signature the issue that answers for it: the oldest, or the one that this is a
    duplicate of; None where that is not tracked.
    """

    issues: Mapping[int, TrackedIssue]
    owner_of: Mapping[str, TrackedIssue | None]

    @classmethod
    def of(cls, issues: Sequence[TrackedIssue]) -> _Register:
        by_number = {issue.number: issue for issue in sorted(issues, key=lambda issue: issue.number)}
        owner_of: dict[str, TrackedIssue | None] = {}
        for issue in by_number.values():
            owner_of.setdefault(issue.marker.signature, _original(issue, by_number))
        return cls(by_number, owner_of)

    def owners(self) -> list[TrackedIssue]:
        """Return the issues that answer for a signature, but those that are no bug."""
        numbers = {owner.number for owner in self.owner_of.values() if owner and not owner.standing.is_invalid}
        return [self.issues[number] for number in sorted(numbers)]

    def failures(self, issue: TrackedIssue, night: NightResult) -> list[NightFailure]:
        """Return the failures of a night that an issue answers for."""
        owned = {signature for signature, owner in self.owner_of.items() if owner and owner.number == issue.number}
        return [failure for signature, failure in night.failures.items() if signature in owned]


def _original(issue: TrackedIssue, by_number: Mapping[int, TrackedIssue]) -> TrackedIssue | None:
    """Follow `#triage dup`. None where it leads to an issue that is not tracked; the oldest of issues that form a circle."""
    visited: list[int] = []
    while (target := issue.standing.duplicate_of) is not None:
        if issue.number in visited:
            return by_number[min(visited[visited.index(issue.number) :])]
        if target not in by_number:
            return None
        visited.append(issue.number)
        issue = by_number[target]
    return issue


def _closed_by_people(register: _Register) -> Iterator[Action]:
    """Close open issues that a collaborator calls invalid or a duplicate, and those that were opened twice."""
    owners = {owner.number for owner in register.owner_of.values() if owner}
    for issue in register.issues.values():
        closing = Action(ActionKind.CLOSE, ActionCause.DUPLICATE, issue.marker.signature, issue.title, issue)
        owner = register.owner_of[issue.marker.signature]
        if not issue.is_open:
            continue
        if issue.standing.is_invalid:
            yield replace(closing, cause=ActionCause.INVALID)
        elif issue.number not in owners and issue.standing.duplicate_of is not None:
            yield replace(closing, original=issue.standing.duplicate_of)
        elif issue.number not in owners and owner:
            yield replace(closing, original=owner.number, event=f"duplicate {owner.number}")


def _updates(night: NightResult, register: _Register, issue: TrackedIssue) -> Iterator[Action]:
    """Return what a night changes in an issue that answers for one or more signatures."""
    failures = register.failures(issue, night)
    failing = tuple(dict.fromkeys(case for failure in failures for case in failure.cases))
    revision, fix, known = night.toolchain, issue.standing.fix, issue.marker.cases
    if not issue.marker.reaches(revision):
        return
    action = Action(ActionKind.COMMENT, ActionCause.MORE, issue.marker.signature, issue.title, issue, failing)
    marker = replace(issue.marker, cases=tuple(dict.fromkeys((*known, *failing)))[:_CASES], toolchain=revision)
    added = tuple(case for case in failing if case not in known)
    if failing and not issue.is_open:
        if not all(failure.is_expected for failure in failures) and not _why_closed(night, register, issue):
            event = _event(ActionCause.AGAIN, revision)
            yield replace(action, kind=ActionKind.REOPEN, cause=ActionCause.AGAIN, event=event, marker=marker)
    elif added and len(known) < _CASES:
        yield replace(action, cases=added, event=_event(ActionCause.MORE, revision, added), marker=marker)
    elif failing and fix and _contains(revision, fix) and (event := f"{ActionCause.UNFIXED} {fix}") not in issue.events:
        yield replace(action, cause=ActionCause.UNFIXED, event=event)
    elif not failing and issue.is_open and known and night.passing.issuperset(known):
        event = _event(ActionCause.FIXED, revision)
        yield replace(action, kind=ActionKind.CLOSE, cause=ActionCause.FIXED, cases=known, event=event, marker=marker)


def _why_closed(night: NightResult, register: _Register, issue: TrackedIssue) -> str | None:
    """Return why a closed issue stays closed although its failure is there; None where it does not."""
    revision, fix, closed_on = night.toolchain, issue.standing.fix, (issue.closed_at or "")[:10]
    if issue.is_open or not issue.marker.reaches(revision) or not register.failures(issue, night):
        return None
    if issue.state_reason in ("not_planned", "duplicate"):
        return f"it was closed as {issue.state_reason.replace('_', ' ')}"
    if fix and is_older(revision.name, fix):
        return f"{revision.name} is older than the fix, {fix}"
    closed_by_night = any(event.startswith(ActionCause.FIXED) for event in issue.events)
    if not closed_by_night and revision.date and revision.date <= closed_on:
        return f"{revision.name} is of {revision.date}, and the issue was closed on {closed_on}"
    return None


def _opening(failure: NightFailure, revision: Revision) -> Action:
    marker = Marker(failure.signature, failure.cases[:_CASES], revision)
    return Action(ActionKind.OPEN, ActionCause.NEW, failure.signature, failure.title, cases=failure.cases, marker=marker)


def _contains(revision: Revision, fix: str) -> bool:
    """Return whether a compiler should contain a fix: it is that version or a newer one, or that commit."""
    is_commit = revision.commit is not None and len(fix) >= 7 and revision.commit.startswith(fix)
    return is_commit or revision.name == fix or is_older(fix, revision.name)


def _event(cause: ActionCause, revision: Revision, cases: Sequence[str] = ()) -> str:
    digest = hashlib.sha256("\n".join(cases).encode()).hexdigest()[:12] if cases else ""
    return " ".join(filter(None, (cause, revision.name, (revision.commit or "")[:10], digest)))
