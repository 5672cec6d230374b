"""Folders in the toolchain cache: filled aside, listed, renamed into place; a broken one is found out and filled again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from filelock import FileLock

from triage.model.progress import Progress
from triage.toolchains.home import disk_errors
from triage.toolchains.index import Release

MANIFEST = "toolchain.json"


def is_whole(folder: Path) -> bool:
    """Whether an install is complete: its manifest is there and every file has the size it had when installed."""
    try:
        sizes = json.loads((folder / MANIFEST).read_text())["files"]
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, AttributeError):
        return False


def kept(toolchains: Path, name: str, what: str, progress: Progress, fill: Callable[[Path, Path], Release | None]) -> Path:
    """The folder `name` of the cache, filled if it is missing or broken. Safe beside other processes.

    fill(root, scratch) puts the files into `root`, which is moved afterwards, and may use `scratch`, which is thrown
    away; a release it returns is written down, so that the folder counts as an install of it. What it raises leaves
    nothing behind. `what` names the toolchain in messages.
    """
    folder = toolchains / name
    if is_whole(folder):
        return folder
    with disk_errors(f"keep {what}"):
        toolchains.mkdir(parents=True, exist_ok=True)
        with FileLock(toolchains / f".{name}.lock"):
            if is_whole(folder):  # another process did it while this one waited
                return folder
            if folder.exists():
                progress.note(f"{what} is damaged and is obtained again")
                shutil.rmtree(folder)
            staging = toolchains / f".{name}.staging"
            shutil.rmtree(staging, ignore_errors=True)  # of a process that was killed: the lock is ours
            root, scratch = staging / "root", staging / "scratch"
            try:
                root.mkdir(parents=True)
                scratch.mkdir()
                _list(root, fill(root, scratch))
                root.rename(folder)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    return folder


def _list(root: Path, release: Release | None) -> None:
    files = {str(path.relative_to(root)): path.stat().st_size for path in sorted(root.rglob("*")) if path.is_file()}
    told = {"files": files} if release is None else {"release": asdict(release), "files": files}
    with (root / MANIFEST).open("w") as sink:
        json.dump(told, sink)
        sink.flush()
        os.fsync(sink.fileno())
