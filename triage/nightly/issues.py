"""Issues that stand for failure signatures: what they remember, and what a night
changes in them. Pure functions.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from triage.bisect.result import BisectKind
from triage.investigate.result import (
    CaseChangeKind,
    CaseResult,
    ClusterKey,
    FailureCluster,
)
from triage.model.json_form import UNPRINTED, in_json
from triage.model.outcome import PASSING, Status
from triage.model.revision import Revision
from triage.nightly.history import is_older
from triage.nightly.result import Night

# names that a marker holds; an issue is closed without a look at further ones
_CASES = 100
_TITLE = 200  # characters; GitHub takes 256
_MARKER = re.compile(r"<!-- triage (\{.*?\}) -->")


@dataclass(frozen=True, slots=True)
class FailureRange:
    """The compilers between which a failure came, as far as they are known."""

    before: Revision | None = None
    """The last one without it."""
    after: Revision | None = None
    """The first one with it that is known."""

    def may_be(self, other: FailureRange) -> bool:
        """Return whether one change can have brought both failures."""
        return not (self._is_before(other) or other._is_before(self))

    def _is_before(self, other: FailureRange) -> bool:
        if self.after is None or other.before is None:
            return False
        is_same = self.after.is_same(other.before)
        return is_same or is_older(self.after, other.before)


@dataclass(frozen=True, slots=True)
class Marker:
    """The memory of an issue, hidden in its text."""

    key: ClusterKey
    cases: tuple[str, ...]
    toolchain: Revision
    """The last one that an issue or a comment was written for."""
    came: FailureRange = FailureRange()
    """As it was known when the issue was opened. A failure with another range is
    another one, and has another issue.
    """

    def text(self) -> str:
        """Return the marker as an HTML comment, which GitHub does not show."""
        return html_comment(_marker().dump_python(self, mode="json"))

    def is_reached_by(self, revision: Revision) -> bool:
        """Return whether a compiler is at least as new as the one of the marker."""
        return not is_older(revision, self.toolchain)


@cache
def _marker() -> TypeAdapter[Marker]:
    return TypeAdapter(Marker)


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
    try:
        return _marker().validate_python(_hidden_in(body))
    except ValidationError:
        return None


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
    cluster: str = field(default="", metadata=UNPRINTED)
    """The id of the cluster of the night that it is about, if there is one."""
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
    left = {case.case: case for cases in failures.values() for case in cases}
    changes: list[IssueChange] = []
    notes = []
    oldest: list[TrackedIssue] = []
    for issue in sorted(issues, key=lambda issue: issue.number):
        original = next((one for one in oldest if _is_duplicate(issue, one)), None)
        if original:
            if issue.is_open:
                changes.append(_close_duplicate(issue, original))
            continue
        oldest.append(issue)
    # an issue has its own cases before another one takes them for further ones
    oldest.sort(key=lambda issue: (not issue.is_open, issue.number))
    members: dict[int, list[CaseResult]] = {issue.number: [] for issue in oldest}
    for has_case in (True, False):
        for issue in oldest:
            for case in failures.get(issue.marker.key, []):
                if case.case in left and _is_about(issue, case, night, has_case):
                    members[issue.number].append(left.pop(case.case))
    for issue in sorted(oldest, key=lambda issue: issue.number):
        failing = members[issue.number]
        reason = _why_closed(night.toolchain, failing, issue)
        change = _update(night, failing, issue)
        if reason:
            notes.append(f"#{issue.number} stays closed: {reason}")
        elif change:
            changes.append(change)
    for cluster in sorted(night.clusters, key=lambda cluster: -len(cluster.cases)):
        cases = [left[name] for name in cluster.cases if name in left]
        if any(case.is_new_failure for case in cases) and not cluster.fixed_in:
            changes.append(_open_issue(cluster, cases, night))
    order = list(ActionKind)
    changes.sort(key=lambda change: (order.index(change.action), change.issue or 0))
    return IssueChanges(
        repository, tuple(changes[:limit]), tuple(changes[limit:]), tuple(notes)
    )


def _is_about(
    issue: TrackedIssue, case: CaseResult, night: Night, has_case: bool
) -> bool:
    """Return whether a failing case has the failure of an issue. Only an open issue
    takes in further cases.
    """
    is_own = case.case in issue.marker.cases
    if has_case != is_own or not (is_own or issue.is_open):
        return False
    return issue.marker.came.may_be(_range_of(case, night))


def _range_of(case: CaseResult, night: Night) -> FailureRange:
    """Return between which compilers the failure of a case came."""
    for bisection in case.bisections:
        is_regression = bisection.kind is BisectKind.REGRESSION
        if is_regression and bisection.after:
            return FailureRange(bisection.before, bisection.after)
    is_backwards = is_older(night.toolchain, night.baseline)
    is_compared = case.change in (CaseChangeKind.REGRESSED, CaseChangeKind.CHANGED)
    if is_compared and not is_backwards:
        return FailureRange(night.baseline, night.toolchain)
    if case.change is CaseChangeKind.FAILING:
        return FailureRange(None, night.baseline)
    return FailureRange(None, night.toolchain)


def _open_issue(
    cluster: FailureCluster, members: Sequence[CaseResult], night: Night
) -> IssueChange:
    names, failure = tuple(case.case for case in members), members[0].failure
    assert failure
    title = " ".join(f"{failure.failure_class}: {failure.headline}".split())
    came = _range_of(members[0], night)
    return IssueChange(
        ActionKind.OPEN,
        ActionCause.NEW,
        cluster.key,
        names,
        cluster.id,
        title=title[:_TITLE],
        marker=Marker(cluster.key, names[:_CASES], night.toolchain, came),
    )


def _is_duplicate(issue: TrackedIssue, original: TrackedIssue) -> bool:
    """Return whether two runs opened an issue for one failure at the same time."""
    own, other = issue.marker, original.marker
    is_same = own.key == other.key and own.came.may_be(other.came)
    return is_same and not set(own.cases).isdisjoint(other.cases)


def _close_duplicate(issue: TrackedIssue, original: TrackedIssue) -> IssueChange:
    return replace(
        _change(ActionKind.CLOSE, ActionCause.DUPLICATE, issue, ()),
        event=f"duplicate {original.number}",
        original=original.number,
    )


def failures_of(night: Night) -> dict[ClusterKey, list[CaseResult]]:
    """Return the failing cases of a night by their failure. Flaky cases say nothing,
    and a failure that a recipe expects is not news.
    """
    groups: dict[ClusterKey, list[CaseResult]] = {}
    for case in night.cases:
        is_flaky = case.change is CaseChangeKind.FLAKY
        if case.failure and case.status is Status.FAILED and not is_flaky:
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
    about = [
        each.id for each in night.clusters if not set(failing).isdisjoint(each.cases)
    ]
    return replace(
        change,
        marker=marker,
        event=" ".join(filter(None, event)),
        cluster=next(iter(about), ""),
    )


def _change(
    kind: ActionKind, cause: ActionCause, issue: TrackedIssue, cases: tuple[str, ...]
) -> IssueChange:
    return IssueChange(
        kind,
        cause,
        issue.marker.key,
        cases,
        issue=issue.number,
        title=issue.title,
        tracked=issue,
    )


def _why_closed(
    revision: Revision, failing: Sequence[CaseResult], issue: TrackedIssue
) -> str | None:
    """Return why a closed issue is not opened again although its failure is back; None
    if nothing speaks against it.
    """
    closed_on = (issue.closed_at or "")[:10]
    is_back = failing and issue.marker.is_reached_by(revision)
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
