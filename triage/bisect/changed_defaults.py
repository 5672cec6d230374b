"""The command-line options whose default a range of commits changed, read from the diffs of their sources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from triage.git_history import Repository
from triage.git_history.repository import GitRefused

_LOG = ("log", "--first-parent", "-m", "--no-renames", "--no-ext-diff", "--no-textconv", "-p", "-U8", "--format=%x00%H")
_SOURCES = ("*.cpp", "*.cc", "*.h")
_INITIAL = r"cl::init\(|\{\d|(bool|int|int64_t|unsigned) \w+ = "
_NAME = r'"[a-z][\w-]*-[\w-]+"'
_OPTION = re.compile(rf"(?P<flag>{_NAME})(?:(?!{_NAME})[^;])*?\bcl::init\((?P<value>[\w.:* ]+)\)")
_FIELD = re.compile(r"\b(?:bool|int|int64_t|unsigned) (?P<field>\w+) = (?P<value>[\w.]+);")
_BOUND = r'opt<\w+>\(\s*"([a-z][\w-]*)",\s*{}\b'
_HUNK = re.compile(r"^@@ .*$", re.MULTILINE)
_BOOLEAN = frozenset({"true", "false"})


@dataclass(frozen=True, slots=True)
class ChangedDefault:
    """An option whose default `commit` changed from `old` to `new`."""

    flag: str
    old: str
    new: str
    commit: str


def changed_defaults(repository: Repository, good: str, bad: str) -> tuple[ChangedDefault, ...]:
    """Find the options whose default differs between two commits, each with the commit that changed it last.

    Defaults that are numbers, true or false are read from `cl::init` and from the fields that an options binder fills. A new
    option that is true was false before.
    """
    log = repository.ask(*_LOG, "-G", _INITIAL, f"{good}..{bad}", "--", *_SOURCES).decode("utf-8", "replace")
    newest: dict[str, ChangedDefault] = {}
    first: dict[str, str] = {}
    for commit, path, before, after in _hunks(log):
        old, new = _defaults(before), _defaults(after)
        old = {name: "false" for name, value in new.items() if value == "true" and not name.startswith(".")} | old
        for name in old.keys() & new.keys():
            if old[name] != new[name] and (flag := _flag(repository, commit, path, name)):
                newest.setdefault(flag, ChangedDefault(flag, old[name], new[name], commit))
                first[flag] = old[name]  # the log begins with the newest commit
    changes = (ChangedDefault(flag, first[flag], change.new, change.commit) for flag, change in newest.items())
    return tuple(change for change in changes if change.old != change.new)


def _hunks(log: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield commit, path, and the text before and after of each hunk."""
    for block in log.split("\0")[1:]:
        commit, _, diff = block.partition("\n")
        for change in re.split(r"^diff --git .*$", diff, flags=re.MULTILINE)[1:]:
            head, *hunks = _HUNK.split(change)
            path = re.search(r"^\+\+\+ b/(.*)$", head, re.MULTILINE)
            for lines in (hunk.splitlines() for hunk in hunks if path):
                assert path
                before, after = ("\n".join(line[1:] for line in lines if line[:1] in marks) for marks in (" -", " +"))
                yield commit, path[1], before, after


def _defaults(text: str) -> dict[str, str]:
    """The defaults in a piece of source: by flag, or by field with a leading dot."""
    values = {match["flag"].strip('"'): match["value"].strip() for match in _OPTION.finditer(text)}
    values |= {f".{match['field']}": match["value"] for match in _FIELD.finditer(text)}
    return {name: value for name, value in values.items() if value in _BOOLEAN or value.isdigit()}


def _flag(repository: Repository, commit: str, path: str, name: str) -> str | None:
    """The flag of a default; a field's is in the file that binds it, beside the header."""
    if not name.startswith("."):
        return name
    folder = path.rpartition("/")[0] or "."
    try:
        source = repository.ask("grep", "-h", "-A3", "-E", r"opt<\w+>\(", commit, "--", folder)
    except GitRefused:  # no line matches
        return None
    bound = re.search(_BOUND.format(re.escape(name[1:])), source.decode("utf-8", "replace"))
    return bound[1] if bound else None
