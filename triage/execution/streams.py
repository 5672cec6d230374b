"""Keep the beginning and the end of what a process prints."""

from __future__ import annotations

from pathlib import Path

from triage.model.execution import Captured


class Capture:
    """Keeps the first and the last bytes of a stream and counts the rest."""

    def __init__(self, first: int, last: int) -> None:
        self._room, self._limit = first, last
        self._head, self._tail = bytearray(), bytearray()
        self.dropped = 0

    def write(self, data: bytes) -> bytes:
        """Take the next bytes of the stream; return those of them that belong to the first ones."""
        first = data[: self._room]
        self._head += first
        self._room -= len(first)
        self._tail += data[len(first) :]
        if len(self._tail) > 2 * self._limit:  # seldom, so that many small writes take linear time
            self.tail()
        return first

    def tail(self) -> bytes:
        """Return the last bytes, without those that are among the first."""
        surplus = max(0, len(self._tail) - self._limit)
        del self._tail[:surplus]
        self.dropped += surplus
        return bytes(self._tail)

    def captured(self) -> Captured:
        """Return what was kept as text, with invalid characters replaced."""
        parts = bytes(self._head), self.tail()
        texts = parts if self.dropped else (b"".join(parts), b"")
        head, tail = (text.decode("utf-8", "replace") for text in texts)
        return Captured(head, tail, self.dropped)


class Log:
    """A file that keeps the first MiB and the last 3 MiB of what is written to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sink = path.open("wb", buffering=0)
        self._kept = Capture(1 << 20, 3 << 20)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        tail = self._kept.tail()
        if self._kept.dropped:
            self._sink.write(f"\n... {self._kept.dropped} bytes left out ...\n".encode())
        self._sink.write(tail)
        self._sink.close()

    def write(self, data: bytes) -> None:
        """Append; drop from the middle when the log grows too large."""
        self._sink.write(self._kept.write(data))
