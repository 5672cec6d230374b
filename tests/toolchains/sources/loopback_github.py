"""The part of GitHub's REST API that the sources ask, on loopback."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.loopback_server import serving

TOKEN = "good-token"
ARTIFACT = "linux_x86_64_release_packages"


def archive(*files: Path) -> bytes:
    """A zip with these files in it."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as inside:
        for path in files:
            inside.write(path, path.name)
    return sink.getvalue()


@dataclass
class LoopbackGitHub:
    """`url` is the API's base. Answers in `refusals` (status, headers) are given first,
    each once.
    """

    url: str = ""
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    archives: dict[int, bytes] = field(default_factory=dict)
    refusals: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    tokens: set[str | None] = field(default_factory=set)

    def add(
        self,
        sha: str,
        created: str,
        data: bytes = b"",
        *,
        branch: str = "main",
        days_left: float = 30,
        expired: bool = False,
        fork: bool = False,
    ) -> None:
        """Add an artifact that is newer than those before."""
        number = len(self.artifacts) + 1001
        run = {
            "head_sha": sha,
            "head_branch": branch,
            "repository_id": 7,
            "head_repository_id": 8 if fork else 7,
        }
        expires = (datetime.now(UTC) + timedelta(days=days_left)).strftime(
            "%Y-%m-%dT%H:%M:%SZ"
        )
        entry = {
            "id": number,
            "name": ARTIFACT,
            "expired": expired,
            "created_at": created,
            "expires_at": expires,
        }
        self.artifacts.insert(0, entry | {"workflow_run": run})
        self.archives[number] = data

    def answer(self, path: str, asked: dict[str, list[str]]) -> tuple[int, Any]:
        match path.removeprefix("/repos/iree-org/iree/").split("/"):
            case ["actions", "artifacts"]:
                first = (int(asked["page"][0]) - 1) * int(asked["per_page"][0])
                found = [
                    one for one in self.artifacts if one["name"] == asked["name"][0]
                ]
                return 200, {
                    "total_count": len(found),
                    "artifacts": found[first : first + int(asked["per_page"][0])],
                }
            case ["actions", "artifacts", artifact, "zip"] if (
                int(artifact) in self.archives
            ):
                return 200, self.archives[int(artifact)]
            case ["actions", "artifacts", _, "zip"]:
                return 410, {"message": "Artifact has expired"}
        return 404, {"message": "Not Found"}


@contextmanager
def serve_github() -> Iterator[LoopbackGitHub]:
    """Serve until the block ends."""
    github = LoopbackGitHub()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            github.asked[parts.path.rsplit("/", 1)[-1]] += 1
            given = self.headers.get("Authorization")
            github.tokens.add(given)
            if github.refusals:
                status, headers = github.refusals.pop(0)
                self.say(status, {"message": "refused"}, headers)
            elif given not in (None, f"Bearer {TOKEN}"):
                self.say(401, {"message": "Bad credentials"})
            else:
                self.say(*github.answer(parts.path, parse_qs(parts.query)))

        def say(
            self, status: int, content: Any, headers: dict[str, str] | None = None
        ) -> None:
            data = (
                content if isinstance(content, bytes) else json.dumps(content).encode()
            )
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    with serving(Handler) as github.url:
        yield github
