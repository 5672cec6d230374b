"""Claims on pieces of work: while one thread or process does one, the others that need it wait for its result."""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from triage.model.errors import Interrupted
from triage.toolchains.home import disk_errors

_TICK = 0.02  # seconds between attempts to claim


class Claims:
    """The claims of all processes that use one file. A claim ends with its process, however that ends.

    Each is a lock on the byte whose number is the hash of its key, so that nothing is written and nothing is left behind.
    """

    def __init__(self, file: Path, stop: threading.Event) -> None:
        """stop: ends waiting, with Interrupted."""
        self._file, self._stop = file, stop

    @contextmanager
    def claim(self, key: str) -> Iterator[None]:
        """Hold the claim on a key in the block. Look for the result there: another holder may have just left it.

        On a system or file system without such locks, the block runs at once.
        """
        with disk_errors("claim a compile"):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._lock(descriptor, int.from_bytes(sha256(key.encode()).digest()[:7]))
            yield
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int, byte: int) -> None:
        lock = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
        while True:
            try:
                fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)
            except (BlockingIOError, PermissionError):
                if self._stop.wait(_TICK):
                    raise Interrupted("stopped") from None
            except (AttributeError, OSError):
                return
            else:
                return
