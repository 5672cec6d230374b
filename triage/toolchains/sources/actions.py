"""GitHub Actions through the REST API: the runs of a workflow and what they left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from triage.model.errors import BadInput, EnvironmentFailure
from triage.toolchains.sources.port import Unobtainable, Workplace
from triage.toolchains.sources.web import Sign, Web

if TYPE_CHECKING:
    import requests

PUBLIC = "https://api.github.com"
_JSON = "application/vnd.github+json"
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_PAGE = 100
_CAP = 1000  # of a search by date the API shows no more results than these


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the workflow: `status` queued, in_progress, completed, …; `conclusion` success, failure, …, None before
    its end. `attempt` counts how often it was started.
    """

    id: int
    sha: str
    status: str
    conclusion: str | None
    attempt: int


@dataclass(frozen=True, slots=True)
class Artifact:
    """`size` in bytes of the zip archive; `expires` ISO, None where it is not told."""

    id: int
    name: str
    size: int
    expired: bool
    expires: str | None


class Actions:
    """One repository's workflows. `api`: the base of the REST API; None for GITHUB_API_URL, else the public one."""

    def __init__(self, place: Workplace, slug: str, api: str | None = None) -> None:
        self.slug = slug
        self.api = (api or os.environ.get("GITHUB_API_URL") or PUBLIC).rstrip("/")
        self._token = token_for(self.api, os.environ)
        self._web = Web(place, _bearer(self._token) if self._token else None)

    def runs(self, workflow: str, since: datetime, until: datetime, branch: str | None = None) -> Iterator[Run]:
        """The runs created between two times, the newest first. EnvironmentFailure when they cannot be listed."""
        span = f"{since.astimezone(UTC):{_TIME}}..{until.astimezone(UTC):{_TIME}}"
        asked: Mapping[str, str] = {"created": span, "branch": branch} if branch else {"created": span}
        path = f"actions/workflows/{quote(workflow, safe='')}/runs"
        first = self._page(path, asked, 1)
        total = int(first.get("total_count", 0))
        if total > _CAP and until - since > timedelta(minutes=1):
            middle = since + (until - since) / 2
            yield from self.runs(workflow, middle, until, branch)
            yield from self.runs(workflow, since, middle - timedelta(seconds=1), branch)
            return
        page, number = first, 1
        while entries := page.get("workflow_runs"):
            for entry in entries:
                yield Run(int(entry["id"]), entry["head_sha"], entry["status"], entry.get("conclusion"), entry["created_at"])
            if number * _PAGE >= total:
                return
            number += 1
            page = self._page(path, asked, number)

    def artifacts(self, run: int, name: str) -> list[Artifact]:
        """What a run left behind under one name."""
        found: list[Artifact] = []
        number = 1
        while True:
            page = self._page(f"actions/runs/{run}/artifacts", {"name": name}, number)
            for entry in page.get("artifacts", ()):
                if entry["name"] == name:  # a server too old for the filter sends all
                    size = int(entry.get("size_in_bytes", 0))
                    found.append(Artifact(int(entry["id"]), name, size, bool(entry["expired"]), entry.get("expires_at")))
            if number * _PAGE >= int(page.get("total_count", 0)) or not page.get("artifacts"):
                return found
            number += 1

    def download(self, artifact: int, target: Path, what: str) -> None:
        """Fetch an artifact's zip archive. Unobtainable when it expired, EnvironmentFailure without permission."""
        if self._token is None:
            raise EnvironmentFailure(
                f"{urlsplit(self.api).netloc} hands artifacts only to those it knows: set GITHUB_TOKEN (or GH_TOKEN)"
            )
        self._web.download(f"{self.api}/repos/{self.slug}/actions/artifacts/{artifact}/zip", target, what)

    def _page(self, path: str, asked: Mapping[str, str], number: int) -> dict[str, Any]:
        url = f"{self.api}/repos/{self.slug}/{path}"
        answer = self._web.get(url, {**asked, "per_page": _PAGE, "page": number}, accept=_JSON)
        match answer.status_code:
            case 200:
                return _object(answer)
            case 401:
                raise EnvironmentFailure(f"{urlsplit(self.api).netloc} refuses the token that GITHUB_TOKEN or GH_TOKEN holds")
            case 404 if path.startswith("actions/workflows/"):
                raise BadInput(f"{self.slug} has no workflow {path.split('/')[2]}, or the token may not see it ({url})")
            case 404:
                raise Unobtainable(f"there is no {path} in {self.slug}")
            case status:
                raise EnvironmentFailure(f"{url} answered {status} {answer.reason}")


def token_for(api: str, env: Mapping[str, str]) -> str | None:
    """The token to show to this API. A project file can name any API, so that GITHUB_TOKEN goes only to GitHub itself
    and to the server that GITHUB_API_URL names; others get GH_ENTERPRISE_TOKEN.
    """
    host = urlsplit(api).netloc
    if host in (urlsplit(PUBLIC).netloc, urlsplit(env.get("GITHUB_API_URL", "")).netloc):
        names = ("GITHUB_TOKEN", "GH_TOKEN")
    else:
        names = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
    return next((env[name] for name in names if env.get(name)), None)


def _bearer(token: str) -> Sign:
    def sign(request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {token}"
        return request

    return sign


def _object(answer: requests.Response) -> dict[str, Any]:
    try:
        told = answer.json()
    except ValueError as error:
        raise EnvironmentFailure(f"{answer.url} did not answer in JSON") from error
    if not isinstance(told, dict):
        raise EnvironmentFailure(f"{answer.url} answered something else than an object")
    return told
