"""A case as the command line that its recipe writes."""

from __future__ import annotations

import os
from pathlib import Path

from packaging.requirements import Requirement

from triage.compilers.base import Description, Environment, Invocation, MlirTools, Packaging, RunFacts, lines_told
from triage.compilers.command import layout
from triage.model.case import Case, CommandLine, VersionRule
from triage.model.execution import Execution
from triage.model.outcome import Cause, Untestable
from triage.model.revision import Capabilities, Toolchain
from triage.recipes import flag_applies


class Command:
    """A family of one compiler: the releases of a package, or what folders hold."""

    where = "a folder, a virtual environment, or a program"

    def __init__(self, name: str, packages: tuple[str, ...] = (), version: VersionRule | None = None) -> None:
        """packages: requirements, the compiler's own name first; version: how one that is no package tells its version."""
        self.name = name
        self.distribution = Requirement(packages[0]).name if packages else ""
        self.packaging: Packaging = Environment(packages[1:])
        self._version = version

    def unsupported(self, version: str) -> str | None:  # noqa: ARG002 - the port's names
        return None

    def locate(self, root: Path) -> Path | None:
        return layout.locate(root)

    def essence(self, program: Path) -> tuple[Path, ...]:
        return layout.essence(program)

    def describe(self, program: Path) -> Description:
        version = layout.package_version(program, self.distribution) if self.distribution else None
        if self._version is not None:
            version = layout.told_version(self._version, _places(program))
        return Description(version, None, None, Capabilities())

    def dialects(self, program: Path) -> frozenset[str]:  # noqa: ARG002 - the port's names
        return frozenset()

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | Untestable:
        if not isinstance(case.how, CommandLine):
            return Untestable(Cause.RECIPE, f"{case.name} names no command")
        flags = [flag.text for flag in case.flags if flag_applies(flag, toolchain.version)]
        words = case.how.words if "{flags}" in case.how.words else (*case.how.words, "{flags}")
        options = tuple(text for word in words for text in (flags if word == "{flags}" else [word]))
        places = _places(toolchain.program)
        lacking = next(
            (name for name in ("python", "site_packages") if name not in places and f"{{{name}}}" in str(options)), None
        )
        if lacking is not None:
            return Untestable(
                Cause.RECIPE, f"{toolchain.root} is no virtual environment, so that {{{lacking}}} stands for nothing"
            )
        return Invocation(options, env=_surroundings(toolchain.program), places=places)

    def naming_the_pass(self, invocation: Invocation, *, crashed: bool) -> Invocation:  # noqa: ARG002 - nothing is known
        return invocation

    def told(self, execution: Execution) -> RunFacts:
        return lines_told(execution)

    def mlir_tools(self, toolchain: Toolchain) -> MlirTools | None:  # noqa: ARG002 - the port's names
        return None

    def ir(self) -> None:
        return None

    def placement(self) -> None:
        return None

    def runner(self) -> None:
        return None


def _places(program: Path) -> dict[str, str]:
    root = layout.environment_of(program)
    if root is None:
        return {"toolchain": str(program)}
    return {"toolchain": str(root), "python": str(program), "site_packages": str(layout.site_packages(root))}


def _surroundings(program: Path) -> dict[str, str]:
    """Its own programs first, and none of the user's modules. The same hashes each time, for the same output."""
    root = layout.environment_of(program)
    first = [str(root / "bin")] if root else [str(program / "bin")] if program.is_dir() else []
    path = os.pathsep.join([*first, os.environ.get("PATH", os.defpath)])
    return {"PATH": path, "PYTHONPATH": "", "PYTHONNOUSERSITE": "1", "PYTHONHASHSEED": "0"}
