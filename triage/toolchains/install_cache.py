"""The install cache: the folder of installed toolchains, each complete or installed again, and pruning it."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO

from triage.compilers.base import Environment, Packaging, Wheel
from triage.toolchains.home import disk_errors, lock_file, remove_tree
from triage.toolchains.index import Release
from triage.toolchains.workspace import Workspace

MANIFEST = "toolchain.json"
USE = ".used"  # its time of change is the last use; a lock on it means that a process uses the toolchain
PLAIN_WHEEL = Wheel()
BUILDERS = "builders/*/[0-9]*"
_TOOLCHAINS = "toolchains/[!.]*"
_DAMAGED = (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError)  # reading a manifest raises


def folder_of(toolchains: Path, release: Release, packaging: Packaging = PLAIN_WHEEL) -> Path:
    """Return the folder of a release: readable, and different for each content of one version."""
    mark = release.sha256[:12] if release.sha256 else "unhashed"
    return toolchains / f"{_prefix(release.distribution, packaging)}-{release.version}-{mark}"


def installed(toolchains: Path, distribution: str, packaging: Packaging = PLAIN_WHEEL) -> list[Release]:
    """Return the releases with an intact install, oldest version first."""
    from packaging.version import Version

    releases = [release for release, folder in _manifests(toolchains, distribution, packaging) if is_intact(folder)]
    return sorted(releases, key=lambda release: Version(release.version))


def installed_release(toolchains: Path, distribution: str, version: str, packaging: Packaging = PLAIN_WHEEL) -> Release | None:
    """Return the release of one version, if its install is intact. Other installs are not checked, which takes long."""
    from packaging.version import Version

    for release, folder in _manifests(toolchains, distribution, packaging):
        if Version(release.version) == Version(version) and is_intact(folder):
            return release
    return None


def _manifests(toolchains: Path, distribution: str, packaging: Packaging) -> Iterator[tuple[Release, Path]]:
    """Yield the release and the folder of each install that has a manifest."""
    from packaging.version import Version

    for folder in toolchains.glob(f"{_prefix(distribution, packaging)}-[0-9]*"):
        with suppress(*_DAMAGED):
            stored = json.loads((folder / MANIFEST).read_text())["release"] | {"distribution": distribution}
            release = Release(**{name: stored[name] for name in Release.__slots__ if name in stored})
            Version(release.version)
            yield release, folder


def _prefix(distribution: str, packaging: Packaging) -> str:
    """Return how the folder names of one distribution begin, installed in one way."""
    match packaging:
        case Wheel():
            return distribution
        case Environment(()):
            return f"venv-{distribution}"
        case Environment(beside):
            return f"venv-{distribution}-with-{blake2b(' '.join(beside).encode(), digest_size=4).hexdigest()}"


def is_intact(folder: Path) -> bool:
    """Whether an install is complete: it has a manifest, and every file has the size that it was installed with."""
    try:
        sizes = json.loads((folder / MANIFEST).read_text())["files"]
        return bool(sizes) and all((folder / name).stat().st_size == size for name, size in sizes.items())
    except _DAMAGED:
        return False


def fill_folder(workspace: Workspace, name: str, what: str, fill: Callable[[Path, Path], Release | None]) -> Path:
    """Return the intact folder `name` of the cache, filled if it is missing or damaged. `what` is the toolchain in messages.

    `fill` is called as fill(root, scratch). It puts the files into `root`, which is moved afterwards, and may use `scratch`,
    which is removed. Where it returns a release, the folder counts as an install of it. Its errors leave no files. Other
    processes that need the same folder wait.
    """
    toolchains = workspace.toolchains
    folder, staging = toolchains / name, toolchains / f".{name}.staging"
    if is_intact(folder):
        return folder
    with disk_errors(f"install {what}"):
        toolchains.mkdir(parents=True, exist_ok=True)
        with workspace.locked(toolchains / f".{name}.lock", f"install {what}"):
            if is_intact(folder):  # another process did it while this one waited
                return folder
            if folder.exists():
                workspace.progress.note(f"{what} is damaged and is installed again")
                remove_tree(folder) if folder.is_dir() else folder.unlink()
            remove_tree(staging)  # of a process that was killed: this one has the lock
            root, scratch = staging / "root", staging / "scratch"
            try:
                root.mkdir(parents=True)
                scratch.mkdir()
                release = fill(root, scratch)
                files = {str(path.relative_to(root)): path.stat().st_size for path in sorted(root.rglob("*")) if path.is_file()}
                manifest = {"files": files} if release is None else {"release": asdict(release), "files": files}
                with (root / MANIFEST).open("w") as sink:
                    json.dump(manifest, sink)
                    sink.flush()
                    os.fsync(sink.fileno())
                root.rename(folder)
            finally:
                remove_tree(staging)
    return folder


def sweep(home: Path) -> None:
    """Remove what killed processes left while they installed or pruned: folders whose lock nobody holds."""
    for path in (*home.glob("toolchains/.*.*"), *home.glob("builders/*/.*.*")):
        if path.suffix in (".staging", ".doomed"):
            with suppress(OSError), _locked_now(path.with_suffix(".lock")):
                remove_tree(path)


def _locked_now(path: Path) -> IO[bytes]:
    """Lock a file that no other process has locked. BlockingIOError when one has."""
    return lock_file(path, fcntl.LOCK_EX | fcntl.LOCK_NB, threading.Event())


class InUse:
    """The toolchains that this process uses. No other process prunes them until this object or the process ends."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._locks: dict[Path, IO[bytes]] = {}

    def add(self, folder: Path) -> None:
        """Mark a toolchain as used now, and lock it. Interrupted when the stop is set while another process prunes it."""
        if folder not in self._locks:
            with disk_errors(f"use {folder}"):
                self._locks[folder] = lock_file(folder / USE, fcntl.LOCK_SH, self._stop)
                os.utime(folder / USE)


