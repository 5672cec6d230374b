"""What IR means, as far as two versions can be compared: which operations, of which types, nested how."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from triage.attribute.operation import decisions, shared_bytes, signature, symbol
from triage.compilers.base import Vocabulary

_MODULUS = 1 << 128
_LARGEST = (1 << 63) - 1  # bytes; what a dimension without a bound makes is more
_LIST = re.compile(r"\[([^\[\]]+)\]")
_CHOSEN = re.compile(r"[1-9]")
_SPELLED = 20_000  # different operations of one program that are told apart by their types


@dataclass(frozen=True, slots=True)
class Structure:
    """The meaning of one function or module in a few numbers.

    print_: the same for IR that differs only in names of values, order, attributes, locations and known renamings.
    operations: how often each stands in it. choices: (`attribute.key`, value) of the attributes that hold decisions.
    shared: bytes of statically sized shared memory. spelled: `operation : types` with how often each stands in it, where
    that was asked for.
    """

    print_: int = 0
    operations: Mapping[str, int] = field(default_factory=dict)
    choices: frozenset[tuple[str, str]] = frozenset()
    shared: int = 0
    spelled: Mapping[str, int] = field(default_factory=dict)

    def same_as(self, other: Structure) -> bool:
        """Whether both mean the same. Choices are compared where both make them: a version adds keys without a change."""
        return self.print_ == other.print_ and self.chooses_as(other)

    def chooses_as(self, other: Structure) -> bool:
        """Whether no choice that both make is another."""
        return not self.choices_against(other)

    def choices_against(self, other: Structure) -> tuple[tuple[str, str, str], ...]:
        """The choices both make differently: (key, here, there). Where they have no key of an attribute in common, as one of
        them keeps its tile sizes in another form, the lists of numbers are compared, and the attribute stands for the key.
        """
        here, there = _by_key(self.choices), _by_key(other.choices)
        shared = here.keys() & there.keys()
        apart = {_attribute(key) for key in here} & {_attribute(key) for key in there} - {_attribute(key) for key in shared}
        compared = [(key, here[key], there[key]) for key in shared]
        compared += [(name, _numbers(here, name), _numbers(there, name)) for name in apart]
        return tuple(
            (key, " ".join(sorted(ours)), " ".join(sorted(theirs)))
            for key, ours, theirs in sorted(compared, key=lambda one: one[0])
            if ours != theirs
        )


def _by_key(choices: frozenset[tuple[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for key, value in choices:
        found.setdefault(key, set()).add(value)
    return found


def _attribute(key: str) -> str:
    return key.partition(".")[0]


def _numbers(choices: Mapping[str, set[str]], attribute: str) -> set[str]:
    """The innermost lists in an attribute's values. One of zeros chooses nothing: forms differ in whether they write it."""
    values = (value for key, chosen in choices.items() if _attribute(key) == attribute for value in chosen)
    lists = (f"[{found}]" for value in values for found in _LIST.findall(value))
    return {one for one in lists if _CHOSEN.search(one)}


class Growing:
    """An operation whose regions are being read. Memory does not grow with their length: a sum of digests stands for what
    was read, which is why order counts for nothing.
    """

    __slots__ = ("choices", "inside", "name", "operations", "shared", "spelled", "symbol")

    def __init__(self, name: str, line: str, words: Vocabulary, *, spell: bool = False) -> None:
        self.name, self.symbol, self.inside = name, symbol(line), 0
        self.operations: Counter[str] = Counter()
        self.choices: set[tuple[str, str]] = set(decisions(line, words))
        self.shared = 0
        self.spelled: Counter[str] | None = Counter() if spell else None

    def take(self, name: str, line: str, words: Vocabulary) -> None:
        """An operation without regions."""
        self.choices.update(decisions(line, words))
        types = signature(line, words)
        if name in words.inert or (words.bookkeeping and words.bookkeeping.fullmatch(types)):
            return
        self._count(name, types)
        self.inside = (self.inside + _digest(f"{name}|{types}")) % _MODULUS
        if name in words.allocates:
            self.shared = min(_LARGEST, self.shared + shared_bytes(types, words))

    def take_block(self, types: str) -> None:
        """The beginning of a block."""
        self.inside = (self.inside + _digest(f"^({types})")) % _MODULUS

    def next_region(self) -> None:
        """What follows stands in another region of the same operation."""
        self.inside = _digest(f"region {self.inside}")

    def adopt(self, child: Growing, line: str, words: Vocabulary) -> Structure:
        """An operation whose last region ends in `line`; what it means by itself."""
        child.symbol = child.symbol or symbol(line)
        child.choices.update(decisions(line, words))
        types = signature(line, words)
        own = _digest(f"{child.name}|{types}|{child.inside}")
        self.operations.update(child.operations)
        if self.spelled is not None:
            self.spelled.update(child.spelled or {})
        if child.name not in words.inert:
            self._count(child.name, types)
            self.inside = (self.inside + own) % _MODULUS
        self.choices |= child.choices
        self.shared = min(_LARGEST, self.shared + child.shared)
        return Structure(own, dict(child.operations), frozenset(child.choices), child.shared, dict(child.spelled or {}))

    def _count(self, name: str, types: str) -> None:
        self.operations[name] += 1
        if self.spelled is not None and len(self.spelled) < _SPELLED:
            self.spelled[f"{name} : {types}"] += 1


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest())
