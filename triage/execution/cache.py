"""The evidence store: the facts of every run by content, in one append-only SQLite file that several processes share."""

from __future__ import annotations

import json
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from triage.classify import FailingPass
from triage.model.errors import EnvironmentFailure, Problem
from triage.model.execution import Count, Execution, Finite, utf8
from triage.toolchains.home import disk_errors
from triage.toolchains.sqlite_files import (
    BUSY_TIMEOUT,
    CorruptFile,
    check_version,
    exclusive,
    file_identity,
    is_corrupt,
    set_aside,
    transaction,
    when_free,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

SCHEMA_VERSION = 1
DAMAGED = ".damaged-"
_LARGEST_RECORD = 256 << 20  # bytes of JSON
_LEAST_NUMBER = -(1 << 63)  # recovered rows have numbers below 1
_PROBLEMS = 20  # unreadable lines of an imported file that are named

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
#: The script at index N changes a file of schema N to schema N + 1. Files of versions without schema numbers have schema 0.
_MIGRATIONS = (_SCHEMA,)
_INSERT = (
    "INSERT OR IGNORE INTO probes (id, digest, key, case_name, toolchain, at, peak_rss_mb, facts)"
    " VALUES ({}, ?, ?, ?, ?, ?, ?, ?)"
)
_BY_ID = "SELECT id, digest, facts FROM probes WHERE id = ?"
# Numbers always grow, also from a store that was set aside or removed to the one that follows it: the first number of a store
# is the time in microseconds, and no store gets a million results a second. NULL lets SQLite take the next number.
_NEWEST = _INSERT.format(
    "(SELECT CASE WHEN coalesce(max(id), 0) < 1 THEN CAST((julianday() - 2440587.5) * 86400e6 AS INTEGER) END FROM probes)"
)
_OLDEST = _INSERT.format("(SELECT min(1, coalesce(min(id), 1)) - 1 FROM probes)")


@dataclass(frozen=True, slots=True)
class Record:
    """The facts of one probe. They are judged on every reading, so that better rules apply to old facts.

    key: content address of what was run; failing_pass: the pass that a second run named; runs: how many executions agree
    with this one; disagreements: how many ended differently; origin: the shared store that it was read from, empty for a result
    of this machine.
    """

    key: str
    case_name: str
    toolchain: str
    at: str
    execution: Execution
    failing_pass: FailingPass | None = None
    runs: Count = 1
    disagreements: Count = 0
    metrics: Mapping[str, Finite] = field(default_factory=dict)
    origin: str = ""


class SharedResults(Protocol):
    """The results of other machines. Problems are warned of and count as no answer."""

    def find(self, key: str) -> Record | None:
        """Return the result of a key; None when there is none."""

    def publish(self, record: Record) -> bool:
        """Write a result where there is none; return whether it was written."""


def key_of(identity: str, input_digest: str, options: Iterable[str], limits: tuple[float, int]) -> str:
    """Return the content address of a probe: compiler, input bytes, options without paths, limits (seconds, bytes)."""
    parts = [identity, input_digest, *options, *(f"{limit:g}" for limit in limits)]
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class ImportedLines:
    """How many lines of a file were added, were known, or could not be read; `problems` names the first of the last ones."""

    file: str
    added: int
    known: int
    skipped: int
    problems: tuple[Problem, ...]


class Evidence:
    """The store. Every call is one transaction; a kill at any moment loses at most the one in progress.

    A damaged row counts as not known. A file that SQLite calls corrupt is set aside, and a new one started.
    """

    def __init__(self, path: Path, warn: Callable[[str], None] = lambda _: None, stop: threading.Event | None = None) -> None:
        """Open or create the file. `warn` receives what the user must know about damage. `stop` ends waiting for other
        processes: then every call raises Interrupted.

        Raises:
            EnvironmentFailure: the file cannot be written, or a newer version of the program wrote it.
        """
        self._stop = stop or threading.Event()
        self._path = path.resolve()
        self._warn = warn
        self._lock = threading.Lock()
        self._damaged: set[int] = set()
        self.last_aside: Path | None = None
        self.shared: SharedResults | None = None  # asked for what is unknown here, and sent what is new
        self.trusted = False  # results of other machines count as own ones
        with self._errors():
            when_free(self._open, self._stop)

    def find(self, key: str, after: int = 0) -> Record | None:
        """Return the newest record of a key; None when it is damaged, or its number is not greater than an `after` above 0.

        A result that is unknown here is looked up in the shared store, unless `after` asks for new ones, and kept.
        """
        least = after if after > 0 else _LEAST_NUMBER
        rows = self._rows("SELECT id, digest, facts FROM probes WHERE key = ? AND id > ? ORDER BY id DESC LIMIT 1", key, least)
        known = next((record for _, record in self._intact(rows) if record.key == key), None)
        if known is None and not after and self.shared and (known := self.shared.find(key)):
            self.add(known)
        return replace(known, origin="") if known and self.trusted else known

    def all(self, key: str, most: int) -> list[Record]:
        """Return the newest intact records of a key, the newest first."""
        rows = self._rows("SELECT id, digest, facts FROM probes WHERE key = ? ORDER BY id DESC LIMIT ?", key, most)
        return [record for _, record in self._intact(rows) if record.key == key]

    def last_number(self) -> int:
        """Return the number of the newest record, at least 1; 0 when there is none. Unlike a date it always grows."""
        return int(self._rows("SELECT coalesce(max(max(id), 1), 0) FROM probes")[0][0])

    def add(self, record: Record) -> bool:
        """Append a record; return False when the same record is there already.

        A record that could not be read back is not added, with a warning.
        """
        try:
            readable = parse_record(record_json(record))
        except ValueError as error:
            self._warn(f"the result of {record.case_name} on {record.toolchain} is not cached: {error}")
            return False
        added = self._run(lambda db: _insert(db, _NEWEST, record_json(readable), readable))
        if self.shared and not record.origin:
            self.shared.publish(readable)
        return added

    def add_read(self, rows: Sequence[tuple[str, Record]]) -> None:
        """Append records, each with the JSON that it was read from, in one transaction."""

        def insert(db: sqlite3.Connection) -> None:
            with transaction(db):
                for text, record in rows:
                    _insert(db, _NEWEST, text, record)

        self._run(insert)
        for _, record in rows:
            if self.shared and not record.origin:
                self.shared.publish(record)

    def add_older(self, rows: Sequence[tuple[str, bytes]]) -> int:
        """Add the intact rows (digest, facts) of another file as older than all others; return how many were added.

        The newest row comes first.
        """

        def insert(db: sqlite3.Connection) -> int:
            with transaction(db):
                return sum(_insert(db, _OLDEST, *verified(digest, facts)) for digest, facts in rows)

        return self._run(insert)

    def last_peak_mb(self, case_name: str) -> float | None:
        """Return the memory that a case used when it last ran, on any toolchain, in MiB; None when that row is damaged."""
        name = utf8(case_name)
        rows = self._rows("SELECT id, digest, facts FROM probes WHERE case_name = ? ORDER BY id DESC LIMIT 1", name)
        return next((record.execution.peak_rss_mb for _, record in self._intact(rows) if record.case_name == name), None)

    def newest_of(self, case_name: str) -> tuple[Record, ...]:
        """Return the newest intact record of a case of this name on each toolchain, the latest first."""
        query, records = "SELECT id, toolchain FROM probes WHERE case_name = ? ORDER BY id DESC", dict[str, Record]()
        for number, name in self._rows(query, utf8(case_name)):
            if name not in records:
                intact = (record for _, record in self._intact(self._rows(_BY_ID, number)))
                records |= {record.toolchain: record for record in intact if record.toolchain == name}
        return tuple(records.values())

    def count(self) -> int:
        return int(self._rows("SELECT count(*) FROM probes")[0][0])

    def export(self) -> Iterator[str]:
        """Yield every intact record as one line of JSON, oldest first.

        Raises:
            EnvironmentFailure: the file was corrupt, so that records are missing.
        """
        last = _LEAST_NUMBER
        while rows := self._run(lambda db, last=last: _rows_after(db, last)):  # type: ignore[misc]
            yield from (text for text, _ in self._intact(rows))
            last = rows[-1][0]
        if self.last_aside:
            raise EnvironmentFailure(
                f"the export is incomplete, because {self.last_aside} is damaged; "
                "run `triage evidence check --repair` and export again"
            )

    def load(self, lines: Iterable[str], name: str) -> ImportedLines:
        """Append exported lines. Lines that cannot be read are skipped."""
        added = known = skipped = 0
        problems: list[Problem] = []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = parse_record(line)
            except ValueError as error:
                skipped += 1
                if len(problems) < _PROBLEMS:
                    problems.append(Problem(name, number, 1, f"not a cached result: {error}"))
                continue
            if self.add(record):
                added += 1
            else:
                known += 1
        return ImportedLines(name, added, known, skipped, tuple(problems))

    def collect(self, older: datetime) -> tuple[int, int]:
        """Remove the records made before a time and give their space back; return how many were removed and are left."""
        limit = older.astimezone(UTC).isoformat(timespec="seconds")
        removed = self._run(lambda db: db.execute("DELETE FROM probes WHERE at < ?", (limit,)).rowcount)
        with suppress(EnvironmentFailure):  # a disk that is too full for a copy: new records use the space
            self._run(lambda db: db.execute("VACUUM"))
        return removed, self.count()

    def start_anew(self) -> Path:
        """Set the file aside, start an empty one, and return the path of the old one."""
        with self._errors(), self._lock:
            when_free(self._replace, self._stop)
        assert self.last_aside
        return self.last_aside

    def close(self) -> None:
        """Close the file, and report once how many rows were damaged."""
        with self._lock:
            self._db.close()
        if self._damaged:
            rows = "1 cached result is" if len(self._damaged) == 1 else f"{len(self._damaged)} cached results are"
            self._warn(f"{rows} damaged and counted as unknown; `triage evidence check --repair` removes the damage")
            self._damaged.clear()

    def _intact(self, rows: Iterable[Any]) -> Iterator[tuple[str, Record]]:
        for number, digest, facts in rows:
            try:
                intact = verified(digest, facts)
            except ValueError:
                self._damaged.add(number)
                continue
            yield intact

    def _rows(self, query: str, *values: object) -> list[Any]:
        return self._run(lambda db: db.execute(query, values).fetchall())

    def _run(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of an action. A corrupt file is set aside, and the action runs on a new one."""
        with self._errors(), self._lock:
            return when_free(lambda: self._attempt(action), self._stop)

    def _attempt(self, action: Callable[[sqlite3.Connection], T]) -> T:
        if file_identity(self._path) != self._file:  # another process set it aside
            self._db.close()
            self._open()
        try:
            return action(self._db)
        except sqlite3.DatabaseError as error:
            if not is_corrupt(error, self._path):
                raise
            self._replace()
            return action(self._db)

    def _open(self) -> None:
        with disk_errors(f"open the evidence store {self._path}"), exclusive(self._path, self._stop):
            try:
                self._db = self._connect()
            except sqlite3.DatabaseError as error:
                if not is_corrupt(error, self._path):
                    raise
                self._set_aside()
                self._db = self._connect()
            self._file = file_identity(self._path)

    def _replace(self) -> None:
        with disk_errors(f"replace the evidence store {self._path}"), exclusive(self._path, self._stop):
            if file_identity(self._path) == self._file:
                self._set_aside()
        self._db.close()  # only now: SQLite does not write to a file that was renamed
        self._open()

    def _set_aside(self) -> None:
        target = stamped = self._path.with_name(f"{self._path.name}{DAMAGED}{datetime.now():%Y-%m-%dT%H%M%S}")
        number = 1
        while target.exists():
            number += 1
            target = stamped.with_name(f"{stamped.name}.{number}")
        set_aside(self._path, target)
        self.last_aside = target
        self._warn(
            f"the evidence store is damaged; it is now {target}, and a new one is in use. "
            "`triage evidence check --repair` recovers the results that can be read"
        )

    def _connect(self) -> sqlite3.Connection:
        advice = "update triage, or use another TRIAGE_HOME"
        version = check_version(self._path, SCHEMA_VERSION, advice)
        db = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT, check_same_thread=False, isolation_level=None)
        try:
            db.text_factory = lambda data: data.decode("utf-8", "replace")  # a damaged row must not hide the others
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            for script in _MIGRATIONS[version:]:
                db.executescript(script)
            if version != SCHEMA_VERSION:
                db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            db.execute("SELECT id, digest, key, case_name, toolchain, at, peak_rss_mb, facts FROM probes LIMIT 0")
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise EnvironmentFailure(f"the evidence store {self._path} cannot be used: {error}") from error


def _rows_after(db: sqlite3.Connection, last: int) -> list[Any]:
    """Return the next rows by number. A damaged tree may have them in another order, and would be read for ever."""
    rows = db.execute("SELECT id, digest, facts FROM probes WHERE id > ? ORDER BY id LIMIT 256", (last,)).fetchall()
    if any(before[0] >= after[0] for before, after in pairwise([(last,), *rows])):
        raise CorruptFile("the rows are out of order")
    return rows


def _insert(db: sqlite3.Connection, statement: str, text: str, record: Record) -> bool:
    """Insert a row; return False when an intact row of the same digest is there. A damaged one is replaced."""
    data = text.encode()
    digest = sha256(data).hexdigest()
    columns = record.key, record.case_name, record.toolchain, record.at, record.execution.peak_rss_mb
    row = (digest, *columns, zlib.compress(data, 6))
    if db.execute(statement, row).rowcount == 1:
        return True
    stored = db.execute("SELECT digest, facts FROM probes WHERE digest = ?", (digest,)).fetchone()
    try:
        verified(*stored)
    except (TypeError, ValueError):
        db.execute("DELETE FROM probes WHERE digest = ?", (digest,))
        return db.execute(statement, row).rowcount == 1
    return False


def verified(digest: object, facts: object) -> tuple[str, Record]:
    """Return the JSON and the record of a row. Raises ValueError when it is damaged."""
    try:
        data = zlib.decompressobj().decompress(facts, _LARGEST_RECORD)  # type: ignore[arg-type]
    except (TypeError, zlib.error) as error:
        raise ValueError(f"the row is damaged: {error}") from error
    if sha256(data).hexdigest() != digest:
        raise ValueError("the row does not fit its checksum")
    text = data.decode()
    return text, parse_record(text)


def record_json(record: Record) -> str:
    """Return the record as JSON. Lone surrogates, which UTF-8 cannot hold, become `?`. ValueError for NaN and infinity."""
    values = asdict(record)
    if not record.origin:
        del values["origin"]  # as versions wrote it that did not share results
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return utf8(text)


def parse_record(text: str) -> Record:
    """Read a record from JSON. Fields that an older version did not write have their defaults, unknown ones are ignored.

    Raises:
        ValueError: the text is no JSON, or a field is missing, has another type, or is a number that cannot be stored.
    """
    from pydantic import ValidationError

    try:
        return _reader().validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from None


@cache
def _reader() -> TypeAdapter[Record]:
    from pydantic import TypeAdapter

    return TypeAdapter(Record)
