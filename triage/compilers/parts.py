"""The optional parts of a family, each a narrow class whose defaults suit most
compilers, and what they take and return.
"""

from __future__ import annotations

import json
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triage.compilers.invocation import Invocation
from triage.model.case import Case, RunSpec, Target
from triage.model.execution import Execution
from triage.model.json_form import UNPRINTED, in_json, key
from triage.model.outcome import NoAnswer
from triage.model.revision import Toolchain
from triage.recipes.family import RecipeStart
from triage.recipes.run_values import TOLERANCES, result_ending

if TYPE_CHECKING:  # it parses MLIR
    from triage.mlir import Module, SourcePosition
    from triage.mlir.fingerprint import Vocabulary
    from triage.recipes.expectations import ObservedCase, UpdatedFile
    from triage.recipes.run_keys import RunnableFormat

_RESULT = re.compile(r"^result\[\d+\]: ((?:\d+x)*)([\w<>]+)=", re.MULTILINE)
_PER_SECOND = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}
# of each measurement; short functions are called again and again for as long
_SECONDS = 0.1
MODULE_PLACE = "{module}"  # stands for the compiled file in a command
RULES_FILE = "failure.rules"  # a suffix that no recipe has


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

    def staying(
        self, toolchain: Toolchain, program: Path, invocation: Invocation
    ) -> Sequence[str]:
        """Return the command of a process that compiles and runs one program after
        another, as `execution.staying` asks it; nothing where there is none.
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
class PythonFunction:
    """A function as its module names it, `softmax`, or `softmax.fn` below an autotuner;
    parameters in their order.
    """

    name: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StandaloneCompile:
    """One compile."""

    case: Case
    source: str
    """File name of the input."""
    program: str
    options: tuple[str, ...]
    """The command line without program, input and output."""
    release: str
    """The compiler's name for readers."""
    version: str | None
    """PEP 440."""
    requirement: str | None
    """What pip installs for a release, as words of a shell."""
    failure_class: str
    function: PythonFunction | None = None
    """The kernel in the input."""
    run: tuple[str, ...] = ()
    """The program that runs what was compiled, its options and those of its values."""
    runtime: str | None = None
    """What pip installs for that program."""


@dataclass(frozen=True, slots=True)
class StandaloneCall:
    """How to run the compile."""

    install: str | None
    """Arguments of `pip install`, if pip can install it."""
    words: tuple[str, ...]
    run: str
    """Lines of the shell script that run the command."""
    remark: str
    """A sentence about the script's variables."""
    before: tuple[str, ...] = ()
    """Lines of the shell script before `run`."""
    replaces: bool = True
    """Whether the script may `exec` the command."""
    then: tuple[str, ...] = ()
    """The command that runs what it compiled."""

    @property
    def line(self) -> str:
        """The commands as README text."""
        return "\n".join(
            shlex.join(words) for words in (self.words, self.then) if words
        )


class ReproScript:
    """What a reproducer says about a family's compiles. This one suits a compiler that
    is a program.
    """

    module = "module.bin"
    """The compiled file of a reproducer that is run."""

    def recipe_keys(self, case: Case) -> Mapping[str, object]:
        """`compiler`, `run`, and the recipe keys that only this family has."""
        run = case.run
        if run is None:
            return {"compiler": case.compiler}
        keys = {
            "inputs": run.inputs,
            "expected": run.expected,
            "function": run.function,
            "device": run.device,
            "flags": run.flags,
            "tolerance": dict(run.tolerances),
            "limits": {"timeout": run.limits.timeout_text},
        }
        known = {name: value for name, value in keys.items() if value}
        return {"compiler": case.compiler, "run": known}

    def program_name(self, case: Case, toolchain: Toolchain) -> str:
        """Return what users call the compiler."""
        return toolchain.program.name

    def call(self, task: StandaloneCompile) -> StandaloneCall:
        """`program options source -o /dev/null`, and the run of what it compiles."""
        words = (
            task.program,
            *task.options,
            task.source,
            "-o",
            self.module if task.run else "/dev/null",
        )
        then = tuple(word.replace(MODULE_PLACE, self.module) for word in task.run)
        lines, variables = [], []
        for command in filter(None, (words, then)):
            variables.append(re.sub(r"\W", "_", command[0]).upper())
            lines.append(
                f'"${{{variables[-1]}:-{command[0]}}}" {shlex.join(command[1:])}'
            )
        remark = (
            "\n# The flags use that version's spelling. Set "
            f"{' and '.join(variables)} to use another compiler."
        )
        install = " ".join(filter(None, (task.requirement, task.runtime))) or None
        return StandaloneCall(
            install, words, " &&\n".join(lines), remark, replaces=not then, then=then
        )

    def files(self, task: StandaloneCompile) -> Mapping[str, str]:
        """Scripts, name -> text, that the call needs next to the input."""
        return {}


@dataclass(frozen=True, slots=True)
class TextExcerpt:
    """A part of a text."""

    line: int
    """The number of its first line, from 1."""
    text: str
    lacks: str | None = None
    """What a program that was cut lacks."""


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A call of the compiler."""

    tool: str
    """`iree-compile`, `iree-opt`, `llc`, ..."""
    words: tuple[str, ...]
    """Its arguments."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables set for it."""
    stdin: str | None = None
    """The file that is its standard input, if one is named."""
    line: int = 1
    """Its number in the text, from 1."""
    files: frozenset[str] = frozenset()
    """Words that are files here. Empty for a pasted text, which may not ask."""

    @property
    def text(self) -> str:
        """The call on one line."""
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.env]
        if self.stdin:
            stdin = ["<", shlex.quote(self.stdin)]
        else:
            stdin = []
        return " ".join([*settings, self.tool, *map(shlex.quote, self.words), *stdin])


