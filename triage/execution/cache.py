"""The result cache: the facts of every task by its key, in one SQLite file that several
processes share.

A damaged row is a miss. A file that SQLite calls corrupt is deleted, one that another
version of this program wrote is emptied: whatever is lost is computed again.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from triage.model.errors import EnvironmentFailure
from triage.model.execution import Execution, utf8
from triage.recipes.document import schema_of
from triage.toolchains.home import disk_errors, lock_file

_VERSION = 4  # of the tables
_SECONDS_TO_WRITE = 60.0  # that another process may take

_SCHEMA = f"""
BEGIN EXCLUSIVE;
DROP TABLE IF EXISTS probes;
CREATE TABLE probes (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL,
  case_name TEXT NOT NULL,
  toolchain TEXT NOT NULL,
  at TEXT NOT NULL,
  facts BLOB NOT NULL
);
CREATE INDEX probes_key ON probes (key, id);
CREATE INDEX probes_case ON probes (case_name, id);
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_INSERT = (
    "INSERT INTO probes (key, case_name, toolchain, at, facts) VALUES (?, ?, ?, ?, ?)"
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
_LARGEST_RECORD = 256 << 20  # bytes of JSON


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Record:
    """The facts of one task. They are judged on every reading, so that better rules
    apply to old facts.
    """

    key: str
    case_name: str
    toolchain: str
    execution: Execution
    at: str = field(default_factory=_now)


def record_json(record: Record) -> str:
    """Return the record as JSON. Lone surrogates, which UTF-8 cannot hold, become
    `?`.
    """
    return utf8(json.dumps(asdict(record), ensure_ascii=False))


class ResultCache:
    """The cache. Every call is one transaction; a kill at any moment loses at most the
    one in progress.
    """

    def __init__(
        self, path: Path, warn: Callable[[str], None] = lambda _: None
    ) -> None:
        """The file is opened or created when it is needed. Each call raises
        EnvironmentFailure if it cannot be used.
        """
        self._path = path.resolve()
        self._lock_path = Path(f"{self._path}.lock")
        self._warn = warn
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None

    def find_all(self, *keys: str) -> list[Execution | None]:
        """Return for each key the newest execution, or None."""
        places = ", ".join("?" * len(keys))
        records = self._find_records(f"key IN ({places})", *keys)
        newest = {record.key: record.execution for record in reversed(records)}
        return [newest.get(key) for key in keys]

    def newest_of(self, case_name: str) -> tuple[Record, ...]:
        """Return the newest record of a case of this name on each toolchain, the latest
        first.
        """
        return tuple(self._find_records(_NEWEST, utf8(case_name), utf8(case_name)))

    def add(self, *records: Record) -> None:
        """Append records."""
        rows = []
        for record in records:
            case = utf8(record.case_name)
            toolchain = utf8(record.toolchain)
            facts = zlib.compress(record_json(record).encode(), 6)
            rows.append((record.key, case, toolchain, record.at, facts))
        if rows:
            self._execute(_INSERT, rows=rows)

    def _find_records(self, condition: str, *values: object) -> list[Record]:
        """Return the intact records that meet a condition, the newest first."""
        query = f"SELECT facts FROM probes WHERE {condition} ORDER BY id DESC"  # noqa: S608 - no user text
        records = []
        for (facts,) in self._execute(query, *values):
            # a damaged row, of which zlib has a checksum, is a miss
            with suppress(ValueError, TypeError, zlib.error):
                data = zlib.decompressobj().decompress(facts, _LARGEST_RECORD)
                records.append(schema_of(Record).validate_json(data, strict=True))
        return records

    def _execute(
        self, statement: str, *values: object, rows: Sequence[Any] = ()
    ) -> Sequence[Any]:
        """Return what a statement finds, or run it in one transaction for each of
        several rows. A corrupt file is deleted, and the statement runs on a new one.
        """
        with self._lock, disk_errors(f"open the result cache {self._path}"):
            for is_last in (False, True):
                try:
                    db = self._db or self._connect()
                    with db:
                        if rows:
                            return db.executemany(statement, rows).fetchall()
                        return db.execute(statement, values).fetchall()
                except sqlite3.Error as error:
                    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                    if is_last or code not in _CORRUPT:
                        problem = f"the result cache {self._path} cannot be used"
                        raise EnvironmentFailure(f"{problem}: {error}") from error
                    self._delete()
        raise AssertionError

    def _connect(self) -> sqlite3.Connection:
        """Open the file, keep the connection and return it; create missing tables."""
        self._db = db = sqlite3.connect(
            self._path,
            timeout=_SECONDS_TO_WRITE,
            check_same_thread=False,
        )
        # a damaged row must not hide the others
        db.text_factory = lambda data: data.decode("utf-8", "replace")
        [(version,)] = db.execute("PRAGMA user_version").fetchall()
        if version != _VERSION:
            # SQLite does not wait for others that change the journal mode
            with lock_file(self._lock_path):
                db.execute("PRAGMA journal_mode=WAL")
                # another process may have done it meanwhile
                if db.execute("PRAGMA user_version").fetchall() != [(_VERSION,)]:
                    db.executescript(_SCHEMA)
        db.execute("PRAGMA synchronous=NORMAL")
        return db

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._db is not None:
                self._db.close()
            self._db = None

    def _delete(self) -> None:
        """Delete the file."""
        with lock_file(self._lock_path):
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        self._warn(
            f"the result cache {self._path} was damaged and is deleted: cases are "
            "compiled again"
        )
        if self._db is not None:
            # only now: SQLite does not write to a file that is deleted
            self._db.close()
            self._db = None
