"""Keep a process that answers one request after another, because its start takes longer
than an answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from triage.model.errors import Interrupted
from triage.model.execution import Limits
from triage.processes.containment import NULL, PIPE, Contained, Purpose, environment
from triage.processes.process import TICK, StopSignal, StopWatch
from triage.processes.sealing import Seal


@dataclass
class AnsweringProcess:
    """A process that answers one request after another. A request or an answer is its
    length, in 8 hexadecimal digits, and its bytes.

    The process is started for the first request, and again after it ended or hung.
    Several threads may ask.
    """

    argv: Sequence[str]
    env: Mapping[str, str | None]
    """Variables in addition to those of a compiler."""
    stop: StopSignal
    """Ends a request."""
    seal: Seal
    """What it may read."""
    folder: Path
    """Its working folder, the only one that it may write to."""
    limits: Limits
    """The memory of all its processes, and the bytes of each file that it may write."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, 1))
    _contained: Contained | None = None

    def ask(self, request: bytes, timeout: float) -> bytes | None:
        """Return the answer to a request. Returns None if the process cannot be
        started, ends, uses too much memory, or does not answer within `timeout`
        seconds.

        Raises Interrupted if a stop signal is set.
        """
        answer = None
        with self._lock:
            try:
                contained = self._contained = self._contained or self._start()
                future = self._thread.submit(_exchange, contained, request)
                answer = self._wait_for(future, contained, timeout)
            # it ended, or something else writes to its standard output
            except (OSError, ValueError):
                pass
            finally:
                if answer is None:
                    self._end()
        return answer

    def close(self) -> None:
        """Kill the process and what it started."""
        with self._lock:
            self._end()
            self._thread.shutdown()

    def _start(self) -> Contained:
        return Contained(
            self.argv,
            replace(self.seal, writes=(*self.seal.writes, self.folder)),
            self.limits.output,
            stdin=PIPE,
            stdout=PIPE,
            stderr=NULL,
            cwd=self.folder,
            env=environment(Purpose.COMPILE, self.env, self.folder),
        )

    def _wait_for(
        self, answer: Future[bytes | None], contained: Contained, timeout: float
    ) -> bytes | None:
        end = time.monotonic() + timeout
        stop = StopWatch(self.stop)
        while not wait([answer], TICK).done:
            if stop.is_set():
                raise Interrupted("stopped")
            is_too_large = contained.resident_bytes() > self.limits.memory
            if is_too_large or time.monotonic() > end:
                return None
        return answer.result()

    def _end(self) -> None:
        if self._contained is None:
            return
        self._contained.reap()
        for pipe in (self._contained.process.stdin, self._contained.process.stdout):
            with suppress(OSError, ValueError):
                pipe.close()  # type: ignore[union-attr]
        self._contained = None


def _exchange(contained: Contained, request: bytes) -> bytes | None:
    source = contained.process.stdout
    sink = contained.process.stdin
    assert source
    assert sink
    sink.write(f"{len(request):08x}".encode() + request)
    sink.flush()
    length = int(source.read(8), 16)
    data = source.read(length)
    if len(data) == length:
        return data
    return None
