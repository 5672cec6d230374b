"""A test case: a recipe with one combination of its matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from triage.model.execution import Limits, Stage


class InputKind(StrEnum):
    """The form of an input file."""

    MLIR = "mlir"
    BYTECODE = "mlirbc"
    ONNX = "onnx"  # imported first, by a toolchain with a working importer
    GENERATOR = "py"  # a program that prints the input; run with `args`
    OTHER = "other"  # passed to the compiler unchanged


@dataclass(frozen=True, slots=True)
class Input:
    """The absolute path of a recipe's input, and the arguments for a generator (`--name value`)."""

    path: Path
    kind: InputKind
    args: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """What to compile for. devices: how many, None for one."""

    backend: str
    chip: str | None = None
    devices: int | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """A compiler flag for versions in [since, until)."""

    text: str
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """Another compile of a case, whose results are expected. toolchain: a REV, None for the same toolchain; flags: None for
    the case's own; onnxruntime: what that computes for an ONNX model is expected instead.
    """

    toolchain: str | None = None
    flags: tuple[str, ...] | None = None
    onnxruntime: bool = False


class Generator(Protocol):
    """Writes a file whose content depends on nothing else."""

    def write(self, target: Path) -> None:
        """Write the file. ValueError says why it cannot be written."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that is not part of a suite. path: where it is kept; source: its URL, or what generates it."""

    path: Path
    source: str | Generator


@dataclass(frozen=True, slots=True)
class Library:
    """A program that a run loads beside the case's own, compiled with flags of its own."""

    input: Input
    flags: tuple[Flag, ...]
    artifacts: tuple[Artifact, ...] = ()


@dataclass(frozen=True, slots=True)
class RunSpec:
    """How to run a compiled case, and what it must compute.

    device: where it runs, None for the backend's usual device; function: None for the only one; inputs, expected: values in
    the family's notation, with absolute paths of files; flags: further options of the program that runs it; tolerances:
    element type, or `relative`, -> largest accepted difference; reference: whose results are expected; libraries: loaded after
    the case's own program; parameters: scope -> file of weights; artifacts: files to obtain first; measured: the run time
    is measured, and nothing compared; closeness: accepted relative and absolute difference, and whether NaN equals NaN, for
    results that are compared by this program; name: of a benchmark that is not called as its function; arguments: the inputs,
    when they are known only once the program is there.
    """

    device: str | None = None
    function: str | None = None
    inputs: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    tolerances: tuple[tuple[str, float], ...] = ()
    reference: Reference | None = None
    limits: Limits = field(default_factory=Limits)
    libraries: tuple[Library, ...] = ()
    parameters: tuple[tuple[str, Path], ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    measured: bool = False
    closeness: tuple[float, float, bool] | None = None
    name: str | None = None
    arguments: Callable[[], tuple[Artifact, ...]] | None = None

    def with_arguments(self) -> RunSpec:
        """The run with inputs, once the program has been obtained. ValueError says why they cannot be known."""
        if self.arguments is None:
            return self
        files = self.arguments()
        inputs = tuple(f"@{file.path}" for file in files)
        return replace(self, inputs=inputs, artifacts=(*self.artifacts, *files), arguments=None)

    @property
    def label(self) -> str:
        """What reports call a benchmark."""
        return self.name or self.function or "main"


class CaseSpec:
    """What one compiler family needs of a case beyond target and flags. Only code of that family looks inside."""

    __slots__ = ()

    @property
    def parse_errors_fail(self) -> bool:
        """Whether an input that a version cannot read is a failure. Else that version cannot be tested."""
        return False


@dataclass(frozen=True, slots=True)
class Expectation:
    """A known failure of versions in [since, until): its class or class family, and the issue that tracks it.

    failure: None for every failure of the stage; stage: None for every stage.
    """

    failure: str | None
    since: str | None = None
    until: str | None = None
    issue: str | None = None
    stage: Stage | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One compile, and one run where `run` is set: a recipe with one combination of its matrix.

    name: `recipe` or `recipe[key=value,...]`, unique in a run; compiler: the family; rules: the recipe's own file of failure
    rules, which come before the packaged ones; spec: data that only the family reads; env: environment variables beside the
    usual ones, with None to pass on this program's value; benchmarks: the functions whose run time is measured; artifacts:
    files to obtain before the compile; goldens: metric -> largest accepted value.
    """

    recipe: str
    name: str
    summary: str
    compiler: str
    source: Path
    input: Input
    target: Target
    flags: tuple[Flag, ...] = ()
    phase: str | None = None
    limits: Limits = field(default_factory=Limits)
    expect: tuple[Expectation, ...] = ()
    matrix: tuple[tuple[str, str], ...] = ()
    rules: Path | None = None
    spec: CaseSpec | None = None
    run: RunSpec | None = None
    env: tuple[tuple[str, str | None], ...] = ()
    benchmarks: tuple[RunSpec, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    goldens: tuple[tuple[str, float], ...] = ()
