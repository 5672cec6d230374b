"""A folder written in one step."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from triage.execution.process import is_running

_HERE = -100  # AT_FDCWD: paths start from the working folder
_EXCHANGE = 2  # RENAME_EXCHANGE


def write_folder(folder: Path, files: Mapping[str, str | bytes], runnable: Collection[str] = ()) -> None:
    """Write `files` (name -> content) as the whole of a folder. Whoever looks, and whoever kills this process at any moment,
    finds the old folder or the new one. runnable: names of scripts. OSError when it cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        for name, content in files.items():
            (draft / name).write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
            (draft / name).chmod(0o755 if name in runnable else 0o644)
        if folder.exists():
            _exchange(draft, folder)
        else:
            draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _exchange(draft: Path, folder: Path) -> None:
    """Let two folders change their names. Where the system cannot do that at once, the old one is put aside first."""
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
    """Remove what processes that were killed left behind."""
    for left in folder.parent.glob(f".{folder.name}.*"):
        owner = left.name.removeprefix(f".{folder.name}.")
        if owner.isdigit() and not is_running(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
