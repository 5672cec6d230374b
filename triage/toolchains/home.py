"""The one folder that holds toolchains, inputs and evidence: `TRIAGE_HOME`."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

import platformdirs

from triage.model.errors import EnvironmentFailure

_REASONS = {
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.ENOTDIR: "a part of the path is a file",
    errno.EEXIST: "there is a file in its place",
    errno.ENOENT: "there is no such folder and it cannot be made",
}


def home_path() -> Path:
    """`TRIAGE_HOME`, or the platform's cache folder. Not created here."""
    named = os.environ.get("TRIAGE_HOME")
    return Path(named).expanduser().absolute() if named else Path(platformdirs.user_cache_dir("triage", appauthor=False))


@contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turn the errors of a full, read-only or forbidden disk into an EnvironmentFailure that says what was being done."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0)
        if reason is None:
            raise
        place = f" ({error.filename})" if error.filename else ""
        raise EnvironmentFailure(f"cannot {what}: {reason}{place}") from error


def open_home() -> Path:
    """The home folder, created if need be. EnvironmentFailure when it cannot be written."""
    home = home_path()
    with disk_errors(f"use {home} as TRIAGE_HOME"):
        home.mkdir(parents=True, exist_ok=True)
        probe = home / f".writable-{os.getpid()}"
        probe.write_bytes(b"x")
        probe.unlink()
    return home


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a file in one step, its folder made if need be: a reader sees the old text or the new one, whichever thread
    or process writes at the same time.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode("utf-8") if isinstance(text, str) else text
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as draft:
        try:
            draft.write(data)
            draft.flush()
            Path(draft.name).chmod(0o644)  # drafts are made for their owner alone
            Path(draft.name).replace(path)
        except BaseException:
            Path(draft.name).unlink(missing_ok=True)
            raise
