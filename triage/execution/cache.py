"""Everything ever run, by content: one append-only SQLite file that several processes share."""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from triage.classify import FailingPass
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.execution import Execution

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
    """The facts of one probe. Their meaning is worked out anew on every reading, so that better rules reach old facts.

    key: content address of what was run; failing_pass: where a second run named one;
    runs: how many executions agreed with this one; disagreements: how many gave another result.
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


_RECORD: TypeAdapter[Record] = TypeAdapter(Record)


def key_of(identity: str, input_digest: str, options: Iterable[str], limits: tuple[float, int]) -> str:
    """The content address of a probe: compiler, input bytes, options without paths, limits (seconds, bytes)."""
    parts = [identity, input_digest, *options, *(f"{limit:g}" for limit in limits)]
    return sha256("\0".join(parts).encode()).hexdigest()


class Evidence:
    """The store. Every call is one transaction; a kill at any moment loses at most the one in flight."""

    def __init__(self, path: Path) -> None:
        """Open or create. EnvironmentFailure when the file cannot be written or is no database."""
        self._path = path
        self._lock = threading.Lock()
        with self._errors():
            self._db = sqlite3.connect(path, timeout=60, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)

    def find(self, key: str) -> Record | None:
        """The newest record of a key."""
        with self._errors(), self._lock:
            row = self._db.execute("SELECT facts FROM probes WHERE key = ? ORDER BY id DESC LIMIT 1", (key,)).fetchone()
        return _unpack(row[0]) if row else None

    def add(self, record: Record) -> bool:
        """Append; False when the very same record is there already."""
        text = _RECORD.dump_json(record)
        row = (sha256(text).hexdigest(), record.key, record.case_name, record.toolchain, record.at)
        with self._errors(), self._lock:
            done = self._db.execute(
                "INSERT OR IGNORE INTO probes (digest, key, case_name, toolchain, at, peak_rss_mb, facts)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*row, record.execution.peak_rss_mb, zlib.compress(text, 6)),
            )
        return done.rowcount == 1

    def last_peak_mb(self, case_name: str) -> float | None:
        """The memory a case used when it was last run on any toolchain, MiB."""
        with self._errors(), self._lock:
            row = self._db.execute(
                "SELECT peak_rss_mb FROM probes WHERE case_name = ? ORDER BY id DESC LIMIT 1", (case_name,)
            ).fetchone()
        return float(row[0]) if row else None

    def toolchains_of(self, case_name: str) -> tuple[str, ...]:
        """Return the names of the toolchains that a case of this name was run on, the latest first."""
        with self._errors(), self._lock:
            rows = self._db.execute(
                "SELECT toolchain FROM probes WHERE case_name = ? GROUP BY toolchain ORDER BY max(id) DESC", (case_name,)
            ).fetchall()
        return tuple(str(row[0]) for row in rows)

    def count(self) -> int:
        """How many records there are."""
        with self._errors(), self._lock:
            return int(self._db.execute("SELECT count(*) FROM probes").fetchone()[0])

    def export(self) -> Iterator[str]:
        """Every record as one line of JSON, oldest first."""
        last = 0
        while True:
            with self._errors(), self._lock:
                rows = self._db.execute("SELECT id, facts FROM probes WHERE id > ? ORDER BY id LIMIT 256", (last,)).fetchall()
            if not rows:
                return
            for last, facts in rows:  # noqa: B007 - `last` is where the next page begins
                yield zlib.decompress(facts).decode()

    def load(self, lines: Iterable[str], name: str) -> tuple[int, int]:
        """Append exported lines; (added, already known). BadInput names the first line that is no record; those before
        it stay added.
        """
        added = known = 0
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = _RECORD.validate_json(line)
            except ValidationError as error:
                first = error.errors()[0]
                place = ".".join(map(str, first["loc"]))
                raise BadInput(f"{name}:{number}:1: no evidence record: {place} {first['msg']}") from error
            if self.add(record):
                added += 1
            else:
                known += 1
        return added, known

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            hint = " Move it away to begin a new one." if "not a database" in str(error) or "malformed" in str(error) else ""
            raise EnvironmentFailure(f"the evidence store {self._path} cannot be used: {error}.{hint}") from error


def _unpack(facts: bytes) -> Record:
    return _RECORD.validate_json(zlib.decompress(facts))
