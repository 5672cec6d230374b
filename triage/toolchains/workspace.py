"""The home folder at work: its state (small facts that save time), its locks and its threads."""

from __future__ import annotations

import fcntl
import json
import threading
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from statistics import median
from typing import IO, Any

from triage.model.errors import EnvironmentFailure
from triage.model.execution import is_number
from triage.model.progress import Progress
from triage.toolchains.home import disk_errors, lock_file, write_whole

_REMEMBERED = 15  # durations of a kind: the network and the compiler cache change


@dataclass(frozen=True)
class StateSection:
    """JSON values of one kind, each in a file that is written whole. They are only a cache: a damaged one counts as missing."""

    folder: Path

    def get(self, key: str) -> Any | None:
        with disk_errors(f"read {self.folder}"), suppress(FileNotFoundError, ValueError, RecursionError):
            checksum, _, text = self._file(key).read_text("utf-8").partition(" ")
            if checksum == _checksum(text):
                return json.loads(text)[1]
        return None

    def put(self, key: str, value: Any) -> None:
        """Set the value of a key to any JSON value."""
        text = json.dumps([key, value])
        with disk_errors(f"write {self.folder}"):
            write_whole(self._file(key), f"{_checksum(text)} {text}")

    def _file(self, key: str) -> Path:
        return self.folder / f"{blake2b(key.encode('utf-8', 'replace'), digest_size=12).hexdigest()}.json"


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


@dataclass(frozen=True)
class Workspace:
    """Where toolchains are obtained. Setting `stop` ends downloads, installs and builds."""

    home: Path
    progress: Progress = field(default_factory=Progress)
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def toolchains(self) -> Path:
        """The folder of all installed toolchains."""
        return self.home / "toolchains"

    def state(self, kind: str) -> StateSection:
        """Return the stored values of a kind."""
        return StateSection(self.home / "state" / kind.replace(" ", "-"))

    def locked(self, path: Path, what: str) -> IO[bytes]:
        """Lock a file in a `with` block. Another process may have it for long. Interrupted when `stop` is set meanwhile."""
        return lock_file(path, fcntl.LOCK_EX, self.stop, lambda: self.progress.note(f"waiting for another process: {what}"))

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

    def seconds(self, kind: str, default: float) -> float:
        """Return the median of the past durations of this kind, or `default` before there are any."""
        return median(self._past(kind) or [default])

    @contextmanager
    def timing(self, kind: str) -> Iterator[None]:
        """Record how long the block takes, unless it fails."""
        begun = time.monotonic()
        yield
        past = [*self._past(kind), round(time.monotonic() - begun, 3)]
        with suppress(EnvironmentFailure):
            self.state("costs").put(kind, past[-_REMEMBERED:])

    def _past(self, kind: str) -> list[float]:
        with suppress(EnvironmentFailure, TypeError):  # TypeError: stored by another version of the program
            return [value for value in self.state("costs").get(kind) or () if is_number(value) and value >= 0]
        return []
