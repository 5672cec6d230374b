"""Compute the fingerprint of the IR that a compiler prints after each pass, to compare
what different versions print. It depends on operations, types and some attributes. IR
of any length is read line by line, in bounded memory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

from triage.mlir.generic_form import OPERATION
from triage.mlir.tree import (
    UnbalancedError,
    end_of_attribute,
    end_of_bracket,
    parse_entries,
)
from triage.model.content import LineCutter
from triage.model.execution import PassName, dumped_pass

Spellings = tuple[tuple[re.Pattern[str], str], ...]

_MODULUS = 1 << 128
_SYMBOL = re.compile(r'\bsym_name = "((?:[^"\\]|\\.)*)"')
_CHOICE = re.compile(r"(\w+) = (\[[\d\s,\[\]?-]*\]|[\w.@#:-]+(?:<[\w., -]*>)?)")
_ATTRIBUTES = re.compile(r"<\{| \{")
_MAX_DETAIL = 200  # characters of an attribute
_LOCATION = re.compile(r" loc\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")


@dataclass(frozen=True)
class Vocabulary:
    """The names in a family's IR that a comparison must know. The IR is in MLIR's
    generic form.
    """

    functions: frozenset[str]
    """Operations with a symbol whose bodies are compiled one by one."""
    executables: frozenset[str] = frozenset()
    """Operations that hold device code."""
    inert: frozenset[str] = frozenset()
    """Operations that are ignored, such as constants and assumptions."""
    constants: frozenset[str] = frozenset()
    """The inert operations that hold constants."""
    bookkeeping: re.Pattern[str] | None = None
    """Matches the function type of operations that compute sizes and offsets, which are
    ignored.
    """
    operations: Mapping[str, str] = field(default_factory=dict)
    """Renamed operations, old name -> new name."""
    with_body: Mapping[str, str] = field(default_factory=dict)
    """Dialect -> the operation that all its operations with a body are taken for."""
    passes: Mapping[str, str] = field(default_factory=dict)
    """Renamed passes, old name -> new name, without `Pass` at the end."""
    spellings: Spellings = ()
    """Renamed types and attributes: pattern -> replacement, in order."""
    decisions: tuple[str, ...] = ()
    """Attributes that hold choices of the compiler, such as tile sizes."""
    descriptive: frozenset[str] = frozenset()
    """Attributes that do not affect the computation."""
    detailed: bool = False
    """Whether constants and all attributes that are not descriptive count as choices.
    """


@dataclass
class Fingerprint:
    """What is compared of a function or a module. It adds up: names, order and nesting
    do not count.
    """

    digest: int = 0
    """Equal for the same operations of the same types."""
    operations: Counter[str] = field(default_factory=Counter)
    """Operation -> how often it occurs."""
    choices: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of `attribute.key` and its value, of the attributes that hold choices."""
    operation_choices: set[tuple[str, str]] = field(default_factory=set)
    """The same for each operation: pairs of `operation types attribute.key` and its
    value.
    """

    def add(self, part: Fingerprint) -> None:
        self.add_digest(part.digest)
        self.operations.update(part.operations)
        self.choices |= part.choices
        self.operation_choices |= part.operation_choices

    def add_digest(self, digest: int) -> None:
        self.digest = (self.digest + digest) % _MODULUS

    def same_as(self, other: Fingerprint) -> bool:
        """Return whether both have the same operations, types and choices."""
        return self.digest == other.digest and not self.choice_differences(other)

    def same_operations(self, other: Fingerprint) -> bool:
        """Return whether both have the same operations and choices. Types may
        differ.
        """
        same = self.operations == other.operations
        return same and not self.choice_differences(other)

    def count_differences(self, other: Fingerprint) -> dict[str, tuple[int, int]]:
        """Return the operations that one has more often, with both counts, by name."""
        ours = self.operations
        theirs = other.operations
        return {
            name: (ours[name], theirs[name])
            for name in sorted(ours | theirs)
            if ours[name] != theirs[name]
        }

    def choice_differences(
        self, other: Fingerprint
    ) -> tuple[tuple[str, str, str], ...]:
        """Return the choices that differ: key, the values that only this fingerprint
        has, and those that only the other one has. A key that only one of the two has
        does not count, because new versions add keys.
        """
        if self.choices == other.choices:
            return ()
        here = values_by_key(self.choices)
        there = values_by_key(other.choices)
        differing = []
        for key in sorted(here.keys() & there.keys()):
            only_here = " ".join(sorted(here[key] - there[key]))
            only_there = " ".join(sorted(there[key] - here[key]))
            if only_here and only_there:
                differing.append((key, only_here, only_there))
        return tuple(differing)


