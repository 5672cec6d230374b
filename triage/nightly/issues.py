"""Issues that stand for failure signatures: what they remember, what a night changes in
them, and how GitHub is asked for it. Nothing is written twice: a night whose changes
were cut short is finished by the next run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property
from typing import Any
from urllib.parse import urlsplit

from github import Auth, Github, GithubRetry
from github.Issue import Issue
from pydantic import TypeAdapter, ValidationError

from triage.bisect.result import Bisection
from triage.investigate.result import (
    CaseChangeKind,
    CaseResult,
    ClusterKey,
    FailureCluster,
)
from triage.model.errors import EnvironmentFailure
from triage.model.fields import UNPRINTED, in_json
from triage.model.outcome import PASSING, Status
from triage.model.revision import Revision
from triage.nightly.history import is_older
from triage.nightly.result import Night

PUBLIC_API = "https://api.github.com"
_LABEL = "triage"
_RETRIES = 3
_PATIENCE = 60  # seconds to wait for the end of a rate limit
_BODY = 65_000  # characters; GitHub takes 65,536
# names that a marker holds; an issue is closed without a look at further ones
_CASES = 100
_TITLE = 200  # characters; GitHub takes 256
_MARKER = re.compile(r"<!-- triage (\{.*?\}) -->")


@dataclass(frozen=True)
class FailureRange:
    """The compilers between which a failure came, as far as they are known."""

    before: Revision | None = None
    """The last one without it."""
    after: Revision | None = None
    """The first one with it that is known."""

    def overlaps(self, other: FailureRange) -> bool:
        """Return whether one change can have brought both failures."""
        return not (self._is_before(other) or other._is_before(self))

    def _is_before(self, other: FailureRange) -> bool:
        if self.after is None or other.before is None:
            return False
        return self.after.is_same(other.before) or is_older(self.after, other.before)


@dataclass(frozen=True)
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
    investigated: bool = False
    """Whether the issue says all that an investigation finds out."""

    def text(self) -> str:
        """Return the marker as an HTML comment, which GitHub does not show and no text
        in it can end.
        """
        text = json.dumps(_adapter().dump_python(self, mode="json"))
        text = text.replace("<", "\\u003c").replace(">", "\\u003e")
        return f"<!-- triage {text} -->"


@cache
def _adapter() -> TypeAdapter[Marker]:
    return TypeAdapter(Marker)


def marker_in(body: str) -> Marker | None:
    """Return the first marker in an issue's body; None when it has none, or somebody
    changed it.
    """
    match = _MARKER.search(body)
    try:
        return _adapter().validate_json(match[1]) if match else None
    except ValidationError:
        return None


def with_marker(body: str, marker: Marker) -> str:
    """Return the body of an issue with another marker."""
    return _MARKER.sub(lambda _: marker.text(), body, count=1)


@dataclass(frozen=True)
class TrackedIssue:
    """An issue with the marker of this program. `state_reason` and `closed_on` are
    those that GitHub has of a closed issue.
    """

    number: int
    title: str
    marker: Marker
    is_open: bool = True
    state_reason: str | None = None
    closed_on: str = ""

    def stays_closed(self, revision: Revision) -> bool:
        """Return whether a person settled it, or closed it after a compiler was
        made.
        """
        is_newer = not revision.date or revision.date > self.closed_on
        return self.state_reason in ("not_planned", "duplicate") or not is_newer


class ActionKind(StrEnum):
    """A kind of change. Changes are made in this order."""

    CLOSE = "close"  # all of its cases pass
    REOPEN = "reopen"  # the failure is back
    OPEN = "open"  # no issue has the signature
    COMMENT = "comment"  # further cases fail with it, or it was investigated


@dataclass(frozen=True)
class IssueChange:
    """A change of an issue."""

    action: ActionKind
    title: str
    cases: tuple[str, ...]
    """The cases that the change is about."""
    marker: Marker = field(metadata=UNPRINTED)
    """The marker to write."""
    cluster: FailureCluster | None = field(default=None, metadata=UNPRINTED)
    """The failure of the night that it is about, if there is one."""
    issue: int | None = None
    """Null where it is to be opened."""

    @in_json
    def signature(self) -> str:
        return self.marker.key.signature


@dataclass(frozen=True)
class IssueChanges:
    """The changes of a repository's issues, made or only planned."""

    repository: str
    changes: tuple[IssueChange, ...]
    left: tuple[IssueChange, ...] = ()
    """Changes that --limit leaves for the next time."""
    applied: bool = False


