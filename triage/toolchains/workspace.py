"""Where toolchains are obtained: the home folder, the state store in it (small facts that save time), and the cost model."""

from __future__ import annotations

import fcntl
import json
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from statistics import median
from typing import Any

from triage.model.errors import EnvironmentFailure, Interrupted
from triage.model.execution import is_number
from triage.model.progress import Progress, Silent
from triage.toolchains.home import disk_errors, wait_for_lock, write_whole

_LOCK_TICK = 0.2  # seconds between looks at the stop signal


class StateStore:
    """JSON values by section and key, each in a file that is written whole.

    The values are only a cache. Each has a checksum; a damaged one counts as not there.
    """

    def __init__(self, folder: Path, stop: threading.Event | None = None) -> None:
        """`stop`: ends waiting for other processes, with Interrupted."""
        self._folder = folder
        self._stop = stop or threading.Event()

    def section(self, name: str) -> StateSection:
        return StateSection(self._folder / name.replace(" ", "-"), self._stop)


class StateSection:
    """The values of one kind, by key. Its calls raise EnvironmentFailure when the folder cannot be used."""

    def __init__(self, folder: Path, stop: threading.Event) -> None:
        self._folder = folder
        self._stop = stop

    def get(self, key: str) -> Any | None:
        with disk_errors(f"read {self._folder}"), suppress(FileNotFoundError, ValueError, RecursionError):
            checksum, _, text = self._file(key).read_text("utf-8").partition(" ")
            if checksum == _checksum(text):
                stored, value = json.loads(text)
                return value if stored == key else None
        return None

    def put(self, key: str, value: Any) -> None:
        """Set the value of a key to any JSON value."""
        text = json.dumps([key, value])
        with disk_errors(f"write {self._folder}"):
            write_whole(self._file(key), f"{_checksum(text)} {text}")

    def update(self, key: str, change: Callable[[Any | None], Any]) -> None:
        """Set a value to what `change` returns for the value before. No other process updates it in between."""
        with disk_errors(f"write {self._folder}"):
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / ".lock").open("wb") as lock:
                with suppress(OSError):  # a file system without locks
                    wait_for_lock(lock, fcntl.LOCK_EX, self._stop)
                self.put(key, change(self.get(key)))

    def _file(self, key: str) -> Path:
        return self._folder / f"{blake2b(key.encode('utf-8', 'replace'), digest_size=12).hexdigest()}.json"


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


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
        return StateStore(self.home / "state", self.stop)

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
