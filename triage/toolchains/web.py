"""HTTP requests to servers that are slow, limit their callers, break off or lie."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode

from urllib3.exceptions import InvalidHeader
from urllib3.util import Retry

from triage.model.errors import BadInput, EnvironmentFailure, Unobtainable
from triage.toolchains.addresses import host_of, unusable
from triage.toolchains.exchange import BrokenOff, Exchange, Head
from triage.toolchains.home import disk_errors
from triage.toolchains.workspace import Workspace

if TYPE_CHECKING:  # slow to import
    from pydantic import BaseModel

    Model = TypeVar("Model", bound=BaseModel)

TRIES = 4
_BACKOFF = (0.0, 1.0, 2.0)  # seconds before the second try, the third, and each later one
_PATIENCE = 90.0  # seconds; a rate limit that lasts longer is reported instead of waited for
_DEFAULT_WAIT = 60.0  # seconds, for a limit that does not say when it ends
_LONGEST_WAIT = 366 * 86400.0  # seconds
_MIB = 1 << 20
_SECONDS = 120.0  # for a request, and more for a long answer
_SLOWEST = 16 << 10  # bytes a second, on average after the first two minutes
_LARGEST_PAGE = 64 << 20  # bytes
_LARGEST_FILE = 4 << 30  # bytes, where nothing announces the size


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """An answer of any status but a server error or a rate limit."""

    head: Head
    body: bytes = b""

    @property
    def status(self) -> int:
        return self.head.status

    def parse(self, model: type[Model]) -> Model:
        """The body as JSON. EnvironmentFailure when it has another form."""
        from pydantic import ValidationError

        try:
            return model.model_validate_json(self.body)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
            place = ".".join(str(part) for part in problem["loc"])
            raise unusable(self.head.url, f"{place}: {problem['msg']}" if place else problem["msg"]) from error

    @property
    def message(self) -> str:
        """The server's own message behind a colon; nothing where it does not answer with one in JSON."""
        from pydantic_core import from_json

        try:
            content = from_json(self.body)
        except ValueError:
            return ""
        return f": {str(content['message'])[:200]}" if isinstance(content, dict) and "message" in content else ""

    def __str__(self) -> str:
        return f"{self.status} {self.head.reason}"


