"""Fingerprints of IR that different compiler versions print: operations, types, nesting and chosen attributes.

A fingerprint is built line by line in bounded memory. It ignores names of values, order, attributes, locations and renamings
between versions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

from triage.mlir.tree import UnbalancedError, closing, end_of_attribute, entries

Spellings = tuple[tuple[re.Pattern[str], str], ...]

_MODULUS = 1 << 128
UNBOUNDED = (1 << 63) - 1
"""The size of a buffer with an unbounded dimension."""

_MAX_TYPED_COUNTS = 20_000
_LIST = re.compile(r"\[([^\[\]]+)\]")
_NONZERO = re.compile(r"[1-9]")
_VALUE_NAME = re.compile(r"%[\w.$-]+: ")
_BLOCK = re.compile(r"\s*\^\w+\s*(?:\((?P<arguments>.*)\))?:(?:\s|$)")
_SYMBOL = re.compile(r'\bsym_name = "((?:[^"\\]|\\.)*)"')
_CHOICE = re.compile(r"(\w+) = (\[[\d\s,\[\]?-]*\]|[\w.@#:-]+(?:<[\w., -]*>)?)")
_BUFFER = re.compile(r"memref<((?:\d{1,19}x){1,64})[a-zA-Z]*?(\d{1,18})")
_BUFFER_TYPE = re.compile(
    r"memref<([^<>,]*(?:<[^<>]*>)?)((?:->|[^<>]|<(?:->|[^<>]|<(?:->|[^<>])*>)*>)*)>"
)  # shape and element, then layout and address space
_ATTRIBUTES = re.compile(r"<\{| \{")
_SIZE = re.compile(r"\bindex\b")
_MAX_DETAIL = 200  # characters of an attribute
_LOCATION = re.compile(r" loc\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """How to read a family's IR in generic MLIR form.

    Attributes:
        functions: Operations with a symbol whose bodies are compiled one by one.
        executables: Operations that hold device code.
        inert: Operations without meaning for a comparison, such as constants and assumptions.
        bookkeeping: Pattern of the function type of operations that compute sizes and offsets.
        operations: Renamed operations, old name -> new name.
        passes: Renamed passes, old name -> new name, without `Pass` at the end.
        spellings: Renamed types and attributes: pattern -> replacement, in order.
        decisions: Attributes whose values count, such as tile sizes.
        counts: Name of a count -> the operations to count.
        allocates: Operations that allocate buffers.
        shared: Pattern of the types of buffers in shared memory.
        sources: Class of a pass -> other files that hold its decisions, relative to the repository.
        constants: The inert operations that hold constants.
        descriptive: Attributes that describe a program or its target, not what it computes.
        followed: The operation whose types are recorded, such as the one that fails.
        detailed: Whether constants, all other attributes and computations of single bits count as decisions, too.
    """

    functions: frozenset[str]
    executables: frozenset[str] = frozenset()
    inert: frozenset[str] = frozenset()
    bookkeeping: re.Pattern[str] | None = None
    operations: Mapping[str, str] = field(default_factory=dict)
    passes: Mapping[str, str] = field(default_factory=dict)
    spellings: Spellings = ()
    decisions: tuple[str, ...] = ()
    counts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    allocates: frozenset[str] = frozenset()
    shared: re.Pattern[str] | None = None
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    constants: frozenset[str] = frozenset()
    descriptive: frozenset[str] = frozenset()
    followed: str | None = None
    detailed: bool = False


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The meaning of a function or module.

    Attributes:
        digest: Equal for the same operations of the same types in the same nesting.
        outline: The same digest without strides and address spaces of buffers.
        operations: Operation -> how often it occurs.
        choices: (`attribute.key`, value) of the attributes that hold decisions.
        shared_bytes: Shared memory of statically sized buffers.
        typed_counts: `operation : types` -> how often it occurs; empty unless requested.
        followed: Types of the followed operation, without strides and address spaces of buffers.
    """

    digest: int = 0
    outline: int = 0
    operations: Mapping[str, int] = field(default_factory=dict)
    choices: frozenset[tuple[str, str]] = frozenset()
    shared_bytes: int = 0
    typed_counts: Mapping[str, int] = field(default_factory=dict)
    followed: frozenset[str] = frozenset()

    def same_as(self, other: Fingerprint) -> bool:
        """Whether both mean the same. Only choices that both make count: new versions add keys."""
        return self.digest == other.digest and self.same_choices(other)

    def same_operations(self, other: Fingerprint) -> bool:
        """Whether both have the same operations, of whatever types, and make the same choices."""
        return self.operations == other.operations and self.same_choices(other)

    def same_outline(self, other: Fingerprint) -> bool:
        """Whether both mean the same apart from strides and address spaces of buffers."""
        return self.outline == other.outline and self.same_choices(other)

    def same_followed(self, other: Fingerprint) -> bool:
        """Whether the followed operation has the same types in both."""
        return self.followed == other.followed

    def same_choices(self, other: Fingerprint) -> bool:
        """Whether all choices that both make are equal."""
        return not self.choice_differences(other)

    def choice_differences(self, other: Fingerprint) -> tuple[tuple[str, str, str], ...]:
        """Return the choices that both make differently, as (key, this one's value, the other's value).

        If an attribute has no key in common, because a version stores its tile sizes in another form, the lists of numbers
        are compared and the attribute's name is the key.
        """
        here, there = _values_by_key(self.choices), _values_by_key(other.choices)
        common = here.keys() & there.keys()
        other_form = {_attribute(key) for key in here} & {_attribute(key) for key in there}
        other_form -= {_attribute(key) for key in common}
        compared = [(key, here[key], there[key]) for key in common]
        compared += [(name, _numbers(here, name), _numbers(there, name)) for name in other_form]
        return tuple(
            (key, " ".join(sorted(ours)), " ".join(sorted(theirs)))
            for key, ours, theirs in sorted(compared, key=lambda entry: entry[0])
            if ours != theirs
        )


