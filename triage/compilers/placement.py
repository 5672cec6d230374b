"""How a family's programs and options name devices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from triage.mlir import Module
from triage.model.revision import Toolchain


@dataclass(frozen=True, slots=True)
class PlacementWords:
    """The operations and attributes that place values on devices.

    interface: the attribute that places an argument or result; placed_by: attributes of an operation that place its results;
    moves: operations that move a value to another device; barrier: the operation that stops optimizations; carried: dialects
    and operations that only pass values on, on any device; updates: operation -> the operand it writes in place; passes_on:
    operations whose first operand is their result; loads, stores: of a global; constants: of tensors; tiled: operations that
    are tiled and padded; demoted: element type -> the option without which it is computed in a narrower type.
    """

    interface: str
    placed_by: tuple[str, ...]
    moves: frozenset[str]
    barrier: str
    carried: frozenset[str]
    updates: dict[str, int]
    passes_on: frozenset[str]
    loads: frozenset[str]
    stores: frozenset[str]
    constants: frozenset[str]
    attention: frozenset[str]
    tiled: frozenset[str]
    demoted: dict[str, str]


@dataclass(frozen=True, slots=True)
class MissingTypes:
    """Element types that a backend lacks, as they were seen to fail. chips: the chips it is about, None for all; interface:
    only an argument or result of that type fails.
    """

    backends: frozenset[str]
    types: frozenset[str]
    why: str
    chips: re.Pattern[str] | None = None
    interface: bool = False
    unless: str | None = None  # an option without which the type is replaced before it can fail


@dataclass(frozen=True, slots=True)
class Declared:
    """The devices that options declare: name -> the word that declares it. problem: why the compiler refuses them; sole: an
    option beside which no other declares anything.
    """

    devices: dict[str, str] = field(default_factory=dict)
    problem: str | None = None
    sole: str | None = None


@dataclass(frozen=True, slots=True)
class Solver:
    """The analysis that finds a device for every value in a limited number of iterations. limit: the option up to its `=`, None
    where this version has none. phase: by whose end the analysis has succeeded; family: of the failures that say it did
    not. prepared, prepared_phase: options and phase of a compile whose output it can be run on alone, with `analysis` as
    options of the optimizer.
    """

    limit: str | None
    phase: str
    family: str
    prepared: tuple[str, ...]
    prepared_phase: str
    analysis: tuple[str, ...]


class Placement(Protocol):
    """Devices of one compiler family."""

    @property
    def words(self) -> PlacementWords:
        """How its operations are read."""

    @property
    def missing_types(self) -> Sequence[MissingTypes]:
        """What its backends lack."""

    def devices_in(self, text: str) -> Iterator[str]:
        """The names of the devices that an attribute's or a type's text refers to."""

    def position(self, device: str) -> int | None:
        """The position that a device's name stands for; None where it is a name of the user's own."""

    def declared_by(self, options: Sequence[str]) -> Declared:
        """What a command line declares."""

    def declared_in(self, module: Module) -> Declared:
        """What the module declares itself."""

    def declaring(self, devices: Sequence[str], backend: str | None, given: Sequence[str]) -> tuple[str, ...]:
        """The options that declare these devices, for a backend, as like the given ones as can be."""

    def target_of(self, options: Sequence[str]) -> tuple[str | None, str | None]:
        """The backend and the chip that a command line compiles for; None for what it does not name, or names several of."""

    def gpu(self, backend: str | None) -> bool:
        """Whether a backend's programs run on a GPU."""

    def solver(self, toolchain: Toolchain) -> Solver:
        """How the analysis of devices is limited and measured on this version."""
