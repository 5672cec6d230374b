"""Install one release into the cache: staged, checked, renamed; a broken install is found out and redone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

from packaging.version import Version
from uv import find_uv_bin

from triage.model.errors import EnvironmentFailure, Interrupted
from triage.model.progress import Progress
from triage.toolchains.index import Release
from triage.toolchains.kept import MANIFEST, is_whole, kept

UNPACKED_PER_WHEEL_BYTE = 4.6  # the largest ratio among released wheels, rounded up
_TYPICAL_WHEEL = 110 << 20


def folder_of(toolchains: Path, distribution: str, release: Release) -> Path:
    """Where a release lives; readable, and different for different content of one version."""
    mark = release.sha256[:12] if release.sha256 else "unhashed"
    return toolchains / f"{distribution}-{release.version}-{mark}"


def installed(toolchains: Path, distribution: str) -> list[Release]:
    """The releases that are here whole, oldest version first: what there is without a network."""
    found: list[Release] = []
    for folder in toolchains.glob(f"{distribution}-*"):
        if is_whole(folder):
            with suppress(OSError, ValueError, KeyError, TypeError):
                found.append(Release(**json.loads((folder / MANIFEST).read_text())["release"]))
    return sorted(found, key=lambda release: Version(release.version))


def install(
    toolchains: Path, distribution: str, release: Release, index_url: str, progress: Progress, stop: threading.Event
) -> Path:
    """The folder of an installed release, installing it if it is missing or broken. Safe beside other processes.

    EnvironmentFailure when the wheel cannot be had or the disk is full; then nothing half-done is left behind.
    """
    name, what = folder_of(toolchains, distribution, release).name, f"{distribution} {release.version}"

    def fill(root: Path, scratch: Path) -> Release:
        _fetch(root, scratch, distribution, release, index_url, progress, stop)
        return release

    return kept(toolchains, name, what, progress, fill)


def _fetch(
    root: Path,
    scratch: Path,
    distribution: str,
    release: Release,
    index_url: str,
    progress: Progress,
    stop: threading.Event,
) -> None:
    what = f"install {distribution} {release.version}"
    need = int((release.size or _TYPICAL_WHEEL) * UNPACKED_PER_WHEEL_BYTE)
    require_room(need, root, what)
    wanted = f"{distribution}=={release.version}"
    if release.sha256:
        wanted += f" --hash=sha256:{release.sha256}"
    requirements = scratch / "requirements.txt"
    requirements.write_text(wanted + "\n")
    command = uv_install(root, scratch, release.python)
    command += ["--default-index", index_url, "--require-hashes" if release.sha256 else "--no-verify-hashes"]
    command += ["-r", str(requirements)]
    task = progress.task(what, total=None)
    log = scratch / "uv.log"
    try:
        with log.open("wb") as sink:
            process = subprocess.Popen(command, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL)
            try:
                while process.poll() is None:
                    if stop.wait(0.1):
                        raise Interrupted("stopped")
                    task.describe(f"{what}  {_size(root.parent) >> 20} MiB")
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
    finally:
        task.finish()
    if process.returncode != 0:
        raise EnvironmentFailure(f"cannot {what}: {_why(log, root.parent)}")


def uv_install(root: Path, scratch: Path, python: str) -> list[str]:
    """The uv command that unpacks a wheel for that Python into `root`; what to install follows."""
    # A cache of its own, thrown away with the scratch folder: with a shared one the files would be hard links, so that
    # damage to an install would damage the copy it is mended from, and pruning would free nothing.
    command = [find_uv_bin(), "pip", "install", "--no-deps", "--target", str(root), "--only-binary", ":all:"]
    return [*command, "--python-version", python, "--cache-dir", str(scratch / "cache"), "--no-progress", "--color", "never"]


def require_room(need: int, place: Path, what: str) -> None:
    """EnvironmentFailure when the disk of `place` has fewer than `need` bytes free; `what` says what they are for."""
    free = shutil.disk_usage(place).free
    if free < need:
        raise EnvironmentFailure(
            f"cannot {what}: about {need >> 20} MiB are needed in {place.parent.parent}, {free >> 20} MiB are free. "
            "`triage toolchains prune --keep 2GiB` frees some; TRIAGE_HOME names another disk."
        )


def _size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(place, name).stat().st_size
            except OSError:  # uv moves files while we look
                continue
    return total


def _why(log: Path, staging: Path) -> str:
    text = log.read_text("utf-8", "replace").replace(str(staging), "…")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any("No space left" in line for line in lines):
        return f"no space left on the disk of {staging.parent}"
    told = [line for line in lines if not line.lower().startswith(("warning", "using", "resolved"))]
    return " ".join(told[-6:])[:600] or "uv gave no reason"