def combined(fingerprints: Iterable[Fingerprint]) -> Fingerprint:
    """Return the fingerprint of several functions together, independent of their names and order."""
    digest, outline, shared = 0, 0, 0
    operations: Counter[str] = Counter()
    choices: set[tuple[str, str]] = set()
    followed: set[str] = set()
    for fingerprint in fingerprints:
        followed |= fingerprint.followed
        digest = (digest + fingerprint.digest) % _MODULUS
        outline = (outline + fingerprint.outline) % _MODULUS
        shared += fingerprint.shared_bytes
        operations.update(fingerprint.operations)
        choices |= fingerprint.choices
    return Fingerprint(digest, outline, dict(operations), frozenset(choices), shared, followed=frozenset(followed))


def _values_by_key(choices: frozenset[tuple[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for key, value in choices:
        found.setdefault(key, set()).add(value)
    return found


def _attribute(key: str) -> str:
    return key.partition(".")[0]


def _numbers(choices: Mapping[str, set[str]], attribute: str) -> set[str]:
    """Return the innermost lists in an attribute's values, without lists of zeros, which not every form contains."""
    values = (value for key, chosen in choices.items() if _attribute(key) == attribute for value in chosen)
    lists = (f"[{found}]" for value in values for found in _LIST.findall(value))
    return {text for text in lists if _NONZERO.search(text)}


class FingerprintBuilder:
    """An operation whose regions are being read.

    A sum of digests represents the operations inside, so that memory is bounded and their order does not count. The second
    of the two sums leaves out strides and address spaces of buffers.
    """

    def __init__(self, name: str, line: str, words: Vocabulary, *, count_types: bool = False) -> None:
        self.name, self.symbol, self.sums = name, _symbol(line), (0, 0)
        self.operations: Counter[str] = Counter()
        self.choices: set[tuple[str, str]] = set()
        self.shared = 0
        self.followed: set[str] = set()
        self.typed_counts: Counter[str] | None = Counter() if count_types else None
        self._words = words
        self._read_choices(name, line, "")

    def add_operation(self, name: str, line: str) -> None:
        """Add an operation without regions."""
        types = self._types(line)
        self._read_choices(name, line, types)
        words = self._words
        if name in words.inert or (words.bookkeeping and words.bookkeeping.fullmatch(types)):
            return
        self._count(name, types)
        self._add(_digests(f"{name}|{types}"))
        if name in words.allocates:
            self.shared = min(UNBOUNDED, self.shared + _shared_bytes(types, words))

    def add_block(self, line: str) -> None:
        """Add the beginning of a block, if the line is one."""
        if found := _BLOCK.match(line):
            arguments = _without_locations(found["arguments"] or "")
            self._add(_digests(f"^({_normalised(_VALUE_NAME.sub('', arguments), self._words.spellings)})"))

    def next_region(self) -> None:
        """Begin another region of the same operation."""
        self.sums = (_digest(f"region {self.sums[0]}"), _digest(f"region {self.sums[1]}"))

    def add_child(self, child: FingerprintBuilder, line: str) -> Fingerprint:
        """Add an operation whose last region ends in `line`, and return its fingerprint."""
        types = self._types(line)
        child.symbol = child.symbol or _symbol(line)
        child._read_choices(child.name, line, types)
        own = _digests(f"{child.name}|{types}")
        digests = (_digest(f"{own[0]}|{child.sums[0]}"), _digest(f"{own[1]}|{child.sums[1]}"))
        typed_counts = child.typed_counts or Counter[str]()
        fingerprint = Fingerprint(
            *digests, child.operations, frozenset(child.choices), child.shared, typed_counts, frozenset(child.followed)
        )
        self.operations.update(child.operations)
        if self.typed_counts is not None:
            self.typed_counts.update(typed_counts)
        if child.name not in self._words.inert:
            self._count(child.name, types)
            self._add(digests)
        self.choices |= child.choices
        self.followed |= child.followed
        self.shared = min(UNBOUNDED, self.shared + child.shared)
        return fingerprint

    def _types(self, line: str) -> str:
        """Return operand and result types of the operation that ends in a line, in the newest spelling."""
        start = line.rfind(" : (")
        return _normalised(_without_locations(line[start + 3 :]), self._words.spellings) if start >= 0 else ""

    def _read_choices(self, name: str, line: str, types: str) -> None:
        self.choices.update(_choices(line, self._words))
        if self._words.detailed:
            self.choices.update(_details(name, line, types, self._words))

    def _add(self, digests: tuple[int, int]) -> None:
        self.sums = ((self.sums[0] + digests[0]) % _MODULUS, (self.sums[1] + digests[1]) % _MODULUS)

    def _count(self, name: str, types: str) -> None:
        self.operations[name] += 1
        if name == self._words.followed:
            self.followed.add(_BUFFER_TYPE.sub(r"memref<\1>", types))
        if self.typed_counts is not None and len(self.typed_counts) < _MAX_TYPED_COUNTS:
            self.typed_counts[f"{name} : {types}"] += 1


@lru_cache(maxsize=1 << 12)
def _digests(text: str) -> tuple[int, int]:
    """Return the digest of a text, and that without strides and address spaces of buffers."""
    digest, plain = _digest(text), _BUFFER_TYPE.sub(r"memref<\1>", text)
    return digest, digest if plain == text else _digest(plain)


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest())


def _without_locations(text: str) -> str:
    return _LOCATION.sub("", text) if " loc(" in text else text


@lru_cache(maxsize=1 << 12)
def _normalised(text: str, spellings: Spellings) -> str:
    for pattern, replacement in spellings:
        text = pattern.sub(replacement, text)
    return text


def _symbol(line: str) -> str | None:
    found = _SYMBOL.search(line)
    return found[1] if found else None


def _choices(line: str, words: Vocabulary) -> Iterator[tuple[str, str]]:
    """Yield (`attribute.key`, value) for the attributes in a line that hold decisions."""
    for name in words.decisions:
        start = line.find(f"{name} = ")
        while start >= 0:
            value = line[start + len(name) + 3 : end_of_attribute(line, start + len(name) + 3)]
            for key, chosen in _CHOICE.findall(_normalised(value, words.spellings)):
                yield f"{name}.{key}", chosen
            start = line.find(f"{name} = ", start + len(name) + 3 + len(value))


def _details(name: str, line: str, types: str, words: Vocabulary) -> Iterator[tuple[str, str]]:
    """Yield (`operation.attribute`, value) for what an operation computes beyond its types.

    Constants and operations of sizes and offsets are left out.
    """
    counts_sizes = words.bookkeeping is not None and words.bookkeeping.fullmatch(types) is not None
    if (counts_sizes and _SIZE.search(types)) or name in words.inert - words.constants:
        return
    if counts_sizes and name not in words.constants:
        yield f"operation {types}", name
    for text in _dictionaries(line):
        for key, value in entries(text).items():
            if key not in words.descriptive and key not in words.decisions:
                plain = _normalised(value, words.spellings)
                yield f"{name}.{key}", plain if len(plain) <= _MAX_DETAIL else f"{plain[:_MAX_DETAIL]}… {_digest(plain):x}"


def _dictionaries(line: str) -> Iterator[str]:
    """Yield the insides of the properties and of the attributes of an operation in generic form."""
    position = 0
    while found := _ATTRIBUTES.search(line, position):
        begin = found.end() - 1
        try:
            end = closing(line, begin)
        except UnbalancedError:  # the line is cut
            return
        yield line[begin + 1 : end - 1]
        position = end


def _shared_bytes(types: str, words: Vocabulary) -> int:
    """Return the bytes of result buffers of static shape in shared memory; each element takes at least one byte."""
    if words.shared is None or not words.shared.search(types):
        return 0
    total = 0
    for found in _BUFFER.finditer(types.rpartition(" -> ")[2]):
        elements = 1
        for extent in found[1].split("x"):
            elements *= int(extent or 1)
        total += elements * max(1, int(found[2]) // 8)
    return total
