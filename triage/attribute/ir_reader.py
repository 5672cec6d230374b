"""Read IR as it is printed: a compiler's output after one phase, or the dumps after each pass, of any length."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from triage.attribute.operation import beginning, block_arguments
from triage.attribute.structure import Growing, Structure
from triage.compilers.base import Vocabulary

_LONGEST = 1 << 18
"""Bytes kept of one line: its name stands at its beginning, its types at its end; constants in the middle are dropped."""

_HEADER = re.compile(
    r"// -----// IR Dump (?:After|Before) (?P<name>(?:\(anonymous namespace\)::)?\S+)(?P<failed> Failed)?"
    r"(?: \((?P<argument>[^)]*)\))?"
)


@dataclass(frozen=True, slots=True)
class PrintedModule:
    """What one piece of printed IR means. anchor: name of its outermost operation; functions: by symbol, those that stand in
    an executable printed with them among `device`.
    """

    anchor: str
    whole: Structure
    functions: dict[str, Structure] = field(default_factory=dict)
    device: frozenset[str] = frozenset()

    @property
    def contains(self) -> bool:
        """Whether the outermost operation holds functions and is none itself."""
        return all(one != self.whole for one in self.functions.values())


@dataclass(frozen=True, slots=True)
class PassName:
    """A pass by its class, without namespaces, and by its argument where one is printed."""

    name: str
    argument: str | None = None

    @property
    def key(self) -> str:
        """What it is printed by: its argument, else its class."""
        return self.argument or self.name


@dataclass(frozen=True, slots=True)
class Dump:
    """IR as it was after a pass. index: which dump of the run; turn: which of this pass's; `failed`: the pass did."""

    index: int
    turn: int
    by: PassName
    failed: bool
    module: PrintedModule


class IrReader:
    """Reads printed IR line by line; `told` gets each outermost operation, once it is whole."""

    def __init__(self, words: Vocabulary, told: Callable[[PrintedModule], None], *, spell: bool = False) -> None:
        """spell: keep what operations of which types there are, not only their digest."""
        self._words = words
        self._told = told
        self._spell = spell
        self.begin()

    def begin(self) -> None:
        """Forget what is not whole, and wait for the next outermost operation."""
        self._open: list[Growing] = []
        self._functions: dict[str, Structure] = {}
        self._device: set[str] = set()
        self._executables = 0
        self._done = False

    def line(self, text: str) -> None:
        """The next line, without its line break."""
        if self._done:
            return
        stripped = text.lstrip()
        if stripped.startswith("})"):
            self._close(text)
        elif stripped == "}, {":
            if self._open:
                self._open[-1].next_region()
        elif stripped.startswith("^"):
            if self._open and (types := block_arguments(text, self._words)) is not None:
                self._open[-1].take_block(types)
        elif (found := beginning(text, self._words)) is not None:
            if found.opens:
                self._open.append(Growing(found.name, text, self._words, spell=self._spell))
                self._executables += found.name in self._words.executables
            elif self._open:
                self._open[-1].take(found.name, text, self._words)

    def _close(self, text: str) -> None:
        if not self._open:
            return
        child = self._open.pop()
        parent = self._open[-1] if self._open else Growing("", "", self._words, spell=self._spell)
        structure = parent.adopt(child, text, self._words)
        if child.name in self._words.functions and child.symbol:
            self._functions[child.symbol] = structure
            if self._executables:
                self._device.add(child.symbol)
        self._executables -= child.name in self._words.executables
        if not self._open:
            self._done = True
            self._told(PrintedModule(child.name, structure, self._functions, frozenset(self._device)))


class Lines:
    """Cuts a stream into lines in bounded memory, however it was cut into pieces."""

    def __init__(self, told: Callable[[str], None]) -> None:
        self._told = told
        self._carry = bytearray()

    def feed(self, data: bytes) -> None:
        """The next piece of the stream."""
        first, *rest = data.split(b"\n")
        self._carry += first
        if rest:
            self._flush()
            *whole, last = rest
            for line in whole:
                self._told(_text(line))
            self._carry += last
        if len(self._carry) > 2 * _LONGEST:
            self._carry = self._carry[: _LONGEST // 2] + self._carry[-_LONGEST // 2 :]

    def finish(self) -> None:
        """The last line, when no line break ended it."""
        if self._carry:
            self._flush()

    def _flush(self) -> None:
        self._told(_text(bytes(self._carry)))
        self._carry.clear()


def _text(line: bytes) -> str:
    if len(line) > _LONGEST:
        line = line[: _LONGEST // 2] + line[-_LONGEST // 2 :]
    return line.decode("utf-8", "replace")


class DumpReader:
    """Reads what a compiler prints with IR after each pass; `told` gets each dump that is whole, and nothing is kept. A line
    that the stream ends in is none: the compiler was ended while it wrote it.
    """

    def __init__(self, words: Vocabulary, told: Callable[[Dump], None]) -> None:
        self._told = told
        self._reader = IrReader(words, self._whole)
        self._lines = Lines(self._line)
        self._by: PassName | None = None
        self._failed = False
        self._index = -1
        self._turns: Counter[str] = Counter()
        self.feed = self._lines.feed

    def _line(self, text: str) -> None:
        if text.startswith("// -----// IR Dump") and (header := pass_of(text)) is not None:
            self._by, self._failed = header
            self._index += 1
            self._turns[self._by.key] += 1
            self._reader.begin()
        elif self._by is not None:
            self._reader.line(text)

    def _whole(self, module: PrintedModule) -> None:
        assert self._by is not None
        self._told(Dump(self._index, self._turns[self._by.key], self._by, self._failed, module))


def pass_of(text: str) -> tuple[PassName, bool] | None:
    """The pass a dump's first line names, and whether it failed there; None for any other line."""
    found = _HEADER.match(text)
    if found is None:
        return None
    return PassName(found["name"].rsplit("::", 1)[-1], found["argument"]), bool(found["failed"])