@dataclass(frozen=True, slots=True)
class StoredToolchain:
    """One toolchain in the cache, or one folder in which compilers are built."""

    folder: Path
    bytes: int
    """The size on disk."""
    used: float
    """The last use in seconds since the epoch."""
    intact: bool
    """Whether no file is missing."""


def stored(home: Path, pattern: str = _TOOLCHAINS) -> list[StoredToolchain]:
    """Return all toolchains in a home, or all builders for the pattern `BUILDERS`, least recently used first."""
    entries = []
    for folder in home.glob(pattern):
        if folder.is_dir():
            intact = pattern == BUILDERS or is_intact(folder)
            entries.append(StoredToolchain(folder, bytes_below(folder), _last_use(folder), intact))
    return sorted(entries, key=lambda entry: (entry.used, entry.folder))


def prune(home: Path, keep: int) -> list[StoredToolchain]:
    """Remove the least recently used toolchains and builders until at most `keep` bytes are left, and return them.

    Damaged ones go first, those in use stay.
    """
    entries = sorted([*stored(home), *stored(home, BUILDERS)], key=lambda entry: (entry.intact, entry.used))
    total = sum(entry.bytes for entry in entries)
    removed: list[StoredToolchain] = []
    for entry in entries:
        if entry.intact and total <= keep:
            break
        if _remove(entry.folder):
            removed.append(entry)
            total -= entry.bytes
    return removed


def _remove(folder: Path) -> bool:
    """Remove a folder; return whether it was there and nobody uses it."""
    lock, doomed = (folder.with_name(f".{folder.name}.{suffix}") for suffix in ("lock", "doomed"))
    try:
        with disk_errors(f"remove {folder}"), _locked_now(lock), _locked_now(folder / USE):
            remove_tree(doomed)
            folder.rename(doomed)  # gone at once for every other process
    except (BlockingIOError, FileNotFoundError):  # another process uses it, or has removed it
        return False
    remove_tree(doomed)
    return True


def bytes_below(folder: Path) -> int:
    """Return the bytes of all files in a folder, which others may change meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # removed meanwhile
                total += (Path(parent) / name).lstat().st_size
    return total


def _last_use(folder: Path) -> float:
    for path in (folder / USE, folder / MANIFEST, folder):
        with suppress(OSError):
            return path.stat().st_mtime
    return 0.0
