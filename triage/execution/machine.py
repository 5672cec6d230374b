"""Check that this machine can compile: its home, its memory, what seals a compile, the
toolchains and the index that they come from.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from uv import find_uv_bin

from triage.compilers.base import Compiler
from triage.model.errors import TriageError
from triage.processes.sealing import landlock_version, missing_seals
from triage.toolchains.home import Workspace, open_home, stored_toolchains
from triage.toolchains.index import index_url
from triage.toolchains.registry import ToolchainRegistry

_LEAST_DISK = 2 << 30  # bytes of a handful of toolchains
FoundAndAdvice = tuple[str, str]
"""What a check found, and what to do about it."""


class Grade(StrEnum):
    """The result of a check."""

    GOOD = "good"
    WEAK = "weak"
    """Works with a limitation."""
    BROKEN = "broken"
    """Compiling or installing cannot work."""


@dataclass(frozen=True)
class MachineCheck:
    """One check: what was found, and what to do about it."""

    check: str
    grade: Grade
    found: str
    advice: str


def check_machine(compilers: Mapping[str, Compiler]) -> list[MachineCheck]:
    """Run all checks. Each returns what it finds, and what to do about it."""
    checks: dict[str, Callable[[], FoundAndAdvice]] = {
        "home": _check_of_home,
        "machine": _check_of_memory,
        "seal": _check_of_seal,
        "toolchains": _check_of_toolchains,
        "index": lambda: _check_of_index(compilers),
    }
    rows = []
    for name, check in checks.items():
        try:
            found, advice = check()
            grade = Grade.WEAK if advice else Grade.GOOD
        except (TriageError, OSError) as error:
            grade = Grade.BROKEN
            found = str(error)
            advice = ""
        rows.append(MachineCheck(name, grade, found, advice))
    return rows


def _check_of_home() -> FoundAndAdvice:
    path = open_home().path
    free = shutil.disk_usage(path).free
    advice = ""
    if free <= _LEAST_DISK:
        advice = "`triage toolchains prune` frees some"
    return f"{path}, {_gigabytes(free)} free", advice


def _check_of_memory() -> FoundAndAdvice:
    page = os.sysconf("SC_PAGE_SIZE")
    free, total = (os.sysconf(f"SC_{name}_PAGES") * page for name in ("AVPHYS", "PHYS"))
    memory = f"{_gigabytes(free)} of {_gigabytes(total)} free"
    return f"{os.cpu_count()} cores, {memory}", ""


def _check_of_seal() -> FoundAndAdvice:
    missing = missing_seals()
    if missing:
        advice = "code in pasted texts is run only after a question, or with --run-code"
        return f"missing: {'; '.join(missing)}", advice
    version = landlock_version()
    return f"Landlock {version}, a filter of system calls, marked processes", ""


def _check_of_toolchains() -> FoundAndAdvice:
    find_uv_bin()
    installs = stored_toolchains(open_home())
    size = _gigabytes(sum(install.bytes for install in installs))
    damaged = [install.folder.name for install in installs if not install.intact]
    advice = ""
    if damaged:
        advice = f"damaged, will be installed again when used: {', '.join(damaged)}"
    return f"{len(installs)} installed, {size}", advice


def _check_of_index(families: Mapping[str, Compiler]) -> FoundAndAdvice:
    registry = ToolchainRegistry(Workspace(open_home()), families)
    ranges = []
    for family in families:
        names = [ref.revision.name for ref in registry.releases(family)]
        if not names:
            problem = f"no {family} for this platform at {index_url()}"
            raise FileNotFoundError(problem)
        ranges.append(f"{family} {names[0]} to {names[-1]}")
    return ", ".join(ranges), ""


def _gigabytes(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
