"""Keep files that are made once for each content: each gets its place in one step, and a checksum next to it."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from triage.model.content import file_sha256
from triage.toolchains.home import disk_errors, temporary_folder, write_whole

T = TypeVar("T")
_CHECKSUM = ".sha256"  # suffix of the file with the checksum


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file or folder to use, and the SHA-256 of its bytes."""

    path: Path
    digest: str


@dataclass
class KeptFiles:
    """Makes files that are missing or damaged. Safe for several threads and processes."""

    _locks: defaultdict[str, threading.Lock] = field(default_factory=lambda: defaultdict(threading.Lock))

    def get(self, target: Path, make: Callable[[Path], Path | T], *, fresh: bool = False) -> Prepared | T:
        """Return what is kept at `target`, made if need be.

        make: gets an empty folder; returns the file or folder that it made there, or why it cannot; fresh: make it again.
        """
        with self._locks[str(target)]:
            if not fresh and (digest := verified(target)) is not None:
                return Prepared(target, digest)
            with disk_errors("keep a file"):
                target.parent.mkdir(parents=True, exist_ok=True)
                with temporary_folder(target.parent, prefix=".making-") as scratch:
                    made = make(scratch)
                    return Prepared(target, _keep(made, target)) if isinstance(made, Path) else made


def verified(target: Path) -> str | None:
    """Return the digest of a kept file or folder, if it is there and intact."""
    try:
        digest = _digest(target)
        return digest if target.with_suffix(_CHECKSUM).read_bytes() == f"{digest}\n".encode() else None
    except OSError:
        return None


def digest_of(file: Path, *, is_kept: bool) -> str:
    """Return the digest of a file. That of a kept one, which may be large, is in its checksum."""
    return file.with_suffix(_CHECKSUM).read_text("ascii").strip() if is_kept else file_sha256(file)


def _keep(made: Path, target: Path) -> str:
    digest = _digest(made)
    write_whole(target.with_suffix(_CHECKSUM), f"{digest}\n")
    if made.is_dir():
        if verified(target) is not None:  # another process was faster
            return digest
        with suppress(FileNotFoundError):
            target.rename(made.with_name("damaged"))
    made.replace(target)
    return digest


def _digest(path: Path) -> str:
    if not path.is_dir():
        return file_sha256(path)
    lines = [f"{file.name} {file_sha256(file)}\n" for file in sorted(path.iterdir())]
    return sha256("".join(lines).encode()).hexdigest()
