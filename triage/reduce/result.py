"""What a reduction ended with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from triage.model.case import Case
from triage.model.failure import Failure
from triage.model.outcome import Cause
from triage.model.probe import Probe
from triage.model.revision import Revision


@dataclass(frozen=True, slots=True)
class Size:
    """operations: of the tree, the module itself not among them; unit: what they are called, since of other inputs
    than MLIR it is statements, lines or nodes that are counted; lines and bytes of the text.
    """

    operations: int
    lines: int
    bytes: int
    unit: str = "operation"

    def __str__(self) -> str:
        return f"{self.operations} {self.unit}{'' if self.operations == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Effort:
    """What it took. calls: compiles made; cached: answered by the evidence; invalid: programs that did not verify and
    cost no compile; seconds: wall time; compile_seconds: summed over the compiles.
    """

    calls: int
    cached: int
    invalid: int
    seconds: float
    compile_seconds: float


@dataclass(frozen=True, slots=True)
class Reduced:
    """A smaller program that fails as the first one did. text: what is in the reproducer; evidence: a probe for every
    version it was tried on; others: different failures that were met on the way, the most frequent first; met: what shows
    them, where that is wanted, each with the file that it was kept in meanwhile.
    """

    case: Case
    failure: Failure
    bad: Revision
    good: Revision | None
    text: str
    before: Size
    after: Size
    effort: Effort
    evidence: tuple[Probe, ...] = ()
    others: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    met: tuple[tuple[Reduced, Path], ...] = ()


@dataclass(frozen=True, slots=True)
class NotReproducible:
    """Nothing was reduced, and why. cause: where the machine or the recipe is to blame; tried: the probes made."""

    case: Case
    reason: str
    tried: Sequence[Probe] = ()
    cause: Cause | None = None
