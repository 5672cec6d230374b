"""When work must stop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
