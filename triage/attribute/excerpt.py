"""The IR around a difference in the form people read: printed a second time, only that pass, only that function."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from enum import StrEnum

from triage.attribute.ir_reader import Lines, PassName, pass_of
from triage.git_history import Repository
from triage.git_history.repository import GitRefused

_LINES = 3000
_WIDTH = 600  # characters kept of one line
_VALUE = re.compile(r"%[\w$.#-]+")
_ALIAS = re.compile(r"#(map|set)\d*\b")
_DIGITS_OF_NAMES = re.compile(r"@\w+")


class DumpText:
    """Takes what a compiler prints and keeps the function of one dump: the `turn`-th of a pass. `function` None: all of it."""

    def __init__(self, by: PassName, turn: int, function: str | None) -> None:
        self.by, self._turn = by, turn
        self._begins = re.compile(rf'^(\s*).*\bfunc\b.*@"?{re.escape(function)}"?\s*[({{]') if function else None
        self._indent: str | None = None
        self._seen, self._here, self._done = 0, False, False
        self._lines = Lines(self._line)
        self.text: list[str] = []
        self.cut = False
        self.feed = self._lines.feed

    def _line(self, line: str) -> None:
        if line.startswith("// -----// IR Dump") and (header := pass_of(line)) is not None:
            self._seen += header[0].key == self.by.key
            self._here = self._seen == self._turn and not self.text
            return
        if not self._here or self._done:
            return
        if self._begins is None:
            self._keep(line)
        elif self._indent is None:
            if found := self._begins.match(line):
                self._indent = found[1]
                self._keep(line)
        else:
            self._keep(line)
            self._done = line.startswith(self._indent + "}")

    def _keep(self, line: str) -> None:
        if len(self.text) >= _LINES:
            self.cut = True
        elif line.strip():
            self.text.append(line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…")


class Mark(StrEnum):
    """What a row of a comparison shows."""

    SAME = "same"
    CHANGED = "changed"
    GOOD = "good"  # on the good side alone
    BAD = "bad"
    SKIPPED = "skipped"  # lines that are the same were left out


Row = tuple[Mark, str, str]


def side_by_side(good: Sequence[str], bad: Sequence[str], context: int = 3) -> Iterator[Row]:
    """The rows of a comparison. Lines that differ in the numbers of values alone count as the same."""
    matcher = SequenceMatcher(None, [_meaning(line) for line in good], [_meaning(line) for line in bad], autojunk=False)
    end = (0, 0)
    for group in matcher.get_grouped_opcodes(context):
        if (group[0][1], group[0][3]) != end:
            yield Mark.SKIPPED, _lines(group[0][1] - end[0]), _lines(group[0][3] - end[1])
        for tag, i, i_end, j, j_end in group:
            left, right = good[i:i_end], bad[j:j_end]
            paired = min(len(left), len(right))
            mark = Mark.SAME if tag == "equal" else Mark.CHANGED
            yield from ((mark, one, other) for one, other in zip(left, right, strict=False))
            yield from ((Mark.GOOD, one, "") for one in left[paired:])
            yield from ((Mark.BAD, "", other) for other in right[paired:])
        end = (group[-1][2], group[-1][4])


def _meaning(line: str) -> str:
    return _DIGITS_OF_NAMES.sub("@", _ALIAS.sub(r"#\1", _VALUE.sub("%", line))).strip()


def _lines(count: int) -> str:
    return f"{count} line{'' if count == 1 else 's'}"


_SOURCES = ("*.cpp", "*.cc", "*.h")
_IDENTIFIER = re.compile(r"\w+")


def files_of(
    by: PassName, repository: Repository | None, commit: str | None, known: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Paths relative to the repository: the file that defines the pass, then those `known` to hold its decisions.

    Empty where there is no clone, or the pass comes from a dependency and not from this repository.
    """
    beside = known.get(by.name, ())
    if repository is None or commit is None or not _IDENTIFIER.fullmatch(by.name):
        return ()
    try:
        beside = tuple(path for path in beside if _exists(path, repository, commit))
    except GitRefused:  # a clone that lacks the commit
        return ()
    own = _defined(by.name, repository, commit)
    return tuple(dict.fromkeys((*own, *beside)))


def _defined(name: str, repository: Repository, commit: str) -> tuple[str, ...]:
    """The files with the class of a pass, which is called with or without `Pass` at its end."""
    stem = name.removesuffix("Pass")
    pattern = rf"^ *(struct|class) +{stem}(Pass)?( final| *:|$| *\{{)"
    found = _grep(repository, commit, pattern)
    wanted = stem.lower()
    # The pass's own file is mostly called like it.
    return tuple(sorted(found, key=lambda path: path.rsplit("/", 1)[-1].partition(".")[0].lower() != wanted))


def _grep(repository: Repository, commit: str, pattern: str) -> tuple[str, ...]:
    try:
        told = repository.ask("grep", "--name-only", "-I", "-z", "-E", "-e", pattern, commit, "--", *_SOURCES)
    except GitRefused:  # its way of saying that no line matches, too
        return ()
    return tuple(path.partition(":")[2] for path in told.decode("utf-8", "replace").split("\0") if path)[:5]


def _exists(path: str, repository: Repository, commit: str) -> bool:
    return bool(repository.ask("ls-tree", "--name-only", commit, "--", path).strip())
