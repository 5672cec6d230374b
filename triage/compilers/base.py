"""What every compiler family must answer, and may offer. A family translates cases into
command lines; it never runs a case itself. At the end stand the keys of a recipe for a
kernel, which reductions and remedies change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from inspect import getfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from triage.compilers.interpreters import base_interpreter, editable_sources
from triage.compilers.invocation import Invocation, IrPrinter, MlirTools, Runner
from triage.model.case import Case, CaseSpec, Reference, RunSpec
from triage.model.fields import (
    UNPRINTED,
    Check,
    Text,
    between,
    file_key,
    fits,
    in_json,
)
from triage.model.outcome import NoAnswer
from triage.model.revision import Capabilities, FamilyRef, Toolchain
from triage.processes.sealing import Seal
from triage.recipes.recipe import RecipeFamily
from triage.recipes.values import Constant, read_constant

if TYPE_CHECKING:  # a compile needs none of them; one family has the first two
    from triage.compilers.iree.adapter import IreeKernels
    from triage.compilers.iree.lint import IreeLinter
    from triage.compilers.pasted_text import RecipeStarter
    from triage.compilers.repro_script import StandaloneCall, StandaloneCompile
    from triage.mlir import SourcePosition
    from triage.mlir.fingerprint import Vocabulary
VERSION = "{version}"


@dataclass(frozen=True)
class Description:
    """What an installed compiler reports about itself."""

    version: str | None
    """In its own spelling."""
    capabilities: Capabilities = field(default_factory=Capabilities)
    commit: str | None = None
    """SHA."""
    date: str | None = None
    """`YYYY-MM-DD`."""


SCRIPT_WORKER = Path(__file__).with_name("script_worker.py")


def script_options(case: Case, *options: str) -> tuple[str, ...]:
    """Return the words with which a worker runs a Python program as it is: once, unless
    its results are compared.
    """
    if case.run:
        return ("script", *options)
    return ("script", "--once", *options)


@dataclass(frozen=True)
class Wheel:
    """A release is one unpacked wheel."""

    interpreted: bool = False
    """Whether the compiler needs the Python version of its wheel. A native binary works
    from any wheel of the platform.
    """


@dataclass(frozen=True)
class Environment:
    """A release is a virtual environment with the package and its dependencies."""

    companions: tuple[str, ...] = ()
    """Further requirements. `VERSION` in them stands for the version of the release."""

    def companions_of(self, version: str) -> tuple[str, ...]:
        """Return the further requirements for one release."""
        return tuple(text.replace(VERSION, version) for text in self.companions)


Packaging = Wheel | Environment


@dataclass(frozen=True)
class Needs:
    """What a compile reads besides its input."""

    files: tuple[Path, ...]
    """Files and folders, with all that is below."""
    python: Path | None = None
    """An interpreter, with its library and its packages."""


def environment_needs(environment: Path, *files: Path) -> Needs:
    """Return a virtual environment with the interpreter that it was made with, the
    sources of its editable packages, and further files.
    """
    sources = editable_sources(environment)
    python = base_interpreter(environment / "bin" / "python")
    return Needs((environment, *sources, *files), python)


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
    code: tuple[str, ...] = ()
    """Prefixes of options of code generation, which are tried for all other phases."""
    never: tuple[str, ...] = ()
    """Words in names of options that are never tried."""
    only_true: tuple[str, ...] = ()
    """Words in names of options that are off by default, so that only `true` is tried.
    """

    def is_of_other_backend(self, name: str, backend: str) -> bool:
        """Return whether an option belongs to other backends only."""
        if name.startswith(self.backends.get(backend, ())):
            return False
        return any(name.startswith(prefixes) for prefixes in self.backends.values())

    def prefixes(self, phase: str, backend: str) -> tuple[str, ...]:
        """Return the prefixes of options to try when a phase fails, nearest first."""
        of_code = (*self.backends.get(backend, ()), *self.code)
        return self.phases.get(phase, of_code)


class Severity(StrEnum):
    """How bad a finding is. A program with an error does not compile, a warning is
    probably a mistake, and advice names what has caused failures before.
    """

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


@dataclass(frozen=True, kw_only=True)
class Located:
    """Something that may have a position in the program; a flag has none."""

    position: SourcePosition | None = field(default=None, metadata=UNPRINTED)

    @in_json
    def location(self) -> str | None:
        """`file:line:column`."""
        if self.position:
            return str(self.position)
        return None


@dataclass(frozen=True)
class LintFinding(Located):
    """A finding of one rule."""

    rule: str
    severity: Severity
    message: str


@dataclass(frozen=True)
class ProgramDevice(Located):
    """A device that a program refers to. Its position is the first reference."""

    name: str
    declared: str | None
    """The flag or the operation that declares it."""
    references: int


@dataclass(frozen=True, kw_only=True)
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
    suggested_flags: tuple[str, ...]
    """Options that fix findings."""
    graph: str = field(metadata=UNPRINTED)
    """The program as a Mermaid flowchart."""
    longest_chain: int = field(metadata=UNPRINTED)
    """How many in-place operations follow each other."""
    notes: tuple[str, ...] = ()
    """Sentences about what was not checked."""


Form = TypeVar("Form")


class Compiler(ABC):
    """One compiler family. A minimal family sets `name` and `folders` and implements
    the abstract methods.
    """

    name: str
    title: str = ""
    """The name as people write it, if that differs."""
    folders: str
    """A sentence that says which folders `locate` accepts."""
    distribution: str = ""
    """The package whose releases are the timeline; empty for a family without releases,
    whose compilers are folders.
    """
    packaging: Packaging = Wheel()
    uses_processor: bool = False
    """Whether the features of this machine's processor decide what it compiles."""
    noun: str = "program"
    """What a reproducer calls the input."""
    module: str = "module.bin"
    """What a reproducer calls the compiled file."""
    onnx_importer: str = ""
    """The Python module that converts ONNX models, run as `module MODEL -o FILE`."""
    generator: tuple[str, ...] = ()
    """Arguments with which the interpreter of the newest release runs a `.py` input
    that prints the program. If empty, this program's own Python runs it.
    """

    # The optional parts.
    passes: IrPrinter | None = None
    """Prints IR: `attribute` and the names of passes that fail."""
    run: Runner | None = None
    """Runs compiled programs: the stages `run` and `compare`."""
    kernels: IreeKernels | None = None
    """Counts kernels and measures each alone: `bench --dispatch`."""

    @property
    def lint(self) -> IreeLinter | None:
        """Checks programs before they are compiled: `lint`."""
        return None

    @property
    def recipe_starter(self) -> RecipeStarter | None:
        """Makes recipes from programs, command lines and issues: `recipe new`."""
        return None

    def standalone(self, task: StandaloneCompile) -> StandaloneCall:
        """Return how a reproducer repeats a compile without triage."""
        from triage.compilers.repro_script import program_call  # slow to import

        worker = self.run.worker if self.run else None
        if self.runs_script(task.case):
            worker = SCRIPT_WORKER
        return program_call(task, self.module, worker)

    def mlir_tools(self, toolchain: Toolchain) -> MlirTools | None:
        """Return the toolchain's MLIR tools, which reduce and rewrite MLIR, if the
        family and the installation have any.
        """
        return None

    @cached_property
    def issue_form(self) -> IssueForm:
        """The project's form for bug reports: `issue_form.yaml` in the family's
        folder.
        """
        return self._read_file("issue_form.yaml", IssueForm)

    @cached_property
    def remedy_options(self) -> OptionCatalog:
        """The compiler's options that `remedy` tries beyond the failure rules:
        `options.yaml` in the family's folder.
        """
        return self._read_file("options.yaml", OptionCatalog)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The names of operations, types and passes in its IR: `vocabulary.yaml` in the
        family's folder.
        """
        from triage.mlir.fingerprint import Vocabulary  # slow to import

        return self._read_file("vocabulary.yaml", Vocabulary)

    def _read_file(self, name: str, form: type[Form]) -> Form:
        """Return the content of a YAML file next to the family's module. A missing file
        leaves all keys at their defaults.
        """
        import yaml
        from pydantic import TypeAdapter

        file = Path(getfile(type(self))).with_name(name)
        keys = yaml.safe_load(file.read_text("utf-8")) if file.is_file() else {}
        return TypeAdapter(form).validate_python(keys)

    def declaring_options(
        self, case: Case, program: Path, devices: Iterable[str]
    ) -> tuple[str, ...]:
        """Return options that declare the devices that a program refers to, and those
        that are named; none if all are declared, or no option can declare them.
        """
        return ()

    @property
    def recipe(self) -> RecipeFamily:
        """What its recipes may contain; by default any input, target and flags, and no
        keys of its own.
        """
        return RecipeFamily(self.name, any_input=True)

    def family_for(
        self, ref: FamilyRef, spec: CaseSpec | None = None
    ) -> Compiler | None:
        """Return the family that `ref` names, or None if this family does not know it:
        itself, or one that `ref` or `spec` describes, such as `command:cython`.
        """
        if str(ref) == self.name:
            return self
        return None

    @abstractmethod
    def locate(self, root: Path) -> Path | None:
        """Return the compiler below an installation, a build tree or a virtual
        environment, if there is one.
        """

    @abstractmethod
    def describe(self, program: Path, seal: Seal) -> Description:
        """Ask the compiler about itself, under a seal that lets it read its needs.
        Raises EnvironmentFailure if it does not run.
        """

    @abstractmethod
    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | NoAnswer:
        """Return the command line for a case on this version, or why there is none. The
        backend is checked elsewhere, for all families alike.
        """

    def needs(self, root: Path, program: Path) -> Needs:
        """Return what a compile reads besides its input, of the toolchain in the folder
        or file `root` with the compiler `program`. It can read nothing else, and two
        toolchains whose needs have the same content share results.
        """
        return Needs((root,))

    def runs_script(self, case: Case) -> bool:
        """Return whether a case is a Python program that runs as it is."""
        return False

    def with_reference(self, case: Case, release: str) -> Case:
        """Return a case whose results are compared with those of a release, if only
        another release can say what is right; else the case as it is.
        """
        if case.run or not self.runs_script(case):
            return case
        return replace(case, run=RunSpec(reference=Reference(release)))

    def why_unsupported(self, version: str) -> str | None:
        """Return why this release cannot compile anything on this machine, if that is
        known before it is installed.
        """


_TYPE = (
    r"\s*(\**(k?[iu](1|8|16|32|64)|fp(8\w*|16|32|64)|bf16|f(16|32|64)|tensordesc<.+>"
    r"|nvTmaDesc))\s*(:\s*(16)?\s*)?"
)

_Name = Annotated[
    str, fits(r"[A-Za-z_]\w*", '"{text}" is not a name of an argument or option.')
]
_Hint = Annotated[
    str,
    fits(
        "divisibility|pointer_range",
        '"{text}" is not a hint: write divisibility or pointer_range.',
    ),
]
_ADVICE = (
    '"{text}" is not an argument type: write "*fp16", i32, or "*bf16:16" for one '
    "divisible by 16."
)
_Constant = Annotated[Constant, Check(read_constant, reads=str)]
_HintValue = Annotated[int, between(0, 999_999, "write a number from 0 to 999999.")]
_Type = Annotated[Text, fits(_TYPE, _ADVICE)]


@dataclass(frozen=True)
class KernelSpec(CaseSpec):
    """The types and constants that a kernel is compiled for."""

    kernel: _Name | None = file_key(
        None, "The kernel function; optional when the file has only one."
    )
    signature: dict[_Name, _Type] = file_key(
        dict,
        "Type of each argument that is not a constexpr; a trailing `:16` means "
        "divisible by 16.",
        {"x_ptr": "*fp16:16", "n": "i32"},
    )
    constexprs: dict[_Name, _Constant] = file_key(
        dict,
        "Values of the constexprs; write a type as tl.float16.",
        {"BLOCK": 64},
    )
    hints: dict[_Name, dict[_Hint, _HintValue]] = file_key(
        dict,
        "Further facts about arguments.",
        {"x_ptr": {"divisibility": 16, "pointer_range": 32}},
    )
    options: dict[_Name, _Constant] = file_key(
        dict, "Launch options.", {"num_warps": 8, "num_stages": 3}
    )


def kernel_of(case: Case) -> KernelSpec | None:
    """Return what the kernel of a case is compiled for, if its input is a kernel."""
    if isinstance(case.spec, KernelSpec):
        return case.spec
    return None
