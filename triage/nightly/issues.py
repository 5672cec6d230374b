"""Issues that stand for failure signatures: what they remember, and what a night
changes in them. Pure functions.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from triage.execution.judge import is_recorded_as
from triage.investigate.result import CaseChangeKind, CaseResult, ClusterKey
from triage.model.json_form import UNPRINTED, in_json
from triage.model.outcome import FAILING, PASSING, Status
from triage.model.revision import Revision
from triage.nightly.result import Night
from triage.recipes.values import parse_version

# names that a marker holds; an issue is closed without a look at further ones
_CASES = 100
_TITLE = 200  # characters; GitHub takes 256
_MARKER = re.compile(r"<!-- triage (\{.*?\}) -->")


@dataclass(frozen=True, slots=True)
class Marker:
    """The memory of an issue, hidden in its text."""

    key: ClusterKey
    """Older versions wrote the signature only."""
    cases: tuple[str, ...]
    toolchain: Revision
    """The last one that an issue or a comment was written for."""

    def text(self) -> str:
        """Return the marker as an HTML comment, which GitHub does not show."""
        revision = self.toolchain
        values = {
            **asdict(self.key),
            "toolchain": revision.name,
            "commit": revision.commit,
            "date": revision.date,
            "cases": self.cases,
        }
        return html_comment(values)

    def is_reached_by(self, revision: Revision) -> bool:
        """Return whether a compiler is at least as new as the one of the marker."""
        known = self.toolchain
        if known.date and revision.date:
            return revision.date >= known.date
        new, old = parse_version(revision.name), parse_version(known.name)
        return new is None or old is None or new >= old


@dataclass(frozen=True, slots=True)
class TrackedIssue:
    """An issue with the marker of this program. `state_reason` and `closed_at` are
    those that GitHub has of a closed issue.
    """

    number: int
    title: str
    body: str
    marker: Marker
    is_open: bool = True
    state_reason: str | None = None
    closed_at: str | None = None
    events: frozenset[str] = frozenset()
    """The events that this program has commented on."""

    def body_with(self, marker: Marker) -> str:
        return _MARKER.sub(lambda _: marker.text(), self.body, count=1)


def html_comment(values: Mapping[str, object]) -> str:
    """Return values as an HTML comment that no text in them can end."""
    text = json.dumps(values).replace("<", "\\u003c").replace(">", "\\u003e")
    return f"<!-- triage {text} -->"


def marker_in(body: str) -> Marker | None:
    """Return the marker in an issue's body; None when it has none, or somebody changed
    it.
    """
    values = _hidden_in(body)
    cases = values.get("cases")
    texts = {key: value for key, value in values.items() if isinstance(value, str)}
    if "signature" not in texts or not isinstance(cases, list):
        return None
    toolchain = Revision(
        texts.get("toolchain", ""), texts.get("commit"), texts.get("date")
    )
    key = ClusterKey(
        texts.get("compiler", ""), texts.get("backend", ""), texts["signature"]
    )
    names = tuple(case for case in cases if isinstance(case, str))
    return Marker(key, names, toolchain)


def event_in(body: str) -> str:
    """Return the event that a comment of this program is about; empty for other
    comments.
    """
    return str(_hidden_in(body).get("event", ""))


def _hidden_in(body: str) -> Mapping[str, Any]:
    """Return the values of the first marker in a body; none if it is damaged."""
    match = _MARKER.search(body)
    try:
        values = json.loads(match[1]) if match else {}
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


class ActionKind(StrEnum):
    """A kind of change. Changes are made in this order."""

    CLOSE = "close"
    REOPEN = "reopen"
    OPEN = "open"
    COMMENT = "comment"


class ActionCause(StrEnum):
    """The reason of a change."""

    NEW = "new"  # no issue has the signature
    AGAIN = "again"  # it was closed, and the failure is back
    MORE = "more"  # further cases fail in the same way
    FIXED = "fixed"  # all of its cases pass
    DUPLICATE = "duplicate"  # it has the signature of an older issue


_REASONS = {
    ActionCause.NEW: "regressed",
    ActionCause.AGAIN: "failed again",
    ActionCause.MORE: "more",
    ActionCause.FIXED: "passed",
}


@dataclass(frozen=True, slots=True)
class IssueChange:
    """A change of an issue."""

    action: ActionKind
    cause: ActionCause
    key: ClusterKey = field(metadata=UNPRINTED)
    cases: tuple[str, ...] = ()
    """The cases that the change is about."""
    issue: int | None = None
    """Null where it is to be opened."""
    title: str = ""
    tracked: TrackedIssue | None = field(default=None, metadata=UNPRINTED)
    """The issue as it is on GitHub."""
    original: int | None = field(default=None, metadata=UNPRINTED)
    """The issue that this one is a duplicate of."""
    marker: Marker | None = field(default=None, metadata=UNPRINTED)
    """The marker to write; None to leave it."""
    event: str = field(default="", metadata=UNPRINTED)
    """Identifies the comment, so that it is written once; empty for no comment."""

    @in_json
    def signature(self) -> str:
        return self.key.signature

    @in_json
    def reason(self) -> str:
        """The reason of the change in a few words."""
        if self.cause is ActionCause.DUPLICATE:
            return f"duplicate of #{self.original}"
        noun = "case" if len(self.cases) == 1 else "cases"
        return f"{len(self.cases)} {noun} {_REASONS[self.cause]}"


@dataclass(frozen=True)
class IssueChanges:
    """The changes of a repository's issues, made or only planned."""

    repository: str
    changes: tuple[IssueChange, ...]
    left: tuple[IssueChange, ...] = ()
    """Changes that --limit leaves for the next time."""
    notes: tuple[str, ...] = ()
    """Issues that are left alone."""
    applied: bool = False


