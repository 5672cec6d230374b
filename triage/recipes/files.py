"""Which files hold recipes, and their text."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from triage.model.errors import BadFiles, Problem
from triage.recipes.suggestions import did_you_mean

MAX_BYTES = 1 << 20
SUFFIXES = frozenset({".yaml", ".yml"})
_INPUTS = frozenset({".mlir", ".mlirbc", ".onnx", ".py"})


def recipe_files(paths: Sequence[Path]) -> tuple[list[Path], list[Problem]]:
    """The recipe files of `paths`, each once, in the order given, a folder's in sorted order; and what was unusable."""
    search = _Search()
    for path in paths:
        search.add(path)
    return search.files, search.problems


def read_recipe(path: Path) -> str:
    """The file's text, a byte order mark left out. BadFiles when it is too big, not text, or cannot be read."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise _refused(path, f"the file has {size / (1 << 20):.1f} MiB; a recipe has at most 1 MiB.")
        data = path.read_bytes()
    except OSError as error:
        raise _refused(path, _reason(path, error)) from error
    if b"\0" in data:
        raise _refused(path, "this is a binary file (it holds NUL bytes); a recipe is YAML text in UTF-8.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"line {line} is not UTF-8 (byte 0x{data[error.start]:02x}); save the recipe as UTF-8 text."
        raise _refused(path, message) from error


def neighbours(path: Path) -> list[str]:
    """Names beside a path that does not exist; none when its folder cannot be listed."""
    try:
        return sorted(entry.name for entry in os.scandir(path.parent))
    except OSError:
        return []


@dataclass
class _Search:
    """Files found so far. Folders and files are known by device and inode, so that links lead nowhere twice."""

    files: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    _files_seen: set[tuple[int, int]] = field(default_factory=set)

    def add(self, path: Path) -> None:
        """One path as the user gave it."""
        try:
            status = path.stat()
        except (OSError, ValueError) as error:
            self._refuse(path, _reason(path, error))
            return
        if stat.S_ISDIR(status.st_mode):
            self._add_folder(path)
        elif not stat.S_ISREG(status.st_mode):
            self._refuse(path, "this is neither a file nor a folder; give a recipe file.")
        elif path.suffix in _INPUTS:
            new = f"triage recipe new {path.stem}.yaml --input {path}"
            self._refuse(path, f"this is an input ({path.suffix}), not a recipe; `{new}` writes one, also from a command line.")
        else:
            self._keep(path, status)

    def _add_folder(self, folder: Path) -> None:
        refused = len(self.problems)
        found = [path for path in self._walk(folder, set()) if path.suffix in SUFFIXES]
        for path in found:
            try:
                self._keep(path, path.stat())
            except OSError as error:
                self._refuse(path, _reason(path, error))
        if not found and len(self.problems) == refused:
            self._refuse(folder, "this folder holds no recipe: no *.yaml or *.yml file in it or below.")

    def _walk(self, folder: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
        """Files below a folder in sorted order, linked folders followed once, hidden entries left out."""
        try:
            status = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            self._refuse(folder, _reason(folder, error))
            return
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if _is_folder(entry):
                yield from self._walk(folder / entry.name, seen)
            else:
                yield folder / entry.name

    def _keep(self, path: Path, status: os.stat_result) -> None:
        identity = (status.st_dev, status.st_ino)
        if identity not in self._files_seen:
            self._files_seen.add(identity)
            self.files.append(path)

    def _refuse(self, path: Path, message: str) -> None:
        self.problems.append(Problem(str(path), None, None, message))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads back to itself: looked at again as a file, and told there
        return False


def _refused(path: Path, message: str) -> BadFiles:
    return BadFiles([Problem(str(path), None, None, message)])


def _reason(path: Path, error: OSError | ValueError) -> str:
    """Why a path is of no use, in a sentence."""
    code = error.errno if isinstance(error, OSError) else None
    if code in {errno.ENOENT, errno.ENOTDIR}:
        if path.is_symlink():
            return f'this link leads to "{path.readlink()}", which does not exist.'
        return "no such file or folder" + did_you_mean(path.name, neighbours(path))
    if code == errno.ELOOP:
        return "this link leads back to itself."
    if code in {errno.EACCES, errno.EPERM}:
        return "no permission to read this; check its mode and its owner."
    return f"cannot be read: {getattr(error, 'strerror', None) or error}."
