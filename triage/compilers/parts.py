"""The optional parts of a compiler family.

Each part is a small class that switches on one feature, such as running what was
compiled. Its defaults suit most compilers. The classes below it are what its methods
take and return.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triage.compilers.invocation import Invocation
from triage.model.case import Case, RunSpec, Target
from triage.model.fields import UNPRINTED, in_json, key
from triage.model.outcome import NoAnswer
from triage.model.revision import Toolchain
from triage.recipes.run_values import ValueText, value_ending

if TYPE_CHECKING:  # slow to import
    from triage.mlir import SourcePosition
    from triage.mlir.fingerprint import Vocabulary
    from triage.recipes.recipe import RecipeStart

_RESULT = re.compile(
    r"^result\[\d+\]: (?:hal\.buffer_view\n)?((?:\d+x)*\w+)=", re.MULTILINE
)
_PER_SECOND = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}
REPORT_OPTION = "--benchmark_format=json"
"""Makes a program print the report of Google's benchmark library."""
QUICK_OPTION = "--benchmark_min_time=0.1s"
"""Repeats a short function for at least this long."""


def family_yaml(family: type[object], name: str) -> Any:
    """Read a YAML file that lies next to the module which defines the class `family`.
    Returns None if there is no such file.
    """
    import yaml

    package, _, _ = family.__module__.rpartition(".")
    file = files(package) / name
    if file.is_file():
        return yaml.safe_load(file.read_text("utf-8"))
    return None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run needs of this machine besides its files."""

    reads: tuple[Path, ...] = ()
    devices: tuple[Path, ...] = ()
    """Device files."""
    variables: Mapping[str, None] = field(default_factory=dict)
    """Variables whose values are passed on."""


def gpu_surroundings() -> Surroundings:
    """Return what the drivers of GPUs need, of those that are there."""
    reads = """
    /sys/class/kfd /sys/class/drm /sys/bus/pci /sys/devices /proc/driver/nvidia
    /proc/modules /proc/devices /etc/OpenCL /etc/vulkan /opt/rocm
    /usr/local/cuda /usr/local/nvidia /run/nvidia-persistenced
    """
    variables = """
    CUDA_DEVICE_ORDER CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES
    VK_DRIVER_FILES VK_ICD_FILENAMES VK_LAYER_PATH LD_LIBRARY_PATH
    """
    devices = [*Path("/dev").glob("nvidia*"), *map(Path, ("/dev/kfd", "/dev/dri"))]
    return Surroundings(
        tuple(map(Path, reads.split())),
        (*devices, Path("/dev/shm")),  # noqa: S108 - of ROCm's runtime
        dict.fromkeys(variables.split()),
    )


class Runner(ABC):
    """Runs compiled programs on this machine."""

    distribution = ""
    """The package of the runtime; empty if the compiler's own package has it."""
    unoptimised: tuple[str, ...] = ()
    """Flags of the compiler that switch its optimisations off."""
    measures: bool = False
    """Whether a program of it measures functions: the stage `benchmark`, and `bench`.
    """
    worker: Path | None = None
    """The script that runs compiled files, if the family has one."""

    @abstractmethod
    def program(self, root: Path, *, measured: bool) -> Path | None:
        """Return the program below the folder `root` that runs a compiled file, if it
        has one. `measured` asks for the program that measures instead.
        """

    def device(self, case: Case, run: RunSpec) -> str | None:
        """Return the kind of accelerator that a run needs, such as `hip`, if any."""
        return None

    def surroundings(self, case: Case, run: RunSpec) -> Surroundings:
        """Return what a run needs of this machine."""
        if self.device(case, run) is None:
            return Surroundings()
        return gpu_surroundings()

    def options(self, case: Case, run: RunSpec) -> list[str]:
        """Return the options of a run, without its arguments and results."""
        return list(run.flags)

    def argv(
        self,
        program: Path,
        module: Path,
        options: Sequence[str],
        inputs: Sequence[str],
        results: Sequence[Path],
        libraries: Sequence[Path] = (),
    ) -> list[str]:
        """Return the command that runs a compiled file and prints a line such as
        `result[0]: 2x3xf32=...` for each result that is not written to a file.

        Args:
            program: The runtime's program. It fails if it cannot write a result as
                .npy.
            module: The compiled file.
            options: See `options`.
            inputs: The arguments.
            results: Files to write the results to: raw bytes, or for .npy an array.
            libraries: Further compiled files to load.
        """
        return [
            str(program),
            *(f"--module={path}" for path in (module, *libraries)),
            *options,
            *(f"--input={text}" for text in inputs),
            *(f"--output=@{file}" for file in results),
        ]

    def persistent_worker(
        self, toolchain: Toolchain, program: Path, invocation: Invocation
    ) -> Sequence[str]:
        """Return the command of a persistent worker: a process that compiles and runs
        one program after another. Empty if the family has none.

        `execution.persistent_workers` has the requests and answers.
        """
        return ()

    def reads(self, value: ValueText) -> bool:
        """Return whether the program reads a value as recipes write it. Others are
        given to it as raw bytes.
        """
        return True

    def startup_failure(self, stderr: str) -> NoAnswer | None:
        """Return why the run could not begin, if that is why it failed: a device is
        missing, or this version does not know an option.
        """
        return None

    def result_files(self, stdout: str, folder: Path) -> list[Path]:
        """Return the file in a folder to write each result of a run to, by what it
        printed without files. `run_values.file_value` reads their names.
        """
        types = enumerate(_RESULT.findall(stdout))
        return [folder / f"{index}{value_ending(type_)}" for index, type_ in types]


