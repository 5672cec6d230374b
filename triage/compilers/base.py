"""The interface of a compiler family. A family translates cases into command lines; it never runs a case itself."""

from __future__ import annotations

import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from packaging.version import Version

from triage.compilers.invocation import Invocation, RunFacts, reported_facts
from triage.model.case import Case, CaseSpec, RunSpec
from triage.model.execution import Execution
from triage.model.outcome import Untestable
from triage.model.revision import Capabilities, Toolchain
from triage.recipes.family import RecipeFamily, RecipeStart
from triage.recipes.observed import ObservedCase, UpdatedFile

if TYPE_CHECKING:  # a compile needs none of these
    from triage.compilers.analysis import Ir, Linter, RemedyHints

MODULE_PLACE = "{module}"  # stands for the compiled file in a command
RULES_FILE = "failure.rules"  # a suffix that no recipe has


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function as its module names it, `softmax`, or `softmax.fn` below an autotuner; parameters in their order."""

    name: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StandaloneCompile:
    """One compile. source: the input's file name; program, options: the command line without input and output; release: the
    compiler's name for readers; version: PEP 440; requirement: what pip installs, None when it is no release;
    failure_class: how it fails; function: the kernel in the input, None for anything else; run: the program that runs what
    was compiled, its options and those of its values; empty when it is only compiled; runtime: what pip installs for it.
    """

    case: Case
    source: str
    program: str
    options: tuple[str, ...]
    release: str
    version: str | None
    requirement: str | None
    failure_class: str
    function: PythonFunction | None = None
    run: tuple[str, ...] = ()
    runtime: str | None = None


@dataclass(frozen=True, slots=True)
class StandaloneCall:
    """How to run the compile. install: arguments of `pip install`, None when pip cannot install it; words, line: the
    command as a list and as README text; then: the command that runs what it compiled, empty when it is only compiled;
    before, run: lines of the shell script; remark: a sentence about its variables; replaces: whether the script may `exec`
    the command.
    """

    install: str | None
    words: tuple[str, ...]
    run: str
    remark: str
    before: tuple[str, ...] = ()
    replaces: bool = True
    then: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        return "\n".join(shlex.join(words) for words in (self.words, self.then) if words)


_MODULE = "module.vmfb"  # the compiled file of a reproducer that is run


def plain_call(task: StandaloneCompile) -> StandaloneCall:
    """`program options source -o /dev/null`, and the run of what it compiles."""
    words = (task.program, *task.options, task.source, "-o", _MODULE if task.run else "/dev/null")
    then = tuple(word.replace(MODULE_PLACE, _MODULE) for word in task.run)
    variables = [re.sub(r"\W", "_", command[0]).upper() for command in (words, then) if command]
    lines = (
        f'"${{{variable}:-{command[0]}}}" {shlex.join(command[1:])}'
        for variable, command in zip(variables, (words, then), strict=False)
    )
    remark = f"\n# The flags use that version's spelling. Set {' and '.join(variables)} to use another compiler."
    install = " ".join(filter(None, (task.requirement, task.runtime))) or None
    return StandaloneCall(install, words, " &&\n".join(lines), remark, replaces=not then, then=then)


@dataclass(frozen=True, slots=True)
class IssueForm:
    """The headings of a project's form for bug reports. None for a part that the form has no heading for: it is written
    under the one before. component: the heading and the choice that fits a compiler's failure.
    """

    happened: str = "What happened?"
    steps: str | None = "Steps to reproduce"
    component: tuple[str, str] | None = None
    version: str = "Version"
    context: str | None = "Additional context"
    repository: str = ""
    """Web address of the project."""
    tag: str = "v{}"
    """Of a release."""


@dataclass(frozen=True, slots=True)
class Description:
    """What an installed compiler reports about itself. version: PEP 440; commit: full sha; date: `YYYY-MM-DD`."""

    version: str | None
    commit: str | None
    date: str | None
    capabilities: Capabilities


def pep440(text: str | None) -> str | None:
    """Normalize a version; None when the text is not one."""
    try:
        return str(Version(text or ""))
    except ValueError:  # also a number of thousands of digits
        return None


@dataclass(frozen=True, slots=True)
class Wheel:
    """A release is one unpacked wheel. interpreted: the compiler runs under the Python version the wheel was built for; a
    native binary does not, and any wheel for the platform works.
    """

    interpreted: bool = False


VERSION = "{version}"


@dataclass(frozen=True, slots=True)
class Environment:
    """A release is a virtual environment with the package and its dependencies. beside: further requirements to install,
    in which `VERSION` stands for the release's version.
    """

    beside: tuple[str, ...] = ()


Packaging = Wheel | Environment


@dataclass(frozen=True, slots=True)
class MlirTools:
    """The MLIR tools of a toolchain. optimizer: its `opt` program, which parses, prints and runs passes; python_root and
    package: where its Python bindings are imported from (`package.ir`).
    """

    optimizer: Path
    python_root: Path
    package: str


@dataclass(frozen=True, slots=True)
class Importer:
    """Converts ONNX into the family's input: a Python module, run as `module MODEL -o FILE`, the packages whose versions decide
    the result, and patterns of its files below a toolchain's folder of Python modules.
    """

    module: str
    packages: tuple[str, ...]
    files: tuple[str, ...] = ()


class Runner(Protocol):
    """Runs a family's compiled programs on this machine, with a package that is released beside the compiler."""

    distribution: str

    @property
    def unoptimised(self) -> tuple[str, ...]:
        """Flags of the compiler that switch its optimisations off."""

    def program(self, root: Path) -> Path | None:
        """The program that runs a compiled file once, in an installation of the package or beside the compiler."""

    def device(self, case: Case, run: RunSpec) -> str | None:
        """The kind of device that a run needs beside a processor, such as `hip`; None for none."""

    def options(self, case: Case, run: RunSpec) -> list[str]:
        """The options that decide what a run does, without its values."""

    def loading(self, libraries: Sequence[Path]) -> list[str]:
        """The options that load further compiled files."""

    def value_options(self, inputs: Sequence[str], expected: Sequence[str]) -> list[str]:
        """The options for values: what the function takes, and what it must return."""

    def overlooks_nan(self, version: str | None) -> bool:
        """Whether the program of this release finds no difference between NaN and another number."""

    def argv(self, program: Path, module: Path, options: Sequence[str]) -> list[str]:
        """The command that runs a compiled file."""

    def missing_device(self, stderr: str) -> str | None:
        """Why the run's device is not there; None when it is."""

    def unknown_flag(self, stderr: str) -> str | None:
        """The option that this version of the program does not know."""

    def result_files(self, stdout: str, folder: Path) -> list[Path]:
        """A file in a folder for each result that a run printed, named so that `saved` knows its type."""

    def saving(self, files: Sequence[Path]) -> list[str]:
        """The options that write the results to files."""

    def runs(self, case: Case) -> bool:
        """Whether the case is compiled for this machine, so that its run time can be measured."""

    def benchmark_program(self, root: Path) -> Path | None:
        """The program that measures run time, in an installation of the package or beside the compiler."""

    def benchmark_argv(self, program: Path, module: Path, case: Case, run: RunSpec, repetitions: int) -> list[str]:
        """The command that measures a function of a compiled file."""

    def reporting(self) -> list[str]:
        """The options that make the measuring program print what `seconds` reads."""

    def seconds(self, output: str, *, cpu: bool = False) -> list[float]:
        """Wall time (or CPU time) of each repetition, parsed from the output of that command."""

    def counting(self, file: Path) -> list[str]:
        """Options of the compiler that write to a file how many kernels the program starts."""

    def dispatches(self, text: str) -> int | None:
        """That number, parsed from the text of the file; None when it is not there."""

    def extracting(self, folder: Path) -> list[str]:
        """Options of the compiler that write programs to a folder which start one kernel each."""

    def extracted(self, text: str) -> list[tuple[str, str]]:
        """The kernels of such a program, each with the option that measures it alone."""


