"""A server on loopback whose answers are bytes that a test chooses."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.loopback_server import serving

# bytes to send, or a function that gets the connection as a file
Answer = bytes | Callable[[Any], object]


def http(
    body: bytes = b"",
    *,
    status: str = "200 OK",
    kind: str = "application/vnd.pypi.simple.v1+json",
    length: int | None = None,
    more: str = "",
) -> bytes:
    """An answer. `length`: the Content-Length (default: the true one); `more`: further
    lines of the header.
    """
    size = len(body) if length is None else length
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\nConnection: close\r\n{more}\r\n"
    return head.encode() + body


def page(files: object) -> bytes:
    """The page of a project in a simple index."""
    about = {"meta": {"api-version": "1.1"}, "name": "iree-base-compiler"}
    return http(json.dumps({**about, "files": files}).encode())


@dataclass
class HostileServer:
    """`answers` maps the beginnings of paths to answers; the longest beginning counts.
    `asked` is set by the first request.
    """

    url: str
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    paths: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        return self.url.partition("//")[2]

    def index(self, **extra: object) -> bytes:
        """The page of a simple index with one wheel, `/wheel/NAME`."""
        name = "iree_base_compiler-1.0.0-py3-none-any.whl"
        file = {"filename": name, "url": f"{self.url}/wheel/{name}", "hashes": {}}
        return page([file | extra])

    def trickle(self, begin: bytes) -> Callable[[Any], None]:
        """Send `begin`, and a byte now and then for ever."""

        def send(sink: Any) -> None:
            sink.write(begin)
            sink.flush()
            self.asked.set()
            while not self.ended.wait(0.3):
                sink.write(b"a")
                sink.flush()

        return send


@contextmanager
def serve_hostile() -> Iterator[HostileServer]:
    """Serve until the block ends."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with suppress(OSError, UnicodeDecodeError):
                path = self.rfile.readline().decode().split()[1]
                while self.rfile.readline().strip():
                    pass  # a header
                server.paths.append(path)
                begins = [begin for begin in server.answers if path.startswith(begin)]
                answer: Answer = http(status="404 Not Found")
                if begins:
                    answer = server.answers[max(begins, key=len)]
                if callable(answer):
                    answer(self.wfile)
                else:
                    self.wfile.write(answer)

    with serving(Handler) as url:
        server = HostileServer(url)
        try:
            yield server
        finally:
            server.ended.set()
