"""Check that this machine can compile: disk, memory, uv, toolchains, caches."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from uv import find_uv_bin

from triage.compilers.base import Compiler, ModelImporter
from triage.compilers.interpreters import prefixes_of
from triage.execution.cache import ResultCache, set_aside_files
from triage.execution.files import LEFT
from triage.model.errors import EnvironmentFailure, TriageError
from triage.model.execution import Limits
from triage.processes.containment import Purpose, missing_containment
from triage.processes.process import capture, memory, run
from triage.processes.sealing import Seal, landlock_version, missing_seals
from triage.toolchains.home import Home, default_home, open_home, temporary_folder
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
    checks = list(_checks_of_machine())
    try:
        home = open_home()
    except TriageError as error:
        return [
            *checks,
            _broken_check(
                "home", error, "set TRIAGE_HOME to a folder that you may write to"
            ),
        ]
    checks.insert(0, MachineCheck("home", Grade.GOOD, str(home.path)))
    registry = ToolchainRegistry(home, compilers, stop=threading.Event())
    for family in compilers:
        checks += _checks_of_releases(registry, family)
    checks.append(_check_of_toolchains(home))
    checks.append(_check_of_results(home))
    checks.append(_check_of_scratch(home))
    importers = [family.onnx_importer for family in compilers.values()]
    checks += [_check_of_importer(one) for one in importers if one]
    return checks


def _check(name: str, found: str, advice: str = "") -> MachineCheck:
    """Return a check, a weak one if there is advice."""
    return MachineCheck(name, Grade.WEAK if advice else Grade.GOOD, found, advice)


def _broken_check(name: str, problem: object, advice: str = "") -> MachineCheck:
    return MachineCheck(name, Grade.BROKEN, str(problem), advice)


def _checks_of_machine() -> Iterator[MachineCheck]:
    folder = default_home().path
    while not folder.exists():
        folder = folder.parent
    free, advice = shutil.disk_usage(folder).free, ""
    if free <= _ROOM:
        advice = "a toolchain takes about 450 MiB; `triage toolchains prune` frees some"
    yield _check("disk", f"{free / _GIB:.1f} GiB free", advice)
    total, available = memory()
    advice = ""
    if available <= _MEMORY:
        advice = "large models will be untestable; give a recipe a lower memory limit"
    yield _check(
        "machine",
        f"{os.cpu_count()} cores, {available / _GIB:.1f} of {total / _GIB:.1f} GiB "
        "available",
        advice,
    )
    yield _check_of_uv()
    with temporary_folder() as scratch:
        randomised = run(
            ["true"], Limits(timeout=10), scratch, seal=Seal(())
        ).randomised
    found, advice = "fixed for every compile", ""
    if randomised:
        found = "random: a few verdicts may differ from run to run"
        advice = "a container's seccomp profile often forbids fixed addresses"
    yield _check("address layout", found, advice)
    missing = ", ".join(missing_containment())
    found, advice = "subreaper and marked processes", ""
    if missing:
        found = f"missing: {missing}"
        advice = (
            "a process that leaves its parent may survive its compile; another "
            "container runtime or kernel may allow this"
        )
    yield _check("containment", found, advice)
    missing = "; ".join(missing_seals())
    found, advice = f"Landlock {landlock_version()} and a filter of system calls", ""
    if missing:
        found = f"missing: {missing}"
        advice = "code in pasted texts is run only after a question, or with --run-code"
    yield _check("seal", found, advice)


def _check_of_uv() -> MachineCheck:
    problem: object
    try:
        answer = capture(
            [find_uv_bin(), "--version"], timeout=30, seal=None, purpose=Purpose.INSTALL
        )
        if answer.ok or not answer.stderr.last_line:
            return _check("uv", answer.stdout.text.strip())
        problem = answer.stderr.last_line
    except FileNotFoundError as error:
        problem = error
    return _broken_check("uv", problem, "install this program again")


def _checks_of_releases(
    registry: ToolchainRegistry, family: str
) -> Iterator[MachineCheck]:
    name = f"{family} releases"
    try:
        names = [ref.revision.name for ref in registry.releases(family)]
        if names:
            yield _check(name, f"{len(names)} on the index, {names[0]} to {names[-1]}")
        else:
            problem = f"none for this platform at {registry.index.url}"
            yield _broken_check(name, problem)
    except TriageError as error:
        yield _broken_check(name, error)
    name = f"{family} installed"
    try:
        ref = registry.resolve("installed", family)
    except EnvironmentFailure:
        installed = registry.installed_releases(family)
        if installed:
            newest = f"{installed[-1].revision.name} the newest"
        else:
            newest = "installed when first used"
        yield _check(name, f"{len(installed)} in the cache, {newest}")
        return
    except TriageError as error:
        yield _broken_check(name, error)
        return
    try:
        toolchain = registry.obtain(ref)
        yield _check(
            name,
            (
                f"{toolchain.revision.name} with "
                f"{', '.join(sorted(toolchain.capabilities.backends))}"
            ),
        )
    except TriageError as error:
        yield _broken_check(name, error)


def _check_of_toolchains(home: Home) -> MachineCheck:
    installs = stored_toolchains(home)
    size = sum(install.bytes for install in installs) / _GIB
    damaged = [install.folder.name for install in installs if not install.intact]
    advice = ""
    if damaged:
        advice = f"damaged, will be installed again when used: {', '.join(damaged)}"
    return _check("toolchains", f"{len(installs)} installed, {size:.1f} GiB", advice)


def _check_of_scratch(home: Home) -> MachineCheck:
    left = [str(path) for path in sorted(home.scratch.glob(f"{LEFT}*"))]
    if not left:
        return _check("scratch", "no compile left files behind")
    found = f"{len(left)} folders that could not be removed"
    return _check("scratch", found, f"remove {', '.join(left[:3])}")


def _check_of_importer(importer: ModelImporter) -> MachineCheck:
    argv = [sys.executable, "-m", importer.module, "--help"]
    answer = capture(argv, timeout=120, seal=Seal(prefixes_of(Path(sys.executable))))
    if answer.ok:
        return _check("ONNX import", "works")
    reason = answer.stderr.last_line or "it printed no reason"
    return _check("ONNX import", reason, "`.onnx` inputs will be untestable")


def _check_of_results(home: Home) -> MachineCheck:
    try:
        cache = ResultCache(home.results_database)
        count = cache.count()
        cache.close()
    except TriageError as error:
        return _broken_check("result cache", error)
    damaged = ", ".join(path.name for path in set_aside_files(home.results_database))
    return _check(
        "result cache",
        f"{count} results",
        f"set aside as damaged, may be removed: {damaged}" if damaged else "",
    )
