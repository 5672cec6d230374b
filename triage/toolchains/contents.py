"""Digests of what a compile may read, so that the key of its result names all of it.

A file counts by its bytes, a folder by all files below it. The digest of a large folder
is stored with the state of its files (size, times, mode, inode), and they are read
again if that changed. What this program installed counts by its manifest, an
interpreter by its program and the records of its packages.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from operator import attrgetter
from pathlib import Path

from triage.compilers.base import Needs
from triage.compilers.interpreters import interpreter_folders, package_records
from triage.model.content import COARSEST_TIME, file_sha256
from triage.model.errors import EnvironmentFailure
from triage.processes.sealing import SYSTEM
from triage.toolchains.home import Home, manifest_of

# Programs write these where they are installed.
_NOT_CONTENT = {"__pycache__", ".git", ".lock"}
_LARGE = 1 << 20  # bytes, which take longer to read than a stored digest
_State = tuple[int, ...]
_state = attrgetter("st_size", "st_mtime_ns", "st_ctime_ns", "st_mode", "st_ino")


@dataclass(frozen=True)
class Contents:
    """Digests of the files of this machine. Safe for several threads."""

    home: Home

    def identity(self, needs: Needs) -> str:
        """Return a digest of all that a compiler needs. Raises EnvironmentFailure if a
        file is missing or cannot be read.
        """
        try:
            digests = [self.digest(path) for path in needs.files]
            if needs.python is not None:
                records = sorted(package_records(needs.python))
                digests.append(self.digest(needs.python.resolve(), *records))
        except OSError as error:
            raise EnvironmentFailure(
                f"{error.filename} of the compiler cannot be read: {error.strerror}; "
                "install it again"
            ) from error
        return sha256("".join(digests).encode()).hexdigest()[:40]

    def digest(self, *paths: Path) -> str:
        """Return the digest of files and of all files below folders. Raises OSError if
        one is missing or cannot be read.
        """
        first = paths[0]
        if first.parent == self.home.toolchains:
            with suppress(OSError, TypeError):  # no install, or not of a release
                return _installed_digest(first)
        files = [
            (path, name, state) for path in paths for name, state in file_states(path)
        ]
        is_large = sum(state[0] for *_, state in files) > _LARGE
        key = repr(files)
        stored = self.home.stored("contents", key) if is_large else None
        if stored:
            return stored.decode()
        now = time.time_ns()
        hasher = sha256()
        for path, name, state in files:
            digest = file_sha256(path / name)
            hasher.update(f"{name}\0{digest}\0{state[3] & 0o111}\0".encode())
        is_settled = all(now - max(state[1:3]) > COARSEST_TIME for *_, state in files)
        if is_large and is_settled:
            self.home.store("contents", key, hasher.hexdigest().encode())
        return hasher.hexdigest()


def with_link_targets(needs: Needs, installs: Path) -> Needs:
    """Return needs with the targets of the links below its folders, such as those of a
    build tree. `installs` is the folder of what this program installed.
    """
    files = list(needs.files)
    for folder in files:  # the list grows in this loop
        if folder.parent != installs:
            for target in _targets_of_links(folder):
                if not any(target.is_relative_to(path) for path in (*files, *SYSTEM)):
                    files.append(target)
    return replace(needs, files=tuple(files))


def _targets_of_links(folder: Path) -> Iterator[Path]:
    # it may be a file or a link itself
    if folder.is_symlink() or not folder.is_dir():
        yield folder.resolve()
        return
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _NOT_CONTENT)
        for name in (*folders, *names):
            path = os.path.join(parent, name)  # noqa: PTH118 - a tenth of the time
            if os.path.islink(path) and os.path.exists(path):  # noqa: PTH110, PTH114
                yield Path(path).resolve()


def readable_paths(needs: Needs) -> tuple[Path, ...]:
    """Return all files and folders that a compiler needs, for its seal."""
    if needs.python is None:
        return needs.files
    return (*needs.files, *interpreter_folders(needs.python))


def file_states(path: Path) -> Iterator[tuple[str, _State]]:
    """Yield the files below a folder in the order of their names, or the file itself
    with an empty name: relative path, and size, times, mode and inode.

    Links are followed to files, not to folders. Raises OSError if there is none.
    """
    status = path.stat()
    if not stat.S_ISDIR(status.st_mode):
        yield "", _state(status)
        return
    for parent, folders, names in os.walk(path):
        folders[:] = sorted(set(folders) - _NOT_CONTENT)
        for name in sorted(names):
            if name in _NOT_CONTENT or name.endswith(".pyc"):
                continue
            file = os.path.join(parent, name)  # noqa: PTH118 - a tenth of the time
            with suppress(FileNotFoundError):  # a link that leads nowhere
                file_status = os.stat(file)  # noqa: PTH116 - as above
                if stat.S_ISREG(file_status.st_mode):
                    yield file[len(str(path)) + 1 :], _state(file_status)


def state_digest(paths: Iterable[Path]) -> str:
    """Return a digest that changes when a file is written, without reading it. What is
    missing counts as well.
    """
    hasher = sha256()
    for path in paths:
        hasher.update(f"{path}\0".encode())
        with suppress(OSError):
            for name, state in file_states(path):
                hasher.update(f"{name}\0{state}\0".encode())
    return hasher.hexdigest()


@cache
def _installed_digest(folder: Path) -> str:
    """Return a digest of a release that this program installed: of its wheel and of the
    names and sizes of its files. Scripts in `bin` have the folder's path in them.
    """
    manifest = manifest_of(folder)
    release = manifest["release"]
    names = [release["distribution"], release["version"], release["sha256"] or ""]
    for name, size in sorted(manifest["files"].items()):
        if not name.startswith("bin/") and "__pycache__" not in name:
            names.append(f"{name} {size}")
    return sha256("\0".join(names).encode()).hexdigest()
