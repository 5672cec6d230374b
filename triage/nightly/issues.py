"""Issues that stand for failure signatures: what they remember, and what a night changes in them. Pure functions."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, cast

from packaging.version import InvalidVersion, Version

from triage.model.outcome import FAILING, PASSING, Failure, Status
from triage.model.revision import Revision
from triage.nightly.result import CaseChangeKind, CaseResult, Night

_CASES = 100  # names that a marker holds; an issue is closed without a look at further ones
_MARKER = re.compile(r"<!-- triage (\{.*?\}) -->")


@dataclass(frozen=True, slots=True)
class Marker:
    """What an issue remembers of its failure. toolchain: the last one that an issue or a comment was written for."""

    signature: str
    cases: tuple[str, ...]
    toolchain: Revision

    def text(self) -> str:
        """Return the marker as an HTML comment, which GitHub does not show."""
        revision = self.toolchain
        return hidden(
            {
                "signature": self.signature,
                "toolchain": revision.name,
                "commit": revision.commit,
                "date": revision.date,
                "cases": self.cases,
            }
        )

    def reaches(self, revision: Revision) -> bool:
        """Return whether a compiler is at least as new as the one that the issue knows."""
        known = self.toolchain
        if known.date and revision.date:
            return revision.date >= known.date
        return not is_older(revision.name, known.name)


@dataclass(frozen=True, slots=True)
class TrackedIssue:
    """An issue with the marker of this program. state_reason, closed_at: as GitHub has them, of a closed issue; events: what
    this program has commented on.
    """

    number: int
    title: str
    body: str
    marker: Marker
    is_open: bool = True
    state_reason: str | None = None
    closed_at: str | None = None
    events: frozenset[str] = frozenset()

    def with_marker(self, marker: Marker) -> str:
        """Return the body with another marker."""
        return _MARKER.sub(lambda _: marker.text(), self.body, count=1)


def hidden(values: Mapping[str, object]) -> str:
    """Return values as an HTML comment that no text in them can end."""
    return f"<!-- triage {json.dumps(values).replace('<', chr(92) + 'u003c').replace('>', chr(92) + 'u003e')} -->"


def marker_in(body: str) -> Marker | None:
    """Return the marker in an issue's body; None when it has none, or somebody changed it."""
    values = _hidden_in(body)
    signature, cases = values.get("signature"), values.get("cases")
    if not isinstance(signature, str) or not isinstance(cases, list):
        return None
    name, commit, date = (
        value if isinstance(value := values.get(key), str) else None for key in ("toolchain", "commit", "date")
    )
    return Marker(signature, tuple(case for case in cases if isinstance(case, str)), Revision(name or "", commit, date))


def is_older(name: str, other: str) -> bool:
    """Return whether both names are versions and the first is older."""
    try:
        return Version(name) < Version(other)
    except InvalidVersion:
        return False


def event_in(body: str) -> str | None:
    """Return the event that a comment of this program is about."""
    event = _hidden_in(body).get("event")
    return event if isinstance(event, str) else None


def _hidden_in(body: str) -> Mapping[str, Any]:
    match = _MARKER.search(body)
    try:
        values = json.loads(match[1]) if match else {}
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


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
    """The cases that fail with one signature in a night. is_new: a case regressed or failed differently before; is_expected:
    all cases are known failures.
    """

    failure: Failure
    cases: tuple[str, ...]
    is_new: bool
    is_expected: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """One change.

    issue: None to open one; cases: those that it is about; original: the issue that this one is a duplicate of;
    marker: the issue's from now on, None to leave it; event: identifies the comment, which is written once, empty for none.
    """

    kind: ActionKind
    cause: ActionCause
    signature: str
    failure: Failure | None = None
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


