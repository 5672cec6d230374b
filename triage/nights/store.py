"""The stored nights: `nights.db` in TRIAGE_HOME. A night is one compressed array for each column, names are stored once."""

from __future__ import annotations

import json
import math
import sqlite3
import threading
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from triage.model.execution import utf8
from triage.model.revision import Revision
from triage.nights.record import StoredCase, StoredNight, state_code, status_in
from triage.toolchains.sqlite_files import Database, Schema, transaction

METRIC = "metric:"
_TABLES = (
    "CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)",
    "CREATE TABLE nights (id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, at TEXT NOT NULL, suite TEXT NOT NULL,"
    " head BLOB NOT NULL, report BLOB NOT NULL)",
    "CREATE TABLE columns (night INTEGER, name TEXT, data BLOB NOT NULL, PRIMARY KEY (night, name)) WITHOUT ROWID",
    "CREATE TABLE files (night INTEGER, path TEXT, digest TEXT NOT NULL, PRIMARY KEY (night, path)) WITHOUT ROWID",
    "CREATE TABLE contents (digest TEXT PRIMARY KEY, data BLOB NOT NULL)",
)
_HEADS = "SELECT id, at, suite, head FROM nights"


def _create(db: sqlite3.Connection, _: Path) -> None:
    for table in _TABLES:
        db.execute(table)


def _add_issues(db: sqlite3.Connection, _: Path) -> None:
    db.execute("CREATE TABLE issues (cluster TEXT PRIMARY KEY, issue TEXT NOT NULL) WITHOUT ROWID")


_SCHEMA = Schema(
    name="history of nights",
    migrations=(_create, _add_issues),
    probe="SELECT id, digest, at, suite, head, report FROM nights LIMIT 0",
    advice="update triage, or use another TRIAGE_HOME",
    keep_damaged=True,
)


@dataclass(frozen=True, slots=True)
class Columns:
    """The results of one night as arrays of equal length. Numbers in `cases`, `failures`, `reasons` and `facts` are those of
    texts, 0 for none; `states` are those of `state_code`; a metric that was not measured is NaN.
    """

    cases: array[int]
    states: array[int]
    failures: array[int]
    reasons: array[int]
    facts: array[int]
    metrics: Mapping[str, array[float]]


