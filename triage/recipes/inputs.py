"""The file a recipe compiles: of a kind its compiler takes, and there."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from pydantic import ValidationInfo

from triage.model.case import InputKind
from triage.recipes.fields import advice, as_text, setting
from triage.recipes.files import neighbours
from triage.recipes.matrix import has_placeholder
from triage.recipes.suggestions import did_you_mean
from triage.recipes.words import Family


def check_input(value: Any, info: ValidationInfo) -> str:
    """The input as written. Only a setting with a folder has it looked for on the disk."""
    text, known = as_text(value), setting(info)
    path = Path(text)
    if has_placeholder(path.suffix):
        return text
    if known.family is not None:
        _check_kind(text, path.suffix, known.family)
    if known.folder is not None and not has_placeholder(text):
        _check_there(known.folder / path, text, known.family)
    return text


def locate(folder: Path, text: str) -> Path:
    """The absolute path of an input written relative to `folder`, tidied where that leads to the same file."""
    path = (folder / text).absolute()
    tidy = Path(os.path.normpath(path))
    # Behind a linked folder, `..` is the parent of what the link leads to, which tidying cannot know.
    return tidy if tidy.exists() and tidy.samefile(path) else path


def _check_kind(text: str, suffix: str, family: Family) -> None:
    if family.kind_of(suffix) is not None:
        return
    kinds = ", ".join(family.inputs)
    generator = " (a generator that prints the input)" if family.kind_of(".py") is InputKind.GENERATOR else ""
    guess = did_you_mean(suffix, family.inputs) if suffix else "."
    ending = f'ends in "{suffix}"' if suffix else "has no suffix"
    raise advice(f'the input "{text}" {ending}, which {family.name} does not take{guess} Kinds: {kinds}{generator}.')


def _check_there(path: Path, text: str, family: Family | None) -> None:
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


def _absence(path: Path, family: Family | None) -> str:
    if path.is_symlink():
        return f'is a link to "{path.readlink()}", which does not exist.'
    if not path.parent.is_dir():
        return "does not exist, nor does its folder; paths count from the recipe's own folder."
    fitting = (name for name in neighbours(path) if family is None or family.kind_of(Path(name).suffix) is not None)
    guess = did_you_mean(path.name, fitting)
    return f"does not exist{guess} Paths count from the recipe's own folder."
