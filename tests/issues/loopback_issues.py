"""The part of GitHub's REST API that keeps issues and comments, on loopback, with the
faults that a busy server shows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.loopback_server import serving

TOKEN = "secret-token"
LOGIN = "triage-bot"
ISSUES = "/repos/o/r/issues"
LIMIT = {
    "message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
}


@dataclass(frozen=True)
class Fault:
    """An answer that the server gives once to `METHOD path`. done: it does what was
    asked all the same.
    """

    request: str
    status: int
    headers: tuple[tuple[str, str], ...] = ()
    done: bool = False
    broken_off: bool = False
    body: str | None = None

    @property
    def text(self) -> str:
        if self.body is not None:
            return self.body
        bad_gateway = {"message": "Bad Gateway"}
        return json.dumps(LIMIT if self.status in (403, 429) else bad_gateway)


@dataclass
class LoopbackIssues:
    """One repository."""

    url: str = ""
    issues: dict[int, dict[str, Any]] = field(default_factory=dict)
    comments: dict[int, list[str]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)

    def writes(self) -> list[str]:
        """Return the requests that change something."""
        return [
            request
            for request in self.requests
            if not request.startswith("GET") and "graphql" not in request
        ]

    def add(
        self, body: str, title: str = "title", labels: Any = (), author: str = LOGIN
    ) -> dict[str, Any]:
        """Open an issue."""
        number = len(self.issues) + 1
        self.comments[number] = []
        self.issues[number] = {
            "number": number,
            "title": title,
            "body": body,
            "state": "open",
            "state_reason": None,
            "closed_at": None,
            "labels": [{"name": name} for name in labels],
            "user": {"login": author},
            "url": f"{self.url}{ISSUES}/{number}",
        }
        return self.issues[number]

    def answer(
        self, method: str, path: str, query: dict[str, list[str]], sent: dict[str, Any]
    ) -> tuple[Any, int]:
        """Return what a request answers, and its status."""
        if path == "/graphql":
            return {"data": {"viewer": {"login": LOGIN}}}, 200
        number, _, what = path.removeprefix(ISSUES).lstrip("/").partition("/")
        if what:
            self.comments[int(number)].append(sent["body"])
            return {"body": sent["body"]}, 201
        if method == "POST":
            return self.add(**sent), 201
        if method == "PATCH":
            issue = self.issues[int(number)]
            is_closed = sent.get("state") == "closed"
            if "state" in sent:
                closed_at = "2025-06-10T10:00:00Z" if is_closed else None
                issue |= {"closed_at": closed_at, "state_reason": "reopened"}
            issue |= sent
            return issue, 200
        labelled = [
            issue
            for issue in self.issues.values()
            if {"name": query["labels"][0]} in issue["labels"]
        ]
        return labelled[::-1], 200


@contextmanager
def loopback_issues() -> Iterator[LoopbackIssues]:
    """Serve a repository `o/r` until the block ends."""
    hub = LoopbackIssues()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_request(self) -> None:
            parts = urlsplit(self.path)
            request = f"{self.command} {parts.path}"
            length = int(self.headers.get("Content-Length") or 0)
            sent = json.loads(self.rfile.read(length) or b"{}")
            hub.requests.append(request)
            hub.tokens.add(self.headers.get("Authorization"))
            faults = [fault for fault in hub.faults if fault.request == request]
            fault = faults[0] if faults else None
            if fault is None or fault.done:
                query = parse_qs(parts.query)
                value, status = hub.answer(self.command, parts.path, query, sent)
                text, headers = json.dumps(value), ()
            if fault:
                hub.faults.remove(fault)
                text, status, headers = fault.text, fault.status, fault.headers
                self.close_connection = fault.broken_off
            if not (fault and fault.broken_off):
                self.reply(text.encode(), status, dict(headers))

        do_GET = do_POST = do_PATCH = handle_request  # noqa: N815 - the names that http.server calls

        def reply(self, body: bytes, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            kind = {"Content-Type": "application/json"}
            length = {"Content-Length": str(len(body))}
            for name, text in (kind | length | headers).items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write nothing to stderr."""

    with serving(Handler) as hub.url:
        yield hub
