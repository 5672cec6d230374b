"""Files that are made once for each content. Next to each one lies its checksum."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from triage.model.content import file_sha256
from triage.toolchains.home import (
    disk_errors,
    temporary_folder,
    write_whole,
)

T = TypeVar("T")
_CHECKSUM = ".sha256"  # suffix of the file with the checksum


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file or folder to use, and the SHA-256 of its bytes."""

    path: Path
    digest: str
    state: str = ""
    """What changes when it is written, if others may write it."""
    mentioned: tuple[Path, ...] = ()
    """The files next to it that it mentions."""


@dataclass
class KeptFiles:
    """Makes files that are missing or damaged. Safe for several threads and
    processes.
    """

    _locks: defaultdict[str, threading.Lock] = field(
        default_factory=lambda: defaultdict(threading.Lock)
    )

    def get(self, target: Path, make: Callable[[Path], Path | T]) -> Prepared | T:
        """Return the file or folder at `target`, made if need be.

        `make` gets an empty folder and returns what it made there. If it returns no
        path, nothing is kept and that value is returned.
        """
        with self._locks[str(target)]:
            digest = _digest_if_intact(target)
            if digest is not None:
                with suppress(OSError):  # the home cannot be written
                    os.utime(target.with_suffix(_CHECKSUM))  # it was used now
                return Prepared(target, digest)
            with disk_errors("keep a file"):
                target.parent.mkdir(parents=True, exist_ok=True)
                with temporary_folder(target.parent, prefix=".making-") as scratch:
                    made = make(scratch)
                    if isinstance(made, Path):
                        return Prepared(target, _keep(made, target))
                    return made


def _digest_if_intact(target: Path) -> str | None:
    """Return the digest of a kept file or folder if it is there and intact."""
    with suppress(OSError, ValueError):
        digest = _digest(target)
        if target.with_suffix(_CHECKSUM).read_text("utf-8") == digest:
            return digest
    return None


def _keep(made: Path, target: Path) -> str:
    digest = _digest(made)
    if _digest_if_intact(target) == digest:
        return digest  # a sealed program may be about to open it
    # first, so that what is at `target` is intact as soon as it is there
    write_whole(target.with_suffix(_CHECKSUM), digest)
    try:
        made.replace(target)
    except OSError:
        if not made.is_dir():
            raise
        # something is there: of another process that was faster, or damaged
        if _digest_if_intact(target) is None:
            with suppress(FileNotFoundError):
                target.rename(made.with_name("damaged"))
            made.replace(target)
    return digest


def _digest(path: Path) -> str:
    if not path.is_dir():
        return file_sha256(path)
    lines = [f"{file.name} {file_sha256(file)}\n" for file in sorted(path.iterdir())]
    return sha256("".join(lines).encode()).hexdigest()
