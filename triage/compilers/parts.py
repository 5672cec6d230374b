"""The optional parts of a family, each a narrow class whose defaults suit most
compilers, and what they take and return.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triage.compilers.invocation import Invocation
from triage.model.case import Case, RunSpec
from triage.model.outcome import NoAnswer
from triage.model.revision import Toolchain
from triage.recipes.run_values import TOLERANCES, result_ending

if TYPE_CHECKING:  # it parses MLIR
    from triage.mlir.fingerprint import Vocabulary
    from triage.recipes.expectations import ObservedCase, UpdatedFile
    from triage.recipes.run_keys import RunnableFormat

_RESULT = re.compile(r"^result\[\d+\]: ((?:\d+x)*)([\w<>]+)=", re.MULTILINE)
_PER_SECOND = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}
# of each measurement; short functions are called again and again for as long
_SECONDS = 0.1


def family_yaml(family: type[object], name: str) -> Any:
    """Read a YAML file in the folder of a family, of which `family` is a class.
    Returns None if there is none.
    """
    import yaml

    file = files(family.__module__.rpartition(".")[0]) / name
    if file.is_file():
        return yaml.safe_load(file.read_text("utf-8"))
    return None


@dataclass(frozen=True, slots=True)
class RunValues:
    """The values of one run."""

    inputs: Sequence[str] = ()
    """The arguments."""
    expected: Sequence[str] = ()
    """The results to compare with."""
    results: Sequence[Path] = ()
    """Files to write the results to, see `Runner.result_files`."""


class Runner(ABC):
    """Runs what was compiled, on this machine."""

    distribution = ""
    """The package of the runtime, which is released next to the compiler; empty if it
    is the compiler's own.
    """
    unoptimised: tuple[str, ...] = ()
    """Flags of the compiler that switch its optimisations off."""

    @abstractmethod
    def program(self, root: Path, *, measured: bool) -> Path | None:
        """Return the program of an installation that runs a compiled file once, or
        measures it.
        """

    def device(self, case: Case, run: RunSpec) -> str | None:
        """Return the kind of device that a run needs in addition to a processor, such
        as `hip`.
        """
        return None

    def options(self, case: Case, run: RunSpec) -> list[str]:
        """Return the options that decide what a run does, without its values."""
        return list(run.flags)

    def argv(
        self,
        program: Path,
        module: Path,
        options: Sequence[str],
        values: RunValues,
        libraries: Sequence[Path] = (),
    ) -> list[str]:
        """Return the command that runs a compiled file. A result that differs from the
        expected one ends it with another status than 0, and with `mismatch_line`.

        Args:
            program: The runtime's program.
            module: The compiled file.
            options: See `options`.
            values: Its arguments and results.
            libraries: Further compiled files to load.
        """
        return [
            str(program),
            *(f"--module={path}" for path in (module, *libraries)),
            *options,
            *(f"--input={text}" for text in values.inputs),
            *(f"--expected_output={text}" for text in values.expected),
            *(f"--output=@{file}" for file in values.results),
        ]

    def persistent_worker(
        self, toolchain: Toolchain, program: Path, invocation: Invocation
    ) -> Sequence[str]:
        """Return the command of a persistent worker: a process that compiles and runs
        one program after another. Empty if the family has none.

        `execution.persistent_workers` has the requests and answers.
        """
        return ()

    def overlooks_nan(self, version: str | None) -> bool:
        """Return whether the program of this release treats NaN as equal to any
        number.
        """
        return False

    def unusable(self, stderr: str) -> NoAnswer | None:
        """Return why the program could not run anything: a missing device, or an option
        that this version does not know.
        """
        return None

    def result_files(self, stdout: str, folder: Path) -> list[Path]:
        """Return a file in a folder for each result that a run printed as `result[0]:
        2x3xf32=...`, named as `run_values.file_value` expects.
        """
        types = (
            f"{sizes}{element}" if element.startswith(("bf16", "f8")) else None
            for sizes, element in _RESULT.findall(stdout)
        )
        return [
            folder / f"{index}{result_ending(kind)}" for index, kind in enumerate(types)
        ]


class WorkerRunner(Runner):
    """Runs with a script that the Python of the toolchain starts, as `WORKER run
    --module=...`; see `xla/worker.py`.
    """

    def __init__(self, worker: Path, *unoptimised: str) -> None:
        self.worker, self.unoptimised = worker, unoptimised

    def program(self, root: Path, *, measured: bool) -> Path | None:
        places = (root / "bin" / "python", root / "python")
        return next((path for path in places if path.is_file()), None)

    def options(self, case: Case, run: RunSpec) -> list[str]:
        accepted = {**TOLERANCES, **dict(run.tolerances)}
        return [f"--tolerances={json.dumps(accepted)}", *run.flags]

    def argv(self, *arguments: Any) -> list[str]:
        python, *words = super().argv(*arguments)
        # the user's own modules are not seen
        return [python, "-I", str(self.worker), "run", *words]


def runnable_keys() -> type[RunnableFormat]:
    """Import the recipe keys of a family whose programs are run."""
    from triage.recipes.run_keys import RunnableFormat

    return RunnableFormat


class Measures:
    """Measures compiled functions. This one suits a program that prints the report of
    Google's benchmark library.
    """

    printing: tuple[str, ...] = ("--benchmark_format=json",)
    """Options of the program that print what `seconds` reads."""

    def argv(
        self, runner: Runner, program: Path, module: Path, case: Case, run: RunSpec
    ) -> list[str]:
        """Return the command that measures a function of a compiled file."""
        options = runner.options(case, run)
        argv = runner.argv(program, module, options, RunValues(run.inputs))
        return [*argv, *self.printing, f"--benchmark_min_time={_SECONDS}s"]

    def seconds(self, output: str, *, cpu: bool = False) -> list[float]:
        """Return wall time (or CPU time) of each repetition, parsed from the output of
        a program that measures.
        """
        clock = "cpu_time" if cpu else "real_time"
        try:
            report = json.loads(output[output.find("{") :])
            runs = [
                run for run in report["benchmarks"] if run["run_type"] == "iteration"
            ]
            return [run[clock] / _PER_SECOND[run["time_unit"]] for run in runs]
        # not its usual report
        except (ValueError, RecursionError, LookupError, TypeError, OverflowError):
            return []


class Kernels(ABC):
    """Counts the kernels of a program, and measures each alone."""

    @abstractmethod
    def counting(self, file: Path) -> list[str]:
        """Return options of the compiler that write to a file how many kernels the
        program starts.
        """

    @abstractmethod
    def dispatches(self, text: str) -> int | None:
        """Return the number of kernels in that file."""

    @abstractmethod
    def extracting(self, folder: Path) -> list[str]:
        """Return options of the compiler that write programs to a folder which start
        one kernel each.
        """

    @abstractmethod
    def extracted(self, text: str) -> list[tuple[str, str]]:
        """Return the kernels of such a program, each with the option that measures it
        alone.
        """


class PassTrace(ABC):
    """Names the passes of a compile, as the headers of MLIR's dumps do: `// -----// IR
    Dump After NAME (ARGUMENT) //----- //`, with `Failed` behind the name of one that
    failed.
    """

    @abstractmethod
    def after_passes(
        self, invocation: Invocation, only: str | None = None, *, generic: bool = True
    ) -> Invocation:
        """Return the same compile, printing a header after each pass that changed the
        program, or after the one pass `only`.
        """

    def is_printed_by(self, toolchain: Toolchain) -> bool:
        """Return whether this compiler can print that."""
        return True

    def naming_pass(self, invocation: Invocation) -> Invocation:
        """Return the same compile, printing which pass failed."""
        return self.after_passes(invocation)

    def on_one_thread(self, invocation: Invocation) -> Invocation:
        """Return the same compile on one thread."""
        return invocation

    @property
    def words(self) -> Vocabulary:
        """The names of operations, types and passes."""
        from triage.mlir.fingerprint import Vocabulary

        return Vocabulary(frozenset())


class IrPrinter(PassTrace):
    """Prints the IR below each header, in MLIR's generic form if `generic`."""

    @property
    @abstractmethod
    def words(self) -> Vocabulary:
        """The names of its operations, types and passes."""


