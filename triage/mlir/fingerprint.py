"""Fingerprints of IR, to compare what different compiler versions print. They depend on
operations, types and some attributes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Spellings = tuple[tuple[re.Pattern[str], str], ...]

_MODULUS = 1 << 128


@dataclass(frozen=True, slots=True)
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


@dataclass(slots=True)
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
    decided: set[tuple[str, str]] = field(default_factory=set)
    """The same for each operation: pairs of `operation types attribute.key` and its
    value.
    """

    def add(self, part: Fingerprint) -> None:
        self.add_digest(part.digest)
        self.operations.update(part.operations)
        self.choices |= part.choices
        self.decided |= part.decided

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
        ours, theirs = self.operations, other.operations
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
        here, there = values_by_key(self.choices), values_by_key(other.choices)
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
