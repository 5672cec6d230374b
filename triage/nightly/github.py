"""Read and change the issues of a GitHub repository. Nothing is written twice: a night
whose changes were cut short is finished by the next run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from github import Auth, Github, GithubRetry
from github.Issue import Issue

from triage.model.errors import EnvironmentFailure
from triage.nightly.issues import (
    ActionKind,
    IssueChange,
    TrackedIssue,
    marker_in,
    with_marker,
)

PUBLIC_API = "https://api.github.com"
_LABEL = "triage"
_RETRIES = 3
_PATIENCE = 60  # seconds to wait for the end of a rate limit
_BODY = 65_000  # characters; GitHub takes 65,536


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
