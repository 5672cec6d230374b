"""The result cache: the facts of every task by its key, in one SQLite file that several
processes share.

A damaged row is a miss, and a file that SQLite calls corrupt is set aside and started
anew: whatever is lost is computed again.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from triage.execution.record import Record, parse_record, record_json, record_of_row
from triage.model.errors import EnvironmentFailure
from triage.model.execution import utf8
from triage.toolchains.home import disk_errors

T = TypeVar("T")

SCHEMA_VERSION = 1
_DAMAGED = ".damaged-"
_PATIENCE = 60.0  # seconds to wait for another process that writes

_SCHEMA = """
CREATE TABLE IF NOT EXISTS probes (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  key TEXT NOT NULL,
  case_name TEXT NOT NULL,
  toolchain TEXT NOT NULL,
  at TEXT NOT NULL,
  peak_rss_mb REAL NOT NULL,
  facts BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS probes_key ON probes (key, id);
CREATE INDEX IF NOT EXISTS probes_case ON probes (case_name, id);
"""
# Numbers always grow, also from a cache that was set aside to the one that follows it:
# the first one is a time.
_INSERT = (
    "INSERT OR REPLACE INTO probes (id, digest, key, case_name, toolchain, at, "
    "peak_rss_mb, facts) VALUES"
    " ((SELECT coalesce(max(id) + 1, ?) FROM probes), ?, ?, ?, ?, ?, ?, ?)"
)
_NEWEST = (
    "case_name = ? AND id IN (SELECT max(id) FROM probes WHERE case_name = ? GROUP BY "
    "toolchain)"
)
# SQLITE_ERROR is "no such column" and the like: a damaged schema, because the
# statements themselves are known to be right.
_CORRUPT = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_FORMAT,
)


class ResultCache:
    """The cache. Every call is one transaction; a kill at any moment loses at most the
    one in progress.
    """

    def __init__(
        self,
        path: Path,
        warn: Callable[[str], None] = lambda _: None,
        *,
        fresh: bool = False,
    ) -> None:
        """Open or create the file. EnvironmentFailure if it cannot be written, or a
        newer version of the program wrote it.

        If `fresh`, only what is added from now on is found.
        """
        self._path, self._warn = path.resolve(), warn
        self._lock = threading.Lock()
        self._is_damaged = False
        self._db: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None  # the file that is open
        newest = self._rows("SELECT coalesce(max(id), 0) FROM probes")[0][0]
        # the number of the last record to ignore; unlike a date it always grows
        if fresh:
            self._after = int(newest)
        else:
            self._after = 0

    def find(self, key: str) -> Record | None:
        """Return the newest intact record of a key, or None; see `find_all`."""
        return self.find_all(key)[0]

    def find_all(self, *keys: str) -> list[Record | None]:
        """Return for each key its newest intact record, or None."""
        places = ", ".join("?" * len(keys))
        newest: dict[str, Record] = {}
        condition = f"key IN ({places}) AND id > ?"
        for record in self._records(condition, *keys, self._after):  # newest first
            newest.setdefault(record.key, record)
            if len(newest) == len(keys):
                break
        return [newest.get(key) for key in keys]

    def records(self, key: str) -> list[Record]:
        """Return the intact records of a key, the newest first."""
        records = self._records("key = ?", key)
        return [record for record in records if record.key == key]

    def newest_of(self, case_name: str) -> tuple[Record, ...]:
        """Return the newest record of a case of this name on each toolchain, the latest
        first.
        """
        return tuple(self._records(_NEWEST, utf8(case_name), utf8(case_name)))

    def add(self, *records: Record) -> None:
        """Append records. One that could not be read back is not added, with a
        warning.
        """
        rows: list[tuple[object, ...]] = []
        for record in records:
            try:
                data = record_json(record).encode()
                parse_record(data)
            except ValueError as error:
                self._warn(
                    f"the result of {record.case_name} on {record.toolchain} is not "
                    f"cached: {error}"
                )
                continue
            about = (
                record.key,
                utf8(record.case_name),
                utf8(record.toolchain),
                record.at,
                record.execution.peak_rss_mb,
            )
            rows.append(
                (
                    int(time.time() * 1e6),
                    sha256(data).hexdigest(),
                    *about,
                    zlib.compress(data, 6),
                )
            )

        def insert(db: sqlite3.Connection) -> None:
            with db:
                db.execute("BEGIN IMMEDIATE")
                db.executemany(_INSERT, rows)

        self._run(insert)

    def last_peak_mb(self, case_name: str) -> float | None:
        """Return the memory that a case used when it last ran, on any toolchain, in
        MiB; None if it never ran.
        """
        query = (
            "SELECT peak_rss_mb FROM probes WHERE case_name = ? "
            "ORDER BY id DESC LIMIT 1"
        )
        for (peak,) in self._rows(query, utf8(case_name)):
            if isinstance(peak, float) and peak >= 0:
                return peak
        return None

    def count(self) -> int:
        return int(self._rows("SELECT count(*) FROM probes")[0][0])

    def close(self) -> None:
        """Close the file, and report once if rows were damaged."""
        with self._lock:
            self._close()
        if self._is_damaged:
            self._warn("damaged rows in the result cache were counted as unknown")
            self._is_damaged = False

    def _records(self, condition: str, *values: object) -> Iterator[Record]:
        """Yield the intact records that meet a condition, the newest first."""
        query = f"SELECT digest, facts FROM probes WHERE {condition} ORDER BY id DESC"  # noqa: S608 - no user text
        for digest, facts in self._rows(query, *values):
            try:
                yield record_of_row(digest, facts)
            except ValueError:
                self._is_damaged = True

    def _rows(self, query: str, *values: object) -> Sequence[Any]:
        return self._run(lambda db: db.execute(query, values).fetchall())

    def _run(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of an action. A corrupt file is set aside, and the action
        runs on a new one.
        """
        with self._lock, disk_errors(f"open the result cache {self._path}"):
            try:
                try:
                    return action(self._db or self._connect())
                except sqlite3.DatabaseError as error:
                    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                    # by its header
                    is_read_only = code == sqlite3.SQLITE_READONLY and os.access(
                        self._path, os.W_OK
                    )
                    if code not in _CORRUPT and not is_read_only:
                        raise
                self._set_aside()
                return action(self._connect())
            except sqlite3.Error as error:
                raise EnvironmentFailure(
                    f"the result cache {self._path} cannot be used: {error}"
                ) from error

    def _connect(self) -> sqlite3.Connection:
        """Open the file, keep the connection and return it; create missing tables."""
        self._db = db = sqlite3.connect(
            self._path, timeout=_PATIENCE, check_same_thread=False, isolation_level=None
        )
        self._opened = _identity(self._path)
        # a damaged row must not hide the others
        db.text_factory = lambda data: data.decode("utf-8", "replace")
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        # the number is damaged, and other bytes may be
        if version > SCHEMA_VERSION and _has_own_tables(db):
            error = sqlite3.DatabaseError(
                f"its tables are not those of schema {version}"
            )
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
        if version > SCHEMA_VERSION:
            raise EnvironmentFailure(
                f"a newer version of triage wrote {self._path} (schema {version}; "
                f"this version supports {SCHEMA_VERSION}): update triage, or use "
                "another TRIAGE_HOME"
            )
        if version != SCHEMA_VERSION:
            # SQLite does not wait for others that change the journal mode
            with self._file_lock():
                db.execute("PRAGMA journal_mode=WAL")
                db.executescript(f"{_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION};")
        db.execute("PRAGMA synchronous=NORMAL")
        return db

    @contextmanager
    def _file_lock(self) -> Iterator[None]:
        """Let one process at a time create or set aside the file."""
        with self._path.with_name(f"{self._path.name}.lock").open("wb") as lock:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db = None

    def _set_aside(self) -> None:
        with self._file_lock():
            if _identity(self._path) == self._opened:
                target = self._path.with_name(
                    f"{self._path.name}{_DAMAGED}{datetime.now():%Y-%m-%dT%H%M%S.%f}"
                )
                self._path.replace(target)
                for suffix in ("-wal", "-shm"):
                    self._path.with_name(self._path.name + suffix).unlink(
                        missing_ok=True
                    )
                self._warn(
                    f"the result cache is damaged; it is now {target}, and a new one "
                    "is used: cases are compiled again"
                )
        self._close()  # only now: SQLite does not write to a file that was renamed


def _has_own_tables(db: sqlite3.Connection) -> bool:
    """Return whether a file has the tables of this version's schema, or none."""
    with closing(sqlite3.connect(":memory:")) as own:
        own.executescript(_SCHEMA)
        tables, expected = (
            each.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall()
            for each in (db, own)
        )
    return tables in ([], expected)


def set_aside_files(path: Path) -> list[Path]:
    """Return the files that were set aside as damaged, the oldest first."""
    return sorted(path.parent.glob(f"{path.name}{_DAMAGED}*"))


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another that took its name; None without a file."""
    with suppress(OSError):
        stat = path.stat()
        return stat.st_dev, stat.st_ino
    return None
