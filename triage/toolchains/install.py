"""Install one release into the cache: staged, checked, renamed; a broken install is found out and redone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from filelock import FileLock
from packaging.version import Version
from uv import find_uv_bin

from triage.model.errors import EnvironmentFailure, Interrupted
from triage.model.progress import Progress
from triage.toolchains.home import disk_errors
from triage.toolchains.index import Release

MANIFEST = "toolchain.json"
_UNPACKED_PER_WHEEL_BYTE = 4.6  # the largest ratio among released wheels, rounded up
_TYPICAL_WHEEL = 110 << 20


def folder_of(toolchains: Path, distribution: str, release: Release) -> Path:
    """Where a release lives; readable, and different for different content of one version."""
    mark = release.sha256[:12] if release.sha256 else "unhashed"
    return toolchains / f"{distribution}-{release.version}-{mark}"


def is_whole(folder: Path) -> bool:
    """Whether an install is complete: its manifest is there and every file has the size it had when installed."""
    try:
        sizes = json.loads((folder / MANIFEST).read_text())["files"]
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, AttributeError):
        return False


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
    folder = folder_of(toolchains, distribution, release)
    if is_whole(folder):
        return folder
    with disk_errors(f"install {distribution} {release.version}"):
        toolchains.mkdir(parents=True, exist_ok=True)
        with FileLock(toolchains / f".{folder.name}.lock"):
            if is_whole(folder):  # another process did it while this one waited
                return folder
            if folder.exists():
                progress.note(f"{distribution} {release.version} is damaged and is installed again")
                shutil.rmtree(folder)
            staging = toolchains / f".{folder.name}.staging"
            shutil.rmtree(staging, ignore_errors=True)  # of a process that was killed: the lock is ours
            try:
                _stage(staging, distribution, release, index_url, progress, stop)
                staging.joinpath("root").rename(folder)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    return folder


def _stage(
    staging: Path, distribution: str, release: Release, index_url: str, progress: Progress, stop: threading.Event
) -> None:
    root = staging / "root"
    root.mkdir(parents=True)
    need = int((release.size or _TYPICAL_WHEEL) * _UNPACKED_PER_WHEEL_BYTE)
    free = shutil.disk_usage(staging).free
    if free < need:
        raise EnvironmentFailure(
            f"cannot install {distribution} {release.version}: about {need >> 20} MiB are needed in {staging.parent}, "
            f"{free >> 20} MiB are free. `triage toolchains prune --keep 2GiB` frees some; TRIAGE_HOME names another disk."
        )
    wanted = f"{distribution}=={release.version}"
    if release.sha256:
        wanted += f" --hash=sha256:{release.sha256}"
    requirements = staging / "requirements.txt"
    requirements.write_text(wanted + "\n")
    # A cache of its own, thrown away with the staging folder: with a shared one the files would be hard links, so that
    # damage to an install would damage the copy it is mended from, and pruning would free nothing.
    command = [find_uv_bin(), "pip", "install", "--no-deps", "--target", str(root), "--only-binary", ":all:"]
    command += ["--python-version", release.python, "--default-index", index_url, "--cache-dir", str(staging / "cache")]
    command += ["--no-progress", "--color", "never", "--require-hashes" if release.sha256 else "--no-verify-hashes"]
    command += ["-r", str(requirements)]
    task = progress.task(f"install {distribution} {release.version}", total=None)
    log = staging / "uv.log"
    try:
        with log.open("wb") as sink:
            process = subprocess.Popen(command, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL)
            try:
                while process.poll() is None:
                    if stop.wait(0.1):
                        raise Interrupted("stopped")
                    task.describe(f"install {distribution} {release.version}  {_size(staging) >> 20} MiB")
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
    finally:
        task.finish()
    if process.returncode != 0:
        raise EnvironmentFailure(f"cannot install {distribution} {release.version}: {_why(log, staging)}")
    _write_manifest(root, release)


def _write_manifest(root: Path, release: Release) -> None:
    files = {str(path.relative_to(root)): path.stat().st_size for path in sorted(root.rglob("*")) if path.is_file()}
    with (root / MANIFEST).open("w") as sink:
        json.dump({"release": asdict(release), "files": files}, sink)
        sink.flush()
        os.fsync(sink.fileno())


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