@dataclass(frozen=True, slots=True)
class PastedText:
    """What an issue, a gist or a log holds of use for a recipe."""

    programs: tuple[TextExcerpt, ...] = ()
    commands: tuple[ShellCommand, ...] = ()


class RecipeFromInput:
    """Makes recipes from what a user has at hand."""

    def call_in(self, words: Sequence[str]) -> ShellCommand | None:
        """Return the call of this family's compiler in a command line: words, or one
        text.
        """
        return None

    def from_call(
        self, call: ShellCommand, backend: str | None, source: Path | None
    ) -> RecipeStart:
        """Return a recipe for a call of this family's compiler. Opens no file that the
        call names.

        Args:
            call: The call.
            backend: Used if the call names none.
            source: The input, instead of the one of the call.

        Raises:
            BadInput: The call cannot be read.
        """
        raise NotImplementedError

    @property
    def flags_of_texts(self) -> frozenset[str]:
        """Names of flags that a pasted command line may pass: they neither start
        programs nor name files.
        """
        return frozenset()

    def from_source(
        self,
        recipe: Path,
        source: Path,
        backend: str | None,
        chip: str | None,
        kernel: str | None,
    ) -> RecipeStart | None:
        """Return a recipe for an input file, if it is one of this family.

        A kernel may be copied next to `recipe`, the file to write. `kernel` names the
        function if the file has several.

        Raises:
            BadInput: The file has several kernels, or not this one.
        """
        return None

    def from_pasted(
        self,
        recipe: Path,
        program: str,
        backend: str | None,
        chip: str | None,
        kernel: str | None,
    ) -> RecipeStart | None:
        """Return a recipe for a Python program of a text, as `from_source`. Reads no
        file that it imports.
        """
        return None

    def read_text(self, text: str) -> PastedText:
        """Return the programs and command lines of this family in an issue, a gist or a
        log.
        """
        return PastedText()

    def target_named(self, backend: str, chip: str | None) -> Target:
        """Return the target that a user names, by whatever name of the backend."""
        return Target(backend, chip)

    def target_in(self, text: str) -> Target:
        """Return what to compile the programs of a text for that has no command
        line.
        """
        raise NotImplementedError

    def improve(
        self, start: RecipeStart, compile_: Callable[[RecipeStart], Execution | None]
    ) -> RecipeStart:
        """Return the same recipe with guessed values that compile, as far as the
        compiler's errors lead to them.

        `compile_` compiles a candidate, if anything can be compiled.
        """
        return start


class Severity(StrEnum):
    """An error does not compile, a warning is probably a mistake, and advice is about
    what has caused failures before.
    """

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True)
class LintRule:
    """A rule: its name, the worst severity it reports, and a one-sentence
    description.
    """

    name: str
    severity: Severity
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Something at a place of a program, or, such as a flag, at none."""

    position: SourcePosition | None = field(default=None, metadata=UNPRINTED)

    @in_json
    def location(self) -> str | None:
        """`file:line:column`."""
        if self.position:
            return str(self.position)
        return None


@dataclass(frozen=True, slots=True)
class LintFinding(Located):
    """A finding of one rule."""

    rule: str
    severity: Severity
    message: str


@dataclass(frozen=True, slots=True)
class ProgramDevice(Located):
    """A device of a program. Its position is that of the first reference."""

    name: str
    declared: str | None
    """What declares it."""
    references: int


@dataclass(frozen=True, slots=True)
class ProgramFindings:
    """All findings of a program, its devices, options that fix findings, and what was
    not checked.
    """

    findings: tuple[LintFinding, ...] = field(default=(), metadata=UNPRINTED)
    devices: tuple[ProgramDevice, ...] = field(default=(), metadata=UNPRINTED)
    flags: tuple[str, ...] = field(default=(), metadata=key("suggested_flags"))
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SolverLimit:
    """How to measure the iterations that a family's affinity solver needs on one
    version.
    """

    rule: LintRule
    """Reports an exhausted solver."""
    other_rule: LintRule
    """Reports another failure of the compile that measures."""
    option: str | None
    """Sets the limit; up to its `=`. Not every version has one."""
    phase: str
    """Ends after the solver."""
    failure_classes: frozenset[str]
    """The failures that the option affects."""
    guess: int
    """The number of iterations to try first."""


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

    def declaring(self, case: Case, devices: Collection[str]) -> tuple[str, ...] | None:
        """Return the options that declare these devices, unless all are declared or no
        option can.
        """
        return None


class Linter(ABC):
    """Checks programs before they are compiled."""

    rules: Sequence[LintRule]
    """All rules, in documentation order."""

    @abstractmethod
    def check(
        self,
        module: Module,
        options: Sequence[str],
        backend: str | None,
        chip: str | None,
    ) -> ProgramFindings:
        """Apply all rules to a module that is compiled with these options."""

    def target_of(self, options: Sequence[str]) -> tuple[str | None, str | None]:
        """Return the backend and the chip that a command line compiles for, each if it
        names exactly one.
        """
        return None, None

    def graph(self, module: Module, options: Sequence[str]) -> str:
        """Return a module's devices and transfers as a Mermaid flowchart."""
        return ""

    def solver(self, toolchain: Toolchain, module: Module) -> SolverLimit | None:
        """Return how the affinity solver is limited and measured on this version, if
        the compiler has one.
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
