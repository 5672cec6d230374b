"""Read files that somebody else may have written, such as recipes, reproducers, nights
and what a clone holds.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def check_regular(path: Path, limit: int, folder: Path | None = None) -> Path:
    """Return the real path of a regular file with at most `limit` bytes in `folder`
    (default: its own folder).

    A link may lead to another file in the folder, and not out of it: errors print a
    part of what they are about, which must not be a private file. Nothing is opened,
    because that waits for the writer of a pipe.

    Raises OSError for another file, and if there is none.
    """
    place = path
    if folder or path.is_symlink():
        root = Path(os.path.realpath(folder or path.parent))
        place = Path(os.path.realpath(path))
        if not place.is_relative_to(root):
            problem = "it is a link that leaves its folder"
            raise OSError(errno.EACCES, problem, str(path))
    status = place.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    if status.st_size > limit:
        message = f"it has more than {limit >> 20} MiB"
        raise OSError(errno.EFBIG, message, str(path))
    return place


def read_bytes(path: Path, limit: int, folder: Path | None = None) -> bytes:
    """Return the content of a file. Raises OSError if it does not exist or does not
    pass `check_regular`.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    opened = os.open(check_regular(path, limit, folder), flags)
    with os.fdopen(opened, "rb") as source:
        return source.read(limit)


def is_regular(path: Path) -> bool:
    """Return whether a program that this one started left a regular file at a path, and
    no link, pipe or folder.
    """
    return regular_size(path) is not None


def regular_size(path: Path) -> int | None:
    """Return the size of a regular file; None for anything else."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
