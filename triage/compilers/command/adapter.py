"""Translate a case into the command line of its recipe."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.base import Compiler, Description, Environment, Packaging, Part, pep440
from triage.compilers.command.spec import CommandScript, CommandSpec, VersionRule
from triage.compilers.invocation import Invocation, fill_placeholders
from triage.execution.process import capture
from triage.model.case import Case, CaseSpec
from triage.model.errors import EnvironmentFailure
from triage.model.execution import Ending
from triage.model.outcome import Cause, Untestable
from triage.model.revision import Capabilities, Toolchain
from triage.recipes.expectations import flag_applies
from triage.recipes.family import RecipeFamily

if TYPE_CHECKING:
    from triage.compilers.parts import RecipeFromInput

_PACKAGES = "command:"
_CODE = re.compile(r".*\.(?:so(?:\.\d+)*|dylib|py|jar|bc)")
_NOT_OURS = {"__pycache__", "CMakeFiles", ".git", ".cache"}
_TIMEOUT = 60.0  # seconds for printing the version


class Command(Compiler):
    """A family of one compiler: the releases of a package, or what folders hold."""

    recipe_from_input: Part[RecipeFromInput] = Part("triage.compilers.command.llvm_tools:LlvmToolRecipes")
    # The input may well be Python or ONNX, so every file is passed on unchanged.
    recipe = RecipeFamily(
        name="command",
        any_input=True,
        sections=("command",),
        keys="triage.compilers.command.recipe_format:CommandFormat",
    )
    folders = "a folder, a virtual environment, or a program"
    script = CommandScript()

    def __init__(self, name: str = "command", packages: tuple[str, ...] = (), version: VersionRule | None = None) -> None:
        """packages: requirements, the compiler's own name first; version: how one that is not a package tells its version."""
        self.name = name
        self.distribution = packages[0] if packages else ""
        self.packaging: Packaging = Environment(packages[1:])
        self._version = version

    def locate(self, root: Path) -> Path | None:
        """The interpreter of a virtual environment; otherwise the folder or the program itself."""
        if not root.exists():
            return None
        python = root / "bin" / "python"
        return (python if _environment_of(python) else root).absolute()

    def identity_files(self, program: Path) -> tuple[Path, ...]:
        """All of a virtual environment; the programs, libraries and scripts of a folder; or the program."""
        root = _environment_of(program)
        if root is not None:
            return (root / "pyvenv.cfg", *sorted(path for folder in _site(root) for path in _files(folder)))
        if program.is_dir():
            return tuple(sorted(path for path in _files(program) if _CODE.fullmatch(path.name) or os.access(path, os.X_OK)))
        return (program,)

    def describe(self, program: Path) -> Description:
        root, version = _environment_of(program), None
        if self._version is not None:
            version = _reported_version(self._version, _places(program))
        elif self.distribution and root is not None:
            from importlib.metadata import distributions

            found = distributions(name=self.distribution, path=[str(folder) for folder in _site(root)])
            version = next((pep440(distribution.version) for distribution in found), None)
        return Description(version, None, None, Capabilities())

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | Untestable:
        if not isinstance(spec := case.spec, CommandSpec):
            return Untestable(Cause.RECIPE, f"the recipe of {case.name} has no command")
        flags = [flag.text for flag in case.flags if flag_applies(flag, toolchain.version)]
        words = spec.words if "{flags}" in spec.words else (*spec.words, "{flags}")
        options = tuple(text for word in words for text in (flags if word == "{flags}" else [word]))
        places, program = _places(toolchain.program), toolchain.program
        for name in ("python", "site_packages"):
            if name not in places and f"{{{name}}}" in str(options):
                return Untestable(Cause.RECIPE, f"{toolchain.root} is not a virtual environment, so {{{name}}} has no value")
        # The toolchain's programs come first, the user's modules are hidden, and the hash seed is fixed.
        folder = program.parent if "python" in places else program / "bin"
        path = os.pathsep.join([*([str(folder)] if folder.is_dir() else []), os.environ.get("PATH", os.defpath)])
        env = {"PATH": path, "PYTHONPATH": "", "PYTHONNOUSERSITE": "1", "PYTHONHASHSEED": "0"}
        return Invocation(options, env=env, places=places)

    def named(self, name: str, spec: CaseSpec | None = None) -> Compiler | None:
        if isinstance(spec, CommandSpec):
            return Command(name, spec.packages, spec.version)
        packages = name.removeprefix(_PACKAGES)
        return Command(name, tuple(packages.split())) if name.startswith(_PACKAGES) and packages.strip() else None


def _environment_of(program: Path) -> Path | None:
    """The virtual environment whose interpreter this is."""
    root = program.parent.parent
    return root if program.name == "python" and (root / "pyvenv.cfg").is_file() else None


def _places(program: Path) -> dict[str, str]:
    root = _environment_of(program)
    if root is None:
        return {"toolchain": str(program)}
    return {"toolchain": str(root), "python": str(program), "site_packages": str([*_site(root), root / "lib"][0])}


def _site(root: Path) -> list[Path]:
    return sorted(root.glob("lib/python3*/site-packages"))


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NOT_OURS]
        yield from (path for name in names if (path := Path(parent, name)).is_file() and path.suffix != ".pyc")


def _reported_version(rule: VersionRule, places: dict[str, str]) -> str | None:
    """Return the version that the compiler prints, if any. EnvironmentFailure when it does not run."""
    argv = [fill_placeholders(word, places) for word in rule.run]
    answer = capture(argv, _TIMEOUT)
    if answer.ending in (Ending.NOT_STARTED, Ending.TIMED_OUT):
        raise EnvironmentFailure(f"{argv[0]} does not print its version: {answer.stderr.last_line or answer.ending}")
    match = re.search(rule.pattern, answer.stdout.text + answer.stderr.text)
    return pep440(match[1] if match.groups() else match[0]) if match else None
