"""What a compiler family calls things in its IR, and how those names have changed: data that a comparison goes by."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

Spellings = tuple[tuple[re.Pattern[str], str], ...]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """How to read a family's IR in generic MLIR form.

    functions: operations with a symbol whose bodies are compiled one by one; executables: those that hold device code.
    inert: operations whose presence means nothing, such as constants and assumptions; bookkeeping: the types, all operands and
    results together, of operations that compute sizes and offsets: every version folds those in another order.
    operations: old name to new name; passes: the same of passes, without `Pass` at the end; spellings: patterns of types and
    attributes and what they become, in order. All three undo renamings between versions.
    decisions: attributes that hold choices, such as tile sizes, whose values count although attributes do not.
    counts: what is counted under which name; allocates, shared: operations that make buffers, and a pattern of
    the types of those that live in shared memory.
    sources: files beside its own that hold a pass's decisions, relative to the repository, by the pass's class.
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
