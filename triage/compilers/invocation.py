"""The command lines of compiles and runs, and the facts that they print."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from triage.model.case import Case, RunSpec
from triage.model.errors import EnvironmentFailure
from triage.model.execution import Ending, Execution, is_number, utf8
from triage.model.outcome import NoAnswer
from triage.model.revision import Toolchain
from triage.processes.process import run, unlimited
from triage.processes.sealing import Seal
from triage.recipes.run_values import ValueText, value_suffix

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_TIMEOUT = 60.0  # seconds; an answer takes 0.1
_LARGEST_ANSWER = 64 << 20  # bytes
_RESULT = re.compile(
    r"^result\[\d+\]: (?:hal\.buffer_view\n)?((?:\d+x)*\w+)=", re.MULTILINE
)
_PER_SECOND = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}
REPORT_OPTION = "--benchmark_format=json"
"""Makes a program print the report of Google's benchmark library."""
QUICK_OPTION = "--benchmark_min_time=0.1s"
"""Repeats a short function for at least this long."""
_REPORT = re.compile(r"^triage: (\{.*\})[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class Invocation:
    """The command line of a compile. Only `options` are part of its key in the result
    cache.
    """

    options: tuple[str, ...]
    """All arguments except program, input and output."""
    printing: tuple[str, ...] = ()
    """Options that change only what is printed."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to the usual ones."""
    launcher: tuple[str, ...] = ()
    """What starts instead of the program, such as an interpreter and a script."""
    placeholders: Mapping[str, str] | None = None
    """If this is set, `options` is a whole command line with `{name}` placeholders,
    these are their values, and nothing is appended.
    """
    writes_output: bool = True
    """Whether it fails if it writes no output, whatever its exit status says."""

    def with_printing(self, options: Iterable[str]) -> Invocation:
        """Return the same compile with those of some options that it does not have."""
        names = set(map(flag_name, self.options))
        added = [option for option in options if flag_name(option) not in names]
        return replace(self, printing=(*self.printing, *added))

    def argv(self, program: Path, source: Path, output: Path) -> list[str]:
        """Return the command line, program first."""
        if self.placeholders is not None:
            values = {**self.placeholders, "input": str(source), "output": str(output)}
            return [fill_placeholders(word, values) for word in self.options]
        start = self.launcher or (str(program),)
        return [*start, *self.options, *self.printing, str(source), "-o", str(output)]


@dataclass(frozen=True)
class MlirTools:
    """The MLIR tools of a toolchain."""

    optimizer: Path
    """Its `opt` program, which parses, prints and runs passes."""
    python_root: Path
    """The folder to import its Python bindings from."""
    package: str
    """Their package, which holds `ir`."""
    reads: tuple[Path, ...]
    """What they may read besides the program."""
    shortening: tuple[str, ...] = ()
    """Options of `opt` for passes that leave out what nothing uses."""


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """Replace each `{name}` by its value; unknown names stay."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)


def flag_name(text: str) -> str:
    """`iree-opt-level` of `--iree-opt-level=O3`."""
    return text.lstrip("-").partition("=")[0]


def first_file(root: Path, patterns: Sequence[str]) -> Path | None:
    """Return the first file that a pattern finds below a folder, or the file `root`
    itself.
    """
    paths = [path for pattern in patterns for path in sorted(root.glob(pattern))]
    if root.is_file():
        paths = [root]
    return next((path.absolute() for path in paths if path.is_file()), None)


def run_query(argv: Sequence[str], seal: Seal) -> Execution:
    """Run a command that asks a compiler about itself. Answers are stored, so it raises
    EnvironmentFailure if the command does not start, takes longer than a minute, or is
    killed.
    """
    answer = run(argv, unlimited(_TIMEOUT), seal=seal, kept_bytes=_LARGEST_ANSWER)
    if answer.ending is not Ending.EXITED:
        reason = answer.stderr.last_line or answer.ending
        raise EnvironmentFailure(f"{' '.join(argv)} does not run: {reason}")
    return answer


def ask_compiler(argv: Sequence[str], seal: Seal) -> str:
    """Return what such a command prints. Raises EnvironmentFailure if it fails, too."""
    answer = run_query(argv, seal)
    if not answer.ok:
        reason = f"{answer.status}: {answer.stderr.last_line}"
        raise EnvironmentFailure(f"{' '.join(argv)} ends with {reason}")
    return answer.stdout.text


def reported_facts(execution: Execution) -> tuple[str | None, dict[str, float]]:
    """Return the last phase that began, and the metrics by name. The last word of a
    name is the unit; a name without one is a count.

    They stand in the lines on stdout that start with `triage: ` and continue as JSON:
    `{"stage": "llir"}` when a stage starts, and `{"metrics": {"shared_bytes": 4096}}`.
    """
    phase: str | None = None
    metrics: dict[str, float] = {}
    for text in _REPORT.findall(execution.stdout.text):
        # it may be no JSON, a number of thousands of digits, or nested too deep
        with suppress(ValueError, RecursionError):
            report = json.loads(text)
            if isinstance(report.get("stage"), str):
                phase = utf8(report["stage"])
            if isinstance(report.get("metrics"), dict):
                for name, value in report["metrics"].items():
                    if is_number(value):
                        metrics[utf8(name)] = value
    return phase, metrics


def readable_output(text: str) -> str:
    """Return an output for people: with empty lines for those that this program reads,
    so that lines keep their numbers.
    """
    return _REPORT.sub("", text)


@dataclass(frozen=True)
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

    def can_read(self, value: ValueText) -> bool:
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
        return [folder / f"{index}{value_suffix(type_)}" for index, type_ in types]


@dataclass(frozen=True)
class WorkerRunner(Runner):
    """Runs programs with the script `worker`, which the toolchain's Python starts as
    `WORKER run --module=...`; see `xla/worker.py`.
    """

    worker: Path
    unoptimised: tuple[str, ...] = ()

    def program(self, root: Path, *, measured: bool) -> Path | None:
        """Return the interpreter that runs the worker."""
        return first_file(root, ("bin/python", "python"))

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


@dataclass(frozen=True)
class IrPrinter:
    """Options with which a compiler names its passes, with the headers of MLIR's dumps:
    `// -----// IR Dump After NAME (ARGUMENT) //----- //`. `Failed` follows the NAME of
    a pass that failed.
    """

    all_passes: tuple[str, ...]
    """Print a header after each pass that changed the program, and below it the IR in
    MLIR's generic form.
    """
    failed_pass: tuple[str, ...]
    """Print which pass failed."""
