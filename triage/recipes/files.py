"""Find recipe files, and check the input of a recipe."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationInfo

from triage.model.case import InputKind
from triage.model.errors import Problem
from triage.recipes.document import siblings, why_unreadable
from triage.recipes.family import RecipeFamily
from triage.recipes.fields import setting
from triage.recipes.matrix import MAX_CASES, has_placeholder
from triage.recipes.suggestions import did_you_mean
from triage.recipes.values import advice, as_text

SUFFIXES = frozenset({".yaml", ".yml"})
EXPECT_FILE = re.compile(r"(?:^|.*[./])expect\.ya?ml$")  # no recipe has such a name
_INPUTS = frozenset({".mlir", ".mlirbc", ".onnx", ".py"})


def recipe_files(paths: Sequence[Path]) -> tuple[list[Path], list[Problem]]:
    """The recipe files of `paths`, each once, in the order given, a folder's in sorted order; and what was unusable."""
    search = _Search()
    for path in paths:
        search.add(path)
    return search.files, search.problems


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
            self._refuse(path, why_unreadable(path, error))
            return
        if stat.S_ISDIR(status.st_mode):
            self._add_folder(path)
        elif not stat.S_ISREG(status.st_mode):
            self._refuse(path, "this is neither a file nor a folder; give a recipe file.")
        elif path.suffix in _INPUTS:
            new = f"triage recipe new {path.stem}.yaml --input {path}"
            self._refuse(path, f"this is an input ({path.suffix}), not a recipe; `{new}` writes a recipe for it.")
        else:
            self._keep(path, status)

    def _add_folder(self, folder: Path) -> None:
        refused = len(self.problems)
        found = [path for path in self._walk(folder, set()) if path.suffix in SUFFIXES and not EXPECT_FILE.match(path.name)]
        for path in found:
            try:
                self._keep(path, path.stat())
            except OSError as error:
                self._refuse(path, why_unreadable(path, error))
        if not found and len(self.problems) == refused:
            self._refuse(folder, "this folder has no recipe: no *.yaml or *.yml file in it or below it.")

    def _walk(self, folder: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
        """Files below a folder in sorted order, linked folders followed once, hidden entries left out."""
        try:
            status = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            self._refuse(folder, why_unreadable(folder, error))
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
    except OSError:  # a link that leads back to itself; reading it as a file reports the error
        return False


def check_input(value: Any, info: ValidationInfo) -> str:
    """The input as written. Only a setting with a folder has it looked for on the disk."""
    text, known = as_text(value), setting(info)
    path = Path(text)
    if has_placeholder(path.suffix):
        return text
    if known.family is not None:
        _check_kind(text, path.suffix, known.family)
    if known.folder is not None and not has_placeholder(text):
        if is_pattern(text):
            _check_matches(known.folder, text)
        else:
            _check_there(known.folder / path, text, known.family)
    return text


def is_pattern(text: str) -> bool:
    """Whether an input names many files, with `*` or `?`."""
    return "*" in text or "?" in text


def matching(folder: Path, pattern: str) -> list[tuple[str, Path]]:
    """The files of a pattern with the names of their cases, in the order of these: the path below the part that has no
    wildcard, without the suffix and without a file name that is the same for all.
    """
    parts = Path(pattern).parts
    first = next(index for index, part in enumerate(parts) if is_pattern(part))
    base = locate(folder, str(Path(*parts[:first])))
    files = {}
    for path in base.glob(str(Path(*parts[first:]))):
        inner = path.relative_to(base)
        if path.is_file() and not any(part.startswith(".") for part in inner.parts):
            name = inner.with_suffix("") if is_pattern(parts[-1]) or len(inner.parts) == 1 else inner.parent
            files[name.as_posix()] = path
    return sorted(files.items())


def _check_matches(folder: Path, pattern: str) -> None:
    files = matching(folder, pattern)
    if not files:
        raise advice(f'no file fits the pattern "{pattern}"; patterns are relative to the recipe\'s folder, ** is any folder.')
    if len(files) > MAX_CASES:
        raise advice(f'{len(files)} files fit the pattern "{pattern}"; the limit is {MAX_CASES}.')
    for name, path in files:
        if re.search(r"[,=\[\]\s]", name):
            raise advice(f'the file "{path}" cannot name a case: rename it without commas, brackets, = and white space.')


def check_file(value: Any, info: ValidationInfo) -> str:
    """The path of a file beside the recipe, as written."""
    text = as_text(value)
    check_existing(text, setting(info).folder)
    return text


def check_expect_file(value: Any, info: ValidationInfo) -> str:
    """The path of a file of known failures, as written."""
    text = as_text(value)
    if not EXPECT_FILE.match(text):
        raise advice(
            f'"{text}" is neither a list of known failures nor the name of a file of them: write `[{{failure: timeout}}]`, '
            "`expect.yaml` or `NAME.expect.yaml`."
        )
    return check_file(text, info)


def check_existing(text: str, folder: Path | None) -> None:
    """Refuse a path at which there is no file. folder: None to skip that."""
    if folder is None or has_placeholder(text):
        return
    try:
        is_there = (folder / text).is_file()
    except OSError:  # its name is too long
        is_there = False
    if not is_there:
        raise advice(f'there is no file "{text}"; paths are relative to the recipe\'s folder.')


def locate(folder: Path, text: str) -> Path:
    """The absolute path of an input written relative to `folder`, tidied where that leads to the same file."""
    path = (folder / text).absolute()
    tidy = Path(os.path.normpath(path))
    # Behind a linked folder, `..` is the parent of what the link leads to, which tidying cannot know.
    try:
        return tidy if tidy.samefile(path) else path
    except (OSError, ValueError):  # there is no such file, or its name is too long
        return path


def _check_kind(text: str, suffix: str, family: RecipeFamily) -> None:
    if family.kind_of(suffix) is not None:
        return
    kinds = ", ".join(family.inputs)
    generator = " (a generator that prints the input)" if family.kind_of(".py") is InputKind.GENERATOR else ""
    guess = did_you_mean(suffix, family.inputs) if suffix else "."
    ending = f'ends in "{suffix}"' if suffix else "has no suffix"
    raise advice(f'the input "{text}" {ending}, which {family.name} does not take{guess} Kinds: {kinds}{generator}.')


def _check_there(path: Path, text: str, family: RecipeFamily | None) -> None:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise advice(f'the input "{text}" {_absence(path, family)}') from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise advice(f'the input "{text}" cannot be read: {reason.lower()}.') from None
    if stat.S_ISDIR(status.st_mode):
        raise advice(f'the input "{text}" is a folder; name a file in it.')
    if not stat.S_ISREG(status.st_mode):
        raise advice(f'the input "{text}" is not a regular file.')
    if not os.access(path, os.R_OK):
        raise advice(f'the input "{text}" cannot be read: no permission.')


def _absence(path: Path, family: RecipeFamily | None) -> str:
    if path.is_symlink():
        return f'is a link to "{path.readlink()}", which does not exist.'
    if not path.parent.is_dir():
        return "does not exist, and its folder does not either; paths are relative to the recipe's folder."
    fitting = (name for name in siblings(path) if family is None or family.kind_of(Path(name).suffix) is not None)
    guess = did_you_mean(path.name, fitting)
    return f"does not exist{guess} Paths are relative to the recipe's folder."
