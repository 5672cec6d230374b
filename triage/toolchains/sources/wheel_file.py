"""Wheel files: which of several to take, and unpacking one into the cache."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from packaging.utils import canonicalize_name

from triage.execution.process import run_logged
from triage.execution.streams import Log
from triage.model.errors import EnvironmentFailure
from triage.toolchains.index import Release, choose_wheels
from triage.toolchains.install import UNPACKED_PER_WHEEL_BYTE, require_room, uv_install
from triage.toolchains.sources.base import Unobtainable, Workplace


def fitting(names: Iterable[str], distribution: str) -> Release | None:
    """The wheel to take here among file names, the newest version of `distribution`; None when none fits this platform."""
    from pypi_simple import DistributionPackage

    wheels = (DistributionPackage.from_json_data({"filename": name, "url": name, "hashes": {}}) for name in names)
    chosen = choose_wheels(one for one in wheels if belongs(one.project, distribution))
    return chosen[-1] if chosen else None


def belongs(project: str | None, distribution: str) -> bool:
    """Whether a file of `project` is one of the distribution, however either is spelled."""
    return project is not None and canonicalize_name(project) == canonicalize_name(distribution)


def unpack(wheel: Path, release: Release, root: Path, scratch: Path, place: Workplace) -> None:
    """Install a wheel file into `root` as releases are. Unobtainable when the file is damaged, EnvironmentFailure when
    the disk is full.
    """
    require_room(int(wheel.stat().st_size * UNPACKED_PER_WHEEL_BYTE), root, f"install {wheel.name}")
    command = [*uv_install(root, scratch, release.python), "--no-index", "--offline", "--no-config", str(wheel)]
    with Log(scratch / "uv.log") as log:
        execution = run_logged(command, log, scratch, env=os.environ, stop=place.stop)
    if execution.ok:
        return
    said = " ".join(log.path.read_text("utf-8", "replace").replace(str(scratch), "…").split())
    if "No space left" in said:
        raise EnvironmentFailure(f"cannot install {wheel.name}: no space left on the disk of {place.toolchains}")
    raise Unobtainable(f"{wheel.name} cannot be installed: {said[-400:]}")
