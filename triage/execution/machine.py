"""Check that this machine can compile: its home, its memory, what seals a compile, the
toolchains and the index that they come from.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from uv import find_uv_bin

from triage.compilers.base import Compiler
from triage.model.errors import TriageError
from triage.processes.sealing import landlock_version, missing_seals
from triage.toolchains.home import Home, open_home
from triage.toolchains.pruning import stored_toolchains
from triage.toolchains.registry import ToolchainRegistry

_ROOM = 2.0  # GiB: a handful of toolchains
_MEMORY = 4.0  # GiB: one compile of a small model next to the system
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
    index = _check_of_index(registry, compilers)
    return [_check_of_home(home), *checks, _check_of_toolchains(home), index]


def _check(name: str, found: str, advice: str = "") -> MachineCheck:
    """Return a check, a weak one if there is advice."""
    return MachineCheck(name, Grade.WEAK if advice else Grade.GOOD, found, advice)


def _check_of_home(home: Home) -> MachineCheck:
    free, advice = shutil.disk_usage(home.path).free / _GIB, ""
    if free <= _ROOM:
        advice = "a toolchain takes about 450 MiB; `triage toolchains prune` frees some"
    return _check("home", f"{home.path}, {free:.1f} GiB free", advice)


def _check_of_memory() -> MachineCheck:
    lines = Path("/proc/meminfo").read_text().splitlines()
    kibibytes = dict(line.removesuffix(" kB").split(":") for line in lines)
    names = "MemAvailable", "MemTotal"
    available, total = (int(kibibytes[name]) / (1 << 20) for name in names)
    advice = ""
    if available <= _MEMORY:
        advice = "large models will be untestable; give a recipe a lower memory limit"
    found = f"{os.cpu_count()} cores, {available:.1f} of {total:.1f} GiB available"
    return _check("machine", found, advice)


def _check_of_seal() -> MachineCheck:
    missing = missing_seals()
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
        find_uv_bin()
    except FileNotFoundError as error:
        advice = "install this program again"
        return MachineCheck("toolchains", Grade.BROKEN, f"uv: {error}", advice)
    installs = stored_toolchains(home)
    size = sum(install.bytes for install in installs) / _GIB
    damaged = [install.folder.name for install in installs if not install.intact]
    advice = ""
    if damaged:
        advice = f"damaged, will be installed again when used: {', '.join(damaged)}"
    return _check("toolchains", f"{len(installs)} installed, {size:.1f} GiB", advice)


def _check_of_index(
    registry: ToolchainRegistry, families: Mapping[str, Compiler]
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
