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
    meaningful: frozenset[str] = frozenset()
    """Operations that are not ignored, although their types match `bookkeeping`."""
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
    counts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Name of a count -> the operations to count."""
    allocates: frozenset[str] = frozenset()
    """Operations that allocate buffers."""
    shared: re.Pattern[str] | None = None
    """Matches the types of buffers in shared memory."""
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Class of a pass -> further source files that decide what it does, relative to the
    repository.
    """
    detailed: bool = False
    """Whether constants and all attributes that are not descriptive count as choices.
    """


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What is compared of a function or a module."""

    digest: int = 0
    """Equal for the same operations of the same types."""
    operations: Mapping[str, int] = field(default_factory=dict)
    """Operation -> how often it occurs."""
    choices: frozenset[tuple[str, str]] = frozenset()
    """Pairs of `attribute.key` and its value, of the attributes that hold choices."""
    decided: frozenset[tuple[str, str]] = frozenset()
    """The same for each operation: pairs of `operation types attribute.key` and its
    value.
    """
    shared_bytes: int = 0
    """Shared memory of statically sized buffers."""

    def same_as(self, other: Fingerprint) -> bool:
        """Return whether both have the same operations, types and choices."""
        return self.digest == other.digest and self.same_choices(other)

    def same_operations(self, other: Fingerprint) -> bool:
        """Return whether both have the same operations and choices. Types may
        differ.
        """
        return self.operations == other.operations and self.same_choices(other)

    def count_differences(self, other: Fingerprint) -> dict[str, tuple[int, int]]:
        """Return the operations that one has more often, with both counts, by name."""
        counts = {
            name: (self.operations.get(name, 0), other.operations.get(name, 0))
            for name in sorted({*self.operations, *other.operations})
        }
        return {name: pair for name, pair in counts.items() if pair[0] != pair[1]}

    def same_choices(self, other: Fingerprint) -> bool:
        """Return whether the choices with the same key are equal. A key that only one
        of the two has does not count, because new versions add keys.
        """
        return not self.choice_differences(other)

    def choice_differences(
        self, other: Fingerprint
    ) -> tuple[tuple[str, str, str], ...]:
        """Return the choices that differ: key, the values that only this fingerprint
        has, and those that only the other one has. Each has some.
        """
        if self.choices == other.choices:
            return ()
        here, there = values_by_key(self.choices), values_by_key(other.choices)
        differing = []
        for key in sorted(here.keys() & there.keys()):
            only_here, only_there = here[key] - there[key], there[key] - here[key]
            if only_here and only_there:
                differing.append(
                    (key, " ".join(sorted(only_here)), " ".join(sorted(only_there)))
                )
        return tuple(differing)


def values_by_key(choices: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Group choices by their keys."""
    found: dict[str, set[str]] = {}
    for key, value in choices:
        found.setdefault(key, set()).add(value)
    return found


@dataclass(slots=True)
class FingerprintTally:
    """Adds up what becomes a fingerprint. Names and order do not count."""

    digest: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    choices: set[tuple[str, str]] = field(default_factory=set)
    decided: set[tuple[str, str]] = field(default_factory=set)
    shared_bytes: int = 0

    def add(self, part: FingerprintTally | Fingerprint) -> None:
        self.digest += part.digest
        self.operations.update(part.operations)
        self.choices |= part.choices
        self.decided |= part.decided
        self.shared_bytes += part.shared_bytes

    def fingerprint(self, own_digest: int = 0) -> Fingerprint:
        """Return the fingerprint of all that was added, inside an operation of this
        digest.
        """
        return Fingerprint(
            (self.digest + own_digest) % _MODULUS,
            dict(self.operations),
            frozenset(self.choices),
            frozenset(self.decided),
            self.shared_bytes,
        )


def combined(fingerprints: Iterable[Fingerprint]) -> Fingerprint:
    """Return one fingerprint for several functions."""
    tally = FingerprintTally()
    for fingerprint in fingerprints:
        tally.add(fingerprint)
    return tally.fingerprint()