def plan_issues(
    night: Night, issues: Sequence[TrackedIssue], limit: int, repository: str = ""
) -> IssueChanges:
    """Return what to change after a night, at most `limit` changes."""
    unassigned = {case.case: case for case in night.cases if _is_news(case)}
    owned = {
        (issue.marker.key, name) for issue in issues for name in issue.marker.cases
    }
    changes: list[IssueChange] = []
    # open issues come first: only they take in further cases
    for issue in sorted(issues, key=lambda issue: (not issue.is_open, issue.number)):
        failing = [
            case.case
            for case in unassigned.values()
            if _is_about(issue, case, owned)
            and issue.marker.came.overlaps(_range_of(case, night))
        ]
        for name in failing:
            del unassigned[name]
        change = _update(night, failing, issue)
        if change:
            changes.append(change)
    for cluster in night.clusters:
        cases = [case for name, case in unassigned.items() if name in cluster.cases]
        if cases and cluster.failure and not cluster.fixed_in:
            title = f"{cluster.failure.failure_class}: {cluster.failure.headline}"
            changes.append(_new_issue(title, cluster, cases, night))
    changes.sort(key=lambda change: list(ActionKind).index(change.action))
    return IssueChanges(repository, tuple(changes[:limit]), tuple(changes[limit:]))


def _new_issue(
    title: str, cluster: FailureCluster, cases: Sequence[CaseResult], night: Night
) -> IssueChange:
    names = tuple(case.case for case in cases)
    bisected = min(cases, key=lambda case: not _culprit_of(case, night))
    marker = Marker(
        cluster.key,
        names[:_CASES],
        night.toolchain,
        _range_of(bisected, night),
        _is_finished(cluster),
    )
    title = " ".join(title.split())[:_TITLE]
    return IssueChange(ActionKind.OPEN, title, names, marker, cluster)


def _is_finished(cluster: FailureCluster) -> bool:
    """Return whether a later night will find out nothing more."""
    is_left = any(step.status == "left" for step in cluster.steps)
    return cluster.is_investigated and not is_left


def _is_news(case: CaseResult) -> bool:
    """Return whether a case fails and no recipe expects it. Flaky cases say nothing."""
    return case.status is Status.FAILED and case.change is not CaseChangeKind.FLAKY


def _is_about(
    issue: TrackedIssue, case: CaseResult, owned: Collection[tuple[ClusterKey, str]]
) -> bool:
    """Return whether an issue has a failing case or, if it is open, takes it in. owned:
    the cases that issues have.
    """
    key = issue.marker.key
    if case.failure is None or case.key_of(case.failure) != key:
        return False
    is_free = case.is_new_failure and (key, case.case) not in owned
    return case.case in issue.marker.cases or (issue.is_open and is_free)


def _culprit_of(case: CaseResult, night: Night) -> Bisection | None:
    for cluster in night.clusters:
        if case.case in cluster.bisected_cases:
            return cluster.culprit
    return None


def _range_of(case: CaseResult, night: Night) -> FailureRange:
    """Return between which compilers the failure of a case came."""
    culprit = _culprit_of(case, night)
    if culprit and culprit.brought_failure and culprit.after:
        return FailureRange(culprit.before, culprit.after)
    if case.change is CaseChangeKind.FAILING:
        return FailureRange(None, night.baseline)
    is_compared = case.change in (CaseChangeKind.REGRESSED, CaseChangeKind.CHANGED)
    if is_compared and not is_older(night.toolchain, night.baseline):
        return FailureRange(night.baseline, night.toolchain)
    return FailureRange(None, night.toolchain)


def _update(
    night: Night, failing: Sequence[str], issue: TrackedIssue
) -> IssueChange | None:
    """Return what a night changes in the issue of a failure, if anything. failing: the
    cases that fail with it.
    """
    marker = issue.marker
    revision = night.toolchain
    if is_older(revision, marker.toolchain):
        return None
    clusters = night.clusters
    about = (cluster for cluster in clusters if set(failing) & set(cluster.cases))
    cluster = next(about, None)
    is_finished = cluster is not None and _is_finished(cluster)
    added = [name for name in failing if name not in marker.cases]
    action = ActionKind.COMMENT
    cases = tuple(failing)
    if not issue.is_open:
        action = ActionKind.REOPEN
        is_due = bool(failing) and not issue.stays_closed(revision)
    elif not failing:
        action = ActionKind.CLOSE
        cases = marker.cases
        is_due = _passing_cases(night).issuperset(cases)
    elif added and len(marker.cases) < _CASES:
        cases = tuple(added)
        is_due = True
    else:
        is_due = is_finished and not marker.investigated
    if not is_due:
        return None
    marker = replace(
        marker,
        cases=tuple(dict.fromkeys((*marker.cases, *failing)))[:_CASES],
        toolchain=revision,
        investigated=marker.investigated or is_finished,
    )
    return IssueChange(action, issue.title, cases, marker, cluster, issue.number)


