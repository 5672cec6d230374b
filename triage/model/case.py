"""A test case: a recipe with one combination of its matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Annotated, Protocol

from triage.model.content import Address
from triage.model.execution import Limits, Stage
from triage.model.fields import (
    REQUIRED,
    Check,
    CheckedBy,
    DeviceCount,
    FlagText,
    Issue,
    Release,
    Text,
    Word,
    as_pairs,
    between,
    file_key,
    fits,
)


class InputKind(StrEnum):
    """The form of an input file."""

    MLIR = "mlir"
    BYTECODE = "mlirbc"
    ONNX = "onnx"
    GENERATOR = "py"  # a program that prints the input; run with `args`
    OTHER = "other"  # passed to the compiler unchanged


_SINCE = "First version it holds for (default: all)."
_UNTIL = "First version it no longer holds for."


@dataclass(frozen=True)
class Input:
    """The input of a recipe."""

    path: Path
    """Absolute."""
    kind: InputKind
    args: tuple[tuple[str, str], ...] = ()
    """Arguments of a generator: names without dashes, and values."""
    imported: bool = False
    """Whether a toolchain that has an importer converts the input first, because the
    compiler does not read this kind.
    """

    def rewritten(self, path: Path, kind: InputKind) -> Input:
        """Return the input for a program that replaces this one."""
        return Input(path, kind, imported=self.imported and kind is self.kind)


@dataclass(frozen=True)
class Target:
    """What is compiled for."""

    backend: Annotated[Text, CheckedBy("backend")] = file_key(
        REQUIRED,
        "Code generator. Each version gets its own spelling of the flag.",
        "cuda",
    )
    chip: Word | None = file_key(
        None, "Chip, architecture or CPU.", "sm_86", "gfx942", "znver4"
    )
    devices: DeviceCount | None = file_key(
        None, "How many devices the program is compiled for (default: 1).", 2
    )


@dataclass(frozen=True)
class Flag:
    """A compiler flag for versions in [since, until)."""

    text: FlagText = file_key(
        REQUIRED, "The flag as one argument.", "-O3", alias="flag"
    )
    since: Release | None = file_key(None, _SINCE, "3.5.0")
    until: Release | None = file_key(None, _UNTIL, "3.9.0")


@dataclass(frozen=True)
class Reference:
    """Another compile of a case, whose results are expected."""

    toolchain: Word | None = file_key(
        None, "Its toolchain, a release or a nightly (default: the same one).", "3.12.0"
    )
    flags: tuple[FlagText, ...] | None = file_key(
        None, "Its compiler flags instead of the recipe's.", ["-O0"]
    )


class Generator(Protocol):
    """Writes a file that is always the same."""

    def write(self, target: Path) -> None:
        """Write the file. Raises ValueError, which says why it cannot be written."""


@dataclass(frozen=True)
class Artifact:
    """A file that a suite needs and does not contain."""

    path: Path  # where it is kept
    source: Address | Generator  # or what writes it


@dataclass(frozen=True)
class Library:
    """A second program that a run loads. It is compiled with its own flags."""

    input: Input
    flags: tuple[Flag, ...]
    artifacts: tuple[Artifact, ...] = ()


Value = Annotated[Text, CheckedBy("value")]
RunFlag = Annotated[
    FlagText,
    fits(
        r"--(?!(input|expected_output|function|expected_\w+_threshold)=).*|-[^-].*",
        '"{text}" has a key of its own: write `inputs`, `expected`, `function` or '
        "`tolerance: {f32: 1e-3}`.",
    ),
]
ElementType = Annotated[
    str,
    fits(
        "f16|bf16|f32|f64|relative",
        '"{text}" is not an element type; known: f16, bf16, f32, f64, relative.',
    ),
]
_Tolerance = Annotated[float, between(0, inf, "a tolerance is zero or more.")]
Tolerances = Annotated[
    tuple[tuple[str, float], ...],
    Check(as_pairs, dict[ElementType, _Tolerance]),
]


@dataclass(frozen=True)
class BenchKeys:
    """A function that is measured."""

    device: Word | None = file_key(
        None,
        "Device to run on; the usual one of the backend when left out.",
        "local-task",
    )
    function: Word | None = file_key(
        None, "Function to run; the only one when left out.", "main"
    )
    inputs: tuple[Value, ...] = file_key(
        (), "The function's arguments.", ["2x3xf32=@inputs/a.bin", "@b.npy", "4xi64=7"]
    )
    flags: tuple[RunFlag, ...] = file_key(
        (),
        "Further options of the program that runs or measures it.",
        ["--parameters=model=weights.irpa"],
    )
    name: Word | None = file_key(
        None,
        "What reports call a benchmark; the function when left out.",
        "prefill-2048",
    )

    @property
    def label(self) -> str:
        """The name of a benchmark in reports."""
        return self.name or self.function or "main"


@dataclass(frozen=True)
class RunKeys(BenchKeys):
    """How to run a compiled case, and what it must compute, as a file says it."""

    expected: tuple[Value, ...] = file_key(
        (), "The results it must compute.", ["2x3xf32=@expected.bin"]
    )
    tolerances: Tolerances = file_key(
        (),
        "Largest accepted difference by element type (f16, bf16, f32, f64, relative).",
        {"f32": 1e-3},
        alias="tolerance",
    )
    reference: Reference | None = file_key(
        None, "Compile whose results are expected.", {"toolchain": "3.12.0"}
    )
    limits: Limits = file_key(
        Limits(timeout=120.0), "Limits of one run.", {"timeout": "60s"}
    )
    flagfile: Annotated[Text, CheckedBy("file")] | None = file_key(
        None,
        "File with `--input=`, `--expected_output=` and other options, one a line; its "
        "paths are relative to it.",
        "run_module_io_flags.txt",
    )
    data: Text | None = file_key(
        None,
        "Folder next to the input with `input_0.pb`, `output_0.pb` and so on (ONNX "
        "tensors, or .npy). Where the input is a pattern, a file without this folder "
        "is compiled only.",
        "test_data_set_0",
    )


@dataclass(frozen=True)
class RunSpec(RunKeys):
    """How to run a compiled case, with what no file says."""

    libraries: tuple[Library, ...] = ()  # loaded after the case's own program
    parameters: tuple[tuple[str, Path], ...] = ()  # files of weights by scope
    artifacts: tuple[Artifact, ...] = ()  # files to obtain before the run
    measured: bool = False  # measure the run time, and compare nothing
    # If set, triage itself compares results: with this relative and absolute tolerance,
    # and whether NaN equals NaN.
    closeness: tuple[float, float, bool] | None = None
    # makes the inputs, if they depend on the program, which may have to be downloaded
    arguments: Callable[[], tuple[Artifact, ...]] | None = None

    def with_arguments(self) -> RunSpec:
        """Return the run with the inputs that `arguments` makes, after the program was
        obtained. Raises ValueError, which says why they cannot be made.
        """
        if self.arguments is None:
            return self
        files = self.arguments()
        inputs = tuple(f"@{file.path}" for file in files)
        return replace(
            self, inputs=inputs, artifacts=(*self.artifacts, *files), arguments=None
        )


class CaseSpec:
    """The part of a case that only one compiler family has: its own keys of a recipe.
    Only that family's code reads it.
    """

    def failing_causes(self, case: Case) -> frozenset[str]:  # noqa: ARG002 - a family needs it
        """Return the causes, such as an input that it cannot read, for which a version
        fails. Otherwise, the version is untestable.
        """
        return frozenset()


@dataclass(frozen=True)
class Expectation:
    """A known failure: `triage run` reports it as xfail, and a case that passes instead
    as xpass.
    """

    failure: Annotated[Text, CheckedBy("failure")] | None = file_key(
        None,
        "Failure class or family (default: every failure of the stage).",
        "timeout",
    )
    since: Release | None = file_key(None, _SINCE, "3.5.0")
    until: Release | None = file_key(None, _UNTIL, "3.9.0")
    issue: Issue | None = file_key(
        None, "The issue that tracks it.", "OWNER/NAME#19575"
    )
    stage: Stage | None = file_key(None, "Stage that fails.", "run")


@dataclass(frozen=True)
class Case:
    """One compile, and one run if `run` is set: a recipe with one combination of its
    matrix.
    """

    recipe: str
    name: str  # `recipe` or `recipe[key=value,...]`, unique in a run
    summary: str
    compiler: str  # the family
    source: Path
    input: Input
    target: Target
    flags: tuple[Flag, ...] = ()
    phase: str | None = None
    limits: Limits = field(default_factory=Limits)
    expect: tuple[Expectation, ...] = ()
    matrix: tuple[tuple[str, str], ...] = ()
    # the recipe's own failure rules, which come before the packaged ones
    rules: Path | None = None
    spec: CaseSpec | None = None  # data that only the family reads
    run: RunSpec | None = None
    # besides the usual variables; None passes on this program's value
    env: tuple[tuple[str, str | None], ...] = ()
    benchmarks: tuple[RunSpec, ...] = ()  # functions whose run time is measured
    artifacts: tuple[Artifact, ...] = ()  # files to obtain before the compile
    # files and folders that its compile and its run read besides
    reads: tuple[Path, ...] = ()
    thresholds: tuple[tuple[str, float], ...] = ()  # largest accepted value by metric
    script: Path | None = None  # the user's test, which runs instead of a compile

    @property
    def has_all_files(self) -> bool:
        """Whether all files that it names are there: no program has to make one."""
        is_program = self.input.kind is InputKind.GENERATOR
        needed: list[object] = [is_program, self.input.imported, self.artifacts]
        if self.run:
            run = self.run
            needed += [run.reference, run.libraries, run.artifacts, run.arguments]
        return not any(needed)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that it has, in their order."""
        stages = [Stage.COMPILE]
        if self.input.imported:
            stages.insert(0, Stage.IMPORT)
        if self.run:
            stages.append(Stage.RUN)
            if self.run.expected or self.run.reference:
                stages.append(Stage.COMPARE)
            if self.run.measured:
                stages.append(Stage.BENCHMARK)
        return tuple(stages)
