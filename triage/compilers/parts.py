"""Parts that a compiler family may offer: running compiled programs, recipes from other texts, and its own test suites."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from triage.model.case import Case, RunSpec
from triage.model.execution import Execution
from triage.model.outcome import Untestable
from triage.recipes.expectations import ObservedCase, UpdatedFile
from triage.recipes.family import RecipeStart


class Runner(ABC):
    """Runs a family's compiled programs on this machine, with a package that is released next to the compiler."""

    distribution: str
    """The package."""
    unoptimised: tuple[str, ...]
    """Flags of the compiler that switch its optimisations off."""

    @abstractmethod
    def program(self, root: Path, *, measured: bool) -> Path | None:
        """The program that runs a compiled file once, or measures it, in an installation of the package or the compiler."""

    @abstractmethod
    def device(self, case: Case, run: RunSpec) -> str | None:
        """The kind of device that a run needs besides a processor, such as `hip`."""

    @abstractmethod
    def options(self, case: Case, run: RunSpec) -> list[str]:
        """The options that decide what a run does, without its values."""

    @abstractmethod
    def argv(
        self,
        program: Path,
        module: Path,
        options: Sequence[str],
        *,
        libraries: Sequence[Path] = (),
        inputs: Sequence[str] = (),
        expected: Sequence[str] = (),
        results: Sequence[Path] = (),
        measured: bool = False,
    ) -> list[str]:
        """The command that runs a compiled file.

        libraries: further compiled files to load; results: files to write the results to, see `result_files`; measured: the
        program measures, and prints what `seconds` reads.
        """

    @abstractmethod
    def overlooks_nan(self, version: str | None) -> bool:
        """Whether the program of this release treats NaN as equal to any number."""

    @abstractmethod
    def unusable(self, stderr: str) -> Untestable | None:
        """Why the program could not run anything: a missing device, or an option that this version does not know."""

    @abstractmethod
    def result_files(self, stdout: str, folder: Path) -> list[Path]:
        """A file in a folder for each result that a run printed, named as `values.file_value` expects."""

    @abstractmethod
    def benchmark_argv(self, program: Path, module: Path, case: Case, run: RunSpec, repetitions: int) -> list[str]:
        """The command that measures a function of a compiled file."""

    @abstractmethod
    def seconds(self, output: str, *, cpu: bool = False) -> list[float]:
        """Wall time (or CPU time) of each repetition, parsed from the output of a program that measures."""

    @abstractmethod
    def counting(self, file: Path) -> list[str]:
        """Options of the compiler that write to a file how many kernels the program starts."""

    @abstractmethod
    def dispatches(self, text: str) -> int | None:
        """That number, parsed from the text of the file."""

    @abstractmethod
    def extracting(self, folder: Path) -> list[str]:
        """Options of the compiler that write programs to a folder which start one kernel each."""

    @abstractmethod
    def extracted(self, text: str) -> list[tuple[str, str]]:
        """The kernels of such a program, each with the option that measures it alone."""


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


class RecipeFromInput:
    """Makes recipes from what a user has at hand."""

    def from_command(self, words: Sequence[str], backend: str | None, source: Path | None) -> RecipeStart | None:
        """A recipe for a command line; None when its program is another compiler. BadInput when it cannot be read.

        backend: used when the command line names none; source: the input, instead of the one in the command line.
        """
        return None

    def from_source(
        self, recipe: Path, source: Path, backend: str | None, chip: str | None, kernel: str | None
    ) -> RecipeStart | None:
        """A recipe for an input file; None when it is not an input of this family. A kernel may be copied next to `recipe`,
        the file to write; `kernel` is the function, None for the only one.

        Raises:
            BadInput: the file has several kernels, or not this one.
        """
        return None

    def read_text(self, text: str) -> PastedText:
        """The programs and command lines of this family in an issue, a gist or a log."""
        return PastedText()

    def improve(self, start: RecipeStart, compile_: Callable[[RecipeStart], Execution | None]) -> RecipeStart:
        """The same recipe with guessed values that compile, as far as the compiler's errors lead to them.

        compile_: compiles a candidate; None when nothing can be compiled.
        """
        return start


class Suites(ABC):
    """Reads a compiler's own test suites."""

    @abstractmethod
    def cases(self, folder: Path, configs: Sequence[Path], downloads: Path) -> tuple[Case, ...]:
        """The cases of a suite.

        configs: files with flags and known failures, or tests of whole models; downloads: where files from URLs are kept.

        Raises:
            BadFiles: with the mistakes of all configs and tests.
            BadInput: there is no test below the folder.
        """

    @abstractmethod
    def updated_config(
        self, folders: Sequence[Path], config: Path, observed: Sequence[ObservedCase], *, prune: bool
    ) -> UpdatedFile:
        """A config with the known failures that were seen. BadFiles when it cannot be read or edited.

        observed: of cases with this config; prune: remove listed tests that exist in none of the folders.
        """
