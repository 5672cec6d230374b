"""A compiler behind a command: translate a case into the command line of its recipe,
and repeat it in a shell.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.base import Compiler, Description, Environment, Packaging, pep440
from triage.compilers.family_ref import FamilyRef
from triage.compilers.invocation import Invocation, answer_of, fill_placeholders
from triage.compilers.repro_script import (
    RULES_FILE,
    ReproScript,
    StandaloneCall,
    StandaloneCompile,
)
from triage.model.case import Case, CaseSpec
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import Capabilities, Toolchain
from triage.recipes.expectations import flag_applies
from triage.recipes.family import RecipeFamily

if TYPE_CHECKING:
    from triage.compilers.command.recipe import CommandFormat, LlvmToolRecipes

_CODE = re.compile(r".*\.(?:so(?:\.\d+)*|dylib|py|jar|bc)")
_NOT_OURS = {"__pycache__", "CMakeFiles", ".git", ".cache"}


VersionRule = tuple[tuple[str, ...], str]
"""The command that asks a compiler for its version, and a pattern that matches it, or
has a group for it, in the output.
"""


@dataclass(frozen=True, slots=True)
class CommandSpec(CaseSpec):
    """A compiler behind a command."""

    words: tuple[str, ...]
    """The command line, program first, with placeholders such as `{input}`."""
    packages: tuple[str, ...] = ()
    """Requirements of the package index, first the one whose releases are the timeline.
    """
    version: VersionRule | None = None
    parse_errors_fail: bool = False


def is_mlir(input_name: str) -> bool:
    """Return whether an input is MLIR, whose text changes from version to version, so
    that many cannot read it.
    """
    return input_name.endswith((".mlir", ".mlirbc"))


def _spec_of(case: Case) -> CommandSpec:
    assert isinstance(case.spec, CommandSpec)
    return case.spec


class CommandScript(ReproScript):
    """Repeats the recipe's own command line, its placeholders as shell variables."""

    def recipe_keys(self, case: Case) -> Mapping[str, object]:
        spec = _spec_of(case)
        is_usual = spec.parse_errors_fail != is_mlir(case.input.path.name)
        if spec.parse_errors_fail:
            parse_errors = "fail"
        else:
            parse_errors = "untestable"
        if spec.version:
            version = dict(zip(("run", "pattern"), spec.version, strict=True))
        else:
            version = {}
        keys: dict[str, object] = {
            "compiler": "command",
            "package": spec.packages,
            "command": spec.words,
            "version": version,
            "parse_errors": None if is_usual else parse_errors,
            "rules": case.rules and RULES_FILE,
        }
        return {key: value for key, value in keys.items() if value}

    def program_name(self, case: Case, toolchain: Toolchain) -> str:
        return next(iter(_spec_of(case).packages), toolchain.program.name)

    def call(self, task: StandaloneCompile) -> StandaloneCall:
        packages = _spec_of(task.case).packages
        before = ["OUT=$(mktemp -d) || exit 127", "trap 'rm -rf \"$OUT\"' EXIT"]
        if packages:
            remark = "\n# Set PYTHON to the interpreter that has it."
            prefix = "$(\"${PYTHON:-python3}\" -c 'import sys; print(sys.prefix)')"
            before += [f"TOOLCHAIN={prefix} || exit 127", 'PATH="$TOOLCHAIN/bin:$PATH"']
        else:
            remark = (
                "\n# Set TOOLCHAIN to the compiler's folder, or to the compiler itself."
            )
            before += [': "${TOOLCHAIN:?set it to the path of the compiler}"']
        shown = {"input": task.source, "output": "out", "python": "python3"}
        words = tuple(fill_placeholders(word, shown) for word in task.options)
        run = " ".join(_shell_word(word, task.source) for word in task.options)
        return StandaloneCall(
            task.requirement, words, run, remark, tuple(before), replaces=False
        )


def _shell_word(word: str, source: str) -> str:
    """Return a word for the shell, with variables for its placeholders."""
    places = {
        "input": source,
        "output": '"$OUT/out"',
        "python": '"${PYTHON:-python3}"',
        "toolchain": '"$TOOLCHAIN"',
    }
    # texts and names in turn
    parts = re.split(r"\{(input|output|python|toolchain)\}", word)
    return (
        "".join(
            places[part] if index % 2 else shlex.quote(part)
            for index, part in enumerate(parts)
            if part
        )
        or "''"
    )


def _keys() -> type[CommandFormat]:
    from triage.compilers.command.recipe import CommandFormat

    return CommandFormat