class WorkerRunner(Runner):
    """Runs programs with the script `worker`, which the toolchain's Python starts as
    `WORKER run --module=...`; see `xla/worker.py`.
    """

    def __init__(self, worker: Path, *unoptimised: str) -> None:
        self.worker, self.unoptimised = worker, unoptimised

    def program(self, root: Path, *, measured: bool) -> Path | None:
        """Return the interpreter that runs the worker."""
        for python in (root / "bin" / "python", root / "python"):
            if python.is_file():
                return python
        return None

    def argv(self, *arguments: Any) -> list[str]:
        python, *words = super().argv(*arguments)
        # -I hides the user's own modules
        return [python, "-I", str(self.worker), "run", *words]


def measured_seconds(output: str, *, cpu: bool = False) -> list[float]:
    """Return the wall time, or the CPU time, of each repetition in the output of a
    measurement. Returns an empty list if the output has no report.
    """
    clock = "cpu_time" if cpu else "real_time"
    try:
        report = json.loads(output[output.find("{") :])
        runs = [run for run in report["benchmarks"] if run["run_type"] == "iteration"]
        return [run[clock] / _PER_SECOND[run["time_unit"]] for run in runs]
    # not its usual report
    except (ValueError, RecursionError, LookupError, TypeError, OverflowError):
        return []


class IrPrinter(ABC):
    """Makes a compiler name its passes, with the headers of MLIR's dumps: `// -----//
    IR Dump After NAME (ARGUMENT) //----- //`, and print its IR below each. `Failed`
    follows the NAME of a pass that failed.
    """

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """The names of operations, types and passes in the IR."""

    @abstractmethod
    def printing_passes(self, invocation: Invocation) -> Invocation:
        """Return the same compile with options that print a header after each pass that
        changed the program, and its IR in MLIR's generic form.
        """

    def naming_failed_pass(self, invocation: Invocation) -> Invocation:
        """Return the same compile with options that print which pass failed."""
        return self.printing_passes(invocation)


@dataclass(frozen=True, slots=True)
class IssueForm:
    """The headings of a project's form for bug reports. A section without a heading
    follows under the heading before it.
    """

    happened: str = "What happened?"
    steps: str | None = "Steps to reproduce"
    version: str = "Version"
    repository: str = ""
    """Web address of the project."""
    tag: str = "v{}"
    """The git tag of a release; `{}` stands for its version."""


