"""The tags, pins and web pages of a repository."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from urllib.parse import urlsplit

from triage.git_history.repository import Repository

_DAY = re.compile(r"(?<!\d)(20\d\d)[-.]?(\d\d)[-.]?(\d\d)(?!\d)")


def read_tags(repository: Repository) -> dict[str, str]:
    """Return the commits of all tags, annotated or not, by name in git's order."""
    form = (
        "--format=%(objecttype) %(*objecttype) %(objectname) %(*objectname) "
        "%(refname:strip=2)"
    )
    tags: dict[str, str] = {}
    for line in repository.text("for-each-ref", form, "refs/tags").splitlines():
        kind, peeled_kind, sha, peeled, name = line.split(" ", 4)
        if "commit" in (kind, peeled_kind):
            tags[name] = peeled or sha
    return tags


def tags_for(
    version: str, patterns: Iterable[str], tags: Mapping[str, str]
) -> dict[str, str]:
    """Return the tags of a version, by patterns such as `v{version}`. They may name
    different commits.
    """
    names = (pattern.format(version=version) for pattern in patterns)
    return {name: tags[name] for name in names if name in tags}


def day_in(text: str) -> str | None:
    """Return the last date in a name or version, as ISO `YYYY-MM-DD`."""
    for year, month, day in reversed(_DAY.findall(text)):
        try:
            return date(int(year), int(month), int(day)).isoformat()
        except ValueError:
            continue
    return None


_GITLINK = "160000"


@dataclass(frozen=True, slots=True)
class PinMove:
    """A change of a pin by one commit, such as an integration of LLVM."""

    path: str
    before: str | None
    """The pinned commit, unless the commit adds the pin."""
    after: str | None


def read_moves(
    repository: Repository, shas: Iterable[str], path: str
) -> dict[str, PinMove]:
    """Return the changes of the pin at `path` by commit, without commits that do not
    change it.
    """
    moves = {}
    for sha, words in repository.changes(list(shas), "--raw", f":(top,literal){path}"):
        for change, changed in zip(words[::2], words[1::2], strict=True):
            if changed == path:
                modes = change.removeprefix(":").split(" ")[:2]
                objects = change.split(" ")[2:4]
                before, after = (
                    _pinned(repository, *pointed)
                    for pointed in zip(modes, objects, strict=True)
                )
                moves[sha] = PinMove(path, before, after)
    return moves


def _pinned(repository: Repository, mode: str, pointed: str) -> str | None:
    """Return the commit that a submodule points to, or that stands in a file."""
    if set(mode) == {"0"}:
        return None
    if mode == _GITLINK:
        return pointed
    words = repository.text("cat-file", "blob", pointed).split()
    if words:
        return words[0]
    return None


_SQUASHED = re.compile(r"\s*\(#(\d+)\)\s*$")
_MERGED = re.compile(r"Merge pull request #(\d+) ")
_SCP_LIKE = re.compile(r"(?:[^@/\s]+@)?([\w.-]+):(?!/)(\S+)")


def pull_request(subject: str) -> int | None:
    """Return the pull request that a commit's subject names."""
    match = _SQUASHED.search(subject) or _MERGED.match(subject)
    if match:
        return int(match.group(1))
    return None


def title(subject: str) -> str:
    """Return a commit's subject without the number of its pull request at the end."""
    return _SQUASHED.sub("", subject)


@dataclass(frozen=True, slots=True)
class Links:
    """The web pages of one repository; `web` has no slash at its end."""

    web: str

    def commit(self, sha: str) -> str:
        return f"{self.web}/commit/{sha}"

    def pull(self, number: int) -> str:
        return f"{self.web}/pull/{number}"

    @property
    def slug(self) -> str:
        """`owner/name`."""
        return urlsplit(self.web).path.strip("/")


def links_of(remote: str | None) -> Links | None:
    """Return the pages of a remote's address, without the user name or token in it,
    unless it is a path on this machine.
    """
    if remote is None:
        return None
    parts = urlsplit(remote)
    if parts.scheme in ("http", "https", "ssh", "git", "git+ssh") and parts.hostname:
        if parts.scheme.startswith("http"):
            scheme = parts.scheme
        else:
            scheme = "https"
        if parts.port and parts.scheme.startswith("http"):
            port = f":{parts.port}"
        else:
            port = ""
        host, path = f"{parts.hostname}{port}", parts.path
    elif match := _SCP_LIKE.fullmatch(remote):
        scheme, (host, path) = "https", match.groups()
    else:
        return None
    path = path.strip("/").removesuffix(".git")
    if path:
        return Links(f"{scheme}://{host}/{path}")
    return None