def plan(night: Night, issues: Sequence[TrackedIssue], limit: int) -> Plan:
    """Return what to change after a night, at most `limit` actions."""
    failures, passing = failures_of(night), _passing(night)
    owners: dict[str, TrackedIssue] = {}
    actions = []
    for issue in sorted(issues, key=lambda issue: issue.number):
        owner = owners.setdefault(issue.marker.signature, issue)
        if owner is not issue and issue.is_open:
            closing = Action(ActionKind.CLOSE, ActionCause.DUPLICATE, issue.marker.signature, issue=issue)
            actions.append(replace(closing, original=owner.number, event=f"duplicate {owner.number}"))
    actions += [action for issue in owners.values() if (action := _update(night.toolchain, failures, passing, issue))]
    new = [failure for signature, failure in failures.items() if failure.is_new and signature not in owners]
    actions += [_opening(failure, night.toolchain) for failure in sorted(new, key=lambda failure: -len(failure.cases))]
    actions.sort(key=lambda action: list(ActionKind).index(action.kind))
    notes = [
        f"#{issue.number} stays closed: {why}"
        for issue in owners.values()
        if (why := _why_closed(night.toolchain, failures, issue))
    ]
    return Plan(tuple(actions[:limit]), tuple(actions[limit:]), tuple(notes))


def failures_of(night: Night) -> dict[str, NightFailure]:
    """Return the failures of a night by signature. Flaky cases say nothing."""
    groups: dict[str, list[CaseResult]] = {}
    for case in night.cases:
        if case.failure and case.status in FAILING and case.change is not CaseChangeKind.FLAKY:
            groups.setdefault(case.failure.signature, []).append(case)
    return {
        signature: NightFailure(
            cast(Failure, members[0].failure),
            cases=tuple(case.case for case in members),
            is_new=any(case.counts for case in members),
            is_expected=all(case.status is Status.XFAIL for case in members),
        )
        for signature, members in groups.items()
    }


def _passing(night: Night) -> frozenset[str]:
    steady = (case for case in night.cases if case.change is not CaseChangeKind.FLAKY)
    return frozenset(case.case for case in steady if case.status in PASSING)


def _update(
    revision: Revision, failures: Mapping[str, NightFailure], passing: Collection[str], issue: TrackedIssue
) -> Action | None:
    """Return what a night changes in the issue of a signature."""
    failure, known = failures.get(issue.marker.signature), issue.marker.cases
    if not issue.marker.reaches(revision):
        return None
    failing = failure.cases if failure else ()
    action = Action(ActionKind.COMMENT, ActionCause.MORE, issue.marker.signature, None, issue, failing)
    marker = replace(issue.marker, cases=tuple(dict.fromkeys((*known, *failing)))[:_CASES], toolchain=revision)
    added = tuple(case for case in failing if case not in known)
    if failure and not issue.is_open:
        if failure.is_expected or _why_closed(revision, failures, issue):
            return None
        event = _event(ActionCause.AGAIN, revision)
        return replace(action, kind=ActionKind.REOPEN, cause=ActionCause.AGAIN, event=event, marker=marker)
    if added and len(known) < _CASES:
        return replace(action, cases=added, event=_event(ActionCause.MORE, revision, added), marker=marker)
    if not failure and issue.is_open and known and set(known) <= set(passing):
        event = _event(ActionCause.FIXED, revision)
        return replace(action, kind=ActionKind.CLOSE, cause=ActionCause.FIXED, cases=known, event=event, marker=marker)
    return None


def _why_closed(revision: Revision, failures: Mapping[str, NightFailure], issue: TrackedIssue) -> str | None:
    """Return why a closed issue stays closed although its failure is there; None where it does not."""
    closed_on = (issue.closed_at or "")[:10]
    if issue.is_open or not issue.marker.reaches(revision) or issue.marker.signature not in failures:
        return None
    if issue.state_reason in ("not_planned", "duplicate"):
        return f"it was closed as {issue.state_reason.replace('_', ' ')}"
    closed_by_night = any(event.startswith(ActionCause.FIXED) for event in issue.events)
    if not closed_by_night and revision.date and revision.date <= closed_on:
        return f"{revision.name} is of {revision.date}, and the issue was closed on {closed_on}"
    return None


def _opening(failure: NightFailure, revision: Revision) -> Action:
    signature = failure.failure.signature
    marker = Marker(signature, failure.cases[:_CASES], revision)
    return Action(ActionKind.OPEN, ActionCause.NEW, signature, failure.failure, cases=failure.cases, marker=marker)


def _event(cause: ActionCause, revision: Revision, cases: Sequence[str] = ()) -> str:
    digest = hashlib.sha256("\n".join(cases).encode()).hexdigest()[:12] if cases else ""
    return " ".join(filter(None, (cause, revision.name, (revision.commit or "")[:10], digest)))
