"""Read printed IR of any length as a stream: a compiler's output after a phase, or its dumps after each pass."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from triage.mlir.fingerprint import Fingerprint, FingerprintBuilder, Vocabulary
from triage.mlir.generic_form import OPERATION

_MAX_LINE = 1 << 18
"""Bytes kept of a line: the name is at its beginning and the types at its end; constants in the middle are dropped."""

_CHUNK = 1 << 20
_HEADER = re.compile(
    r"// -----// IR Dump (?:After|Before) (?P<name>(?:\(anonymous namespace\)::)?\S+?)(?P<failed> Failed)?"
    r"(?:(?: \(|: )(?P<argument>[\w.-]*)| //-----|\Z)"
)


@dataclass(frozen=True, slots=True)
class PrintedModule:
    """Fingerprints of one piece of printed IR: the outermost operation as a whole, and functions by symbol.

    `device` holds the functions that are inside an executable.
    """

    whole: Fingerprint
    functions: dict[str, Fingerprint] = field(default_factory=dict)
    device: frozenset[str] = frozenset()

    @property
    def contains_functions(self) -> bool:
        """Whether the outermost operation holds functions and is not a function itself."""
        return all(function != self.whole for function in self.functions.values())


@dataclass(frozen=True, slots=True)
class PassName:
    """A pass: its class without namespaces, and its command-line argument if printed."""

    name: str
    argument: str | None = None

    @property
    def key(self) -> str:
        """The name that identifies the pass: its argument, otherwise its class."""
        return self.argument or self.name


@dataclass(frozen=True, slots=True)
class IrDump:
    """The IR after a pass. `index` counts all dumps of a run, `turn` those of this pass; `failed`: the pass failed."""

    index: int
    turn: int
    after: PassName
    failed: bool
    module: PrintedModule


class IrReader:
    """Reads printed IR line by line and reports each complete outermost operation."""

    def __init__(self, words: Vocabulary, on_module: Callable[[PrintedModule], None], *, count_types: bool = False) -> None:
        self._words = words
        self._on_module = on_module
        self._count_types = count_types
        self.reset()

    def reset(self) -> None:
        """Discard an incomplete operation and wait for the next outermost one."""
        self._open: list[FingerprintBuilder] = []
        self._functions: dict[str, Fingerprint] = {}
        self._device: set[str] = set()
        self._executables = 0
        self._done = False

    def line(self, text: str) -> None:
        """Read the next line, without its line break."""
        if self._done:
            return
        stripped = text.lstrip()
        if head := OPERATION.match(text):
            name = self._words.operations.get(head[2], head[2])
            if text.endswith("({"):
                self._open.append(FingerprintBuilder(name, text, self._words, count_types=self._count_types))
                self._executables += name in self._words.executables
            elif self._open:
                self._open[-1].add_operation(name, text)
        elif not self._open:
            return
        elif stripped.startswith("})"):
            self._close(text)
        elif stripped == "}, {":
            self._open[-1].next_region()
        elif stripped.startswith("^"):
            self._open[-1].add_block(text)

    def _close(self, text: str) -> None:
        child = self._open.pop()
        parent = self._open[-1] if self._open else FingerprintBuilder("", "", self._words, count_types=self._count_types)
        fingerprint = parent.add_child(child, text)
        if child.name in self._words.functions and child.symbol:
            self._functions[child.symbol] = fingerprint
            if self._executables:
                self._device.add(child.symbol)
        self._executables -= child.name in self._words.executables
        if not self._open:
            self._done = True
            self._on_module(PrintedModule(fingerprint, self._functions, frozenset(self._device)))


class LineSplitter:
    """Splits a stream into lines in bounded memory."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._carry = b""

    def feed(self, data: bytes) -> None:
        """Take the next piece of the stream."""
        *complete, self._carry = (self._carry + data).split(b"\n")
        for line in complete:
            self._on_line(_text(line))
        if len(self._carry) > 2 * _MAX_LINE:
            self._carry = self._carry[: _MAX_LINE // 2] + self._carry[-_MAX_LINE // 2 :]

    def finish(self) -> None:
        """Report a last line without a line break."""
        if self._carry:
            self._on_line(_text(self._carry))
            self._carry = b""


def _text(line: bytes) -> str:
    if len(line) > _MAX_LINE:
        line = line[: _MAX_LINE // 2] + line[-_MAX_LINE // 2 :]
    return line.decode("utf-8", "replace")


class DumpReader:
    """Reads the IR that a compiler prints after each pass and reports each complete dump.

    A line without a line break at the end of the stream is ignored: the compiler ended while it wrote the line.
    """

    def __init__(self, words: Vocabulary, on_dump: Callable[[IrDump], None]) -> None:
        self._on_dump = on_dump
        self._reader = IrReader(words, self._module)
        self._lines = LineSplitter(self._line)
        self._after: PassName | None = None
        self._failed = False
        self._index = -1
        self._turns: Counter[str] = Counter()
        self.feed = self._lines.feed

    def _line(self, text: str) -> None:
        if (header := pass_in(text)) is not None:
            self._after, self._failed = header
            self._index += 1
            self._turns[self._after.key] += 1
            self._reader.reset()
        elif self._after is not None:
            self._reader.line(text)

    def _module(self, module: PrintedModule) -> None:
        assert self._after is not None
        self._on_dump(IrDump(self._index, self._turns[self._after.key], self._after, self._failed, module))


def pass_in(line: str) -> tuple[PassName, bool] | None:
    """Return the pass that a dump's first line names and whether it failed; None for any other line."""
    found = _HEADER.match(line)
    if found is None:
        return None
    return PassName(found["name"].rsplit("::", 1)[-1], found["argument"]), bool(found["failed"])


def read_printed(path: Path, words: Vocabulary) -> PrintedModule | None:
    """Read the module in a file, with counts by type; None if the file holds no IR, such as a binary."""
    modules: list[PrintedModule] = []
    reader = IrReader(words, modules.append, count_types=True)
    lines = LineSplitter(reader.line)
    with path.open("rb") as source:
        while chunk := source.read(_CHUNK):
            lines.feed(chunk)
    lines.finish()
    return modules[0] if modules else None
