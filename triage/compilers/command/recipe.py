"""The recipe keys of a compiler that a command line calls, and recipes from calls of
LLVM's and MLIR's tools, such as `llc -O2 a.ll`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from triage.compilers.base import VERSION
from triage.compilers.parts import (
    PastedProgram,
    RecipeRequest,
    RecipeStarter,
    ShellCommand,
)
from triage.compilers.pasted_text import (
    blocks_in,
    calls_in,
    mlir_in,
    options_and_input,
)
from triage.model.case import Case, CaseSpec, InputKind, Target
from triage.model.fields import REQUIRED, Text, file_key
from triage.model.outcome import Cause
from triage.model.revision import FamilyRef
from triage.recipes.document import OneOrMore
from triage.recipes.recipe import File, RecipeStart, locate
from triage.recipes.run_keys import RunnableRecipe
from triage.recipes.values import unknown_word

_MLIR = (".mlir", ".mlirbc")
_PLACEHOLDERS = (
    "{input}",
    "{output}",
    "{toolchain}",
    "{python}",
    "{site_packages}",
    "{flags}",
)


def _check_placeholders(text: str) -> str:
    for name in re.findall(r"\{\w+\}", text.replace("${", "")):
        if name not in _PLACEHOLDERS:
            raise ValueError(unknown_word(name, "placeholder", _PLACEHOLDERS))
    return text


def _check_pattern(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f'"{text}" is not a regular expression: {error}.') from None
    return text


_Word = Annotated[str, AfterValidator(_check_placeholders)]
_Words = Annotated[tuple[_Word, ...], Field(min_length=1)]
_NO_COMMAND = "write the command line; only a .py file with a `package` runs without."
_Packages = Annotated[tuple[Text, ...], OneOrMore, Field(min_length=1)]


@dataclass(frozen=True)
class VersionCommand:
    """How to ask a compiler in a folder for its version."""

    run: _Words = file_key(
        REQUIRED, "Prints the version.", ["{toolchain}/bin/mlir-opt", "--version"]
    )
    pattern: Annotated[Text, AfterValidator(_check_pattern)] = file_key(
        r"\d+(?:\.\d+)+",
        "A pattern for the version, or with a group for it, in the output.",
    )


@dataclass(frozen=True, slots=True)
class CommandSpec(CaseSpec):
    """The command of a case."""

    words: tuple[str, ...]
    """The command line, program first, with placeholders such as `{input}`. If there is
    none, the input is a Python program that runs as it is.
    """
    version: VersionCommand | None = None
    """How to find the version of a compiler that is not a package."""
    failing_causes: frozenset[str] = frozenset()

    @property
    def recipe_keys(self) -> Mapping[str, object]:
        return {"command": self.words, "version": self.version}


@dataclass(frozen=True, kw_only=True)
class CommandRecipe(RunnableRecipe):
    """Any compiler that a command runs, or a script that runs with a package."""

    target: Target = file_key(Target("host"), "What to compile for; shown in reports.")
    command: _Words = file_key(
        (),
        f"Program and arguments, with the placeholders {', '.join(_PLACEHOLDERS)} "
        "(default: a .py input runs as it is, with the packages).",
        ["{python}", "-m", "cython", "{input}", "-o", "{output}"],
    )
    package: _Packages = file_key(
        (),
        "The package whose releases are the timeline, then further requirements to "
        f"install; {VERSION} is the version of the first.",
        "cython",
        ["numba", "numpy<2"],
        ["iree-base-compiler", f"iree-base-runtime=={VERSION}"],
    )
    version: VersionCommand | None = file_key(
        None, "How to ask a compiler without a package for its version."
    )
    rules: File | None = file_key(
        None,
        "A file of your own failure rules; they take precedence over the packaged "
        "ones.",
    )

    def mistakes(self, kind: InputKind) -> Iterator[tuple[str, str]]:
        yield from super().mistakes(kind)
        if self.phase is not None:
            yield (
                "phase",
                'compiler "command" cannot stop after a phase; remove the key.',
            )
        if not self.command and not (self.package and self.input.endswith(".py")):
            yield "command", _NO_COMMAND
        if self.command and (self.run or self.bench):
            yield "run", "a command runs in one step; remove `run` and `bench`."

    def complete(self, case: Case, folder: Path) -> Case:
        """Return the case with its command and the name of its compiler. Recipes with
        the same packages share a compiler, others have one each.
        """
        case = super().complete(case, folder)
        failing = frozenset[str]()
        # the syntax of MLIR changes, so that many versions cannot read it
        if not self.input.endswith(_MLIR):
            failing = frozenset({Cause.INPUT})
        if not self.command:
            failing = frozenset({Cause.INPUT, Cause.RECIPE})
        packages = tuple(text.replace(" ", "") for text in self.package)
        recipe = None if packages else self.name
        return replace(
            case,
            compiler=str(FamilyRef(case.compiler, packages, recipe)),
            rules=locate(folder, self.rules) if self.rules else None,
            spec=CommandSpec(self.command, self.version, failing),
        )


# The short names are English words, too, so they are tools only where a command begins.
_TOOLS = re.compile(
    r"(?:^\s*|[`|;&]\s*|[$%]\s+|(?<!\S)RUN:|RUN:\s+)(?:[^\s`\"'|;&]*/)?"
    r"(?P<tool>mlir-opt|circt-opt|triton-opt|opt|llc)(?:-\d+)?(?=\s+\S)"
)
_LLVM_IR = re.compile(r"^(?:define\b[^\n]*@|target triple = |; ModuleID = )", re.M)
_PROGRAM = re.compile(r"\.(?:ll|bc|mlir|mlirbc|mir)$")


class LlvmToolRecipes(RecipeStarter):
    """Makes recipes from calls of LLVM's tools. Their toolchain is a folder with the
    tool.
    """

    tools = _TOOLS

    def from_call(
        self, call: ShellCommand, backend: str | None, source: Path | None
    ) -> RecipeStart:
        options, path = options_and_input(call, _PROGRAM, source)
        flags = [option for option in options if not option.startswith("-o=")]
        program = f"{{toolchain}}/bin/{call.tool}"
        keys = {
            "command": [program, "{flags}", "{input}", "-o", "{output}"],
            "version": {
                "run": [program, "--version"],
                "pattern": r"version (\d+\.\d+\.\d+)",
            },
        }
        return RecipeStart("command", path, None, flags, keys=keys)

    def from_program(
        self, request: RecipeRequest, path: Path, text: str
    ) -> RecipeStart | None:
        """A script runs with the packages that a revision names."""
        if not request.packages or path.suffix != ".py":
            return None
        return RecipeStart("command", path, None, keys={"package": request.packages})

    def programs_in(self, text: str) -> Sequence[PastedProgram]:
        """A text without a call of such a tool has none."""
        if next(calls_in(text, _TOOLS), None) is None:
            return ()
        return [
            PastedProgram(block, ".ll")
            for block in blocks_in(text)
            if _LLVM_IR.search(block)
        ] or [PastedProgram(program, ".mlir") for program in mlir_in(text)]