class NightStore:
    """Stored nights. A damaged night counts as not there. Calls raise what `Database.run` raises."""

    def __init__(self, home: Path, stop: threading.Event | None = None, warn: Callable[[str], None] = lambda _: None) -> None:
        """`warn` receives what the user must know about damage; `stop` ends waiting for other processes."""
        self._file = Database(home / "nights.db", _SCHEMA, stop, warn)
        self._warn = warn

    def add(self, night: StoredNight) -> int | None:
        """Store a night and return its number; None when it is there already."""
        return self._file.run(lambda db: _add(db, night))

    def heads(self) -> tuple[StoredNight, ...]:
        """Return all nights without their results, reports and files, the oldest first."""
        rows = self._file.run(lambda db: db.execute(f"{_HEADS} ORDER BY at, id").fetchall())
        return tuple(self._intact(rows, _head))

    def night(self, number: int) -> StoredNight | None:
        """Return a whole night; None when there is none of this number."""
        rows = self._file.run(lambda db: _rows_of(db, number))
        return next(self._intact(rows, lambda row: self._whole(*row)), None)

    def report(self, number: int) -> Mapping[str, Any]:
        """Return the report of a night; empty where it is damaged."""
        rows = self._file.run(lambda db: db.execute("SELECT id, report FROM nights WHERE id = ?", (number,)).fetchall())
        return next(self._intact(rows, lambda row: dict(json.loads(_unpacked(row[1])))), {})

    def columns(self, number: int) -> Columns | None:
        """Return the results of a night as arrays; None where they are damaged."""
        rows = self._file.run(lambda db: [(number, _columns_of(db, number))])
        return next(self._intact(rows, lambda row: _columns(row[1])), None)

    def texts(self) -> dict[int, str]:
        """Return all texts by number."""
        return dict(self._file.run(lambda db: db.execute("SELECT id, text FROM texts").fetchall()))

    def file(self, path: str, night: int) -> bytes | None:
        """Return a text that a night's report names; None where it was not stored."""
        query = "SELECT night, data FROM files JOIN contents USING (digest) WHERE night = ? AND path = ?"
        rows = self._file.run(lambda db: db.execute(query, (night, path)).fetchall())
        return next(self._intact(rows, lambda row: _unpacked(row[1])), None)

    def files(self, night: int) -> tuple[str, ...]:
        """Return the paths of a night's files."""
        rows = self._file.run(lambda db: db.execute("SELECT path FROM files WHERE night = ?", (night,)).fetchall())
        return tuple(path for (path,) in rows)

    def add_issues(self, issues: Mapping[str, str]) -> None:
        """Store the issue of each cluster, as `owner/repository#number` or as its address."""
        self._file.run(lambda db: db.executemany("REPLACE INTO issues VALUES (?, ?)", list(issues.items())))

    def issues(self) -> dict[str, str]:
        """Return the issues by the id of their cluster."""
        return dict(self._file.run(lambda db: db.execute("SELECT cluster, issue FROM issues").fetchall()))

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove nights, and what only they use."""
        self._file.run(lambda db: _remove(db, tuple(numbers)))

    @property
    def path(self) -> Path:
        return self._file.path

    def _intact(self, rows: Iterable[Any], read: Callable[[Any], Any]) -> Iterator[Any]:
        for row in rows:
            try:
                value = read(row)
            except (ValueError, LookupError, TypeError, zlib.error) as error:
                self._warn(f"night {row[0]} in {self.path} is damaged and left out: {error}")
                continue
            yield value

    def _whole(self, row: Sequence[Any], report: bytes, columns: Mapping[str, bytes]) -> StoredNight:
        texts = self.texts()
        read = _columns(columns)
        results = tuple(
            StoredCase(
                case=texts[case],
                status=status_in(read.states[at])[0],
                flaky=status_in(read.states[at])[1],
                failure=json.loads(texts[read.failures[at]]) if read.failures[at] else None,
                reason=texts[read.reasons[at]] if read.reasons[at] else None,
                facts=json.loads(texts[read.facts[at]]) if read.facts[at] else {},
                metrics={name: values[at] for name, values in read.metrics.items() if not math.isnan(values[at])},
            )
            for at, case in enumerate(read.cases)
        )
        return replace(_head(row), report=json.loads(_unpacked(report)), results=results)


def _add(db: sqlite3.Connection, night: StoredNight) -> int | None:
    digest = _digest(night)
    with transaction(db):
        if db.execute("SELECT 1 FROM nights WHERE digest = ?", (digest,)).fetchone():
            return None
        counts = Counter(result.status.value for result in night.results)
        head = {
            "toolchain": asdict(night.toolchain),
            "baseline": asdict(night.baseline),
            "partial": night.partial,
            "counts": counts,
        }
        values = (digest, night.at, night.suite, _packed(_json(head)), _packed(_json(night.report)))
        number = db.execute("INSERT INTO nights (digest, at, suite, head, report) VALUES (?, ?, ?, ?, ?)", values).lastrowid
        assert number
        for name, data in _pack_columns(db, night.results):
            db.execute("INSERT INTO columns VALUES (?, ?, ?)", (number, name, data))
        for path, content in night.files.items():
            named = sha256(content).hexdigest()
            db.execute("INSERT OR IGNORE INTO contents VALUES (?, ?)", (named, _packed(content)))
            db.execute("INSERT INTO files VALUES (?, ?, ?)", (number, path, named))
    return number


def _digest(night: StoredNight) -> str:
    """Return what identifies a night: the same file imported twice is one night, wherever it was written."""
    values = [night.at, night.suite, night.toolchain.name, night.baseline.name]
    values += [f"{result.case} {result.status} {_json(result.failure)}" for result in night.results]
    return sha256("\0".join(values).encode("utf-8", "replace")).hexdigest()


def _pack_columns(db: sqlite3.Connection, results: Sequence[StoredCase]) -> Iterator[tuple[str, bytes]]:
    numbers: dict[str, int] = {"": 0, **dict(db.execute("SELECT text, id FROM texts").fetchall())}

    def number(text: str) -> int:
        text = utf8(text)
        if text not in numbers:
            numbers[text] = db.execute("INSERT INTO texts (text) VALUES (?)", (text,)).lastrowid or 0
        return numbers[text]

    ordered = sorted(results, key=lambda result: result.case)
    yield "case", _packed(array("I", (number(result.case) for result in ordered)).tobytes())
    yield "state", _packed(array("B", map(state_code, ordered)).tobytes())
    failures = (number(_json(result.failure) if result.failure else "") for result in ordered)
    yield "failure", _packed(array("I", failures).tobytes())
    yield "reason", _packed(array("I", (number(result.reason or "") for result in ordered)).tobytes())
    facts = (number(_json(result.facts) if result.facts else "") for result in ordered)
    yield "facts", _packed(array("I", facts).tobytes())
    for name in sorted({name for result in ordered for name in result.metrics}):
        values = array("f", (result.metrics.get(name, math.nan) for result in ordered))
        yield METRIC + name, _packed(values.tobytes())


def _rows_of(db: sqlite3.Connection, number: int) -> list[tuple[Any, bytes, dict[str, bytes]]]:
    rows = db.execute("SELECT id, at, suite, head, report FROM nights WHERE id = ?", (number,)).fetchall()
    return [(row[:4], row[4], _columns_of(db, number)) for row in rows]


def _columns_of(db: sqlite3.Connection, number: int) -> dict[str, bytes]:
    return dict(db.execute("SELECT name, data FROM columns WHERE night = ?", (number,)).fetchall())


def _columns(columns: Mapping[str, bytes]) -> Columns:
    def read(name: str, kind: str) -> array[Any]:
        values = array(kind)
        values.frombytes(_unpacked(columns[name]))
        return values

    metrics = {name.removeprefix(METRIC): read(name, "f") for name in columns if name.startswith(METRIC)}
    failures, reasons, facts = (read(name, "I") for name in _NUMBERS)
    result = Columns(read("case", "I"), read("state", "B"), failures, reasons, facts, metrics)
    lengths = {len(values) for values in (result.cases, result.states, failures, reasons, facts)}
    if len(lengths | {len(values) for values in metrics.values()}) > 1:
        raise ValueError("its columns differ in length")
    return result


_NUMBERS = ("failure", "reason", "facts")


def _head(row: Sequence[Any]) -> StoredNight:
    number, at, suite, packed = row
    head = json.loads(_unpacked(packed))
    return StoredNight(
        at=at,
        suite=suite,
        toolchain=Revision(**head["toolchain"]),
        baseline=Revision(**head["baseline"]),
        partial=bool(head["partial"]),
        counts=head["counts"],
        number=number,
    )


def _remove(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    with transaction(db):
        for number in numbers:
            db.execute("DELETE FROM nights WHERE id = ?", (number,))
            db.execute("DELETE FROM columns WHERE night = ?", (number,))
            db.execute("DELETE FROM files WHERE night = ?", (number,))
        db.execute("DELETE FROM contents WHERE digest NOT IN (SELECT digest FROM files)")
        used: set[int] = set()
        for name in ("case", *_NUMBERS):
            for (data,) in db.execute("SELECT data FROM columns WHERE name = ?", (name,)):
                values = array("I")
                values.frombytes(_unpacked(data))
                used.update(values)
        known = [number for (number,) in db.execute("SELECT id FROM texts")]
        db.executemany("DELETE FROM texts WHERE id = ?", [(number,) for number in known if number not in used])
    db.execute("VACUUM")


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def _packed(data: str | bytes) -> bytes:
    """Compress data. zlib adds a checksum, which `_unpacked` verifies."""
    return zlib.compress(data.encode("utf-8", "replace") if isinstance(data, str) else data)


def _unpacked(data: bytes) -> bytes:
    return zlib.decompress(data)
