"""From commits to the web: pull requests named in subjects, addresses of commits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

_SQUASHED = re.compile(r"\(#(\d+)\)\s*$")
_MERGED = re.compile(r"Merge pull request #(\d+) ")
_SCP_LIKE = re.compile(r"(?:[^@/\s]+@)?([\w.-]+):(?!/)(\S+)")


def pull_request(subject: str) -> int | None:
    """The pull request that a commit came from, as its subject tells; None when it tells none."""
    found = _SQUASHED.search(subject) or _MERGED.match(subject)
    return int(found.group(1)) if found else None


@dataclass(frozen=True, slots=True)
class Links:
    """Pages of one repository; `web` without a slash at its end."""

    web: str

    def commit(self, sha: str) -> str:
        """The page of a commit."""
        return f"{self.web}/commit/{sha}"

    def pull(self, number: int) -> str:
        """The page of a pull request."""
        word = "-/merge_requests" if "gitlab" in self.web else "pull"
        return f"{self.web}/{word}/{number}"

    def compare(self, before: str, after: str) -> str:
        """The page that shows what lies between two commits."""
        return f"{self.web}/compare/{before}...{after}"

    @property
    def slug(self) -> str:
        """`owner/name`."""
        return urlsplit(self.web).path.strip("/")


def links_of(remote: str | None) -> Links | None:
    """The pages behind a remote's address; None for a path on this machine. A name or token in it is left out."""
    if remote is None:
        return None
    parts = urlsplit(remote)
    if parts.scheme in ("http", "https", "ssh", "git", "git+ssh") and parts.hostname:
        scheme = parts.scheme if parts.scheme.startswith("http") else "https"
        port = f":{parts.port}" if parts.port and parts.scheme.startswith("http") else ""
        host, path = f"{parts.hostname}{port}", parts.path
    elif found := _SCP_LIKE.fullmatch(remote):
        scheme, (host, path) = "https", found.groups()
    else:
        return None
    path = path.strip("/").removesuffix(".git")
    return Links(f"{scheme}://{host}/{path}") if path else None
