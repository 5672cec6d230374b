"""The time that an investigation may take."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Budget:
    """Seconds to spend, None for no limit. When they are over, the step that runs is stopped."""

    seconds: float | None
    _started: float = field(default_factory=time.monotonic)
    _is_over: threading.Event = field(default_factory=threading.Event)

    @property
    def is_over(self) -> bool:
        return self._is_over.is_set()

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    @property
    def left(self) -> float | None:
        """Seconds until the end; None without a limit."""
        return None if self.seconds is None else max(0.0, self.seconds - self.spent)

    @contextmanager
    def running(self, stop: threading.Event) -> Iterator[None]:
        """Start the budget; set `stop` when it is over."""
        self._started = time.monotonic()
        with _timer(self.seconds, self._is_over, stop):
            yield


@contextmanager
def allowance(seconds: float | None, stop: threading.Event) -> Iterator[threading.Event]:
    """Set `stop` after so many seconds, None for no limit; yield the event that is then set, too."""
    is_spent = threading.Event()
    with _timer(seconds, is_spent, stop):
        yield is_spent


@contextmanager
def _timer(seconds: float | None, *events: threading.Event) -> Iterator[None]:
    """Set the events after so many seconds, unless the block ends before."""
    if seconds is None:
        yield
        return

    def end() -> None:
        for event in events:
            event.set()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
