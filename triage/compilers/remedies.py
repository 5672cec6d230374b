"""The interface of a family's knowledge about remedies: its options, its devices, and names for rewrites."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from triage.model.case import Case


@dataclass(frozen=True, slots=True)
class OptionCatalog:
    """Which of a compiler's own options are tried, by the beginnings of their names.

    Attributes:
        first: Complete options that are tried before any switch.
        recomputes: Words in names of options that change the types of computations.
        backends: Backend -> its own options, which are tried only for it, and first.
        phases: Failing phase -> options that affect it, nearest first.
        code_phase: The phase of code generation, whose options are tried for unknown phases.
        code_phase_prefixes: Beginnings of the names of phases that count as code generation.
        never: Words in names of options that are never tried.
        only_true: Words in names of options that are off by default, so that only `true` is tried.
    """

    first: tuple[str, ...]
    recomputes: tuple[str, ...]
    backends: Mapping[str, tuple[str, ...]]
    phases: Mapping[str, tuple[str, ...]]
    code_phase: str
    code_phase_prefixes: tuple[str, ...]
    never: tuple[str, ...]
    only_true: tuple[str, ...]

    def is_foreign(self, name: str, backend: str) -> bool:
        """Whether an option belongs to another backend."""
        owners = {owner for owner, prefixes in self.backends.items() if name.startswith(prefixes)}
        return bool(owners) and backend not in owners

    def prefixes(self, phase: str, backend: str) -> tuple[str, ...]:
        """Return the beginnings of the names of options worth trying when a phase fails, nearest first."""
        if phase.startswith(self.code_phase_prefixes) or phase not in self.phases:
            phase = self.code_phase
        own = self.backends.get(backend, ()) if phase == self.code_phase else ()
        return (*own, *self.phases[phase])


@dataclass(frozen=True, slots=True)
class RewriteNames:
    """Names for rewrites: the barrier operation, the transfers between devices, and the affinity attribute."""

    barrier: str
    transfers: frozenset[str]
    affinity: str


class RemedyHints(Protocol):
    """What one compiler family knows about remedies."""

    @property
    def options(self) -> OptionCatalog:
        """The options to try."""

    @property
    def names(self) -> RewriteNames:
        """The names for rewrites."""

    def devices_named(self, program: Path) -> frozenset[str]:
        """Return the devices that a program refers to."""

    def declaring(self, case: Case, devices: Collection[str]) -> tuple[str, ...] | None:
        """Return the options that declare these devices; None if all are declared or no option can."""
