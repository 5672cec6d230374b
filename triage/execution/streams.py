"""Keep the beginning and the end of what a process prints."""

from __future__ import annotations

from pathlib import Path

from triage.model.execution import Captured


class _Tail:
    """The last `limit` bytes of a stream, and how many came before them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self.dropped = 0

    def write(self, data: bytes) -> None:
        """Append. Trimmed seldom, so that many small writes take linear time."""
        self._data += data[-self._limit :]
        self.dropped += max(0, len(data) - self._limit)
        if len(self._data) > 2 * self._limit:
            self._trim()

    def bytes(self) -> bytes:
        """Return what is kept."""
        self._trim()
        return bytes(self._data)

    def _trim(self) -> None:
        surplus = len(self._data) - self._limit
        if surplus > 0:
            del self._data[:surplus]
            self.dropped += surplus


class Capture:
    """Keeps the first and the last `limit / 2` bytes of a stream and counts the rest."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = _Tail(self._half)

    def write(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        room = max(0, self._half - len(self._head))
        self._head += data[:room]
        if len(data) > room:
            self._tail.write(data[room:])

    def captured(self) -> Captured:
        """Return what was kept as text, with invalid characters replaced."""
        head, tail = bytes(self._head), self._tail.bytes()
        if not self._tail.dropped:
            return Captured(head=(head + tail).decode("utf-8", "replace"))
        return Captured(head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), self._tail.dropped)


class Log:
    """A file that keeps the first MiB and the last 3 MiB of what is written to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sink = path.open("wb", buffering=0)
        self._room = 1 << 20
        self._tail = _Tail(3 << 20)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        tail = self._tail.bytes()
        if self._tail.dropped:
            self._sink.write(f"\n... {self._tail.dropped} bytes left out ...\n".encode())
        self._sink.write(tail)
        self._sink.close()

    def write(self, data: bytes) -> None:
        """Append; drop from the middle when the log grows too large."""
        head, rest = data[: self._room], data[self._room :]
        self._sink.write(head)
        self._room -= len(head)
        self._tail.write(rest)
