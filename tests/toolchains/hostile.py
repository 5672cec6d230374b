"""A server on loopback whose answers are bytes that a test chooses, and answers that no
server should give.
"""

from __future__ import annotations

import gzip
import json
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.loopback_server import serving
from tests.toolchains.loopback import wheel

JSON = "application/vnd.pypi.simple.v1+json"
# bytes to send, or a function that gets the connection as a file
Answer = bytes | Callable[[Any], object]


def http(
    body: bytes = b"",
    *,
    status: str = "200 OK",
    kind: str = JSON,
    length: object = None,
    **headers: object,
) -> bytes:
    """An answer. `length`: the Content-Length (default: the true one); headers are
    written with _ for -.
    """
    fields = {
        "Content-Type": kind,
        "Content-Length": len(body) if length is None else length,
        "Connection": "close",
    }
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [
        f"HTTP/1.1 {status}",
        *(f"{name}: {value}" for name, value in fields.items()),
        "",
        "",
    ]
    return "\r\n".join(lines).encode("utf-8") + body


def redirect(target: str, body: bytes = b"", **headers: object) -> bytes:
    return http(body, status="302 Found", Location=target, **headers)


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

    def index(self, version: str = "1.0.0", **extra: object) -> bytes:
        """The page of a simple index with one wheel, `/wheel/NAME`."""
        name = f"iree_base_compiler-{version}-py3-none-any.whl"
        return page(
            {"filename": name, "url": f"{self.url}/wheel/{name}", "hashes": {}} | extra
        )

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


def page(*files: Any, **more: Any) -> bytes:
    return http(
        json.dumps(
            {
                "meta": {"api-version": "1.1"},
                "name": "iree-base-compiler",
                "files": files,
                **more,
            }
        ).encode()
    )


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


NESTED = b"[" * 100_000 + b"]" * 100_000
FILE = {
    "filename": "iree_base_compiler-1.0.0-py3-none-any.whl",
    "url": "x.whl",
    "hashes": {},
}

#: Answers that are wrong for every reader of a page or an API.
BROKEN_HTTP: Mapping[str, Answer] = {
    "no HTTP": b"220 ftp.example.org ready\r\n",
    "fewer bytes than announced": http(b"{}", length=700),
    "a long header": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    "a gzip bomb": http(80 * gzip.compress(bytes(1 << 20), 1), Content_Encoding="gzip"),
    "a server error": http(NESTED, status="500 \x1b[31mred"),
    "a redirect to a file": redirect("file:///etc/passwd"),
    "a redirect to itself": redirect("/simple"),
}

#: Bodies that are not a page of an index.
BROKEN_PAGES: Mapping[str, Answer] = {
    "deep nesting": http(NESTED),
    "not UTF-8": http(b'{"name": "\xff"}'),
    "files are null": http(
        b'{"meta": {"api-version": "1.1"}, "name": "a", "files": null}'
    ),
    "a hash is a path": page(FILE | {"hashes": {"sha256": "/../../../../../../tmp/x"}}),
    "a hash with an option": page(
        FILE | {"hashes": {"sha256": "0" * 64 + "\n--index-url http://elsewhere"}}
    ),
}

HTML = "text/html"

#: Pages that would keep a reader busy for minutes or hours.
ENDLESS_PAGES: Mapping[str, Answer] = {
    "tags that never end": http(b"<a " * 200_000, kind=HTML),
    "links inside each other": http(b"<a href=x>y" * 60_000, kind=HTML),
    "ends of other tags": http(b"<b>" * 100_000 + b"</c>" * 100_000, kind=HTML),
    "a long name in HTML": http(
        b"<a href=x>" + b"a-" * 20_000 + b".tar.gz</a>", kind=HTML
    ),
    "a long name in JSON": page(FILE | {"filename": "a-" * 20_000 + ".tar.gz"}),
}


#: Files that are no wheel of the release 1.0.0 of iree-base-compiler.
BROKEN_WHEELS: Mapping[str, Answer] = {
    "no zip": http(b"not a zip"),
    "cut off": http(wheel({"a": b"a"})[:-40]),
    "gone": http(status="410 Gone"),
    "too long": http(b"", length=1 << 50),
}

MALICIOUS_WHEELS: Mapping[str, Answer] = {
    "an absolute path": http(wheel({"/tmp/triage-was-here": b"a"})),
    "a path upwards": http(wheel({"iree/../../../triage-was-here": b"a"})),
    "a link": http(wheel({}, link="/etc")),
}
