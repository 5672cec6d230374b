"""Writes a folder in one step."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from triage.execution.process import is_running

_HERE = -100  # AT_FDCWD: paths start from the working folder
_EXCHANGE = 2  # RENAME_EXCHANGE


def write_folder(folder: Path, files: Mapping[str, str | bytes], executable: Collection[str] = ()) -> None:
    """Replace a folder by `files` (name -> content). At any moment the old or the new folder is complete.

    executable: names of scripts. Raises OSError when the folder cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        for name, content in files.items():
            (draft / name).write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
            (draft / name).chmod(0o755 if name in executable else 0o644)
        if folder.exists():
            _exchange(draft, folder)
        else:
            draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _exchange(draft: Path, folder: Path) -> None:
    """Exchange two folders. Where the system cannot do that in one step, move the old one aside first."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename and rename(_HERE, os.fsencode(draft), _HERE, os.fsencode(folder), _EXCHANGE) == 0:
        return
    aside = draft.with_name(f"{draft.name}.old")
    folder.rename(aside)
    try:
        draft.rename(folder)
    except BaseException:
        aside.rename(folder)
        raise
    aside.rename(draft)


def _sweep(folder: Path) -> None:
    """Remove the drafts of killed processes."""
    for left in folder.parent.glob(f".{folder.name}.*"):
        owner = left.name.removeprefix(f".{folder.name}.")
        if owner.isdigit() and not is_running(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