def plan_issues(
    night: Night, issues: Sequence[TrackedIssue], limit: int, repository: str = ""
) -> IssueChanges:
    """Return what to change after a night, at most `limit` changes."""
    failures = failures_of(night)
    # the oldest issue of each failure
    first: dict[ClusterKey, TrackedIssue] = {}
    changes: list[IssueChange] = []
    notes = []
    for issue in sorted(issues, key=lambda issue: issue.number):
        issue = replace(issue, marker=with_target(issue.marker, night, failures))
        key = issue.marker.key
        if key in first:
            if issue.is_open:
                changes.append(_close_duplicate(issue, first[key]))
            continue
        first[key] = issue
        reason = _why_closed(night.toolchain, failures, issue)
        change = _update(night, failures.get(key, []), issue)
        if reason:
            notes.append(f"#{issue.number} stays closed: {reason}")
        elif change:
            changes.append(change)
    for key, cases in sorted(failures.items(), key=lambda group: -len(group[1])):
        if key not in first and any(case.is_new_failure for case in cases):
            changes.append(_open_issue(key, cases, night.toolchain))
    order = list(ActionKind)
    changes.sort(key=lambda change: order.index(change.action))
    return IssueChanges(
        repository, tuple(changes[:limit]), tuple(changes[limit:]), tuple(notes)
    )


def _open_issue(
    key: ClusterKey, members: Sequence[CaseResult], toolchain: Revision
) -> IssueChange:
    names, failure = tuple(case.case for case in members), members[0].failure
    assert failure
    title = " ".join(f"{failure.failure_class}: {failure.headline}".split())
    return IssueChange(
        ActionKind.OPEN,
        ActionCause.NEW,
        key,
        names,
        title=title[:_TITLE],
        marker=Marker(key, names[:_CASES], toolchain),
    )


def _close_duplicate(issue: TrackedIssue, original: TrackedIssue) -> IssueChange:
    return replace(
        _change(ActionKind.CLOSE, ActionCause.DUPLICATE, issue, ()),
        event=f"duplicate {original.number}",
        original=original.number,
    )