class Command(Compiler):
    """A family of one compiler: the releases of a package, or what folders hold."""

    # The input may well be Python or ONNX, so every file is passed on unchanged.
    recipe = RecipeFamily(
        "command",
        any_input=True,
        sections=("command",),
        keys=_keys,
    )
    folders = "a folder, a virtual environment, or a program"
    script = CommandScript()

    def __init__(
        self,
        name: str = "command",
        packages: tuple[str, ...] = (),
        version: VersionRule | None = None,
    ) -> None:
        """`packages` begin with the compiler's own. `version` says how one that is not
        a package tells its version.
        """
        self.name = name
        if packages:
            self.distribution = packages[0]
        else:
            self.distribution = ""
        self.packaging: Packaging = Environment(packages[1:])
        self._version = version

    @cached_property
    def recipe_from_input(self) -> LlvmToolRecipes:
        from triage.compilers.command.recipe import LlvmToolRecipes

        return LlvmToolRecipes()

    def named(self, ref: FamilyRef, spec: CaseSpec | None = None) -> Compiler | None:
        if isinstance(spec, CommandSpec):
            return Command(str(ref), spec.packages, spec.version)
        if ref.packages:
            return Command(str(ref), ref.packages)
        return None

    def locate(self, root: Path) -> Path | None:
        """Return the interpreter of a virtual environment; otherwise the folder or the
        program itself.
        """
        python = root / "bin" / "python"
        if root.exists():
            return (python if _environment_of(python) else root).absolute()
        return None

    def identity_files(self, program: Path) -> tuple[Path, ...]:
        """Return all of a virtual environment; the programs, libraries and scripts of a
        folder; or the program.
        """
        root = _environment_of(program)
        if root is not None:
            return (
                root / "pyvenv.cfg",
                *sorted(path for folder in _site(root) for path in _files(folder)),
            )
        if program.is_dir():
            return tuple(
                sorted(
                    path
                    for path in _files(program)
                    if _CODE.fullmatch(path.name) or os.access(path, os.X_OK)
                )
            )
        return (program,)

    def describe(self, program: Path) -> Description:
        root, version = _environment_of(program), None
        if self._version is not None:
            run, pattern = self._version
            answer = answer_of(
                [fill_placeholders(word, _places(program)) for word in run]
            )
            match = re.search(pattern, answer.stdout.text + answer.stderr.text)
            version = match and pep440(match[1] if match.groups() else match[0])
        elif self.distribution and root is not None:
            from importlib.metadata import distributions

            found = distributions(
                name=self.distribution, path=[str(folder) for folder in _site(root)]
            )
            version = next(
                (pep440(distribution.version) for distribution in found), None
            )
        return Description(version, None, None, Capabilities())

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | NoAnswer:
        if not isinstance(spec := case.spec, CommandSpec):
            return NoAnswer(Cause.RECIPE, f"the recipe of {case.name} has no command")
        flags = [
            flag.text for flag in case.flags if flag_applies(flag, toolchain.version)
        ]
        if "{flags}" in spec.words:
            words = spec.words
        else:
            words = (*spec.words, "{flags}")
        options = tuple(
            text for word in words for text in (flags if word == "{flags}" else [word])
        )
        places, program = _places(toolchain.program), toolchain.program
        for name in ("python", "site_packages"):
            if name not in places and f"{{{name}}}" in str(options):
                return NoAnswer(
                    Cause.RECIPE,
                    (
                        f"{toolchain.root} is not a virtual environment, so "
                        f"{{{name}}} has no value"
                    ),
                )
        # The toolchain's programs come first, the user's modules are hidden, and the
        # hash seed is fixed.
        if "python" in places:
            folder = program.parent
        else:
            folder = program / "bin"
        path = os.pathsep.join(
            [
                *([str(folder)] if folder.is_dir() else []),
                os.environ.get("PATH", os.defpath),
            ]
        )
        env = {
            "PATH": path,
            "PYTHONPATH": "",
            "PYTHONNOUSERSITE": "1",
            "PYTHONHASHSEED": "0",
        }
        return Invocation(options, env=env, places=places)


def _environment_of(program: Path) -> Path | None:
    """Return the virtual environment whose interpreter this is."""
    root = program.parent.parent
    if program.name == "python" and (root / "pyvenv.cfg").is_file():
        return root
    return None


def _places(program: Path) -> dict[str, str]:
    root = _environment_of(program)
    if root is None:
        return {"toolchain": str(program)}
    return {
        "toolchain": str(root),
        "python": str(program),
        "site_packages": str([*_site(root), root / "lib"][0]),
    }


def _site(root: Path) -> list[Path]:
    return sorted(root.glob("lib/python3*/site-packages"))


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NOT_OURS]
        yield from (
            path
            for name in names
            if (path := Path(parent, name)).is_file() and path.suffix != ".pyc"
        )
