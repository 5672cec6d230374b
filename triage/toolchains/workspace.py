"""Where toolchains are obtained: the home folder, the state store in it (small facts that save time), and the cost model."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from triage.model.errors import EnvironmentFailure, Interrupted
from triage.model.execution import is_number
from triage.model.progress import Progress, Silent
from triage.toolchains.sqlite_files import Database, Schema, transaction

_LOCK_TICK = 0.2  # seconds between looks at the stop signal
_PUT = "INSERT OR REPLACE INTO entries (section, key, value) VALUES (?, ?, ?)"


class StateStore(Database):
    """JSON values by section and key. Every call is one transaction.

    The values are only a cache. Each has a checksum; a damaged one counts as not there.
    """

    def __init__(self, path: Path, stop: threading.Event | None = None) -> None:
        """`stop`: ends waiting for other processes, with Interrupted."""
        super().__init__(path, _SCHEMA, stop)

    def section(self, name: str) -> StateSection:
        return StateSection(self, name)


class StateSection:
    """The values of one kind, by key. Its calls raise what `StateStore.run` raises."""

    def __init__(self, store: StateStore, name: str) -> None:
        self._store = store
        self._name = name

    def get(self, key: str) -> Any | None:
        return self._store.run(lambda db: self._read(db, key))

    def put(self, key: str, value: Any) -> None:
        """Set the value of a key to any JSON value."""
        row = _row(self._name, key, value)
        self._store.run(lambda db: db.execute(_PUT, row))

    def update(self, key: str, change: Callable[[Any | None], Any]) -> None:
        """Set a value to what `change` returns for the value before. No other process writes in between."""

        def replace(db: sqlite3.Connection) -> None:
            with transaction(db):
                db.execute(_PUT, _row(self._name, key, change(self._read(db, key))))

        self._store.run(replace)

    def _read(self, db: sqlite3.Connection, key: str) -> Any | None:
        """The value of a key; None for a damaged one."""
        row = db.execute("SELECT value FROM entries WHERE section = ? AND key = ?", (self._name, key)).fetchone()
        if row is None or not isinstance(row[0], str):
            return None
        text, _, checksum = row[0].rpartition(" ")
        return json.loads(text) if checksum == _checksum(self._name, key, text) else None


def _row(section: str, key: str, value: Any) -> tuple[str, str, str]:
    """A row of the table: its value is JSON, a blank and the checksum."""
    text = json.dumps(value)
    return section, key, f"{text} {_checksum(section, key, text)}"


def _checksum(*texts: str) -> str:
    return f"{zlib.crc32(chr(0).join(texts).encode('utf-8', 'replace')):08x}"


def _create_entries(db: sqlite3.Connection, home: Path) -> None:
    db.execute("CREATE TABLE entries (section TEXT, key TEXT, value TEXT NOT NULL, PRIMARY KEY (section, key))")
    # Of the files that earlier versions of the program wrote, only these take long to find out again.
    for path in home.glob("logs/build-*.json"):
        with suppress(OSError, ValueError, RecursionError):
            db.execute(_PUT, ("failed builds", path.stem, json.dumps(json.loads(path.read_text("utf-8")))))


def _add_checksums(db: sqlite3.Connection, _: Path) -> None:
    for section, key, value in db.execute("SELECT section, key, value FROM entries").fetchall():
        with suppress(TypeError, ValueError, RecursionError):
            db.execute(_PUT, _row(section, key, json.loads(value)))


_SCHEMA = Schema(
    name="state store",
    migrations=(_create_entries, _add_checksums),
    probe="SELECT section, key, value FROM entries LIMIT 0",
    advice="update triage, or remove the file, which is only a cache",
)
SCHEMA_VERSION = len(_SCHEMA.migrations)


@dataclass(frozen=True)
class Workspace:
    """Where toolchains are obtained. Setting `stop` ends downloads, installs and builds."""

    home: Path
    progress: Progress = field(default_factory=Silent)
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def toolchains(self) -> Path:
        """The folder of all installed toolchains."""
        return self.home / "toolchains"

    @cached_property
    def state(self) -> StateStore:
        """The state store of the home folder."""
        return StateStore(self.home / "state.db", self.stop)

    @cached_property
    def costs(self) -> CostModel:
        """How long obtaining toolchains took so far."""
        return CostModel(self.state.section("costs"))

    @contextmanager
    def locked(self, path: Path, what: str) -> Iterator[None]:
        """Hold the lock of a file, which another process may have for long. Interrupted when `stop` is set meanwhile."""
        from filelock import FileLock, Timeout  # slow to import, and only needed to change the cache

        lock, is_noted = FileLock(path), False
        while not lock.is_locked:
            try:
                lock.acquire(timeout=_LOCK_TICK)
            except Timeout:
                if not is_noted:
                    self.progress.note(f"waiting for another process: {what}")
                is_noted = True
                self.pause(0)
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def threads(self, count: int) -> Iterator[ThreadPoolExecutor]:
        """Open a pool of threads. An error or Ctrl-C sets `stop` first, which ends what they do."""
        pool = ThreadPoolExecutor(count)
        try:
            yield pool
        except BaseException:
            self.stop.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def pause(self, seconds: float) -> None:
        """Wait. Interrupted when `stop` is set."""
        if self.stop.wait(seconds):
            raise Interrupted("stopped")


_REMEMBERED = 15  # timings a kind: the network and the compiler cache change


class CostModel:
    """Past durations by kind, to estimate the next ones. Failures to read or write them are ignored."""

    def __init__(self, timings: StateSection) -> None:
        self._timings = timings

    def seconds(self, kind: str, default: float) -> float:
        """The median of the past durations of this kind, `default` before there are any."""
        with suppress(EnvironmentFailure):
            return median(_durations(self._timings.get(kind)) or [default])
        return default

    def learn(self, kind: str, seconds: float) -> None:
        """Record a duration."""
        with suppress(EnvironmentFailure):
            self._timings.update(kind, lambda past: [*_durations(past), round(seconds, 3)][-_REMEMBERED:])

    @contextmanager
    def timing(self, kind: str) -> Iterator[None]:
        """Record how long the block takes, unless it fails."""
        begun = time.monotonic()
        yield
        self.learn(kind, time.monotonic() - begun)


def _durations(stored: Any) -> list[float]:
    """The seconds in a stored value, which another version of the program may have written."""
    return [float(value) for value in stored if is_number(value) and value >= 0] if isinstance(stored, list) else []
