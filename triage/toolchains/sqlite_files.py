"""SQLite files in TRIAGE_HOME: versions, migrations, waiting for locks, setting corrupt files aside."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from triage.model.errors import EnvironmentFailure, Interrupted
from triage.toolchains.home import disk_errors, wait_for_lock

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
        return _version_of(db, path, newest, advice)


def _version_of(db: sqlite3.Connection, path: Path, newest: int, advice: str) -> int:
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > newest:
        raise EnvironmentFailure(
            f"a newer version of triage wrote {path} (schema {version}; this version supports {newest}): {advice}"
        )
    return version


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Make the changes of a block all at once; none of them after an error."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


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


Migration = Callable[[sqlite3.Connection, Path], None]


@dataclass(frozen=True, slots=True)
class Schema:
    """What a database contains. name: as messages call it; advice: what helps with a file of a newer version.

    migrations: the one at index N changes a file of schema N to schema N + 1; it also gets the home folder.
    probe: a statement that fails where the schema is damaged; keep_damaged: whether damaged files are kept when another
    one follows.
    """

    name: str
    migrations: tuple[Migration, ...]
    probe: str
    advice: str
    keep_damaged: bool = False


class Database:
    """A database in TRIAGE_HOME. Safe to use from several threads and processes; a corrupt file is renamed to
    `NAME.corrupt`, and a new one is started.
    """

    def __init__(
        self, path: Path, schema: Schema, stop: threading.Event | None = None, warn: Callable[[str], None] = lambda _: None
    ) -> None:
        """`stop`: ends waiting for other processes, with Interrupted. `warn` reports a file that is set aside."""
        self.path = path
        self._schema = schema
        self._stop = stop or threading.Event()
        self._warn = warn
        self._is_ready = False

    def run(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """The result of `action` on a connection of its own; a corrupt file is replaced and the action run again.

        Raises:
            EnvironmentFailure: the file cannot be read or written, or a newer version of the program wrote it.
            Interrupted: the stop is set while another process writes.
        """
        try:
            try:
                return when_free(lambda: self._run(action), self._stop)
            except sqlite3.DatabaseError as error:
                if not is_corrupt(error, self.path):
                    raise
                when_free(self._replace_corrupt, self._stop)
                return when_free(lambda: self._run(action), self._stop)
        except sqlite3.DatabaseError as error:
            raise EnvironmentFailure(f"cannot use the {self._schema.name} {self.path}: {error}") from error

    def _run(self, action: Callable[[sqlite3.Connection], T]) -> T:
        if not (self._is_ready and self.path.exists()):
            self._migrate()
        with closing(self._connect()) as db:
            return action(db)

    def _connect(self) -> sqlite3.Connection:
        # One connection a call, so that threads and forked processes share nothing. It takes less than 1 ms.
        db = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT, isolation_level=None)
        db.text_factory = lambda data: data.decode("utf-8", "replace")  # a damaged value is read as None
        db.execute("PRAGMA synchronous=NORMAL")
        return db

    def _migrate(self) -> None:
        newest = len(self._schema.migrations)
        with disk_errors(f"create {self.path}"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(self._connect()) as db:
            if db.execute("PRAGMA user_version").fetchone()[0] != newest:
                with transaction(db):
                    version = _version_of(db, self.path, newest, self._schema.advice)  # another process may have migrated it
                    for migrate in self._schema.migrations[version:]:
                        migrate(db, self.path.parent)
                    db.execute(f"PRAGMA user_version = {newest}")
        self._is_ready = True

    def _replace_corrupt(self) -> None:
        self._is_ready = False
        path = self.path.resolve()
        with disk_errors(f"replace {path}"), exclusive(path, self._stop):
            try:
                with closing(self._connect()) as db:
                    if db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
                        return  # another process replaced it and has not created the tables yet
                    db.execute(self._schema.probe)
                    if db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",):
                        return  # another process replaced it meanwhile
            except sqlite3.DatabaseError as error:
                if not is_corrupt(error, path):
                    raise
            target, number = path.with_name(f"{path.name}.corrupt"), 1
            while self._schema.keep_damaged and target.exists():
                number += 1
                target = path.with_name(f"{path.name}.corrupt-{number}")
            set_aside(path, target)
            self._warn(f"the {self._schema.name} {path} is damaged; it is now {target}, and a new one is in use")


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")
