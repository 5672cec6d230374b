"""How many compiles run on this machine at once, and when work must stop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from triage.processes.process import StopSignal, memory

_USABLE = 0.9  # share of the available memory


def usable_memory_mb() -> float:
    """Return the MiB that compiles may use together."""
    return memory().available * _USABLE / (1 << 20)


class Capacity:
    """How many compiles run on this machine at once, and their memory."""

    def __init__(self, slots: int) -> None:
        self.memory_mb = usable_memory_mb()
        self._slots = slots
        self._reserved: list[float] = []
        self._changed = threading.Condition()

    @contextmanager
    def reserve(self, needed_mb: float) -> Iterator[None]:
        """Wait until there is room. A compile that needs more than the whole memory
        runs alone.
        """
        reserved = self._reserved

        def has_room() -> bool:
            if not reserved:
                return True
            fits = sum(reserved) + needed_mb <= self.memory_mb
            return fits and len(reserved) < self._slots

        with self._changed:
            self._changed.wait_for(has_room)
            reserved.append(needed_mb)
        try:
            yield
        finally:
            with self._changed:
                reserved.remove(needed_mb)
                self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Set as soon as one of two stop signals is."""

    first: StopSignal
    second: StopSignal | None

    def is_set(self) -> bool:
        return self.first.is_set() or (self.second is not None and self.second.is_set())


@contextmanager
def time_limit(stop: threading.Event, seconds: float) -> Iterator[threading.Event]:
    """Set `stop`, which ends an engine's work with Interrupted, after so many seconds.
    Yields an event that is set by then.
    """
    over = threading.Event()

    def end() -> None:
        over.set()
        stop.set()

    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), end)
    timer.daemon = True
    timer.start()
    try:
        yield over
    finally:
        timer.cancel()
        if over.is_set():
            stop.clear()
