"""Reports of the housekeeping commands: `triage toolchains`, `recipe` and `doctor`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rich.console import RenderableType

from triage.execution.machine import MachineCheck
from triage.model.errors import Problem
from triage.model.revision import Revision
from triage.report.registry import Report
from triage.report.shapes import Shape


@dataclass(frozen=True, slots=True)
class HousekeepingReport(Report):
    """Values with the blocks that show them."""

    values: Shape
    parts: Sequence[RenderableType]

    def shape(self) -> Shape:
        return self.values

    def blocks(self) -> Iterable[RenderableType]:
        return self.parts


@dataclass(frozen=True)
class ReleaseShape(Revision):
    """A release of the package index."""

    installed: bool = False


@dataclass(frozen=True)
class ReleasesShape(Shape):
    """JSON of `triage toolchains list`. `bytes` is the size of all installed toolchains."""

    releases: list[ReleaseShape]
    bytes: int


@dataclass(frozen=True)
class ToolchainShape(Shape):
    """An installed toolchain."""

    name: str
    version: str | None
    identity: str
    root: str
    program: str
    revision: Revision


@dataclass(frozen=True)
class InstalledShape(Shape):
    """JSON of `triage toolchains install`. `failures` maps a revision to the reason."""

    toolchains: list[ToolchainShape]
    failures: dict[str, str]


@dataclass(frozen=True)
class ToolchainInfoShape(ToolchainShape):
    """JSON of `triage toolchains info`."""

    backends: list[str]
    phases: list[str]
    dialects: list[str]
    flags: list[str]


@dataclass(frozen=True)
class PrunedShape(Shape):
    """JSON of `triage toolchains prune`."""

    removed: list[str]
    bytes_left: int


@dataclass(frozen=True)
class ValidationShape(Shape):
    """JSON of `triage recipe validate`."""

    cases: int
    problems: list[Problem]


@dataclass(frozen=True)
class ListedCaseShape(Shape):
    """A case of a recipe."""

    recipe: str
    case: str
    summary: str
    backend: str
    chip: str | None
    phase: str | None


@dataclass(frozen=True)
class CaseListShape(Shape):
    """JSON of `triage recipe list`."""

    cases: list[ListedCaseShape]


@dataclass(frozen=True)
class TriedShape(Shape):
    """How a new recipe compiles on a toolchain. `status`: passed, failed or untestable; `reason`: why it does not pass."""

    toolchain: str
    status: str
    reason: str | None


@dataclass(frozen=True)
class NewRecipeShape(Shape):
    """JSON of `triage recipe new`. `left_out` are the arguments that do not affect the compiled code, `notes` sentences about
    what a command line leaves open, or what a copied kernel lacks.
    """

    recipe: str
    input: str
    left_out: list[str]
    notes: list[str]
    tried: list[TriedShape]
    reported_for: list[str] = field(default_factory=list)
    """Toolchains that the text names."""
    reported_failure: str | None = None


@dataclass(frozen=True)
class DoctorShape(Shape):
    """JSON of `triage doctor`."""

    checks: list[MachineCheck]
    ok: bool
