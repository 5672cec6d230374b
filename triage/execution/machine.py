"""Check that this machine can compile: disk, memory, uv, toolchains, caches."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from uv import find_uv_bin

from triage.compilers.base import Compiler, Importer
from triage.execution.cache import ResultCache, set_aside_files
from triage.execution.containment import missing_containment
from triage.execution.environment import Purpose
from triage.execution.process import capture, memory, run
from triage.execution.scratch import LEFT
from triage.model.errors import EnvironmentFailure, TriageError
from triage.model.execution import Limits
from triage.toolchains.home import home_path, open_home, temporary_folder
from triage.toolchains.install_cache import stored
from triage.toolchains.registry import ToolchainRegistry

_ROOM = 2 << 30  # bytes: a handful of toolchains
_MEMORY = 4 << 30  # bytes: one compile of a small model beside the system
_GIB = 1 << 30


class Grade(StrEnum):
    """The result of a check."""

    GOOD = "good"
    WEAK = "weak"  # works with a limitation
    BROKEN = "broken"  # compiling or installing cannot work


@dataclass(frozen=True, slots=True)
class MachineCheck:
    """One check: what was found, and what to do about it."""

    check: str
    grade: Grade
    found: str
    advice: str = ""


def checkup(compilers: Mapping[str, Compiler]) -> list[MachineCheck]:
    """Run all checks. A check that raises is a finding."""
    checks = [_home(), _disk(), _machine(), _uv(), _address_layout(), _containment()]
    try:
        home = open_home()
    except TriageError:
        return checks
    registry = ToolchainRegistry(home, compilers, stop=threading.Event())
    for family in compilers:
        checks.append(_guard(f"{family} releases", partial(_releases, registry, family)))
        checks.append(_guard(f"{family} installed", partial(_installed, registry, family)))
    checks.append(_cache(registry))
    checks.append(_guard("evidence", partial(_evidence, home)))
    checks.append(_scratch(home))
    checks += [_onnx(family.onnx_importer) for family in compilers.values() if family.onnx_importer]
    return checks


def _guard(name: str, check: Callable[[], MachineCheck]) -> MachineCheck:
    try:
        return check()
    except TriageError as error:
        return MachineCheck(name, Grade.BROKEN, str(error))


def _home() -> MachineCheck:
    try:
        return MachineCheck("home", Grade.GOOD, str(open_home()))
    except TriageError as error:
        return MachineCheck("home", Grade.BROKEN, str(error), "set TRIAGE_HOME to a folder that you may write to")


def _disk() -> MachineCheck:
    folder = home_path()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    good = free > _ROOM
    advice = "" if good else "a toolchain takes about 450 MiB; `triage toolchains prune` frees some"
    return MachineCheck("disk", Grade.GOOD if good else Grade.WEAK, f"{free / _GIB:.1f} GiB free", advice)


def _machine() -> MachineCheck:
    total, available = memory()
    good = available > _MEMORY
    advice = "" if good else "large models will be untestable; close something or give a recipe a lower memory limit"
    found = f"{os.cpu_count()} cores, {available / _GIB:.1f} of {total / _GIB:.1f} GiB available"
    return MachineCheck("machine", Grade.GOOD if good else Grade.WEAK, found, advice)


def _uv() -> MachineCheck:
    try:
        answer = capture([find_uv_bin(), "--version"], timeout=30, purpose=Purpose.INSTALL)
    except FileNotFoundError as error:
        return MachineCheck("uv", Grade.BROKEN, str(error), "install this program again")
    if not answer.ok:
        return MachineCheck("uv", Grade.BROKEN, answer.stderr.last_line, "install this program again")
    return MachineCheck("uv", Grade.GOOD, answer.stdout.text.strip())


def _address_layout() -> MachineCheck:
    with temporary_folder() as folder:
        execution = run(["true"], Limits(timeout=10), Path(folder))
    if execution.randomised:
        advice = "a container's seccomp profile often forbids fixed addresses"
        return MachineCheck("address layout", Grade.WEAK, "random: a few verdicts may differ from run to run", advice)
    return MachineCheck("address layout", Grade.GOOD, "fixed for every compile")


def _containment() -> MachineCheck:
    missing = missing_containment()
    if not missing:
        return MachineCheck("containment", Grade.GOOD, "subreaper and marked processes")
    advice = "a process that leaves its parent may survive its compile; another container runtime or kernel may allow this"
    return MachineCheck("containment", Grade.WEAK, f"missing: {', '.join(missing)}", advice)


def _releases(registry: ToolchainRegistry, family: str) -> MachineCheck:
    refs = registry.releases(family)
    if not refs:
        return MachineCheck(f"{family} releases", Grade.BROKEN, f"none for this platform at {registry.index.url}")
    first, last = refs[0].revision.name, refs[-1].revision.name
    return MachineCheck(f"{family} releases", Grade.GOOD, f"{len(refs)} on the index, {first} to {last}")


def _installed(registry: ToolchainRegistry, family: str) -> MachineCheck:
    check = f"{family} installed"
    try:
        ref = registry.resolve("installed", family)
    except EnvironmentFailure:
        installed = registry.installed_releases(family)
        newest = f"{installed[-1].revision.name} the newest" if installed else "installed when first used"
        return MachineCheck(check, Grade.GOOD, f"{len(installed)} in the cache, {newest}")
    toolchain = registry.obtain(ref)
    backends = ", ".join(sorted(toolchain.capabilities.backends))
    return MachineCheck(check, Grade.GOOD, f"{toolchain.revision.name} with {backends}")


def _cache(registry: ToolchainRegistry) -> MachineCheck:
    installs = stored(registry.home)
    damaged = [install.folder.name for install in installs if not install.intact]
    found = f"{len(installs)} toolchains, {sum(install.bytes for install in installs) / _GIB:.1f} GiB"
    advice = f"damaged, will be installed again when used: {', '.join(damaged)}" if damaged else ""
    return MachineCheck("cache", Grade.WEAK if damaged else Grade.GOOD, found, advice)


def _evidence(home: Path) -> MachineCheck:
    store = ResultCache(home / "evidence.db")
    count = store.count()
    store.close()
    damaged = set_aside_files(home / "evidence.db")
    advice = f"set aside as damaged, may be removed: {', '.join(path.name for path in damaged)}" if damaged else ""
    return MachineCheck("evidence", Grade.WEAK if damaged else Grade.GOOD, f"{count} results", advice)


def _scratch(home: Path) -> MachineCheck:
    left = sorted((home / "scratch").glob(f"{LEFT}*"))
    if not left:
        return MachineCheck("scratch", Grade.GOOD, "no compile left files behind")
    names = ", ".join(map(str, left[:3])) + (" and others" if len(left) > 3 else "")
    return MachineCheck("scratch", Grade.WEAK, f"{len(left)} folders that could not be removed", f"remove {names}")


def _onnx(importer: Importer) -> MachineCheck:
    answer = capture([sys.executable, "-m", importer.module, "--help"], timeout=120)
    if answer.ok:
        return MachineCheck("ONNX import", Grade.GOOD, "works")
    reason = answer.stderr.last_line or "it printed no reason"
    return MachineCheck("ONNX import", Grade.WEAK, reason, "`.onnx` inputs will be untestable")
