"""HTTP requests to servers that are slow, limit their callers or break off. Nothing else in the program uses the network."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import InvalidHeader, MaxRetryError
from urllib3.util import Retry

from triage.model.errors import EnvironmentFailure, Interrupted, Unobtainable
from triage.toolchains.home import disk_errors
from triage.toolchains.workspace import Workspace

TRIES = 4
_PATIENCE = 90.0  # seconds; a rate limit that lasts longer is reported instead of waited for
_DEFAULT_WAIT = 60.0  # seconds, for a limit that does not say when it ends
_TIMEOUT = (10, 60)  # seconds to connect; seconds between two bytes
_CHUNK = 1 << 18

Response = requests.Response


class Web:
    """GET requests, tried again after broken connections, server errors and short rate limits."""

    def __init__(self, workspace: Workspace, token: str | None = None, tries: int = TRIES) -> None:
        """`token`: a bearer token, which no other host gets when a server redirects to it."""
        self._workspace = workspace
        self._token = token
        self._tries = tries

    def get(
        self, url: str, params: Mapping[str, str | int] | None = None, accept: str | None = None, *, stream: bool = False
    ) -> Response:
        """The answer, which may have any status but a server error or a rate limit.

        Raises:
            EnvironmentFailure: the server cannot be reached, or still answers with an error or a rate limit.
        """
        headers = {"Accept": accept} if accept else {}
        try:
            with requests.Session() as session:
                for scheme in ("https://", "http://"):
                    session.mount(scheme, HTTPAdapter(max_retries=LimitRetry(self._tries - 1, self._workspace.pause)))
                answer = session.get(
                    url,
                    params=params,
                    headers=headers,
                    auth=self._sign if self._token else None,
                    timeout=_TIMEOUT,
                    stream=stream,
                )
        except (requests.ConnectionError, requests.Timeout) as error:
            raise EnvironmentFailure(f"cannot reach {_host(url)}: {_reason(error)}") from error
        except requests.RequestException as error:
            raise EnvironmentFailure(f"cannot request {url}: {error}") from error
        if (wait := _limit_seconds(answer.status_code, answer.headers)) is not None:
            until = datetime.fromtimestamp(time.time() + wait).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
            raise EnvironmentFailure(f"rate limit of {_host(url)} exceeded until {until}{_message(answer)}")
        if answer.status_code >= 500:
            raise EnvironmentFailure(f"{_host(url)} has an error: {answer.status_code} {answer.reason}")
        return answer

    def _sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request

    def download(self, url: str, target: Path, name: str, sha256: str | None = None) -> None:
        """Download a file. `name` stands for it in messages.

        Raises:
            Unobtainable: the file is gone, or has another digest than `sha256`.
            EnvironmentFailure: the server refuses it, or breaks off each time.
        """
        for _ in range(self._tries):
            answer = self.get(url, stream=True)
            if answer.status_code in (404, 410):
                raise Unobtainable(f"{name} is gone from {_host(url)} ({answer.status_code})")
            if answer.status_code != 200:
                raise EnvironmentFailure(f"{_host(url)} refuses {name}: {answer.status_code} {answer.reason}{_message(answer)}")
            digest = self._save(answer, target, name)
            if digest is not None:
                if sha256 and digest != sha256:
                    raise Unobtainable(f"{name} is another file than announced: its sha256 is {digest}, not {sha256}")
                return
            self._workspace.pause(1.0)
        raise EnvironmentFailure(f"{_host(url)} broke off {self._tries} times while sending {name}")

    def _save(self, answer: Response, target: Path, name: str) -> str | None:
        """The sha256 of the bytes that were saved; None when the server broke off."""
        size = int(answer.headers.get("Content-Length") or 0)
        task = self._workspace.progress.task(f"download {name}", total=size or None)
        digest = hashlib.sha256()
        try:
            with answer, target.open("wb") as sink:
                for chunk in answer.iter_content(_CHUNK):
                    if self._workspace.stop.is_set():
                        raise Interrupted("stopped")
                    with disk_errors(f"download {name}"):
                        sink.write(chunk)
                    digest.update(chunk)
                    task.advance(len(chunk))
        except requests.RequestException:  # also when fewer bytes arrive than were announced
            return None
        finally:
            task.finish()
        return digest.hexdigest()


class LimitRetry(Retry):
    """Also waits for GitHub's rate limits, which have status 403, and waits with `pause`, which can be interrupted."""

    def __init__(self, total: int, pause: Callable[[float], None], **choices: Any) -> None:
        settings: dict[str, Any] = {"status_forcelist": [403, 429, 500, 502, 503, 504], "backoff_factor": 0.5}
        super().__init__(total, **(settings | choices | {"raise_on_status": False}))
        self._pause = pause

    def new(self, **changes: Any) -> LimitRetry:
        return super().new(pause=self._pause, **changes)

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: BaseHTTPResponse | None = None,
        *args: Any,
        **more: Any,
    ) -> LimitRetry:
        """A refusal that is no limit, and a limit that lasts long, are answers and end the attempts."""
        if response is not None and response.status in (403, 429):
            wait = self.get_retry_after(response)
            if wait is None or wait > _PATIENCE:
                raise MaxRetryError(more["_pool"], url or "")
        return super().increment(method, url, response, *args, **more)

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        return _limit_seconds(response.status, response.headers)

    def sleep(self, response: BaseHTTPResponse | None = None) -> None:
        wait = self.get_retry_after(response) if response else None
        self._pause(self.get_backoff_time() if wait is None else wait)


def _limit_seconds(status: int, headers: Mapping[str, str]) -> float | None:
    """Seconds until the server's limit ends; None when it answers with no limit."""
    if status not in (403, 429):
        return None
    if after := headers.get("Retry-After"):
        try:
            return Retry().parse_retry_after(after)
        except InvalidHeader:
            return _DEFAULT_WAIT
    if headers.get("X-RateLimit-Remaining") == "0" and (reset := headers.get("X-RateLimit-Reset", "")):
        return max(float(reset) - time.time(), 0) + 1 if reset.isdigit() else _DEFAULT_WAIT
    return _DEFAULT_WAIT if status == 429 else None


def _message(answer: Response) -> str:
    """The server's own message behind a colon; nothing where it does not answer with one in JSON."""
    try:
        return f": {str(answer.json()['message'])[:200]}"
    except (ValueError, KeyError, TypeError):
        return ""


def _host(url: str) -> str:
    return urlsplit(url).netloc


def _reason(error: Exception) -> str:
    """The part of a long network error that says what happened."""
    text = str(error)
    known = ("Connection refused", "Name or service not known", "timed out", "certificate", "Connection reset")
    return next((part for part in known if part in text), text[:200])