def _passing_cases(night: Night) -> set[str]:
    """Return the cases that pass. Flaky ones say nothing."""
    return {
        case.case
        for case in night.cases
        if case.status in PASSING and case.change is not CaseChangeKind.FLAKY
    }


class GitHubIssues:
    """The issues of one repository that carry a label and a marker, and that the owner
    of the token opened. Anybody can copy a marker into an issue of their own.
    """

    def __init__(
        self,
        repository: str,
        token: str | None,
        api: str = PUBLIC_API,
        pause: float = 1.0,
    ) -> None:
        """api: base URL; pause: seconds between two changes."""
        # what creates something is not repeated: the server may have done it
        retry = GithubRetry(
            total=_RETRIES,
            backoff_factor=pause,
            secondary_rate_wait=_PATIENCE,
            max_rate_limit_wait=_PATIENCE,
            retry_after_max=_PATIENCE,
            allowed_methods={"GET", "PATCH"},
        )
        self._where = f"{repository} on {urlsplit(api).hostname or api}"
        self._github = Github(
            base_url=api,
            auth=Auth.Token(token) if token else None,
            retry=retry,
            per_page=100,
            lazy=True,
            seconds_between_requests=None,
            seconds_between_writes=pause,
        )
        self._repository = self._github.get_repo(repository)
        self._has_token = token is not None
        self._issues: dict[int, Issue] = {}  # those that `read` returned, by number

    def read(self) -> list[TrackedIssue]:
        """Return all issues with label and marker that the token's owner opened;
        without a token those of all authors.
        """
        tracked = []
        with self._errors("read the issues"):
            for issue in self._repository.get_issues(state="all", labels=[_LABEL]):
                marker = marker_in(issue.body or "")
                if marker and self._login in (None, issue.user.login):
                    self._issues[issue.number] = issue
                    closed = issue.closed_at
                    known = TrackedIssue(
                        issue.number,
                        issue.title,
                        marker,
                        is_open=issue.state == "open",
                        state_reason=issue.state_reason,
                        closed_on=closed.date().isoformat() if closed else "",
                    )
                    tracked.append(known)
        return tracked

    def apply(self, change: IssueChange, text: str) -> int:
        """Make a change and return the issue's number. text: Markdown of a new issue or
        of a comment.
        """
        number = change.issue
        if number is None:
            with self._errors("open an issue"):
                body = f"{change.marker.text()}\n{text}"[:_BODY]
                create = self._repository.create_issue
                issue = create(change.title, body, labels=[_LABEL])
                if not issue.labels:  # it would be opened again each night
                    issue.edit(state="closed", state_reason="not_planned")
                    raise EnvironmentFailure("the token may not set labels")
                return int(issue.number)
        values: dict[str, Any] = {}
        if change.action is ActionKind.CLOSE:
            values = {"state": "closed", "state_reason": "completed"}
        if change.action is ActionKind.REOPEN:
            values = {"state": "open"}
        with self._errors(f"change #{number}"):
            issue = self._issues[number]
            body = with_marker(issue.body, change.marker)[:_BODY]
            # the marker first, so that a comment is never written twice
            issue.edit(body=body, **values)
            issue.create_comment(text)
        return number

    @cached_property
    def _login(self) -> str | None:
        """The login of the token's owner. Tokens of GitHub Actions can ask for it only
        through GraphQL.
        """
        if not self._has_token:
            return None
        query = "query { viewer { login } }"
        _, answer = self._github.requester.graphql_query(query, {})
        return str(answer["data"]["viewer"]["login"])

    @contextmanager
    def _errors(self, action: str) -> Iterator[None]:
        """Report what the server answers, also what PyGithub cannot read, as a failure
        of the environment.
        """
        try:
            yield
        except Exception as error:
            why = str(error)[:200] or type(error).__name__
            raise EnvironmentFailure(
                f"cannot {action} of {self._where}: {why}; check GITHUB_TOKEN"
            ) from error
