"""The evidence store: the facts of every run by content, in one append-only SQLite file that several processes share."""

from __future__ import annotations

import json
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from triage.classify import FailingPass
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.execution import Captured, Ending, Execution

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


@dataclass(frozen=True, slots=True)
class Record:
    """The facts of one probe. They are judged on every reading, so that better rules apply to old facts.

    key: content address of what was run; failing_pass: the pass that a second run named; runs: how many executions agree
    with this one; disagreements: how many ended differently.
    """

    key: str
    case_name: str
    toolchain: str
    at: str
    execution: Execution
    failing_pass: FailingPass | None = None
    runs: int = 1
    disagreements: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)


def key_of(identity: str, input_digest: str, options: Iterable[str], limits: tuple[float, int]) -> str:
    """Return the content address of a probe: compiler, input bytes, options without paths, limits (seconds, bytes)."""
    parts = [identity, input_digest, *options, *(f"{limit:g}" for limit in limits)]
    return sha256("\0".join(parts).encode()).hexdigest()


class Evidence:
    """The store. Every call is one transaction; a kill at any moment loses at most the one in progress."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. EnvironmentFailure when it cannot be written or is no database."""
        self._path = path
        self._lock = threading.Lock()
        with self._errors():
            self._db = sqlite3.connect(path, timeout=60, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)

    def find(self, key: str, after: int = 0) -> Record | None:
        """Return the newest record of a key; None when its number is not greater than `after`."""
        rows = self._rows("SELECT facts FROM probes WHERE key = ? AND id > ? ORDER BY id DESC LIMIT 1", key, after)
        return _record(json.loads(zlib.decompress(rows[0][0]))) if rows else None

    def last_number(self) -> int:
        """Return the number of the newest record, 0 when there is none. Unlike a date it always grows."""
        return int(self._rows("SELECT coalesce(max(id), 0) FROM probes")[0][0])

    def add(self, record: Record) -> bool:
        """Append a record; return False when the same record is there already."""
        text = _json(record)
        row = (sha256(text).hexdigest(), record.key, record.case_name, record.toolchain, record.at)
        with self._errors(), self._lock:
            done = self._db.execute(
                "INSERT OR IGNORE INTO probes (digest, key, case_name, toolchain, at, peak_rss_mb, facts)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*row, record.execution.peak_rss_mb, zlib.compress(text, 6)),
            )
        return done.rowcount == 1

    def last_peak_mb(self, case_name: str) -> float | None:
        """Return the memory that a case used when it last ran, on any toolchain, in MiB."""
        rows = self._rows("SELECT peak_rss_mb FROM probes WHERE case_name = ? ORDER BY id DESC LIMIT 1", case_name)
        return float(rows[0][0]) if rows else None

    def toolchains_of(self, case_name: str) -> tuple[str, ...]:
        """Return the names of the toolchains that a case of this name was run on, the latest first."""
        rows = self._rows(
            "SELECT toolchain FROM probes WHERE case_name = ? GROUP BY toolchain ORDER BY max(id) DESC", case_name
        )
        return tuple(str(row[0]) for row in rows)

    def count(self) -> int:
        return int(self._rows("SELECT count(*) FROM probes")[0][0])

    def export(self) -> Iterator[str]:
        """Yield every record as one line of JSON, oldest first."""
        last = 0
        while rows := self._rows("SELECT id, facts FROM probes WHERE id > ? ORDER BY id LIMIT 256", last):
            yield from (zlib.decompress(facts).decode() for _, facts in rows)
            last = rows[-1][0]

    def load(self, lines: Iterable[str], name: str) -> tuple[int, int]:
        """Append exported lines; return how many were added and how many were known.

        BadInput names the first line that is no record; the lines before it stay added.
        """
        from pydantic import TypeAdapter, ValidationError  # slow to import, and needed only here

        adapter = TypeAdapter(Record)
        added = known = 0
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = adapter.validate_json(line)
            except ValidationError as error:
                first = error.errors()[0]
                field_name = ".".join(map(str, first["loc"]))
                raise BadInput(f"{name}:{number}:1: no evidence record: {field_name} {first['msg']}") from error
            if self.add(record):
                added += 1
            else:
                known += 1
        return added, known

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._errors(), self._lock:
            return self._db.execute(query, values).fetchall()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            hint = " Move it away to begin a new one." if "not a database" in str(error) or "malformed" in str(error) else ""
            raise EnvironmentFailure(f"the evidence store {self._path} cannot be used: {error}.{hint}") from error


def _json(record: Record) -> bytes:
    """Return the record as JSON. Equal records give equal bytes: metrics are always floats."""
    facts = asdict(record)
    for owner in (facts, facts["execution"]):
        owner["metrics"] = {name: float(value) for name, value in owner["metrics"].items()}
    return json.dumps(facts, separators=(",", ":"), ensure_ascii=False).encode()


def _record(facts: dict[str, Any]) -> Record:
    """Build a record from its JSON. Fields that an older version did not write have their defaults."""
    execution, failing_pass = _fields(Execution, facts["execution"]), facts.get("failing_pass")
    execution["argv"] = tuple(execution["argv"])
    execution["ending"] = Ending(execution["ending"])
    execution["stdout"] = Captured(**execution["stdout"])
    execution["stderr"] = Captured(**execution["stderr"])
    record = _fields(Record, facts)
    record["execution"] = Execution(**execution)
    record["failing_pass"] = FailingPass(**failing_pass) if failing_pass else None
    return Record(**record)


def _fields(kind: type[Record] | type[Execution], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that the class has fields for: a newer version may have written more."""
    names = {known.name for known in fields(kind)}
    return {name: value for name, value in values.items() if name in names}
