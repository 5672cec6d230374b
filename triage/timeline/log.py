"""What `git log` prints, read back. Fields end in NUL, which neither a subject nor a path can hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from triage.model.commit import ChangedFile, Commit

LINE = ("log", "-z", "--reverse", "--first-parent", "--encoding=UTF-8", "--format=%H%x00%P%x00%cI%x00%s")
_FIELDS = 4

# Against the first parent also for merges, whatever the settings say about renames, submodules and external programs.
_CHANGES = (
    "--first-parent",
    "-m",
    "--no-renames",
    "--ignore-submodules=none",
    "--no-ext-diff",
    "--no-textconv",
    "--no-relative",
    "-O/dev/null",
)
_THESE = ("log", "-z", "--no-walk=unsorted", "--stdin", "--format=%x00%H")
SIZES = (*_THESE, *_CHANGES, "--numstat")
NAMES = (*_THESE, *_CHANGES, "--name-only")
POINTERS = (*_THESE, *_CHANGES, "--no-abbrev", "--raw")

_COUNTED = re.compile(r"(\d+|-)\t(\d+|-)\t(.*)", re.DOTALL)


def read_line(text: str) -> list[Commit]:
    """The commits of what LINE prints, in its order. ValueError when it was cut off."""
    fields = text.split("\0")
    if len(fields) % _FIELDS != 1 or fields[-1]:
        raise ValueError("the log ends within a commit")
    shas, parents, dates, subjects = (fields[first:-1:_FIELDS] for first in range(_FIELDS))
    return [
        Commit(sha, parent.partition(" ")[0] or None, date, subject)
        for sha, parent, date, subject in zip(shas, parents, dates, subjects, strict=True)
    ]


def write_line(commits: Iterable[Commit]) -> str:
    """The inverse of `read_line`; of the parents only the first is kept."""
    return "".join(f"{one.sha}\0{one.parent or ''}\0{one.date}\0{one.subject}\0" for one in commits)


def read_sizes(text: str) -> dict[str, tuple[ChangedFile, ...]]:
    """The changed files by commit of what SIZES prints. A renamed file is one removed and one added: both folders
    say what a commit is about.
    """
    return {sha: tuple(_counted(entries)) for sha, entries in _blocks(text)}


def read_names(text: str) -> dict[str, tuple[ChangedFile, ...]]:
    """The changed files by commit of what NAMES prints, their sizes unknown and told as 0."""
    return {sha: tuple(ChangedFile(path, 0, 0) for path in entries) for sha, entries in _blocks(text)}


def read_pointers(text: str) -> dict[str, list[tuple[str, str, str, str, str]]]:
    """By commit of what POINTERS prints: (path, mode before, mode after, object before, object after)."""
    found: dict[str, list[tuple[str, str, str, str, str]]] = {}
    for sha, entries in _blocks(text):
        words = iter(entries)
        for word in words:
            old_mode, new_mode, old, new, _ = word.removeprefix(":").split(" ")
            found.setdefault(sha, []).append((next(words), old_mode, new_mode, old, new))
    return found


def _counted(entries: Sequence[str]) -> Iterator[ChangedFile]:
    for word in entries:
        found = _COUNTED.fullmatch(word)
        if found is None:
            raise ValueError(f"not a line of --numstat: {word!r}")
        added, removed, path = found.groups()
        yield ChangedFile(path, _count(added), _count(removed))


def _count(word: str) -> int:
    return 0 if word == "-" else int(word)


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each commit's sha and the words that follow it. Only an empty word begins a commit: a file may be named like a
    sha, but none has an empty name.
    """
    block: list[str] = []
    for word in (*text.split("\0"), ""):
        if word:
            block.append(word.removeprefix("\n"))  # the line break stands before a commit's first change
        elif block:
            yield block[0], block[1:]
            block = []