def stands_for(marker: Marker, failures: Iterable[ClusterKey]) -> ClusterKey | None:
    """Return which of some failures an issue is about. A marker of an older version
    says less and may be about any failure with its signature.
    """
    known = marker.key
    for key in failures:
        is_old = not known.compiler
        if key == known or (is_old and is_recorded_as(key.signature, known.signature)):
            return key
    return None


def with_target(marker: Marker, night: Night, failures: Iterable[ClusterKey]) -> Marker:
    """Return a marker with compiler and backend. In one of an older version they are
    those of the cases that it names.
    """
    if marker.key.compiler:
        return marker
    own = marker.key
    cases = [case for case in night.cases if case.case in marker.cases]
    if cases:
        failures = [case.key_of(case.failure) for case in cases if case.failure]
        own = replace(own, compiler=cases[0].compiler, backend=cases[0].backend)
    return replace(marker, key=stands_for(marker, failures) or own)


def failures_of(night: Night) -> dict[ClusterKey, list[CaseResult]]:
    """Return the failing cases of a night by their failure. Flaky cases say nothing."""
    groups: dict[ClusterKey, list[CaseResult]] = {}
    for case in night.cases:
        is_flaky = case.change is CaseChangeKind.FLAKY
        if case.failure and case.status in FAILING and not is_flaky:
            groups.setdefault(case.key_of(case.failure), []).append(case)
    return groups


def _update(
    night: Night, members: Sequence[CaseResult], issue: TrackedIssue
) -> IssueChange | None:
    """Return what a night changes in the issue of a failure. members: the cases that
    fail with it.
    """
    revision = night.toolchain
    known = issue.marker.cases
    failing = tuple(case.case for case in members)
    if not issue.marker.is_reached_by(revision):
        return None
    added = tuple(case for case in failing if case not in known)
    passing = {
        case.case
        for case in night.cases
        if case.status in PASSING and case.change is not CaseChangeKind.FLAKY
    }
    if failing and not issue.is_open:
        if all(case.status is Status.XFAIL for case in members):
            return None
        change = _change(ActionKind.REOPEN, ActionCause.AGAIN, issue, failing)
    elif added and len(known) < _CASES:
        change = _change(ActionKind.COMMENT, ActionCause.MORE, issue, added)
    elif not failing and issue.is_open and known and passing.issuperset(known):
        change = _change(ActionKind.CLOSE, ActionCause.FIXED, issue, known)
    else:
        return None
    event = [change.cause, revision.name, (revision.commit or "")[:10]]
    if change.cause is ActionCause.MORE:
        event.append(hashlib.sha256("\n".join(added).encode()).hexdigest()[:12])
    cases = tuple(dict.fromkeys((*known, *failing)))[:_CASES]
    marker = replace(issue.marker, cases=cases, toolchain=revision)
    return replace(change, marker=marker, event=" ".join(filter(None, event)))


def _change(
    kind: ActionKind, cause: ActionCause, issue: TrackedIssue, cases: tuple[str, ...]
) -> IssueChange:
    return IssueChange(
        kind, cause, issue.marker.key, cases, issue.number, issue.title, tracked=issue
    )


def _why_closed(
    revision: Revision, failures: Mapping[ClusterKey, object], issue: TrackedIssue
) -> str | None:
    """Return why a closed issue is not opened again although its failure is back; None
    if nothing speaks against it.
    """
    closed_on = (issue.closed_at or "")[:10]
    is_back = issue.marker.key in failures and issue.marker.is_reached_by(revision)
    if issue.is_open or not is_back:
        return None
    if issue.state_reason in ("not_planned", "duplicate"):
        return f"it was closed as {issue.state_reason.replace('_', ' ')}"
    closed_by_night = any(event.startswith(ActionCause.FIXED) for event in issue.events)
    if not closed_by_night and revision.date and revision.date <= closed_on:
        return (
            f"{revision.name} is of {revision.date}, and the issue was closed on "
            f"{closed_on}"
        )
    return None