class Web:
    """GET requests, tried again after broken connections, server errors and short rate limits."""

    def __init__(self, workspace: Workspace, token: str | None = None, tries: int = TRIES) -> None:
        """`token`: a bearer token, which no other host gets when a server redirects to it."""
        self._workspace = workspace
        self._token = token
        self._tries = tries

    def get(self, url: str, params: Mapping[str, str | int] | None = None, accept: str | None = None) -> WebAnswer:
        """The answer of a page or an API.

        Raises:
            EnvironmentFailure: the server cannot be reached, is too slow, still answers with an error or a rate limit, or its
                answer is too long or not HTTP.
        """
        address = f"{url}?{urlencode(params)}" if params else url
        return self._persist(address, {"Accept": accept} if accept else {}, _read)

    def download(self, url: str, target: Path, name: str, sha256: str | None = None, size: int | None = None) -> None:
        """Download a file. `name` stands for it in messages; `size`: its bytes, where a list announced them.

        Raises:
            Unobtainable: the file is gone, or has another digest than `sha256`.
            EnvironmentFailure: the server refuses it, is too slow, sends too much, or breaks off each time.
        """

        def save(exchange: Exchange) -> WebAnswer:
            head = exchange.head()
            if head.status != 200:
                return WebAnswer(head, b"".join(exchange.parts(_LARGEST_PAGE)))
            digest = self._save(exchange, head, target, name, size or _LARGEST_FILE)
            if sha256 and digest != sha256:
                raise Unobtainable(
                    f"{name} from {host_of(head.url)} is another file than announced: its sha256 is {digest}, not {sha256}"
                )
            return WebAnswer(head)

        answer = self._persist(url, {"Accept-Encoding": "identity"}, save)
        if answer.status in (404, 410):
            raise Unobtainable(f"{name} is gone from {host_of(url)} ({answer.status})")
        if answer.status != 200:
            raise EnvironmentFailure(f"{host_of(url)} refuses {name}: {answer}{answer.message}")

    def _persist(self, url: str, headers: Mapping[str, str], attempt: Callable[[Exchange], WebAnswer]) -> WebAnswer:
        for number in range(1, self._tries + 1):
            is_last, wait = number == self._tries, _BACKOFF[min(number, len(_BACKOFF)) - 1]
            try:
                with Exchange(url, headers, self._token, self._workspace.stop, _time_limit()) as exchange:
                    answer = attempt(exchange)
            except BrokenOff as error:
                if is_last:
                    raise EnvironmentFailure(f"{error} ({number} attempts)") from error
            else:
                limit = _limit_seconds(answer.status, answer.head.headers)
                if limit is None and answer.status < 500:
                    return answer
                if limit is not None and (is_last or limit > _PATIENCE):
                    until = datetime.fromtimestamp(time.time() + limit).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
                    raise EnvironmentFailure(f"rate limit of {host_of(url)} exceeded until {until}{answer.message}")
                if is_last:
                    raise EnvironmentFailure(f"{host_of(url)} has an error: {answer}{answer.message}")
                wait = wait if limit is None else limit
            self._workspace.pause(wait)
        raise AssertionError

    def _save(self, exchange: Exchange, head: Head, target: Path, name: str, limit: int) -> str:
        """The sha256 of the bytes that were saved."""
        length = _number(head.headers.get("Content-Length", ""))
        if length is not None and length > limit:
            raise EnvironmentFailure(f"{host_of(head.url)} sends {length} bytes for {name}; {limit} are allowed")
        task = self._workspace.progress.task(f"download {name} (MiB)", total=length and length / _MIB)
        digest = hashlib.sha256()
        try:
            with disk_errors(f"download {name}"), target.open("wb") as sink:
                for part in exchange.parts(limit):
                    sink.write(part)
                    digest.update(part)
                    task.advance(len(part) / _MIB)
        finally:
            task.finish()
        return digest.hexdigest()


def _read(exchange: Exchange) -> WebAnswer:
    return WebAnswer(exchange.head(), b"".join(exchange.parts(_LARGEST_PAGE)))


def _time_limit() -> Callable[[int], float]:
    """The seconds that one request may take, from the bytes that it has received."""
    seconds = network_seconds()
    return lambda received: seconds or _SECONDS + received / _SLOWEST


def network_seconds() -> float | None:
    """The limit that the user sets for one request. BadInput when it is no duration."""
    from triage.recipes.values import parse_duration

    text = os.environ.get("TRIAGE_NETWORK_TIMEOUT")
    try:
        return parse_duration(text) if text else None
    except ValueError as error:
        raise BadInput(f"TRIAGE_NETWORK_TIMEOUT: {error}") from error


def _limit_seconds(status: int, headers: Mapping[str, str]) -> float | None:
    """Seconds until the server's limit ends; None when it answers with no limit."""
    if status not in (403, 429):
        return None
    if after := headers.get("Retry-After"):
        try:
            return min(Retry().parse_retry_after(after), _LONGEST_WAIT)
        except (InvalidHeader, ValueError, TypeError, OverflowError):
            return _DEFAULT_WAIT
    if headers.get("X-RateLimit-Remaining") == "0" and "X-RateLimit-Reset" in headers:
        reset = _number(headers["X-RateLimit-Reset"])
        return _DEFAULT_WAIT if reset is None else min(max(reset - time.time(), 0) + 1, _LONGEST_WAIT)
    return _DEFAULT_WAIT if status == 429 else None


def _number(text: str) -> int | None:
    """A number in a header; None where it is none that makes sense."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None
