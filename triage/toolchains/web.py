"""Pages and files over HTTP, under limits of time and size. uv downloads wheels."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from triage.model.content import Address, without_secrets
from triage.model.errors import EnvironmentFailure, TriageError, Unobtainable
from triage.toolchains.home import Workspace, disk_errors, pause

if TYPE_CHECKING:  # slow to import
    import requests

_TIMEOUT = (10, 30)  # seconds to connect; seconds between two bytes
_SECONDS = 120.0  # for a body, and more for a long one
_SLOWEST = 16 << 10  # bytes a second, on average after the first two minutes
_TRANSIENT = (429, 500, 502, 503, 504)  # a request may succeed later
_PART = 1 << 16  # bytes
_MIB = 1 << 20
_LARGEST_PAGE = 64 << 20  # bytes


def host_of(url: str) -> str:
    """Return the host and port of an address, or the address itself if it is not
    valid.
    """
    address = Address(url)
    try:
        return urlsplit(address).netloc or address
    except ValueError:
        return address


@dataclass(frozen=True, slots=True)
class Page:
    """A page of an index."""

    url: str
    """After redirects."""
    kind: str
    """Its content type."""
    content: bytes


@dataclass(frozen=True)
class Web:
    """Makes GET requests, and tries each once more after a broken connection or a
    server error.

    Raises Unobtainable if there is no such page or file, and EnvironmentFailure if the
    server cannot be reached, refuses, is too slow, or its answer is too long or not
    HTTP.
    """

    workspace: Workspace

    def page(self, url: Address, accept: str) -> Page:
        """Return the answer, read whole."""
        with self._response(url, {"Accept": accept}) as response:
            # requests itself reads a body without limits of time and size
            content = b"".join(self._parts(response, _LARGEST_PAGE))
            kind = response.headers.get("Content-Type", "html")
            return Page(response.url, kind, content)

    def download(self, url: Address, target: Path, name: str, largest: int) -> None:
        """Download a file of at most so many bytes. `name` stands for it in
        messages.
        """
        with self._response(url, {"Accept-Encoding": "identity"}) as response:
            length = response.headers.get("Content-Length", "")
            total = int(length) if re.fullmatch("[0-9]{1,15}", length) else 0
            if total > largest:
                raise EnvironmentFailure(
                    f"{name} at {host_of(url)} has {total / _MIB:.0f} MiB"
                )
            progress = self.workspace.progress
            with (
                progress.task(f"download {name} (MiB)", total / _MIB or None) as task,
                disk_errors(f"download {name}"),
                target.open("wb") as sink,
            ):
                for part in self._parts(response, largest):
                    sink.write(part)
                    task.advance(len(part) / _MIB)

    @contextmanager
    def _response(
        self, url: Address, headers: dict[str, str]
    ) -> Iterator[requests.Response]:
        """Send a request and yield the answer, whose body is read in the `with` block.
        Errors of the libraries become an EnvironmentFailure, also in the block.
        """
        import requests
        from requests.adapters import HTTPAdapter, Retry

        again = Retry(
            1,
            status_forcelist=_TRANSIENT,
            raise_on_status=False,
            respect_retry_after_header=False,
        )
        try:
            with requests.Session() as session:
                for scheme in ("http://", "https://"):
                    session.mount(scheme, HTTPAdapter(max_retries=again))
                with session.get(
                    url.full, headers=headers, timeout=_TIMEOUT, stream=True
                ) as answer:
                    _check_status(answer)
                    yield answer
        except TriageError:
            raise
        # whatever a broken connection, answer or address makes the libraries raise
        except Exception as error:
            # "... with url: /simple/?token=... (Caused by ...)"
            text = re.sub(r" with url: \S+", "", str(error) or type(error).__name__)
            raise EnvironmentFailure(
                f"cannot read {host_of(url)}: {without_secrets(text)[:300]}"
            ) from error

    def _parts(self, response: requests.Response, largest: int) -> Iterator[bytes]:
        """Yield the decoded body in parts. Raises EnvironmentFailure if it is too long
        or comes too slowly.
        """
        begun, received = time.monotonic(), 0
        host = host_of(response.url)
        # `read1` returns the bytes that are there, where `iter_content` waits until a
        # part is full.
        while part := response.raw.read1(_PART, decode_content=True):
            received += len(part)
            if received > largest:
                raise EnvironmentFailure(
                    f"{host} sends more than the {largest} bytes that are allowed here"
                )
            if time.monotonic() - begun > _SECONDS + received / _SLOWEST:
                raise EnvironmentFailure(f"{host} is too slow: {received} bytes")
            pause(self.workspace.stop, 0)
            yield part


def _check_status(response: requests.Response) -> None:
    if response.status_code != 200:
        is_gone = response.status_code in (404, 410)
        raise (Unobtainable if is_gone else EnvironmentFailure)(
            f"{host_of(response.url)} answers {response.status_code} {response.reason}"
        )