class Resources(ABC):
    """Reads which resources a program uses from its IR."""

    @abstractmethod
    def phase(self, toolchain: Toolchain, last: str | None) -> str | None:
        """Return the phase up to `last` whose output shows them best, if any."""

    @abstractmethod
    def up_to(self, invocation: Invocation, phase: str) -> Invocation:
        """Return the same compile, stopped after a phase, with generic output."""

    @abstractmethod
    def metrics(self, printed: Path, backend: str) -> Mapping[str, float]:
        """Return the resources from the IR after that phase, as in `RunFacts`."""


@dataclass(frozen=True, slots=True)
class IssueForm:
    """The headings of a project's form for bug reports. A part without a heading is
    written under the one before.
    """

    happened: str = "What happened?"
    steps: str | None = "Steps to reproduce"
    component: tuple[str, str] | None = None
    """The heading, and the choice that fits a compiler's failure."""
    version: str = "Version"
    context: str | None = "Additional context"
    repository: str = ""
    """Web address of the project."""
    tag: str = "v{}"
    """Of a release."""


@dataclass(frozen=True, slots=True)
class OptionCatalog:
    """Which of a compiler's own options are tried, by the beginnings of their names."""

    first: tuple[str, ...] = ()
    """Complete options that are tried before any switch."""
    recomputes: tuple[str, ...] = ()
    """Words in names of options that change the types of computations."""
    backends: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Backend -> its own options, which are tried only for it, and first."""
    phases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Failing phase -> options that affect it, nearest first."""
    code_phase: str = "compile"
    """The phase of code generation, whose options are tried for unknown phases."""
    code_phase_prefixes: tuple[str, ...] = ()
    """Beginnings of the names of phases that count as code generation."""
    never: tuple[str, ...] = ()
    """Words in names of options that are never tried."""
    only_true: tuple[str, ...] = ()
    """Words in names of options that are off by default, so that only `true` is tried.
    """

    def is_foreign(self, name: str, backend: str) -> bool:
        """Return whether an option belongs to another backend."""
        owners = {
            owner
            for owner, prefixes in self.backends.items()
            if name.startswith(prefixes)
        }
        return bool(owners) and backend not in owners

    def prefixes(self, phase: str, backend: str) -> tuple[str, ...]:
        """Return the beginnings of the names of options worth trying when a phase
        fails, nearest first.
        """
        if phase.startswith(self.code_phase_prefixes) or phase not in self.phases:
            phase = self.code_phase
        if phase == self.code_phase:
            own = self.backends.get(backend, ())
        else:
            own = ()
        return (*own, *self.phases.get(phase, ()))


