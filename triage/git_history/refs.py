"""The tags of a repository, and the dates that stand in the names of nightly tags."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from triage.git_history.repository import POINTERS, Repository, read_pointers

_DAY = re.compile(r"(?<!\d)(20\d\d)[-.]?(\d\d)[-.]?(\d\d)(?!\d)")


@dataclass(frozen=True, slots=True)
class Tag:
    """`sha`: the commit, for an annotated tag too. `date`: ISO `YYYY-MM-DD` where the name holds one, as that of
    `iree-3.5.0rc20250604` does.
    """

    name: str
    sha: str
    date: str | None


def read_tags(repository: Repository) -> dict[str, Tag]:
    """All tags that lead to a commit, by name, in git's order."""
    form = "--format=%(objecttype) %(*objecttype) %(objectname) %(*objectname) %(refname:strip=2)"
    found: dict[str, Tag] = {}
    for line in repository.ask("for-each-ref", form, "refs/tags").decode("utf-8", "replace").splitlines():
        kind, peeled_kind, sha, peeled, name = line.split(" ", 4)
        if "commit" in (kind, peeled_kind):
            found[name] = Tag(name, peeled or sha, day_in(name))
    return found


def matching(tags: dict[str, Tag], pattern: str) -> tuple[Tag, ...]:
    """Those whose name fits a shell pattern such as `iree-*rc*`."""
    return tuple(tag for name, tag in tags.items() if fnmatchcase(name, pattern))


def day_in(text: str) -> str | None:
    """The last date that stands in a name or version, as ISO `YYYY-MM-DD`; None without one."""
    for year, month, day in reversed(_DAY.findall(text)):
        try:
            return date(int(year), int(month), int(day)).isoformat()
        except ValueError:
            continue
    return None


_GITLINK = "160000"


@dataclass(frozen=True, slots=True)
class PinMove:
    """One commit that moved a pin, such as an integration of LLVM. None: there was no such pin before, or is none after."""

    path: str
    before: str | None
    after: str | None


def read_moves(repository: Repository, shas: Iterable[str], path: str) -> dict[str, PinMove]:
    """The moves of the pin at `path` by commit; commits that left it alone are missing."""
    answer = repository.ask(*POINTERS, "--", f":(top,literal){path}", lines=list(shas))
    return {
        sha: PinMove(path, _pinned(repository, old_mode, old), _pinned(repository, new_mode, new))
        for sha, changes in read_pointers(answer.decode("utf-8", "replace")).items()
        for changed, old_mode, new_mode, old, new in changes
        if changed == path
    }


def read_pin(repository: Repository, sha: str, path: str) -> str | None:
    """What a commit pins at `path`; None when there is nothing."""
    answer = repository.ask("ls-tree", "-z", sha, "--", f":(top,literal){path}").decode("utf-8", "replace")
    if not answer:
        return None
    mode, _, pointed = answer.partition("\t")[0].split(" ")
    return _pinned(repository, mode, pointed)


def _pinned(repository: Repository, mode: str, pointed: str) -> str | None:
    if set(mode) == {"0"}:
        return None
    if mode == _GITLINK:
        return pointed
    words = repository.ask("cat-file", "blob", pointed).decode("utf-8", "replace").split()
    return words[0] if words else None


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
