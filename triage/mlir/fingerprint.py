"""Fingerprints of IR that different compiler versions print: operations, types, nesting
and chosen attributes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Spellings = tuple[tuple[re.Pattern[str], str], ...]

MODULUS = 1 << 128


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """How to read a family's IR in generic MLIR form."""

    functions: frozenset[str]
    """Operations with a symbol whose bodies are compiled one by one."""
    executables: frozenset[str] = frozenset()
    """Operations that hold device code."""
    inert: frozenset[str] = frozenset()
    """Operations without meaning for a comparison, such as constants and assumptions.
    """
    meaningful: frozenset[str] = frozenset()
    """Operations that count although they have the types of bookkeeping."""
    constants: frozenset[str] = frozenset()
    """The inert operations that hold constants."""
    bookkeeping: re.Pattern[str] | None = None
    """Matches the function type of operations that compute sizes and offsets."""
    operations: Mapping[str, str] = field(default_factory=dict)
    """Renamed operations, old name -> new name."""
    passes: Mapping[str, str] = field(default_factory=dict)
    """Renamed passes, old name -> new name, without `Pass` at the end."""
    spellings: Spellings = ()
    """Renamed types and attributes: pattern -> replacement, in order."""
    decisions: tuple[str, ...] = ()
    """Attributes whose values count, such as tile sizes."""
    descriptive: frozenset[str] = frozenset()
    """Attributes that describe a program or its target and not its computation."""
    counts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Name of a count -> the operations to count."""
    allocates: frozenset[str] = frozenset()
    """Operations that allocate buffers."""
    shared: re.Pattern[str] | None = None
    """Matches the types of buffers in shared memory."""
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Class of a pass -> other files that hold its decisions, relative to the
    repository.
    """
    detailed: bool = False
    """Whether constants and all other attributes count as decisions, too."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The meaning of a function or module."""

    digest: int = 0
    """Equal for the same operations of the same types in the same nesting."""
    operations: Mapping[str, int] = field(default_factory=dict)
    """Operation -> how often it occurs."""
    choices: frozenset[tuple[str, str]] = frozenset()
    """(`attribute.key`, value) of the attributes that hold decisions."""
    decided: frozenset[tuple[str, str]] = frozenset()
    """The same by operation: (operation, its types and `attribute.key`, value)."""
    shared_bytes: int = 0
    """Shared memory of statically sized buffers."""

    def same_as(self, other: Fingerprint) -> bool:
        """Whether both mean the same."""
        return self.digest == other.digest and self.same_choices(other)

    def same_operations(self, other: Fingerprint) -> bool:
        """Whether both have the same operations, of whatever types, and make the same
        choices.
        """
        return self.operations == other.operations and self.same_choices(other)

    def same_choices(self, other: Fingerprint) -> bool:
        """Whether all choices that both make are equal: new versions add keys."""
        return not self.choice_differences(other)

    def choice_differences(
        self, other: Fingerprint
    ) -> tuple[tuple[str, str, str], ...]:
        """Return the choices that both make differently, as (key, the values only of
        this one, only of the other).
        """
        if self.choices == other.choices:
            return ()
        here, there = values_by_key(self.choices), values_by_key(other.choices)
        differing = [
            key for key in sorted(here.keys() & there.keys()) if here[key] != there[key]
        ]
        return tuple(
            (key, _joined(here[key] - there[key]), _joined(there[key] - here[key]))
            for key in differing
        )


def _joined(values: set[str]) -> str:
    return " ".join(sorted(values)) or "none"


def values_by_key(choices: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Group choices by their keys."""
    found: dict[str, set[str]] = {}
    for key, value in choices:
        found.setdefault(key, set()).add(value)
    return found


def combined(fingerprints: Iterable[Fingerprint]) -> Fingerprint:
    """Return the fingerprint of several functions together, independent of their names
    and order.
    """
    digest, shared = 0, 0
    operations: Counter[str] = Counter()
    choices: set[tuple[str, str]] = set()
    decided: set[tuple[str, str]] = set()
    for fingerprint in fingerprints:
        digest = (digest + fingerprint.digest) % MODULUS
        shared += fingerprint.shared_bytes
        operations.update(fingerprint.operations)
        choices |= fingerprint.choices
        decided |= fingerprint.decided
    return Fingerprint(
        digest, dict(operations), frozenset(choices), frozenset(decided), shared
    )
