"""SQLite files in TRIAGE_HOME: read their schema version without a write, wait for locks, set corrupt ones aside."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from triage.model.errors import EnvironmentFailure, Interrupted
from triage.toolchains.home import wait_for_lock

T = TypeVar("T")

#: Seconds that SQLite itself may wait for a lock. A stop cannot interrupt this wait.
BUSY_TIMEOUT = 0.05
_PATIENCE = 60.0  # seconds to wait for another process that writes

# SQLITE_ERROR is "no such column" and the like: a damaged schema, because the statements themselves are known to be right.
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_FORMAT)


class CorruptFile(sqlite3.DatabaseError):
    """A file that SQLite would open, and lose what is in it."""


def is_corrupt(error: sqlite3.Error, path: Path) -> bool:
    """Return whether an error means that the content of a file is damaged, and not that it cannot be reached."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_READONLY:  # by its header
        return os.access(path, os.W_OK)
    return isinstance(error, CorruptFile) or code & 0xFF in _CORRUPT


def when_free(action: Callable[[], T], stop: threading.Event) -> T:
    """Return the result of an action, which is repeated as long as another process locks the database. Use connections with
    a `BUSY_TIMEOUT`.

    Raises:
        Interrupted: `stop` is set meanwhile.
        sqlite3.OperationalError: the database is locked for a minute.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            is_locked = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not is_locked or time.monotonic() > deadline:
                raise
        if stop.is_set():
            raise Interrupted("stopped")


@contextmanager
def exclusive(path: Path, stop: threading.Event) -> Iterator[None]:
    """Let one process at a time open or set aside a file. Interrupted when `stop` is set while another one does.

    A process that opened a file between the renames of the file and of its write-ahead log would mix two databases.
    """
    with path.with_name(f"{path.name}.lock").open("wb") as lock:
        with suppress(OSError):  # a file system without locks
            wait_for_lock(lock, fcntl.LOCK_EX, stop)
        yield


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Open a database that nothing is written to. Without a write-ahead log, no file is created beside it either."""
    mode = "mode=ro" if _log_of(path).exists() else "immutable=1"
    return sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True, timeout=BUSY_TIMEOUT, isolation_level=None)


def check_version(path: Path, newest: int, advice: str) -> int:
    """Return the schema version of a database, 0 if there is none yet. Nothing is written.

    Raises:
        EnvironmentFailure: the version is above `newest`.
        sqlite3.DatabaseError: the file is not a database.
    """
    try:
        is_empty = path.stat().st_size == 0
    except FileNotFoundError:
        return 0
    if is_empty:
        if _log_of(path).exists() and _log_of(path).stat().st_size:
            raise CorruptFile("the file is empty, but its write-ahead log is not")
        return 0
    with closing(connect_read_only(path)) as db:
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > newest:
        raise EnvironmentFailure(
            f"a newer version of triage wrote {path} (schema {version}; this version supports {newest}): {advice}"
        )
    return version


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another that took its name; None when there is no file."""
    try:
        stat = os.stat(path)  # noqa: PTH116 - twice as fast as the method, and called for every lookup
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def set_aside(path: Path, target: Path) -> None:
    """Rename a database and its write-ahead log, within `exclusive`. A kill at any moment leaves both under one name."""
    log, log_target = _log_of(path), _log_of(target)
    log_target.unlink(missing_ok=True)
    with suppress(OSError):  # no log, or a file system without links
        log_target.hardlink_to(log)
    path.replace(target)
    if log.exists() and not log_target.exists():
        log.rename(log_target)
    for suffix in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")
