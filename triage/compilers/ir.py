"""How a family's compiler prints its IR."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from triage.compilers.invocation import Invocation
    from triage.mlir.fingerprint import Vocabulary
    from triage.model.revision import Toolchain


class Ir(Protocol):
    """How a family's compiler prints its IR."""

    @property
    def words(self) -> Vocabulary:
        """The names of its operations, types and passes."""

    def is_printed_by(self, toolchain: Toolchain) -> bool:
        """Whether this compiler has the options that print IR."""

    def phases(self, toolchain: Toolchain, last: str | None) -> tuple[str, ...]:
        """The phases whose output can be compared, in order, up to `last`; all when `last` is None or not one of them."""

    def up_to(self, invocation: Invocation, phase: str) -> Invocation:
        """The same compile, stopped after a phase, with generic output."""

    def footprint_phase(self, toolchain: Toolchain, last: str | None) -> str | None:
        """The phase up to `last` whose output shows best which resources a program uses; None when there is none."""

    def footprint(self, printed: Path, backend: str) -> Mapping[str, float]:
        """The resources that a program uses, from its IR after that phase: metrics as in `RunFacts`."""

    def after_passes(self, invocation: Invocation, only: str | None = None, *, generic: bool = True) -> Invocation:
        """The same compile, printing the IR after each pass that changed it. only: the argument of the one pass to print."""
