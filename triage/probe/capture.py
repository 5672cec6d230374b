"""The head and tail of a stream in bounded memory."""

from __future__ import annotations

from triage.model.execution import Captured


class Capture:
    """Keeps the first and the last `limit / 2` bytes of what it is fed and counts the rest."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail += data[-self._half :]
        self._dropped += max(0, len(data) - self._half)
        if len(self._tail) > 2 * self._half:  # trimmed seldom, so that feeding small pieces stays linear
            self._trim()

    def captured(self) -> Captured:
        """What was kept, as text; broken characters are replaced."""
        self._trim()
        head, tail = bytes(self._head), bytes(self._tail)
        if not self._dropped:
            return Captured(head=(head + tail).decode("utf-8", "replace"))
        return Captured(head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), self._dropped)

    def _trim(self) -> None:
        surplus = len(self._tail) - self._half
        if surplus > 0:
            del self._tail[:surplus]
            self._dropped += surplus
