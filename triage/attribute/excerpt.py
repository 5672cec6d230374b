"""The IR and the source files of a diverging pass: one function of one dump, a diff of
two dumps, files from a clone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from triage.git_history.git_program import GitRefused
from triage.git_history.repository import Repository
from triage.mlir.ir_reader import ir_lines
from triage.model.pass_name import PassName, dumped_pass

_MAX_LINES = 3000
_MAX_WIDTH = 600  # characters of a line
_VALUE = re.compile(r"%[\w$.#-]+")
_ALIAS = re.compile(r"#(map|set)\d*\b")
_SYMBOL = re.compile(r"@\w+")


class DumpText:
    """The text of one dump in a compiler's output: the `turn`-th of a pass. Of a named
    function only that is kept.
    """

    def __init__(self, after: PassName, turn: int, function: str | None) -> None:
        self.after, self._turn = after, turn
        self._begins: re.Pattern[str] | None = None
        if function:
            self._begins = re.compile(
                rf'^(\s*).*\bfunc\b.*@"?{re.escape(function)}"?\s*[({{]'
            )
        self._indent: str | None = None
        self._dumps_seen = 0
        self._is_in_dump = self._is_complete = False
        self._lines = ir_lines()
        self.text: list[str] = []
        self.cut = False

    def feed(self, data: bytes) -> None:
        """Take the next piece of the output."""
        for line in self._lines.feed(data):
            self._read_line(line.decode("utf-8", "replace"))

    def _read_line(self, line: str) -> None:
        header = dumped_pass(line)
        if header is not None:
            if header[0].key == self.after.key:
                self._dumps_seen += 1
            self._is_in_dump = self._dumps_seen == self._turn and not self.text
        elif self._is_in_dump and not self._is_complete:
            self._take(line)

    def _take(self, line: str) -> None:
        """Keep a line of the dump, if it belongs to the function."""
        if self._begins is None:
            self._keep(line)
        elif self._indent is None:
            found = self._begins.match(line)
            if found:
                self._indent = found[1]
                self._keep(line)
        else:
            self._keep(line)
            self._is_complete = line.startswith(self._indent + "}")

    def _keep(self, line: str) -> None:
        if len(self.text) >= _MAX_LINES:
            self.cut = True
        elif line.strip():
            self.text.append(
                line if len(line) <= _MAX_WIDTH else f"{line[: _MAX_WIDTH - 1]}…"
            )


def diff(good: Sequence[str], bad: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a unified diff. Lines that differ only in the names of values
    and symbols count as equal.
    """
    matcher = SequenceMatcher(
        None, [*map(_comparable, good)], [*map(_comparable, bad)], autojunk=False
    )
    end = 0
    for group in matcher.get_grouped_opcodes():
        if group[0][1] > end:
            yield f"@@ line {group[0][1] + 1} @@"
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                yield from (f"  {line}" for line in good[i:i_end])
            else:
                yield from (f"- {line}" for line in good[i:i_end])
                yield from (f"+ {line}" for line in bad[j:j_end])
        end = group[-1][2]


def _comparable(line: str) -> str:
    return _SYMBOL.sub("@", _ALIAS.sub(r"#\1", _VALUE.sub("%", line))).strip()


_SOURCES = ("*.cpp", "*.cc", "*.h")
_IDENTIFIER = re.compile(r"\w+")
_MAX_FILES = 5


def source_files(
    name: PassName,
    repository: Repository | None,
    commit: str | None,
    known: Mapping[str, tuple[str, ...]],
) -> tuple[str, ...]:
    """Find the source files of a pass in a commit: the file that defines it, then the
    `known` ones with its decisions.

    Returns nothing without a clone or if the pass comes from a dependency.
    """
    decisions = known.get(name.name, ())
    if repository is None or commit is None or not _IDENTIFIER.fullmatch(name.name):
        return ()
    try:
        decisions = tuple(
            path
            for path in decisions
            if repository.ask("ls-tree", "--name-only", commit, "--", path).strip()
        )
    except GitRefused:  # the clone lacks the commit
        return ()
    return tuple(
        dict.fromkeys((*_defining_files(name.name, repository, commit), *decisions))
    )


def _matching_files(
    pattern: str, repository: Repository, commit: str
) -> tuple[str, ...]:
    options = ("--name-only", "-I", "-z", "-E")
    try:
        answer = repository.ask(
            "grep", *options, "-e", pattern, commit, "--", *_SOURCES
        )
    except GitRefused:  # git grep also fails if no line matches
        return ()
    lines = filter(None, answer.decode("utf-8", "replace").split("\0"))
    return tuple(line.partition(":")[2] for line in lines)[:_MAX_FILES]


def _defining_files(name: str, repository: Repository, commit: str) -> tuple[str, ...]:
    """Find the files that define the class of a pass, with or without `Pass` at its
    end.
    """
    stem = name.removesuffix("Pass")
    pattern = rf"^ *(struct|class) +{stem}(Pass)?( final| *:|$| *\{{)"

    def has_other_name(path: str) -> bool:
        return path.rsplit("/", 1)[-1].partition(".")[0].lower() != stem.lower()

    # A file with the name of the pass is likeliest to define it.
    paths = _matching_files(pattern, repository, commit)
    return tuple(sorted(paths, key=has_other_name))
