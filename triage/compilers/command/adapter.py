"""Translate a case into the command line of its recipe."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement

from triage.compilers.base import Compiler, Description, Environment, Packaging, PastedText, StandaloneCall, StandaloneCompile
from triage.compilers.command import layout
from triage.compilers.command.spec import CommandSpec, VersionRule, command_keys, shell_call, start_of_tool
from triage.compilers.invocation import Invocation
from triage.model.case import Case
from triage.model.outcome import Cause, Untestable
from triage.model.revision import Capabilities, Toolchain
from triage.recipes.expectations import flag_applies
from triage.recipes.family import RecipeFamily, RecipeStart

_PACKAGES = "command:"


class Command(Compiler):
    """A family of one compiler: the releases of a package, or what folders hold."""

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
        self.distribution = Requirement(packages[0]).name if packages else ""
        self.packaging: Packaging = Environment(packages[1:])
        self._version = version

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

    def named(self, name: str) -> Compiler | None:
        packages = name.removeprefix(_PACKAGES)
        return Command(name, tuple(packages.split())) if name.startswith(_PACKAGES) and packages.strip() else None

    def for_case(self, case: Case) -> Compiler:
        spec = case.spec
        return Command(case.compiler, spec.packages, spec.version) if isinstance(spec, CommandSpec) else self

    def read_text(self, text: str) -> PastedText:
        from triage.compilers.pasted_text import read_llvm

        return read_llvm(text)

    def start_from_command(self, words: Sequence[str], backend: str | None, source: Path | None) -> RecipeStart | None:
        from triage.compilers.shell_words import llvm_commands_in

        call = next(llvm_commands_in(" ".join(words) if len(words) == 1 else shlex.join(words)), None)
        return start_of_tool(call.tool, call.words, source or call.stdin) if call else None

    def recipe_keys(self, case: Case) -> tuple[str, ...]:
        return ("compiler: command", *(command_keys(case) if case.spec else ()))

    def program_name(self, case: Case, toolchain: Toolchain) -> str:
        return self.distribution or super().program_name(case, toolchain)

    def standalone_call(self, task: StandaloneCompile) -> StandaloneCall:
        return shell_call(task)


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
