"""A compiler behind a command: its spec, as recipe keys, and as a shell command without triage."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from triage.compilers.invocation import fill_placeholders
from triage.compilers.parts import PastedText, RecipeFromInput
from triage.compilers.repro_script import RULES_FILE, ReproScript, StandaloneCall, StandaloneCompile
from triage.model.case import Case, CaseSpec
from triage.model.errors import BadInput
from triage.model.revision import Toolchain
from triage.recipes.family import RecipeStart

_PROGRAM = re.compile(r"\.(?:ll|bc|mlir|mlirbc|mir)$")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class VersionRule:
    """How to ask a compiler that is not a package for its version: a command, and a pattern for the version in its output."""

    run: tuple[str, ...]
    pattern: str


@dataclass(frozen=True, slots=True)
class CommandSpec(CaseSpec):
    """A compiler behind a command. words: the command line, program first, with the placeholders `{input}`, `{output}`,
    `{toolchain}`, `{python}` and `{flags}`; packages: requirements of the package index, first the one whose releases are
    the timeline; version: None for a package; strict: parse errors are failures.
    """

    words: tuple[str, ...]
    packages: tuple[str, ...] = ()
    version: VersionRule | None = None
    strict: bool = False

    @property
    def parse_errors_fail(self) -> bool:
        return self.strict


def command_keys(case: Case) -> Iterator[str]:
    """The recipe keys of a command, one YAML line each; reading them gives the same spec."""
    spec = case.spec
    assert isinstance(spec, CommandSpec)
    if spec.packages:
        yield f"package: {json.dumps(spec.packages, ensure_ascii=False)}"
    yield f"command: {json.dumps(spec.words, ensure_ascii=False)}"
    if spec.version is not None:
        run, pattern = (json.dumps(part, ensure_ascii=False) for part in (spec.version.run, spec.version.pattern))
        yield f"version: {{run: {run}, pattern: {pattern}}}"
    if spec.strict == is_mlir(case.input.path.name):
        yield f"parse_errors: {'fail' if spec.strict else 'untestable'}"
    if case.rules is not None:
        yield f"rules: {RULES_FILE}"


class CommandRecipes(RecipeFromInput):
    """Recipes from calls of LLVM's and MLIR's tools."""

    def from_command(self, words: Sequence[str], backend: str | None, source: Path | None) -> RecipeStart | None:
        from triage.compilers.shell_words import LLVM_TOOLS, calls_in

        call = next(calls_in(" ".join(words) if len(words) == 1 else shlex.join(words), LLVM_TOOLS), None)
        return start_of_tool(call.tool, call.words, source or call.stdin) if call else None

    def read_text(self, text: str) -> PastedText:
        from triage.compilers.pasted_text import read_llvm

        return read_llvm(text)


class CommandScript(ReproScript):
    """Repeats the recipe's own command line."""

    def __init__(self, distribution: str) -> None:
        self._distribution = distribution

    def recipe_keys(self, case: Case) -> tuple[str, ...]:
        return ("compiler: command", *(command_keys(case) if case.spec else ()))

    def program_name(self, case: Case, toolchain: Toolchain) -> str:
        return self._distribution or super().program_name(case, toolchain)

    def call(self, task: StandaloneCompile) -> StandaloneCall:
        return shell_call(task)


def start_of_tool(tool: str, words: Sequence[str], source: Path | str | None) -> RecipeStart:
    """A recipe for a call of one of LLVM's or MLIR's tools in a folder. BadInput when nothing names the input.

    source: the input, instead of the one among the words.
    """
    inputs = [Path(word) for word in words if _PROGRAM.search(word)]
    rest = iter(words)
    flags = []
    for word in rest:
        if word == "-o":
            next(rest, None)
        elif word.startswith("-") and word != "-" and not word.startswith("-o="):
            flags.append(word)
        elif not _PROGRAM.search(word) and word not in ("-", "%s", "/dev/stdin"):
            flags[-1:] = [f"{flags[-1]}={word}" if flags else word]
    if source is None and not inputs:
        raise BadInput(f"the command line of {tool} names no program; name it with --input")
    program = f"{{toolchain}}/bin/{tool}"
    command = json.dumps([program, "{flags}", "{input}", "-o", "{output}"])
    version = f'version: {{run: ["{program}", "--version"], pattern: \'version (\\d+\\.\\d+\\.\\d+)\'}}'
    note = f"The toolchain is a folder that holds bin/{tool}."
    keys = (f"command: {command}", version)
    return RecipeStart(
        "command", Path(source or inputs[0]), None, tuple(flags), keys=keys, notes=(note,), toolchain="path:FOLDER"
    )


def is_mlir(input_name: str) -> bool:
    """Whether an input is MLIR, whose text changes from version to version, so that many cannot read it."""
    return input_name.endswith((".mlir", ".mlirbc"))


def shell_call(task: StandaloneCompile) -> StandaloneCall:
    """The recipe's own command line, its placeholders as shell variables."""
    spec = task.case.spec
    assert isinstance(spec, CommandSpec)
    words = task.options
    values = {"input": task.source, "output": "out", "python": "python3"}
    filled = tuple(fill_placeholders(word, values) for word in words)
    before = ["OUT=$(mktemp -d) || exit 127", "trap 'rm -rf \"$OUT\"' EXIT"]
    prefix = "$(\"${PYTHON:-python3}\" -c 'import sys; print(sys.prefix)')"
    if spec.packages:
        remark = "\n# Set PYTHON to the interpreter that has it."
        if any("{toolchain}" in word for word in words):
            before.append(f"TOOLCHAIN={prefix} || exit 127")
        if not words[0].startswith("{"):
            before.append(f'PATH="{prefix}/bin:$PATH"')
    else:
        remark = "\n# Set TOOLCHAIN to the compiler's folder, or to the compiler itself."
        before.append(': "${TOOLCHAIN:?set it to the path of the compiler}"')
    run = " ".join(_shell_word(word, task.source) for word in words)
    install = task.requirement and shlex.join((task.requirement, *spec.packages[1:]))
    return StandaloneCall(install, filled, run, remark, tuple(before), replaces=False)


def _shell_word(word: str, source: str) -> str:
    """A word for the shell, with variables for its placeholders."""
    places = {"input": source, "output": '"$OUT/out"', "python": '"${PYTHON:-python3}"', "toolchain": '"$TOOLCHAIN"'}
    parts = _PLACEHOLDER.split(word)  # texts and names in turn
    quoted = (shlex.quote(text) if text else "" for text in parts[::2])
    names = [places.get(name, shlex.quote(f"{{{name}}}")) for name in parts[1::2]]
    return "".join(text + name for text, name in zip(quoted, [*names, ""], strict=True)) or "''"
