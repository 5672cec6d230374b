"""The part of GitHub's REST API that keeps issues and comments, on loopback, with the
faults that a busy server shows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.loopback_server import serving

TOKEN = "secret-token"
LOGIN = "triage-bot"
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


@dataclass
class LoopbackIssues:
    """One repository."""

    url: str = ""
    issues: dict[int, dict[str, Any]] = field(default_factory=dict)
    comments: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
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
        self.issues[number] = {
            "id": 1000 + number,
            "number": number,
            "title": title,
            "body": body,
            "state": "open",
            "state_reason": None,
            "closed_at": None,
            "labels": [
                {"id": 1, "name": name, "url": f"{self.url}/label"} for name in labels
            ],
            "comments": 0,
            "user": {"login": author},
            "url": f"{self.url}/repos/o/r/issues/{number}",
            "html_url": f"https://github.com/o/r/issues/{number}",
        }
        self.comments[number] = []
        return self.issues[number]

    def say(self, number: int, body: str) -> dict[str, Any]:
        """Comment on an issue."""
        count = sum(map(len, self.comments.values()))
        url = f"{self.url}/comment/{count}"
        user = {"login": LOGIN}
        comment = {"id": 5000 + count, "body": body, "user": user, "url": url}
        self.comments[number].append(comment)
        return comment

    def edit(self, number: int, changes: dict[str, Any]) -> dict[str, Any]:
        """Change an issue."""
        issue = self.issues[number]
        issue.update(changes)
        is_closed = issue["state"] == "closed"
        issue["closed_at"] = "2025-06-10T10:00:00Z" if is_closed else None
        if "state" in changes and not is_closed:
            issue["state_reason"] = "reopened"
        return issue

    def answer(
        self, method: str, path: str, query: dict[str, list[str]], sent: dict[str, Any]
    ) -> tuple[Any, int]:
        """Return what a request answers, and its status."""
        if path == "/graphql":
            return {"data": {"viewer": {"login": LOGIN}}}, 200
        match = re.fullmatch(r"/repos/o/r/issues(?:/(\d+)(/comments)?)?", path)
        if match is None:
            return {"message": "Not Found"}, 404
        number = int(match[1] or 0)
        if match[2]:
            return self.say(number, sent["body"]), 201
        if method == "POST":
            return self.add(sent["body"], sent["title"], sent.get("labels", ())), 201
        if method == "PATCH":
            return self.edit(number, sent), 200
        labelled = [
            issue
            for issue in self.issues.values()
            if query["labels"][0] in {label["name"] for label in issue["labels"]}
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
            query = parse_qs(parts.query)
            request = f"{self.command} {parts.path}"
            sent = json.loads(
                self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}"
            )
            hub.requests.append(request)
            hub.tokens.add(self.headers.get("Authorization"))
            fault = next(
                (fault for fault in hub.faults if fault.request == request), None
            )
            if fault:
                hub.faults.remove(fault)
                if fault.done:
                    hub.answer(self.command, parts.path, query, sent)
                if fault.broken_off:
                    self.close_connection = True
                    return
                answer = (
                    LIMIT if fault.status in (403, 429) else {"message": "Bad Gateway"}
                )
                self.reply(answer, fault.status, dict(fault.headers), fault.body)
                return
            value, status = hub.answer(self.command, parts.path, query, sent)
            self.reply(value, status, {})

        do_GET = do_POST = do_PATCH = handle_request  # noqa: N815 - the names that http.server calls

        def reply(
            self,
            value: Any,
            status: int,
            headers: dict[str, str],
            text: str | None = None,
        ) -> None:
            body = (json.dumps(value) if text is None else text).encode()
            self.send_response(status)
            for name, text in {
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
                **headers,
            }.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write nothing to stderr."""

    with serving(Handler) as hub.url:
        yield hub