@dataclass(frozen=True, slots=True)
class RewriteNames:
    """Names for rewrites: the barrier operation, and the transfers between devices."""

    barrier: str
    transfers: frozenset[str]


class RemedyHints:
    """What a family knows about remedies."""

    names = RewriteNames("", frozenset())

    @cached_property
    def options(self) -> OptionCatalog:
        """The compiler's own options that are tried: `options.yaml` in the family's
        folder.
        """
        from pydantic import TypeAdapter

        words = family_yaml(type(self), "options.yaml")
        return TypeAdapter(OptionCatalog).validate_python(words)

    def devices_named(self, program: Path) -> frozenset[str]:
        """Return the devices that a program refers to."""
        return frozenset()

    def declaring_options(
        self, case: Case, devices: Collection[str]
    ) -> tuple[str, ...] | None:
        """Return the options that declare these devices, unless all are declared or no
        option can.
        """
        return None


class Suites(ABC):
    """Reads the compiler's own test suites."""

    @abstractmethod
    def cases(
        self, folder: Path, configs: Sequence[Path], downloads: Path
    ) -> tuple[Case, ...]:
        """Return the cases of a suite: for each config the tests that it does not skip,
        in the order of their names.

        Args:
            folder: The tests are below it, and names of modules are relative to it.
            configs: Files with flags and known failures, tests of whole models, or
                folders of such tests.
            downloads: Where files from URLs are kept.

        Raises:
            BadFiles: With the mistakes of all configs and tests.
            BadInput: The folder has no test.
        """

    @abstractmethod
    def updated_config(
        self,
        folders: Sequence[Path],
        path: Path,
        observed: Sequence[ObservedCase],
        *,
        prune: bool,
    ) -> UpdatedFile:
        """Return a config with the known failures that were seen. Raises BadFiles if it
        cannot be read or edited.

        Only cases of this config are in `observed`. `prune` removes listed tests that
        exist in none of the folders.
        """
