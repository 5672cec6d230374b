"""Any compiler that a recipe calls by a command line: make the command line of a case,
and repeat it in a shell.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from triage.compilers.base import (
    SCRIPT_WORKER,
    Compiler,
    Description,
    Environment,
    Needs,
    Packaging,
    environment_needs,
    pep440,
    script_options,
)
from triage.compilers.command.recipe import (
    CommandRecipe,
    CommandSpec,
    LlvmToolRecipes,
    VersionCommand,
)
from triage.compilers.invocation import Invocation, ask_compiler, fill_placeholders
from triage.compilers.parts import WorkerRunner
from triage.compilers.repro_script import StandaloneCall, StandaloneCompile
from triage.model.case import Case, CaseSpec
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import Capabilities, FamilyRef, Toolchain
from triage.processes.containment import COMPILE_PATH
from triage.processes.sealing import Seal
from triage.recipes.expectations import applied_flags
from triage.recipes.recipe import RecipeFamily

_SHELL_OUTPUT = '"$OUT/out"'


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

    def named(self, ref: FamilyRef, spec: CaseSpec | None = None) -> Compiler | None:
        if isinstance(spec, CommandSpec):
            return Command(ref, spec.version)
        return Command(ref) if ref.packages else None

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
        asking = self._version_command
        if asking is not None:
            values = _placeholder_values(program)
            argv = [fill_placeholders(word, values) for word in asking.run]
            answer = ask_compiler(argv, seal)
            match = re.search(asking.pattern, answer.stdout.text + answer.stderr.text)
            if match:
                version = match[1] if match.groups() else match[0]
        elif self.distribution and root is not None:
            from importlib.metadata import distributions

            folders = list(map(str, _site_packages(root)))
            for distribution in distributions(name=self.distribution, path=folders):
                version = distribution.version
                break
        return Description(pep440(version), None, None, Capabilities())

    def standalone(self, task: StandaloneCompile) -> StandaloneCall:
        """Return the recipe's own command line, its placeholders as shell variables."""
        if self.runs_script(task.case):
            return super().standalone(task)
        setup = ["OUT=$(mktemp -d) || exit 127", "trap 'rm -rf \"$OUT\"' EXIT"]
        if self.distribution:
            prefix = "$(\"${PYTHON:-python3}\" -c 'import sys; print(sys.prefix)')"
            setup += [f"TOOLCHAIN={prefix} || exit 127", 'PATH="$TOOLCHAIN/bin:$PATH"']
        else:
            setup += [
                'test -e "$TOOLCHAIN" || { echo "TOOLCHAIN is not set" >&2; exit 127; }'
            ]
        shown = {"input": task.source, "output": "out", "python": "python3"}
        words = tuple(fill_placeholders(word, shown) for word in task.options)
        script = " ".join(_shell_word(word, task.source) for word in task.options)
        text = shlex.join(words)
        return StandaloneCall(task.packages, text, script, tuple(setup), _SHELL_OUTPUT)

    def runs_script(self, case: Case) -> bool:
        return isinstance(case.spec, CommandSpec) and not case.spec.words

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | NoAnswer:
        spec = case.spec
        if not isinstance(spec, CommandSpec):
            return NoAnswer(Cause.RECIPE, f"the recipe of {case.name} has no command")
        # The user's modules are hidden, and the hash seed is fixed.
        env = {"PYTHONPATH": "", "PYTHONNOUSERSITE": "1", "PYTHONHASHSEED": "0"}
        if not spec.words:
            options = script_options(case, "--words")
            launcher = (str(toolchain.program), "-I", str(SCRIPT_WORKER))
            return Invocation(options, env=env, launcher=launcher)
        flags = applied_flags(case, toolchain.version)
        words: list[str] = []
        for word in spec.words:
            words += flags if word == "{flags}" else [word]
        if "{flags}" not in spec.words:
            words += flags
        values = _placeholder_values(toolchain.program)
        env["PATH"] = f"{values['toolchain']}/bin{os.pathsep}{COMPILE_PATH}"
        return Invocation(tuple(words), env=env, placeholders=values)


def _shell_word(word: str, source: str) -> str:
    """Quote a word for the shell, and replace placeholders in it by variables."""
    variables = {
        "{input}": source,
        "{output}": _SHELL_OUTPUT,
        "{python}": '"${PYTHON:-python3}"',
        "{toolchain}": '"$TOOLCHAIN"',
    }
    parts = filter(None, re.split(r"(\{(?:input|output|python|toolchain)\})", word))
    return "".join(variables.get(part) or shlex.quote(part) for part in parts) or "''"


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
