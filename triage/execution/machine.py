"""What this machine has and lacks for compiling, as findings with advice."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from uv import find_uv_bin

from triage.compilers.base import Compiler, Importer
from triage.execution.cache import Evidence
from triage.execution.process import capture, memory, run
from triage.model.errors import TriageError
from triage.model.execution import Limits
from triage.toolchains.home import home_path, open_home
from triage.toolchains.prune import stored
from triage.toolchains.registry import ToolchainRegistry

_ROOM = 2 << 30  # bytes: a handful of toolchains
_MEMORY = 4 << 30  # bytes: one compile of a small model beside the system


class Grade(StrEnum):
    """How bad a finding is."""

    GOOD = "good"
    WEAK = "weak"  # works, with a limitation worth knowing
    BROKEN = "broken"  # compiling or installing cannot work


@dataclass(frozen=True, slots=True)
class MachineCheck:
    """One check: what was found, and what to do where it is not good."""

    check: str
    grade: Grade
    found: str
    advice: str = ""


def checkup(compilers: Mapping[str, Compiler]) -> list[MachineCheck]:
    """All checks. A check that breaks is itself a finding."""
    findings = [_home(), _room(), _cores(), _uv(), _randomisation()]
    try:
        home = open_home()
    except TriageError:
        return findings
    shed = ToolchainRegistry(home, compilers, stop=threading.Event())
    for family in compilers:
        findings += [_guard(f"{family} releases", lambda f=family: _index(shed, f))]  # type: ignore[misc]
        findings += [_guard(f"{family} installed", lambda f=family: _installed(shed, f))]  # type: ignore[misc]
    kept = stored(shed.folder)
    broken = [one.folder.name for one in kept if not one.whole]
    said = f"{len(kept)} toolchains, {sum(one.bytes for one in kept) / (1 << 30):.1f} GiB"
    advice = f"damaged, will be installed again when used: {', '.join(broken)}" if broken else ""
    findings.append(MachineCheck("cache", Grade.WEAK if broken else Grade.GOOD, said, advice))
    findings.append(_guard("evidence", lambda: _evidence(home)))
    findings += [_onnx(family.onnx_importer) for family in compilers.values() if family.onnx_importer]
    return findings


def _guard(check: str, look: Callable[[], MachineCheck]) -> MachineCheck:
    try:
        return look()
    except TriageError as error:
        return MachineCheck(check, Grade.BROKEN, str(error))


def _home() -> MachineCheck:
    try:
        return MachineCheck("home", Grade.GOOD, str(open_home()))
    except TriageError as error:
        return MachineCheck("home", Grade.BROKEN, str(error), "set TRIAGE_HOME to a folder you may write to")


def _room() -> MachineCheck:
    place = home_path()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    good = free > _ROOM
    advice = "" if good else "a toolchain takes about 450 MiB; `triage toolchains prune` frees some"
    return MachineCheck("disk", Grade.GOOD if good else Grade.WEAK, f"{free / (1 << 30):.1f} GiB free", advice)


def _cores() -> MachineCheck:
    total, available = memory()
    good = available > _MEMORY
    advice = "" if good else "large models will be untestable; close something or give a recipe a lower memory limit"
    found = f"{os.cpu_count()} cores, {available / (1 << 30):.1f} of {total / (1 << 30):.1f} GiB available"
    return MachineCheck("machine", Grade.GOOD if good else Grade.WEAK, found, advice)


def _uv() -> MachineCheck:
    try:
        answer = capture([find_uv_bin(), "--version"], timeout=30)
    except FileNotFoundError as error:
        return MachineCheck("uv", Grade.BROKEN, str(error), "install this program again")
    if not answer.ok:
        return MachineCheck("uv", Grade.BROKEN, answer.stderr.last_line, "install this program again")
    return MachineCheck("uv", Grade.GOOD, answer.stdout.text.strip())


def _randomisation() -> MachineCheck:
    with TemporaryDirectory() as place:
        execution = run(["true"], Limits(timeout=10), Path(place))
    if execution.randomised:
        advice = "a container's seccomp profile often forbids switching it off"
        return MachineCheck("address layout", Grade.WEAK, "random: a few verdicts may differ from run to run", advice)
    return MachineCheck("address layout", Grade.GOOD, "fixed for every compile")


def _index(shed: ToolchainRegistry, family: str) -> MachineCheck:
    places = shed.releases(family)
    if not places:
        return MachineCheck(f"{family} releases", Grade.BROKEN, f"none for this platform at {shed.index.url}")
    first, last = places[0].revision.name, places[-1].revision.name
    return MachineCheck(f"{family} releases", Grade.GOOD, f"{len(places)} on the index, {first} to {last}")


def _installed(shed: ToolchainRegistry, family: str) -> MachineCheck:
    if not shed.comes_along(family):
        here = shed.at_hand(family)
        said = f"{len(here)} in the cache" + (
            f", {here[-1].revision.name} the newest" if here else "; installed as they are named"
        )
        return MachineCheck(f"{family} installed", Grade.GOOD, said)
    toolchain = shed.obtain(shed.place("installed", family))
    backends = ", ".join(sorted(toolchain.capabilities.backends))
    return MachineCheck(f"{family} installed", Grade.GOOD, f"{toolchain.revision.name} with {backends}")


def _evidence(home: Path) -> MachineCheck:
    store = Evidence(home / "evidence.db")
    count = store.count()
    store.close()
    return MachineCheck("evidence", Grade.GOOD, f"{count} results")


def _onnx(importer: Importer) -> MachineCheck:
    command = [sys.executable, "-m", importer.module, "--help"]
    answer = capture(command, timeout=120)
    if answer.ok:
        return MachineCheck("ONNX import", Grade.GOOD, "works")
    return MachineCheck(
        "ONNX import", Grade.WEAK, answer.stderr.last_line or "it printed no reason", "`.onnx` inputs will be untestable"
    )
