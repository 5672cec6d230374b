"""The interface of a compiler family. A family translates cases into command lines; it never runs a case itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Generic, TypeVar

from packaging.version import Version

from triage.compilers.invocation import Invocation, RunFacts, reported_facts
from triage.compilers.repro_script import ReproScript
from triage.model.case import Case, CaseSpec
from triage.model.execution import Execution
from triage.model.outcome import Untestable
from triage.model.revision import Capabilities, Toolchain
from triage.recipes.family import RecipeFamily

if TYPE_CHECKING:  # a compile needs none of these
    from triage.compilers.analysis import Ir, Linter, RemedyHints
    from triage.compilers.parts import RecipeFromInput, Runner, Suites

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class IssueForm:
    """The headings of a project's form for bug reports. A part without a heading is written under the one before."""

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
class Description:
    """What an installed compiler reports about itself."""

    version: str | None
    """PEP 440."""
    commit: str | None
    """Full SHA."""
    date: str | None
    """`YYYY-MM-DD`."""
    capabilities: Capabilities


def pep440(text: str | None) -> str | None:
    """Normalize a version; None when the text is not one."""
    try:
        return str(Version(text or ""))
    except ValueError:  # also a number of thousands of digits
        return None


@dataclass(frozen=True, slots=True)
class Wheel:
    """A release is one unpacked wheel."""

    interpreted: bool = False
    """Whether the compiler runs under the Python version of its wheel. For a native binary any wheel of the platform works."""


VERSION = "{version}"


@dataclass(frozen=True, slots=True)
class Environment:
    """A release is a virtual environment with the package and its dependencies."""

    beside: tuple[str, ...] = ()
    """Further requirements to install, in which `VERSION` stands for the release's version."""


Packaging = Wheel | Environment


@dataclass(frozen=True, slots=True)
class MlirTools:
    """The MLIR tools of a toolchain."""

    optimizer: Path
    """Its `opt` program, which parses, prints and runs passes."""
    python_root: Path
    """The folder to import its Python bindings from."""
    package: str
    """Their package, which holds `ir`."""


@dataclass(frozen=True, slots=True)
class Importer:
    """Converts ONNX into the family's input."""

    module: str
    """The Python module, run as `module MODEL -o FILE`."""
    packages: tuple[str, ...]
    """The packages whose versions decide the result."""
    files: tuple[str, ...] = ()
    """Patterns of its files below a toolchain's folder of Python modules."""


Constant = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class KernelSpec(CaseSpec):
    """How a Python function is specialised for a compile."""

    name: str | None
    """The function; None for the only one of the file."""
    signature: Mapping[str, str]
    """Argument -> type."""
    constexprs: Mapping[str, Constant]
    """Values known at compile time, a type as `tl.float16`."""
    hints: Mapping[str, Mapping[str, int]]
    """Argument -> facts about it, such as `divisibility`."""
    options: Mapping[str, Constant]
    """Launch options, such as `num_warps`."""


def kernel_of(case: Case) -> KernelSpec | None:
    """How the case specialises a Python function; None when its input is not a kernel."""
    return case.spec if isinstance(case.spec, KernelSpec) else None


def mlir_tools(family: Compiler, toolchain: Toolchain) -> MlirTools | None:
    """The toolchain's MLIR tools; None when the family or the installation has none."""
    return family.ir.tools(toolchain) if family.ir else None


class Part(Generic[P]):
    """An optional part of a family, imported when it is first asked for. A family without it says nothing."""

    def __init__(self, place: str | None = None) -> None:
        """place: `module:Class`."""
        self._place = place
        self._part: P | None = None

    def __get__(self, family: Compiler, owner: type[Compiler]) -> P | None:
        if self._part is None and self._place is not None:
            self._part = resolve_name(self._place)()
        return self._part


class Compiler(ABC):
    """One compiler family. A minimal family sets `name` and `folders` and implements the abstract methods."""

    name: str
    title: str = ""
    """The name as people write it, where that differs."""
    folders: str
    """One sentence: which ones `locate` accepts."""
    distribution: str = ""
    """The package whose releases are the timeline; empty when there are only folders."""
    packaging: Packaging = Wheel()
    noun: str = "program"
    """What a reproducer calls the input."""
    onnx_importer: Importer | None = None
    issue_form: IssueForm = IssueForm()

    ir: Part[Ir] = Part()
    """Prints IR: `attribute`, resource metrics, the names of passes that fail, reduction and rewrites of MLIR."""
    run: Part[Runner] = Part()
    """Runs compiled programs: the stages `run`, `compare` and `benchmark`."""
    lint: Part[Linter] = Part()
    """Checks programs before they are compiled: `lint`."""
    remedies: Part[RemedyHints] = Part()
    """Options and rewrites that `remedy` tries beyond those of the failure rules."""
    recipe_from_input: Part[RecipeFromInput] = Part()
    """Makes recipes from programs, command lines and issues: `recipe new`."""
    suites: Part[Suites] = Part()
    """Reads the compiler's own test suites: `--suite-config`, `expect update`."""
    script = ReproScript()
    """Repeats a compile without this program: `reduce`."""

    @property
    def recipe(self) -> RecipeFamily:
        """What its recipes may contain; by default any input, target and flags, and no keys of its own."""
        return RecipeFamily(self.name, any_input=True)

    def named(self, name: str, spec: CaseSpec | None = None) -> Compiler | None:
        """The family of this name: itself, or one that its name or the spec of a case describes, such as `command:cython`."""
        return self if name == self.name else None

    @abstractmethod
    def locate(self, root: Path) -> Path | None:
        """The native binary below an installation, a build tree or a virtual environment, if there is one."""

    @abstractmethod
    def describe(self, program: Path) -> Description:
        """Ask the compiler about itself. EnvironmentFailure when it does not run."""

    def unsupported(self, version: str) -> str | None:
        """Why a release cannot compile anything here, known without installing it; None when it may."""

    def identity_files(self, program: Path) -> tuple[Path, ...]:
        """The files whose bytes decide what the compiler does: the binary and the libraries with its code."""
        return (program,)

    @abstractmethod
    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | Untestable:
        """The command line for a case on this version, or why there is none."""

    def run_facts(self, execution: Execution) -> RunFacts:
        """Phase and metrics that a finished run printed."""
        return reported_facts(execution)
