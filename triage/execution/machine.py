"""Check that this machine can compile: its home, its memory, what seals a compile, the
toolchains and the index that they come from.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from uv import find_uv_bin

from triage.compilers.base import Compiler
from triage.model.errors import TriageError
from triage.model.execution import Limits
from triage.processes.containment import Purpose, missing_containment
from triage.processes.process import capture, memory, run
from triage.processes.sealing import Seal, landlock_version, missing_seals
from triage.toolchains.home import Home, open_home, temporary_folder
from triage.toolchains.pruning import stored_toolchains
from triage.toolchains.registry import ToolchainRegistry

_ROOM = 2 << 30  # bytes: a handful of toolchains
_MEMORY = 4 << 30  # bytes: one compile of a small model next to the system
_GIB = 1 << 30


class Grade(StrEnum):
    """The result of a check."""

    GOOD = "good"
    WEAK = "weak"
    """Works with a limitation."""
    BROKEN = "broken"
    """Compiling or installing cannot work."""


@dataclass(frozen=True, slots=True)
class MachineCheck:
    """One check: what was found, and what to do about it."""

    check: str
    grade: Grade
    found: str
    advice: str = ""


def checkup(compilers: Mapping[str, Compiler]) -> list[MachineCheck]:
    """Run all checks."""
    checks = [_check_of_memory(), _check_of_seal()]
    try:
        home = open_home()
    except TriageError as error:
        advice = "set TRIAGE_HOME to a folder that you may write to"
        return [MachineCheck("home", Grade.BROKEN, str(error), advice), *checks]
    registry = ToolchainRegistry(home, compilers, stop=threading.Event())
    return [
        _check_of_home(home),
        *checks,
        _check_of_toolchains(home),
        _check_of_index(registry, compilers),
    ]


def _check(name: str, found: str, advice: str = "") -> MachineCheck:
    """Return a check, a weak one if there is advice."""
    return MachineCheck(name, Grade.WEAK if advice else Grade.GOOD, found, advice)


def _check_of_home(home: Home) -> MachineCheck:
    free, advice = shutil.disk_usage(home.path).free, ""
    if free <= _ROOM:
        advice = "a toolchain takes about 450 MiB; `triage toolchains prune` frees some"
    return _check("home", f"{home.path}, {free / _GIB:.1f} GiB free", advice)


def _check_of_memory() -> MachineCheck:
    total, available = memory()
    found = f"{available / _GIB:.1f} of {total / _GIB:.1f} GiB available"
    advice = ""
    if available <= _MEMORY:
        advice = "large models will be untestable; give a recipe a lower memory limit"
    return _check("machine", f"{os.cpu_count()} cores, {found}", advice)


def _check_of_seal() -> MachineCheck:
    missing = [*missing_seals(), *missing_containment()]
    with temporary_folder() as scratch:
        if run(["true"], Limits(timeout=10), scratch, seal=Seal(())).randomised:
            missing.append("fixed addresses, so that a few verdicts may differ")
    if missing:
        advice = (
            "another container runtime or kernel may allow this; until then code in "
            "pasted texts is run only after a question, or with --run-code"
        )
        return _check("seal", f"missing: {'; '.join(missing)}", advice)
    found = f"Landlock {landlock_version()}, a filter of system calls, marked processes"
    return _check("seal", found)


def _check_of_toolchains(home: Home) -> MachineCheck:
    try:
        answer = capture(
            [find_uv_bin(), "--version"], timeout=30, seal=None, purpose=Purpose.INSTALL
        )
        problem = ""
        if not answer.ok:
            problem = answer.stderr.last_line
    except FileNotFoundError as error:
        problem = str(error)
    if problem:
        advice = "install this program again"
        return MachineCheck("toolchains", Grade.BROKEN, f"uv: {problem}", advice)
    installs = stored_toolchains(home)
    size = sum(install.bytes for install in installs) / _GIB
    damaged = [install.folder.name for install in installs if not install.intact]
    advice = ""
    if damaged:
        advice = f"damaged, will be installed again when used: {', '.join(damaged)}"
    found = f"{len(installs)} installed, {size:.1f} GiB; {answer.stdout.text.strip()}"
    return _check("toolchains", found, advice)


def _check_of_index(
    registry: ToolchainRegistry, families: Iterable[str]
) -> MachineCheck:
    releases, problems = [], []
    for family in families:
        try:
            names = [ref.revision.name for ref in registry.releases(family)]
        except TriageError as error:
            problems.append(str(error))
            continue
        if names:
            releases.append(f"{family} {names[0]} to {names[-1]}")
        else:
            problems.append(f"no {family} for this platform at {registry.index.url}")
    if problems:
        found = "; ".join(dict.fromkeys(problems))
        return MachineCheck("index", Grade.BROKEN, found)
    return _check("index", ", ".join(releases))
