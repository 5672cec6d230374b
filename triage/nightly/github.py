"""Read and change the issues of a GitHub repository, so that nothing is written twice
whatever the server answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from github import Auth, Github, GithubException, GithubRetry
from github.GithubException import BadAttributeException
from github.Issue import Issue
from requests import RequestException
from urllib3.exceptions import HTTPError

from triage.model.errors import EnvironmentFailure
from triage.nightly.issues import (
    ActionCause,
    ActionKind,
    IssueChange,
    Marker,
    TrackedIssue,
    event_in,
    html_comment,
    marker_in,
)

PUBLIC_API = "https://api.github.com"
_RETRIES = 5
# seconds; a rate limit that lasts longer is reported instead of waited for
_PATIENCE = 90
_ATTEMPTS = 3  # to open an issue or to write a comment
_BODY = 65_000  # characters; GitHub takes 65,536
_LIMITS = (403, 429)
_HINTS = {
    401: "; check GITHUB_TOKEN",
    403: "; check what GITHUB_TOKEN may do",
    404: "; does GITHUB_TOKEN see it?",
}
# what PyGithub raises for answers that it cannot read
_UNREADABLE = (
    BadAttributeException,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    RuntimeError,
)


class _Retry(GithubRetry):
    """Try again after rate limits that end soon. What creates something is not repeated
    after other errors, because the server may have done it.
    """

    def is_retry(
        self, method: str, status_code: int, has_retry_after: bool = False
    ) -> bool:
        if method == "POST":
            return status_code in _LIMITS
        return super().is_retry(method, status_code, has_retry_after)

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: Any = None,
        *args: Any,
        **more: Any,
    ) -> Any:
        wait = self.get_retry_after(response) if response else None
        if wait and wait > _PATIENCE:
            raise GithubException(
                response.status, {"message": f"rate limit exceeded for {wait:.0f} s"}
            )
        return super().increment(method, url, response, *args, **more)


class GitHubIssues:
    """The issues of one repository that carry a label and a marker, and that the owner
    of the token wrote.

    Anybody can copy a marker into an issue or a comment of their own, so only texts by
    the token's own login count.
    """

    def __init__(
        self,
        repository: str,
        label: str,
        token: str | None,
        api: str = PUBLIC_API,
        pause: float = 1.0,
    ) -> None:
        """api: base URL; pause: seconds between two changes, and before a look whether
        a failed one was made.
        """
        retry = _Retry(
            total=_RETRIES,
            backoff_factor=pause,
            max_rate_limit_wait=_PATIENCE,
            allowed_methods={"GET", "PATCH"},
        )
        self._host = urlsplit(api).hostname or api
        self._label = label
        self._pause = pause
        self._repository_name = repository
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

    def read(
        self, needs_comments: Callable[[TrackedIssue], bool]
    ) -> list[TrackedIssue]:
        """Return all issues with label and marker that the token's owner wrote; without
        a token those of all authors.

        needs_comments: the issues whose comments are read, too.
        """
        with self._errors("read the issues"):
            tracked = []
            for issue in self._repository.get_issues(state="all", labels=[self._label]):
                is_pull_request = "/pull/" in issue.html_url
                # an issue is on two pages where another one was opened meanwhile
                if is_pull_request or issue.number in self._issues:
                    continue
                marker = marker_in(issue.body or "")
                if marker is None or not self._is_ours(issue):
                    continue
                self._issues[issue.number] = issue
                found = _tracked(issue, marker)
                if issue.comments and needs_comments(found):
                    found = replace(found, events=self._events(issue))
                tracked.append(found)
            return tracked

    def apply(self, change: IssueChange, text: str | None) -> int:
        """Make a change and return the issue's number. text: Markdown of a new issue or
        of a comment; None for none.
        """
        if change.tracked is None:
            return self._open(change, text or "")
        number = change.tracked.number
        with self._errors(f"change #{number}"):
            issue = self._issues[number]
            if text is not None and change.event not in change.tracked.events:
                body = f"{html_comment({'event': change.event})}\n{text}"
                self._write_once(
                    lambda: issue.create_comment(body),
                    lambda: change.event in self._events(issue),
                )
            values: dict[str, Any] = {}
            if change.action is ActionKind.CLOSE:
                is_fixed = change.cause is ActionCause.FIXED
                reason = "completed" if is_fixed else "not_planned"
                values = {"state": "closed", "state_reason": reason}
            if change.action is ActionKind.REOPEN:
                values = {"state": "open"}
            if change.marker:
                values["body"] = change.tracked.body_with(change.marker)[:_BODY]
            if values:
                issue.edit(**values)
        return number

    def _open(self, change: IssueChange, text: str) -> int:
        assert change.marker
        hidden = change.marker.text()
        body = f"{hidden}\n{text}"[:_BODY]
        with self._errors("open an issue"):
            issue = self._write_once(
                lambda: self._repository.create_issue(
                    change.title, body, labels=[self._label]
                ),
                lambda: self._newest_with(hidden),
            )
            labels = {label.name.lower() for label in issue.labels}
            if self._label.lower() not in labels:
                issue.edit(state="closed", state_reason="not_planned")
                raise EnvironmentFailure(
                    f"the token may not set labels in {self._repository_name}, and an "
                    f"issue without {self._label!r} would be "
                    f"opened again each night; #{issue.number} is closed. Pass a "
                    "token that may set labels"
                )
        return int(issue.number)

    def _newest_with(self, hidden: str) -> Issue | None:
        """Return the issue with a marker, if it is among the newest ones."""
        newest = self._repository.get_issues(
            state="all", labels=[self._label], sort="created", direction="desc"
        )
        for issue in newest.get_page(0):
            if hidden in (issue.body or "") and self._is_ours(issue):
                return issue
        return None

    def _write_once(self, write: Callable[[], Any], existing: Callable[[], Any]) -> Any:
        """Write something that must not be there twice. After an error, look first
        whether it is there.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return write()
            except (GithubException, RequestException) as error:
                refused = isinstance(error, GithubException) and error.status < 500
                if refused or attempt == _ATTEMPTS:
                    raise
            time.sleep(self._pause)
            written = existing()
            if written:
                return written
        raise AssertionError

    @cached_property
    def _login(self) -> str | None:
        """The login of the token's owner. Tokens of GitHub Actions can ask for it only
        through GraphQL.
        """
        if not self._has_token:
            return None
        _, answer = self._github.requester.graphql_query(
            "query { viewer { login } }", {}
        )
        return str(answer["data"]["viewer"]["login"]).lower()

    def _is_ours(self, written: Any) -> bool:
        return self._login is None or (
            written.user is not None and str(written.user.login).lower() == self._login
        )

    def _events(self, issue: Issue) -> frozenset[str]:
        return frozenset(
            event_in(comment.body or "")
            for comment in issue.get_comments()
            if self._is_ours(comment)
        )

    @contextmanager
    def _errors(self, action: str) -> Iterator[None]:
        """Report what the server answers as a failure of the environment."""
        subject = f"cannot {action} of {self._repository_name} on {self._host}"
        try:
            yield
        except GithubException as error:
            text = str(error.status)
            if isinstance(error.data, dict) and error.data.get("message"):
                text += f" {str(error.data['message'])[:200]}"
            text += _HINTS.get(error.status, "")
            raise EnvironmentFailure(f"{subject}: {text}") from error
        except (RequestException, HTTPError, *_UNREADABLE) as error:
            why = str(error)[:200] or type(error).__name__
            raise EnvironmentFailure(f"{subject}: {why}") from error


def _tracked(issue: Issue, marker: Marker) -> TrackedIssue:
    return TrackedIssue(
        number=issue.number,
        title=issue.title,
        body=issue.body or "",
        marker=marker,
        is_open=issue.state == "open",
        state_reason=issue.state_reason,
        closed_at=issue.closed_at.date().isoformat() if issue.closed_at else None,
    )
