"""Any compiler that a recipe calls by a command line, and scripts that run with a
package: the keys of recipes, recipes from calls of LLVM's and MLIR's tools such as
`llc -O2 a.ll`, the command line of a case, and how a shell repeats it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from triage.compilers.base import (
    SCRIPT_WORKER,
    VERSION,
    Compiler,
    Description,
    Environment,
    Needs,
    Packaging,
    environment_needs,
    script_options,
)
from triage.compilers.interpreters import installs_of
from triage.compilers.invocation import (
    Invocation,
    WorkerRunner,
    fill_placeholders,
    run_query,
)
from triage.compilers.pasted_text import (
    PastedProgram,
    RecipeRequest,
    RecipeStarter,
    ShellCommand,
    blocks_in,
    calls_in,
    mlir_in,
    options_and_input,
)
from triage.compilers.repro_script import StandaloneCall, StandaloneCompile
from triage.model.case import Case, CaseSpec, Target
from triage.model.fields import NOT_EMPTY, REQUIRED, Check, Text, file_key
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import FamilyRef, Toolchain
from triage.processes.containment import COMPILE_PATH
from triage.processes.sealing import Seal
from triage.recipes.document import OneOrMore
from triage.recipes.expectations import applied_flags
from triage.recipes.recipe import File, RecipeFamily, RecipeStart, locate
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


_Word = Annotated[str, Check(_check_placeholders)]
_Words = Annotated[tuple[_Word, ...], NOT_EMPTY]
_NO_COMMAND = "write the command line; only a .py file with a `package` runs without."
_Packages = Annotated[tuple[Text, ...], OneOrMore, NOT_EMPTY]


@dataclass(frozen=True)
class VersionCommand:
    """How to ask a compiler in a folder for its version."""

    run: _Words = file_key(
        REQUIRED, "Prints the version.", ["{toolchain}/bin/mlir-opt", "--version"]
    )
    pattern: Annotated[Text, Check(_check_pattern)] = file_key(
        r"\d+(?:\.\d+)+",
        "A pattern for the version, or with a group for it, in the output.",
    )


@dataclass(frozen=True)
class CommandSpec(CaseSpec):
    """The command of a case, and how to find the version of a compiler that is not a
    package. Without a command, the input is a Python program that runs as it is.
    """

    command: _Words = file_key(
        (),
        f"Program and arguments, with the placeholders {', '.join(_PLACEHOLDERS)} "
        "(default: a .py input runs as it is, with the packages).",
        ["{python}", "-m", "cython", "{input}", "-o", "{output}"],
    )
    version: VersionCommand | None = file_key(
        None, "How to ask a compiler without a package for its version."
    )

    def failing_causes(self, case: Case) -> frozenset[str]:
        if not self.command:
            return frozenset({Cause.INPUT, Cause.RECIPE})
        # the syntax of MLIR changes, so that many versions cannot read it
        if case.input.path.suffix in _MLIR:
            return frozenset()
        return frozenset({Cause.INPUT})


@dataclass(frozen=True, kw_only=True)
class CommandRecipe(CommandSpec, RunnableRecipe):
    """Any compiler that a command runs, or a script that runs with a package."""

    target: Target = file_key(Target("host"), "What to compile for; shown in reports.")
    package: _Packages = file_key(
        (),
        "The package whose releases are the timeline, then further requirements to "
        f"install; {VERSION} is the version of the first.",
        "cython",
        ["numba", "numpy<2"],
        ["iree-base-compiler", f"iree-base-runtime=={VERSION}"],
    )
    rules: File | None = file_key(
        None,
        "A file of your own failure rules; they take precedence over the packaged "
        "ones.",
    )

    def mistakes(self) -> Iterator[tuple[str, str]]:
        yield from super().mistakes()
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
        packages = tuple(text.replace(" ", "") for text in self.package)
        recipe = None if packages else self.name
        return replace(
            case,
            compiler=str(FamilyRef(case.compiler, packages, recipe)),
            rules=locate(folder, self.rules) if self.rules else None,
            spec=CommandSpec(self.command, self.version),
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
        self, request: RecipeRequest, path: Path, program: str
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


class Command(Compiler):
    """The family of one compiler that recipes call by a command line. Its toolchains
    are the releases of a package, or folders.
    """

    # The input may be Python or ONNX, too, so every file is passed on unchanged.
    recipe = RecipeFamily(
        "command", any_input=True, sections=("command",), keys=CommandRecipe
    )
    folders = "a folder, a virtual environment, or a program"
    run = WorkerRunner(SCRIPT_WORKER)
    recipe_starter = LlvmToolRecipes()

    def __init__(
        self,
        ref: FamilyRef = FamilyRef("command"),  # noqa: B008 - it is frozen
        version: VersionCommand | None = None,
    ) -> None:
        """Create the family of a compiler. `version` finds the version of one that is
        not a package.
        """
        self.name = str(ref)
        self.distribution = next(iter(ref.packages), "")
        self.packaging: Packaging = Environment(ref.packages[1:])
        self._version_command = version

    def family_for(
        self, ref: FamilyRef, spec: CaseSpec | None = None
    ) -> Compiler | None:
        if isinstance(spec, CommandSpec):
            return Command(ref, spec.version)
        if ref.packages:
            return Command(ref)
        return None

    def locate(self, root: Path) -> Path | None:
        """Return the interpreter of a virtual environment; otherwise the folder or the
        program itself, if it exists.
        """
        if not root.exists():
            return None
        python = root / "bin" / "python"
        return (python if _environment_of(python) else root).absolute()

    def needs(self, root: Path, program: Path) -> Needs:
        environment = _environment_of(program)
        if environment is not None:
            return environment_needs(environment, SCRIPT_WORKER)
        return Needs((program,))

    def describe(self, program: Path, seal: Seal) -> Description:
        root = _environment_of(program)
        version = None
        version_command = self._version_command
        if version_command is not None:
            values = _placeholder_values(program)
            argv = [fill_placeholders(word, values) for word in version_command.run]
            answer = run_query(argv, seal)
            match = re.search(
                version_command.pattern, answer.stdout.text + answer.stderr.text
            )
            if match:
                version = match[1] if match.groups() else match[0]
        elif self.distribution and root is not None:
            installs = installs_of(self.distribution, _site_packages(root))
            version, _ = next(installs, (None, root))
        return Description(version)

    def standalone(self, task: StandaloneCompile) -> StandaloneCall:
        """Return the recipe's own command line."""
        if self.runs_script(task.case):
            return super().standalone(task)
        if self.distribution:
            prefix = "$(\"${PYTHON:-python3}\" -c 'import sys; print(sys.prefix)')"
            setup = [f"TOOLCHAIN={prefix} || exit 127", 'PATH="$TOOLCHAIN/bin:$PATH"']
        else:
            missing = '{ echo "TOOLCHAIN is not set" >&2; exit 127; }'
            setup = [f'test -e "$TOOLCHAIN" || {missing}']
        files = {"input": task.source, "output": "out"}
        command = [fill_placeholders(word, files) for word in task.options]
        return StandaloneCall(task.packages, [command], setup, "out")

    def runs_script(self, case: Case) -> bool:
        return isinstance(case.spec, CommandSpec) and not case.spec.command

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | NoAnswer:
        spec = case.spec
        if not isinstance(spec, CommandSpec):
            return NoAnswer(Cause.RECIPE, f"the recipe of {case.name} has no command")
        # The user's modules are hidden, and the hash seed is fixed.
        env = {"PYTHONPATH": "", "PYTHONNOUSERSITE": "1", "PYTHONHASHSEED": "0"}
        if not spec.command:
            options = script_options(case, "--words")
            launcher = (str(toolchain.program), "-I", str(SCRIPT_WORKER))
            return Invocation(options, env=env, launcher=launcher)
        flags = applied_flags(case, toolchain.version)
        words: list[str] = []
        for word in spec.command:
            words += flags if word == "{flags}" else [word]
        if "{flags}" not in spec.command:
            words += flags
        values = _placeholder_values(toolchain.program)
        env["PATH"] = f"{values['toolchain']}/bin{os.pathsep}{COMPILE_PATH}"
        return Invocation(
            tuple(words),
            env=env,
            placeholders=values,
            writes_output=any("{output}" in word for word in words),
        )


def _environment_of(python: Path) -> Path | None:
    """Return the virtual environment that an interpreter belongs to, if any."""
    root = python.parent.parent
    if python.name == "python" and (root / "pyvenv.cfg").is_file():
        return root
    return None


def _placeholder_values(program: Path) -> dict[str, str]:
    root = _environment_of(program)
    if root is None:
        return {"toolchain": str(program)}
    site_packages = [*_site_packages(root), root / "lib"]
    return {
        "toolchain": str(root),
        "python": str(program),
        "site_packages": str(site_packages[0]),
    }


def _site_packages(root: Path) -> list[Path]:
    return sorted(root.glob("lib/python3*/site-packages"))
