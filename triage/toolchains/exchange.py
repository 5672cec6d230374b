"""One GET request with limits of time and size, which a stop ends at once wherever it hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from queue import Empty, Queue
from urllib.parse import urljoin

import requests
from urllib3.exceptions import ProtocolError, ReadTimeoutError

from triage.model.errors import EnvironmentFailure, Interrupted
from triage.toolchains.addresses import host_of, unusable

_TIMEOUT = (10, 30)  # seconds to connect; seconds between two bytes
_REDIRECTS = 10
_PART = 1 << 16  # bytes
_AHEAD = 16  # parts that are received before the program takes them
_TICK = 0.1  # seconds between looks at the stop signal
_TRANSIENT = (requests.ConnectionError, requests.Timeout, ProtocolError, ReadTimeoutError)
_REASONS = ("Connection refused", "Name or service not known", "timed out", "certificate", "Connection reset")


class BrokenOff(EnvironmentFailure):
    """The server cannot be reached, or broke off. Another attempt may succeed."""


@dataclass(frozen=True, slots=True)
class Head:
    """The status line and headers of an answer. `url`: the address after redirects."""

    url: str
    status: int
    reason: str
    headers: Mapping[str, str]


class Exchange:
    """A request and its answer.

    Nothing can interrupt a name lookup or a TLS handshake. The request is therefore made by a daemon thread, which hands over
    what arrives and is left behind when the program has waited long enough.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        token: str | None,
        stop: threading.Event,
        allowed: Callable[[int], float],
    ) -> None:
        """token: sent to the host of `url` only; allowed: the seconds that the exchange may last, from the bytes received."""
        self._url = url
        self._stop = stop
        self._allowed = allowed
        self._begun = time.monotonic()
        self._received = 0
        self._arrived: Queue[Head | bytes | Exception] = Queue(_AHEAD)
        self._is_left = threading.Event()
        threading.Thread(target=self._transfer, args=(headers, token), daemon=True).start()

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the thread, which ends with the next byte that it receives."""
        self._is_left.set()
        while not self._arrived.empty():  # it may wait for room
            self._arrived.get_nowait()

    def head(self) -> Head:
        """The answer's head. Call it once, before `parts`.

        Raises:
            BrokenOff: the server cannot be reached.
            EnvironmentFailure: the server is too slow, or answers with something that is not HTTP.
            Interrupted: the program is stopped.
        """
        item = self._next("cannot reach {}")
        assert isinstance(item, Head)
        return item

    def parts(self, limit: int) -> Iterator[bytes]:
        """The body, decoded. Raises what `head` raises, and EnvironmentFailure when it has more than `limit` bytes."""
        while part := self._next("{} broke off"):
            assert isinstance(part, bytes)
            self._received += len(part)
            if self._received > limit:
                raise EnvironmentFailure(f"{host_of(self._url)} sends more than the {limit} bytes that are allowed here")
            yield part

    def _next(self, problem: str) -> Head | bytes:
        while True:
            if self._stop.is_set():
                raise Interrupted("stopped")
            left = self._begun + self._allowed(self._received) - time.monotonic()
            if left <= 0:
                raise EnvironmentFailure(
                    f"{host_of(self._url)} is too slow: {self._received} bytes in {time.monotonic() - self._begun:.0f} s; "
                    "TRIAGE_NETWORK_TIMEOUT=2h allows more time"
                )
            try:
                item = self._arrived.get(timeout=min(_TICK, left))
                break
            except Empty:
                continue
        if isinstance(item, _TRANSIENT):
            raise BrokenOff(f"{problem.format(host_of(self._url))}: {_reason(item)}") from item
        if isinstance(item, Exception):  # whatever a broken answer or address makes the libraries raise
            raise unusable(self._url, _reason(item)) from item
        return item

    def _transfer(self, headers: Mapping[str, str], token: str | None) -> None:
        try:
            with _Session() as session, self._open(session, headers, token) as response:
                self._arrived.put(Head(response.url, response.status_code, response.reason or "", response.headers))
                # `read1` returns what is there, where `iter_content` waits until a part is full.
                while not self._is_left.is_set() and (part := response.raw.read1(_PART, decode_content=True)):
                    self._arrived.put(part)
                self._arrived.put(b"")
        except Exception as error:  # raised again in the thread that waits
            self._arrived.put(error)

    def _open(self, session: _Session, headers: Mapping[str, str], token: str | None) -> requests.Response:
        """Follow redirects. A token goes to no other host."""

        def sign(request: requests.PreparedRequest) -> requests.PreparedRequest:
            request.headers["Authorization"] = f"Bearer {token}"
            return request

        auth = sign if token else None
        for _ in range(_REDIRECTS):
            response = session.get(self._url, headers=headers, auth=auth, timeout=_TIMEOUT, stream=True)
            location = requests.Session.get_redirect_target(session, response)
            if location is None:
                return response
            response.close()
            target = urljoin(response.url, location)
            if not target.startswith(("http://", "https://")):
                raise requests.exceptions.InvalidSchema(f"it redirects to {target[:200]}")
            if session.should_strip_auth(self._url, target):  # type: ignore[no-untyped-call]
                auth = None
            self._url = target
        raise requests.TooManyRedirects(f"more than {_REDIRECTS} redirects")


class _Session(requests.Session):
    """A session that leaves redirects to its caller: requests would read the body of each, however long it is."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:  # noqa: ARG002
        return None


def _reason(error: Exception) -> str:
    """The part of a long network error that says what happened."""
    text = str(error) or type(error).__name__
    return next((part for part in _REASONS if part in text), text[:200])
