"""Find recipe files, and check the files that a recipe names."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationInfo

from triage.model.errors import Problem
from triage.recipes.document import siblings, why_unreadable
from triage.recipes.family import RecipeFamily
from triage.recipes.values import did_you_mean

MAX_CASES = 4096
FILE = "file"
"""The key of a case whose input is one of the files of a pattern."""
EXPECT_FILE = r"(?:^|.*[./])expect\.ya?ml$"
"""The name of a file of known failures; no recipe has such a name."""
_INPUTS = frozenset({".mlir", ".mlirbc", ".onnx", ".py"})


@dataclass(frozen=True, slots=True)
class Setting:
    """What checks know besides the value."""

    family: RecipeFamily
    folder: Path | None = None  # where relative paths are looked for, or None to skip that
    words: Mapping[str, Collection[str]] = field(default_factory=dict)
    """What a backend, a phase, a failure class may be; any word if there are none."""


def setting(info: ValidationInfo) -> Setting:
    """Return the setting of this validation."""
    assert isinstance(info.context, Setting)
    return info.context


def recipe_files(paths: Sequence[Path]) -> tuple[list[Path], list[Problem]]:
    """Return the recipe files of `paths`, each once, in the order given, a folder's in sorted order; and what is unusable."""
    files: dict[str, Path] = {}  # by the real path
    problems: list[Problem] = []
    for path in paths:
        refused = len(problems)
        try:
            mode = path.stat().st_mode
        except (OSError, ValueError) as error:
            problems.append(Problem(str(path), None, None, why_unreadable(path, error)))
            continue
        found, message = [path], ""
        if stat.S_ISDIR(mode):
            found = _recipes_below(path, problems)
            if not found and len(problems) == refused:
                message = "this folder has no recipe: no *.yaml or *.yml file in it or below it."
        elif not stat.S_ISREG(mode):
            message = "this is not a file or a folder; give a recipe file."
        elif path.suffix in _INPUTS:
            new = f"triage recipe new {path.stem}.yaml --input {path}"
            message = f"this is an input ({path.suffix}), not a recipe; `{new}` writes a recipe for it."
        if message:
            problems.append(Problem(str(path), None, None, message))
        else:
            for file in found:
                files.setdefault(os.path.realpath(file), file)
    return list(files.values()), problems


def _recipes_below(folder: Path, problems: list[Problem]) -> list[Path]:
    """The recipes below a folder in sorted order, without hidden ones; linked folders are followed once."""

    def refuse(error: OSError) -> None:
        problems.append(Problem(error.filename, None, None, why_unreadable(Path(error.filename), error)))

    found, seen = [], set()
    for parent, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        real = os.path.realpath(parent)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths = (Path(parent, name) for name in names if not name.startswith("."))
        found += [path for path in paths if path.suffix in (".yaml", ".yml") and not re.match(EXPECT_FILE, path.name)]
    return sorted(found)


def locate(folder: Path, text: str) -> Path:
    """Return the absolute path of a file that is written relative to a folder."""
    path = folder / text
    return path.parent.resolve() / path.name


def is_pattern(text: str) -> bool:
    """Whether an input names many files, with `*` or `?`."""
    return "*" in text or "?" in text


def matching(folder: Path, pattern: str) -> list[tuple[str, Path]]:
    """Return the files of a pattern with the names of their cases, in the order of these.

    A name is the path below the part that has no wildcard, without the suffix and without a file name that is the same for
    all.
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


def check_input(text: str, info: ValidationInfo) -> str:
    """Check that the family takes the input and that it is there. ValueError says what to write instead."""
    family, folder, suffix = setting(info).family, setting(info).folder, Path(text).suffix
    if family.kind_of(suffix) is None:
        ending = f'ends in "{suffix}"' if suffix else "has no suffix"
        guess = did_you_mean(suffix, family.inputs) if suffix else "."
        kinds = ", ".join(family.inputs)
        raise ValueError(f'the input "{text}" {ending}, which {family.name} does not take{guess} Kinds: {kinds}.')
    if folder is None:
        return text
    if is_pattern(text):
        _check_pattern(folder, text)
        return text
    path = folder / text
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        fitting = [name for name in siblings(path) if family.kind_of(Path(name).suffix)]
        guess = did_you_mean(path.name, fitting)
        is_missing = isinstance(error, FileNotFoundError) and not path.is_symlink()
        reason = f"does not exist{guess}" if is_missing else why_unreadable(path, error)
        raise ValueError(f'the input "{text}" {reason} Paths are relative to the recipe\'s folder.') from None
    if not stat.S_ISREG(mode):
        raise ValueError(
            f'the input "{text}" {"is a folder; name a file in it" if stat.S_ISDIR(mode) else "is not a regular file"}.'
        )
    if not os.access(path, os.R_OK):
        raise ValueError(f'the input "{text}" cannot be read: no permission.')
    return text


def _check_pattern(folder: Path, pattern: str) -> None:
    files = matching(folder, pattern)
    if not files:
        raise ValueError(f'no file fits the pattern "{pattern}"; it is relative to the recipe\'s folder, ** is any folder.')
    if len(files) > MAX_CASES:
        raise ValueError(f'{len(files)} files fit the pattern "{pattern}"; the limit is {MAX_CASES}.')
    for name, path in files:
        if re.search(r"[,=\[\]\s]", name):
            raise ValueError(f'the file "{path}" cannot name a case: rename it without commas, brackets, = and white space.')


def check_file(text: str, info: ValidationInfo) -> str:
    """Check that a file of a recipe is there. ValueError if it is not."""
    folder = setting(info).folder
    try:
        missing = folder is not None and not (folder / text).is_file()
    except OSError:  # its name is too long
        missing = True
    if missing:
        raise ValueError(f'there is no file "{text}"; paths are relative to the recipe\'s folder.')
    return text
