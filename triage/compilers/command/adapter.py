"""Translate a case into the command line of its recipe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.base import Compiler, Description, Environment, Packaging, Part
from triage.compilers.command import layout
from triage.compilers.command.spec import CommandScript, CommandSpec, VersionRule
from triage.compilers.invocation import Invocation
from triage.model.case import Case, CaseSpec
from triage.model.outcome import Cause, Untestable
from triage.model.revision import Capabilities, Toolchain
from triage.recipes.expectations import flag_applies
from triage.recipes.family import RecipeFamily

if TYPE_CHECKING:
    from triage.compilers.parts import RecipeFromInput

_PACKAGES = "command:"


class Command(Compiler):
    """A family of one compiler: the releases of a package, or what folders hold."""

    recipe_from_input: Part[RecipeFromInput] = Part("triage.compilers.command.spec:CommandRecipes")
    # The input may well be Python or ONNX, so every file is passed on unchanged.
    recipe = RecipeFamily(
        name="command",
        any_input=True,
        sections=("command",),
        keys="triage.compilers.command.recipe_format:CommandFormat",
    )
    folders = "a folder, a virtual environment, or a program"

    def __init__(self, name: str = "command", packages: tuple[str, ...] = (), version: VersionRule | None = None) -> None:
        """packages: requirements, the compiler's own name first; version: how one that is no package tells its version."""
        self.name = name
        if packages:
            from packaging.requirements import Requirement

            self.distribution = Requirement(packages[0]).name
        self.packaging: Packaging = Environment(packages[1:])
        self._version = version
        self.script = CommandScript(self.distribution)

    def locate(self, root: Path) -> Path | None:
        return layout.locate(root)

    def identity_files(self, program: Path) -> tuple[Path, ...]:
        return layout.identity_files(program)

    def describe(self, program: Path) -> Description:
        version = layout.package_version(program, self.distribution) if self.distribution else None
        if self._version is not None:
            version = layout.reported_version(self._version, _places(program))
        return Description(version, None, None, Capabilities())

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | Untestable:
        if not isinstance(spec := case.spec, CommandSpec):
            return Untestable(Cause.RECIPE, f"the recipe of {case.name} has no command")
        flags = [flag.text for flag in case.flags if flag_applies(flag, toolchain.version)]
        words = spec.words if "{flags}" in spec.words else (*spec.words, "{flags}")
        options = tuple(text for word in words for text in (flags if word == "{flags}" else [word]))
        places = _places(toolchain.program)
        lacking = next(
            (name for name in ("python", "site_packages") if name not in places and f"{{{name}}}" in str(options)), None
        )
        if lacking is not None:
            return Untestable(Cause.RECIPE, f"{toolchain.root} is not a virtual environment, so {{{lacking}}} has no value")
        return Invocation(options, env=_command_environment(toolchain.program), places=places)

    def named(self, name: str, spec: CaseSpec | None = None) -> Compiler | None:
        if isinstance(spec, CommandSpec):
            return Command(name, spec.packages, spec.version)
        packages = name.removeprefix(_PACKAGES)
        return Command(name, tuple(packages.split())) if name.startswith(_PACKAGES) and packages.strip() else None


def _places(program: Path) -> dict[str, str]:
    root = layout.environment_of(program)
    if root is None:
        return {"toolchain": str(program)}
    return {"toolchain": str(root), "python": str(program), "site_packages": str(layout.site_packages(root))}


def _command_environment(program: Path) -> dict[str, str]:
    """Variables that put the toolchain's programs first, hide the user's modules and fix the hash seed."""
    root = layout.environment_of(program)
    first = [str(root / "bin")] if root else [str(program / "bin")] if program.is_dir() else []
    path = os.pathsep.join([*first, os.environ.get("PATH", os.defpath)])
    return {"PATH": path, "PYTHONPATH": "", "PYTHONNOUSERSITE": "1", "PYTHONHASHSEED": "0"}