@dataclass(frozen=True, slots=True)
class OptionCatalog:
    """Which options of a compiler `triage remedy` tries, from the family's
    `options.yaml`. A prefix is the beginning of an option's name.
    """

    first: tuple[str, ...] = ()
    """Complete options that are tried before any switch."""
    recomputes: tuple[str, ...] = ()
    """Words in names of options that change the types of computations."""
    backends: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Backend -> prefixes of its own options, which are tried for no other backend."""
    phases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Failing phase -> prefixes of options to try, nearest first."""
    code_phase: str = "compile"
    """The phase of code generation. Its options are tried for other phases, too."""
    never: tuple[str, ...] = ()
    """Words in names of options that are never tried."""
    only_true: tuple[str, ...] = ()
    """Words in names of options that are off by default, so that only `true` is tried.
    """

    def is_foreign(self, name: str, backend: str) -> bool:
        """Return whether an option belongs to other backends only."""
        if name.startswith(self.backends.get(backend, ())):
            return False
        return any(name.startswith(prefixes) for prefixes in self.backends.values())

    def prefixes(self, phase: str, backend: str) -> tuple[str, ...]:
        """Return the prefixes of options to try when a phase fails, nearest first."""
        if phase not in self.phases:
            phase = self.code_phase
        of_phase = self.phases.get(phase, ())
        if phase == self.code_phase:
            return (*self.backends.get(backend, ()), *of_phase)
        return of_phase


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A call of a compiler."""

    tool: str
    """`iree-compile`, `iree-opt`, `llc`, ..."""
    words: tuple[str, ...]
    """Its arguments."""
    variables: tuple[str, ...] = ()
    """`NAME=VALUE` in front of it. They are not set."""


@dataclass(frozen=True, slots=True)
class PastedProgram:
    """A program in a text."""

    text: str
    suffix: str
    """Of the file to write it to."""


@dataclass(frozen=True, slots=True)
class RecipeRequest:
    """What a user says about a new recipe."""

    path: Path
    """The file to write it to."""
    source: Path | None
    """A program that replaces the one in a text or a command line."""
    backend: str | None
    chip: str | None
    kernel: str | None
    """The function to compile, if the program has several."""
    packages: tuple[str, ...] = ()
    """The packages with which a script runs, if a revision names any."""


class RecipeStarter:
    """Makes recipes from programs and command lines. No file that a pasted text names
    is opened.
    """

    tools: re.Pattern[str] = re.compile(r"(?P<tool>(?!))")
    """Finds the names of the compiler's programs in a command line. The group `tool`
    holds a name. By default, there are none.
    """

    @property
    def flags_allowed_in_texts(self) -> frozenset[str]:
        """The flags that are kept of a pasted command line, by name, from the family's
        `pasted_flags.yaml`. None of them starts a program or names a file.
        """
        lists = family_yaml(type(self), "pasted_flags.yaml") or {}
        return frozenset(name for names in lists.values() for name in names.split())

    def programs_in(self, text: str) -> Sequence[PastedProgram]:
        """Return this family's programs in a pasted text."""
        return ()

    def from_call(
        self, call: ShellCommand, backend: str | None, source: Path | None
    ) -> RecipeStart:
        """Return a recipe for a call of this family's compiler.

        Args:
            call: The call.
            backend: Used if the call names none.
            source: Replaces the input of the call.

        Raises:
            BadInput: The call cannot be read.
        """
        raise NotImplementedError

    def from_program(
        self, request: RecipeRequest, path: Path, text: str
    ) -> RecipeStart | None:
        """Return a recipe for a program, if this family compiles such programs.

        Args:
            request: What the user asks for. Without a `source`, the program was pasted.
            path: The program's file; a pasted one is not written yet.
            text: The program; empty for a file that is not Python.

        Raises:
            BadInput: It has several kernels, or not the one that is wanted.
        """
        return None

    def target_in(self, text: str) -> Target:
        """Guess the target of the programs in a text without a command line. Without a
        backend, the family has only one.
        """
        return Target("")


class Severity(StrEnum):
    """How bad a finding is. A program with an error does not compile, a warning is
    probably a mistake, and advice names what has caused failures before.
    """

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True)
class LintRule:
    """One check of a program."""

    name: str
    severity: Severity
    """The worst that the rule reports."""
    summary: str
    """What it looks for, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Something that may have a position in the program; a flag has none."""

    position: SourcePosition | None = field(default=None, metadata=UNPRINTED)

    @in_json
    def location(self) -> str | None:
        """`file:line:column`."""
        return str(self.position) if self.position else None


@dataclass(frozen=True, slots=True)
class LintFinding(Located):
    """A finding of one rule."""

    rule: str
    severity: Severity
    message: str


@dataclass(frozen=True, slots=True)
class ProgramDevice(Located):
    """A device that a program refers to. Its position is the first reference."""

    name: str
    declared: str | None
    """The flag or the operation that declares it."""
    references: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LintedCase:
    """What the rules found in the program of a case."""

    case: str = ""
    source: str = ""
    """The file that positions refer to: as the user named it, or the generated program.
    """
    recipe: Path | None = field(default=None, metadata=UNPRINTED)
    """The recipe of a generated program."""
    findings: tuple[LintFinding, ...] = field(metadata=UNPRINTED)
    devices: tuple[ProgramDevice, ...] = field(metadata=UNPRINTED)
    flags: tuple[str, ...] = field(metadata=key("suggested_flags"))
    """Options that fix findings."""
    graph: str = field(metadata=UNPRINTED)
    """The program as a Mermaid flowchart."""
    longest_chain: int = field(metadata=UNPRINTED)
    """How many in-place operations follow each other."""
    notes: tuple[str, ...] = ()
    """Sentences about what was not checked."""
