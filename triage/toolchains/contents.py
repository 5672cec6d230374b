"""Digests of what a compile may read, so that the key of its result names all of it.

A file counts by its bytes, a folder by all files below it. A digest is kept with the
state of its file (size, times, mode, inode), and the file is read again only if that
changes. What this program installed counts by its manifest, an interpreter by its
version and the records of its packages.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

from triage.compilers.base import Needs
from triage.compilers.interpreters import packages_of, prefixes_of
from triage.model.content import file_sha256
from triage.model.errors import EnvironmentFailure
from triage.processes.sealing import SYSTEM
from triage.toolchains.home import Workspace
from triage.toolchains.install import MANIFEST

# Programs write these where they are installed.
_NOT_CONTENT = {"__pycache__", ".git", ".used", ".lock"}
# A file that was changed less than so many nanoseconds ago may change again without
# another time.
_COARSEST_TIME = 2_000_000_000
_State = tuple[int, ...]


@dataclass
class Contents:
    """Digests of the files of this machine. Safe for several threads."""

    workspace: Workspace
    _digests: dict[str, str] = field(default_factory=dict)
    """What was installed or belongs to an interpreter, which stays the same."""
    _lock: Lock = field(default_factory=Lock)

    def identity(self, needs: Needs) -> str:
        """Return a digest of all that a compiler needs. Raises EnvironmentFailure if a
        file is missing or cannot be read.
        """
        whole = sha256()
        try:
            for path in needs.files:
                whole.update(self.digest(path).encode())
            if needs.python is not None:
                whole.update(self._of_interpreter(needs.python).encode())
        except OSError as error:
            raise EnvironmentFailure(
                f"{error.filename} of the compiler cannot be read: {error.strerror}; "
                "install it again"
            ) from error
        return whole.hexdigest()[:40]

    def digest(self, path: Path) -> str:
        """Return the digest of a file, or of all files below a folder. Raises OSError
        if there is none, or it cannot be read.
        """
        if path.parent == self.workspace.home.toolchains:
            with self._lock, suppress(OSError, ValueError, LookupError, TypeError):
                if str(path) not in self._digests:
                    self._digests[str(path)] = _installed_digest(path)
                return self._digests[str(path)]
        home = self.workspace.home
        known = json.loads(home.stored("contents", str(path)) or b"{}")
        whole, now = sha256(), time.time_ns()
        files: dict[str, Any] = {}
        for name, state in states(path):
            entry = known.get(name)
            if isinstance(entry, list) and entry[:-1] == [*state]:
                digest = str(entry[-1])
            else:
                digest = file_sha256(path / name if name else path)
            if now - max(state[1:3]) > _COARSEST_TIME:
                files[name] = [*state, digest]
            whole.update(f"{name}\0{digest}\0{state[3] & 0o111}\0".encode())
        if files != known:
            with suppress(EnvironmentFailure):  # the home cannot be written
                home.store("contents", str(path), json.dumps(files).encode())
        return whole.hexdigest()

    def _of_interpreter(self, python: Path) -> str:
        with self._lock:
            if str(python) not in self._digests:
                whole = sha256(file_sha256(python.resolve()).encode())
                for record in sorted(packages_of(python)):
                    whole.update(record.parent.name.encode() + b"\0")
                    with suppress(OSError):  # of a package without one
                        whole.update(record.read_bytes())
                self._digests[str(python)] = whole.hexdigest()
            return self._digests[str(python)]


def with_targets(needs: Needs, installs: Path) -> Needs:
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
    if folder.is_symlink() or not folder.is_dir():
        yield folder.resolve()
        return
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _NOT_CONTENT)
        for name in (*folders, *names):
            path = os.path.join(parent, name)  # noqa: PTH118 - a tenth of the time
            if os.path.islink(path) and os.path.exists(path):  # noqa: PTH110, PTH114
                yield Path(path).resolve()


def readable(needs: Needs) -> tuple[Path, ...]:
    """Return all files and folders that a compiler needs, for its seal."""
    if needs.python is None:
        return needs.files
    return (*needs.files, *prefixes_of(needs.python))


def states(path: Path) -> Iterator[tuple[str, _State]]:
    """Yield the files below a folder in the order of their names, or the file itself
    with an empty name: relative path, and size, times, mode and inode.

    Links are followed to files, not to folders. Raises OSError if there is none.
    """
    if not path.is_dir():
        yield "", _state(path.stat())
        return
    for parent, folders, names in os.walk(path):
        folders[:] = sorted(set(folders) - _NOT_CONTENT)
        for name in sorted(names):
            if name in _NOT_CONTENT or name.endswith(".pyc"):
                continue
            file = os.path.join(parent, name)  # noqa: PTH118 - a tenth of the time
            with suppress(FileNotFoundError):  # a link that leads nowhere
                found = os.stat(file)  # noqa: PTH116 - as above
                if stat.S_ISREG(found.st_mode):
                    yield file[len(str(path)) + 1 :], _state(found)


def _state(found: os.stat_result) -> _State:
    return (
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        found.st_mode,
        found.st_ino,
    )


def file_state(paths: Iterable[Path]) -> str:
    """Return a digest that changes when a file is written, without reading it. What is
    missing counts as well.
    """
    whole = sha256()
    for path in paths:
        whole.update(f"{path}\0".encode())
        with suppress(OSError):
            for name, state in states(path):
                whole.update(f"{name}\0{state}\0".encode())
    return whole.hexdigest()


def _installed_digest(folder: Path) -> str:
    """Return a digest of a release that this program installed: of its wheel and of the
    names and sizes of its files. Scripts in `bin` have the folder's path in them.
    """
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    release = manifest["release"]
    names = [release["distribution"], release["version"], release["sha256"] or ""]
    for name, size in sorted(manifest["files"].items()):
        if not name.startswith("bin/") and "__pycache__" not in name:
            names.append(f"{name} {size}")
    return sha256("\0".join(names).encode()).hexdigest()
