"""Wheel files: which of several to take, and unpacking one into the cache."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from packaging.utils import canonicalize_name
from uv import find_uv_bin

from triage.model.errors import EnvironmentFailure
from triage.toolchains.index import Release, choose_wheels
from triage.toolchains.sources.port import Unobtainable, Workplace
from triage.toolchains.sources.running import Log, run

_UNPACKED_PER_WHEEL_BYTE = 4.6  # the largest ratio among released wheels, rounded up


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
    need, free = int(wheel.stat().st_size * _UNPACKED_PER_WHEEL_BYTE), shutil.disk_usage(root).free
    if free < need:
        raise EnvironmentFailure(
            f"cannot install {wheel.name}: about {need >> 20} MiB are needed in {place.toolchains}, {free >> 20} MiB are "
            "free. `triage toolchains prune --keep 2GiB` frees some; TRIAGE_HOME names another disk."
        )
    # A cache of its own, thrown away afterwards: files in a shared one would be hard links into the toolchain.
    command = [find_uv_bin(), "pip", "install", "--no-deps", "--target", str(root), "--only-binary", ":all:"]
    command += ["--python-version", release.python, "--no-index", "--offline", "--cache-dir", str(scratch / "uv")]
    command += ["--no-progress", "--no-config", "--color", "never", str(wheel)]
    with Log(scratch / "uv.log") as log:
        done = run(command, log, place, env=os.environ, cwd=scratch)
    if done.status == 0:
        return
    said = " ".join(log.path.read_text("utf-8", "replace").replace(str(scratch), "…").split())
    if "No space left" in said:
        raise EnvironmentFailure(f"cannot install {wheel.name}: no space left on the disk of {place.toolchains}")
    raise Unobtainable(f"{wheel.name} cannot be installed: {said[-400:]}")
