"""What the optional parts of a family take and return: reproducers, recipes from other
texts, lint findings, remedies.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from triage.model.case import Case
from triage.model.execution import Execution
from triage.model.revision import Toolchain
from triage.recipes.family import RecipeStart

if TYPE_CHECKING:  # it parses MLIR
    from triage.mlir import SourcePosition

MODULE_PLACE = "{module}"  # stands for the compiled file in a command
RULES_FILE = "failure.rules"  # a suffix that no recipe has


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
        """`compiler`, and the recipe keys that only this family has."""
        return {"compiler": case.compiler}

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

    position: SourcePosition | None = None

    JSON_KEYS: ClassVar = {"position": None}
    JSON_PROPERTIES: ClassVar = ("location",)

    @property
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

    findings: tuple[LintFinding, ...] = ()
    devices: tuple[ProgramDevice, ...] = ()
    flags: tuple[str, ...] = ()
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

    first: tuple[str, ...]
    """Complete options that are tried before any switch."""
    recomputes: tuple[str, ...]
    """Words in names of options that change the types of computations."""
    backends: Mapping[str, tuple[str, ...]]
    """Backend -> its own options, which are tried only for it, and first."""
    phases: Mapping[str, tuple[str, ...]]
    """Failing phase -> options that affect it, nearest first."""
    code_phase: str
    """The phase of code generation, whose options are tried for unknown phases."""
    code_phase_prefixes: tuple[str, ...]
    """Beginnings of the names of phases that count as code generation."""
    never: tuple[str, ...]
    """Words in names of options that are never tried."""
    only_true: tuple[str, ...]
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
        return (*own, *self.phases[phase])


@dataclass(frozen=True, slots=True)
class RewriteNames:
    """Names for rewrites: the barrier operation, and the transfers between devices."""

    barrier: str
    transfers: frozenset[str]


@dataclass(frozen=True, slots=True)
class RemedyHints:
    """What one compiler family knows about remedies."""

    options: OptionCatalog
    names: RewriteNames
    devices_named: Callable[[Path], frozenset[str]]
    """Return the devices that a program refers to."""
    declaring: Callable[[Case, Collection[str]], tuple[str, ...] | None]
    """Return the options that declare these devices, unless all are declared or no
    option can.
    """