def values_by_key(choices: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Group choices by their keys."""
    values: dict[str, set[str]] = {}
    for key, value in choices:
        values.setdefault(key, set()).add(value)
    return values


def combined(fingerprints: Iterable[Fingerprint]) -> Fingerprint:
    """Return one fingerprint for several functions."""
    total = Fingerprint()
    for fingerprint in fingerprints:
        total.add(fingerprint)
    return total


@dataclass(frozen=True)
class PrintedModule:
    """Fingerprints of one piece of printed IR."""

    whole: Fingerprint
    """The outermost operation."""
    functions: dict[str, Fingerprint] = field(default_factory=dict)
    """Functions by symbol."""
    device: frozenset[str] = frozenset()
    """The functions that are inside an executable."""

    @property
    def contains_functions(self) -> bool:
        """Whether the outermost operation is not itself the only function."""
        return all(function != self.whole for function in self.functions.values())


@dataclass(frozen=True)
class IrDump:
    """The IR after a pass."""

    index: int
    """The number of the dump in the run, from 0."""
    after: PassName
    failed: bool
    """Whether the pass failed."""
    module: PrintedModule


@dataclass
class _OpenOperation:
    """An operation whose regions are being read."""

    name: str
    symbol: str | None
    inside: Fingerprint = field(default_factory=Fingerprint)
    """Of the operations inside."""


class DumpReader:
    """Reads the IR that a compiler prints after each pass, and calls `on_dump` for each
    complete dump.

    Fingerprints do not depend on names of values, order, nesting, locations, renamings
    between versions, and attributes without choices. A last line without a line break
    is ignored: the compiler ended while it wrote the line.
    """

    def __init__(self, words: Vocabulary, on_dump: Callable[[IrDump], None]) -> None:
        self._words = words
        self._on_dump = on_dump
        # The middle of long lines, where constants are, is dropped. Names are at the
        # beginning of a line, types at its end.
        self._lines = LineCutter(1 << 17, 1 << 17)
        self._index = -1
        self._header: tuple[PassName, bool] | None = None
        """The pass of the IR that is read, and whether it failed; None between dumps.
        """
        self._open: list[_OpenOperation] = []
        self._functions: dict[str, Fingerprint] = {}
        self._device: set[str] = set()

    def feed(self, data: bytes) -> None:
        """Take the next piece of the output."""
        for line in self._lines.feed(data):
            self._read_line(line.decode("utf-8", "replace"))

    def _read_line(self, text: str) -> None:
        header = dumped_pass(text)
        if header:
            self._header = header
            self._index += 1
            # an incomplete operation is discarded
            self._open = []
            self._functions = {}
            self._device = set()
        elif self._header:
            self._read_ir_line(text)

    def _read_ir_line(self, text: str) -> None:
        head = OPERATION.match(text)
        if head:
            name = self._words.operations.get(head[2], head[2])
            if text.endswith("({"):
                name = self._words.with_body.get(name.partition(".")[0], name)
                self._open.append(_OpenOperation(name, _symbol(text)))
                self._add_choices(self._open[-1].inside, name, text, "")
            elif self._open:
                self._add_operation(self._open[-1].inside, name, text)
        elif self._open and text.lstrip().startswith("})"):
            self._close_operation(self._open.pop(), text)

    def _add_operation(self, tally: Fingerprint, name: str, line: str) -> None:
        """Add an operation without regions to the operation around it."""
        words = self._words
        types = self._types(line)
        self._add_choices(tally, name, line, types)
        is_bookkeeping = words.bookkeeping and words.bookkeeping.fullmatch(types)
        if name in words.inert or is_bookkeeping:
            return
        tally.operations[name] += 1
        tally.add_digest(_digest(f"{name}|{types}"))

    def _close_operation(self, child: _OpenOperation, line: str) -> None:
        """Read the line after the last region of an operation, and add the operation to
        the one around it. Report the outermost one.
        """
        types = self._types(line)
        child.symbol = child.symbol or _symbol(line)
        self._add_choices(child.inside, child.name, line, types)
        digest = _digest(f"{child.name}|{types}")
        if self._open:
            parent = self._open[-1].inside
            parent.add(child.inside)
            parent.operations[child.name] += 1
            parent.add_digest(digest)
        child.inside.add_digest(digest)
        if child.name in self._words.functions and child.symbol:
            self._functions[child.symbol] = child.inside
            if any(outer.name in self._words.executables for outer in self._open):
                self._device.add(child.symbol)
        if not self._open and self._header:
            (after, failed), self._header = self._header, None
            device = frozenset(self._device)
            module = PrintedModule(child.inside, self._functions, device)
            self._on_dump(IrDump(self._index, after, failed, module))

    def _types(self, line: str) -> str:
        """Return operand and result types of the operation that ends in a line, in the
        newest spelling.
        """
        start = line.rfind(" : (")
        if start < 0:
            return ""
        types = line[start + 3 :]
        if " loc(" in types:
            types = _LOCATION.sub("", types)
        return _normalised(types, self._words.spellings)

    def _add_choices(
        self, tally: Fingerprint, name: str, line: str, types: str
    ) -> None:
        """Add the choices that the attributes in a line hold."""
        for attribute in self._words.decisions:
            begin = line.find(f"{attribute} = ")
            while begin >= 0:
                begin += len(attribute) + 3
                end = end_of_attribute(line, begin)
                text = _normalised(line[begin:end], self._words.spellings)
                for key, value in _CHOICE.findall(text):
                    tally.choices.add((f"{attribute}.{key}", value))
                    tally.operation_choices.add(
                        (f"{name} {types} {attribute}.{key}", value)
                    )
                begin = line.find(f"{attribute} = ", end)
        if self._words.detailed:
            tally.choices.update(_details(name, line, self._words))


def _details(name: str, line: str, words: Vocabulary) -> Iterator[tuple[str, str]]:
    """Yield `operation.attribute` and its value, for the attributes in a line that
    affect the computation and hold no choices.
    """
    if name in words.inert - words.constants:
        return
    position = 0
    while match := _ATTRIBUTES.search(line, position):
        begin = match.end() - 1
        try:
            position = end_of_bracket(line, begin)
        except UnbalancedError:  # the line is cut
            return
        for key, value in parse_entries(line[begin + 1 : position - 1]).items():
            if key not in words.descriptive and key not in words.decisions:
                plain = _normalised(value, words.spellings)
                if len(plain) > _MAX_DETAIL:
                    plain = f"{plain[:_MAX_DETAIL]}… {_digest(plain):x}"
                yield f"{name}.{key}", plain


@lru_cache(maxsize=1 << 12)
def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest())


@lru_cache(maxsize=1 << 12)
def _normalised(text: str, spellings: Spellings) -> str:
    for pattern, replacement in spellings:
        text = pattern.sub(replacement, text)
    return text


def _symbol(line: str) -> str | None:
    match = _SYMBOL.search(line)
    if match:
        return match[1]
    return None
