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
LIMIT = '{"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}'


@dataclass(frozen=True)
class Fault:
    """An answer that the server gives once to `METHOD path`. status: 0 breaks the
    connection off. done: it does what was asked all the same.
    """

    request: str
    status: int = 0
    body: str = '{"message": "Bad Gateway"}'
    done: bool = False


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
        reads = ("GET", "POST /graphql")
        return [sent for sent in self.requests if not sent.startswith(reads)]

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

    def answer(self, method: str, address: str, sent: dict[str, Any]) -> Any:
        parts = urlsplit(address)
        if parts.path == "/graphql":
            return {"data": {"viewer": {"login": LOGIN}}}
        number, _, what = parts.path.removeprefix(ISSUES).lstrip("/").partition("/")
        if what:
            self.comments[int(number)].append(sent["body"])
            return sent
        if method == "POST":
            return self.add(**sent)
        if method == "PATCH":
            issue = self.issues[int(number)]
            if "state" in sent:
                is_closed = sent["state"] == "closed"
                issue["closed_at"] = "2025-06-10T10:00:00Z" if is_closed else None
                issue["state_reason"] = "reopened"
            issue |= sent
            return issue
        [label] = parse_qs(parts.query)["labels"]
        issues = reversed(self.issues.values())
        return [issue for issue in issues if {"name": label} in issue["labels"]]


@contextmanager
def loopback_issues() -> Iterator[LoopbackIssues]:
    """Serve a repository `o/r` until the block ends."""
    hub = LoopbackIssues()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_request(self) -> None:
            request = f"{self.command} {urlsplit(self.path).path}"
            length = int(self.headers.get("Content-Length") or 0)
            sent = json.loads(self.rfile.read(length) or b"{}")
            hub.requests.append(request)
            hub.tokens.add(self.headers.get("Authorization"))
            faults = [fault for fault in hub.faults if fault.request == request]
            text, status = "", 200
            if not faults or faults[0].done:
                text = json.dumps(hub.answer(self.command, self.path, sent))
            for fault in faults[:1]:
                hub.faults.remove(fault)
                text, status = fault.body, fault.status
            self.close_connection = not status
            if status:
                self.reply(text.encode(), status)

        do_GET = do_POST = do_PATCH = handle_request  # noqa: N815 - the names that http.server calls

        def reply(self, body: bytes, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write nothing to stderr."""

    with serving(Handler) as hub.url:
        yield hub