Constant = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class KernelSpec(CaseSpec):
    """How a Python function is specialised for a compile.

    name: the function, None for the only one of the file; signature: argument -> type; constexprs: values known at compile
    time, a type as `tl.float16`; hints: facts about an argument, such as `divisibility`; options: launch options, such as
    `num_warps`.
    """

    name: str | None
    signature: Mapping[str, str]
    constexprs: Mapping[str, Constant]
    hints: Mapping[str, Mapping[str, int]]
    options: Mapping[str, Constant]


@dataclass(frozen=True, slots=True)
class TextExcerpt:
    """A part of a text."""

    line: int
    """The number of its first line, from 1."""
    text: str
    lacks: str | None = None
    """What a program that was cut lacks."""


@dataclass(frozen=True, slots=True)
class PastedText:
    """What an issue, a gist or a log holds of use for a recipe."""

    programs: tuple[TextExcerpt, ...] = ()
    commands: tuple[TextExcerpt, ...] = ()
    runs: tuple[str, ...] = ()
    """Command lines that run a compiled program."""


class Compiler(ABC):
    """One compiler family. A minimal family sets `name` and `folders` and implements the abstract methods."""

    name: str
    title: str = ""  # the name as people write it, where that differs
    folders: str  # one sentence: which ones `locate` accepts
    distribution: str = ""  # the package whose releases are the timeline; empty when there are only folders
    packaging: Packaging = Wheel()
    noun: str = "program"  # what a reproducer calls the input
    onnx_importer: Importer | None = None
    issue_form: IssueForm = IssueForm()

    @property
    def recipe(self) -> RecipeFamily:
        """What its recipes may contain; by default any input, target and flags, and no keys of its own."""
        return RecipeFamily(self.name, any_input=True)

    @abstractmethod
    def locate(self, root: Path) -> Path | None:
        """The native binary below an installation, a build tree or a virtual environment; None when there is none."""

    @abstractmethod
    def describe(self, program: Path) -> Description:
        """Ask the compiler about itself. EnvironmentFailure when it does not run."""

    @abstractmethod
    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | Untestable:
        """The command line for a case on this version, or why there is none."""

    def unsupported(self, version: str) -> str | None:
        """Why a release cannot compile anything here, known without installing it; None when it may."""

    def identity_files(self, program: Path) -> tuple[Path, ...]:
        """The files whose bytes decide what the compiler does: the binary and the libraries with its code."""
        return (program,)

    def dialects(self, program: Path) -> frozenset[str]:
        """The MLIR dialects it registers; empty when it lists none. EnvironmentFailure as `describe`."""
        return frozenset()

    def with_pass_reporting(self, invocation: Invocation) -> Invocation:
        """The same compile, printing which pass failed."""
        return invocation

    def on_one_thread(self, invocation: Invocation) -> Invocation:
        """The same compile on one thread, if it uses several."""
        return invocation

    def run_facts(self, execution: Execution) -> RunFacts:
        """Phase and metrics that a finished run printed."""
        return reported_facts(execution)

    def mlir_tools(self, toolchain: Toolchain) -> MlirTools | None:
        """The toolchain's MLIR tools; None when the family or the installation has none."""

    def ir(self) -> Ir | None:
        """How to print the family's IR; None when it cannot be printed."""

    def linter(self) -> Linter | None:
        """The lint rules for programs; None when there are none."""

    def remedy_hints(self) -> RemedyHints | None:
        """What the family knows about remedies; None when it knows nothing beyond the failure rules."""

    def runner(self) -> Runner | None:
        """How compiled programs run on this machine; None when they cannot."""

    def named(self, name: str) -> Compiler | None:
        """The family of this name: itself, or one that its name alone describes, such as `command:cython`."""
        return self if name == self.name else None

    def for_case(self, case: Case) -> Compiler:
        """The family of a case's toolchains; differs from this one when the case's spec describes the compiler."""
        return self

    def kernel(self, case: Case) -> KernelSpec | None:
        """How the case specialises a Python function; None when its input is not a kernel."""

    def start_from_command(self, words: Sequence[str], backend: str | None, source: Path | None) -> RecipeStart | None:
        """A recipe for a command line; None when its program is another compiler. BadInput when it cannot be read.

        backend: used when the command line names none; source: the input, instead of the one in the command line.
        """

    def read_text(self, text: str) -> PastedText:
        """The programs and command lines of this family in an issue, a gist or a log."""
        return PastedText()

    def start_from_source(
        self, recipe: Path, source: Path, backend: str | None, chip: str | None, kernel: str | None
    ) -> RecipeStart | None:
        """A recipe for an input file; None when it is not an input of this family. A kernel may be copied beside `recipe`,
        the file to write; `kernel` is the function, None for the only one.

        Raises:
            BadInput: the file has several kernels, or not this one.
        """

    def improve(self, start: RecipeStart, compile_: Callable[[RecipeStart], Execution | None]) -> RecipeStart:
        """The same recipe with guessed values that compile, as far as the compiler's errors lead to them.

        compile_: compiles a candidate; None when nothing can be compiled.
        """
        return start

    def suite_cases(self, folder: Path, configs: Sequence[Path], downloads: Path) -> tuple[Case, ...] | None:
        """The cases of one of the compiler's own test suites; None when the family knows no suites.

        configs: files with flags and known failures, or tests of whole models; downloads: where files from URLs are kept.

        Raises:
            BadFiles: with every mistake of the configs and of the tests.
            BadInput: there is no test below the folder.
        """

    def updated_config(
        self, folders: Sequence[Path], config: Path, observed: Sequence[ObservedCase], *, prune: bool
    ) -> UpdatedFile | None:
        """A config of test suites with the known failures that were seen; None when the family knows no suites.

        prune: remove listed tests that do not exist.

        Raises:
            BadFiles: the file cannot be read or edited.
        """

    def recipe_keys(self, case: Case) -> tuple[str, ...]:
        """YAML lines of the recipe keys that only this family has, `compiler:` first."""
        return (f"compiler: {self.name}",)

    def program_name(self, case: Case, toolchain: Toolchain) -> str:
        """What users call the compiler."""
        return toolchain.program.name

    def standalone_call(self, task: StandaloneCompile) -> StandaloneCall:
        """How to repeat a compile with nothing but the compiler."""
        return plain_call(task)

    def standalone_files(self, task: StandaloneCompile) -> Mapping[str, str]:
        """Scripts, name -> text, that `standalone_call` needs beside the input."""
        return {}
