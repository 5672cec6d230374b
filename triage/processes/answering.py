"""Keep a process that answers one request after another, because its start takes longer
than an answer.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from triage.model.execution import UNLIMITED
from triage.processes.containment import NULL, PIPE, Contained, Purpose, environment
from triage.processes.process import StopSignal, within
from triage.processes.sealing import Seal, is_sealing


class AnsweringProcess:
    """A process that answers one request after another. A request or an answer is its
    length, in 8 hexadecimal digits, and its bytes.

    The process is started for the first request, and again after it ended or hung.
    Several threads may ask.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str | None],
        stop: StopSignal,
        *,
        seal: Seal,
        folder: Path,
        memory: int = UNLIMITED,
        largest_file: int = UNLIMITED,
    ) -> None:
        """Set up the process without starting it.

        Args:
            argv: The program and its arguments.
            env: Variables in addition to those of a compiler.
            stop: Ends a request.
            seal: What it may read.
            folder: Its working folder, the only one that it may write to.
            memory: The bytes that all its processes may use.
            largest_file: The bytes of each file that it may write.
        """
        self._argv, self._env, self._stop = argv, env, stop
        self._folder, self._memory, self._largest = folder, memory, largest_file
        self._seal = replace(seal, writes=(*seal.writes, folder))
        self._lock = threading.Lock()
        self._contained: Contained | None = None

    def ask(
        self, request: bytes, timeout: float, stop: StopSignal | None = None
    ) -> bytes | None:
        """Return the answer to a request. Returns None if the process cannot be
        started, ends, uses too much memory, or does not answer within `timeout`
        seconds.

        Raises Interrupted if a stop signal is set.
        """
        answer = None
        with self._lock:
            try:
                if self._contained is None:
                    self._contained = Contained(
                        self._argv,
                        self._seal if is_sealing() else None,
                        self._largest,
                        stdin=PIPE,
                        stdout=PIPE,
                        stderr=NULL,
                        cwd=self._folder,
                        env=environment(Purpose.COMPILE, self._env, self._folder),
                    )
                answer = within(
                    timeout,
                    stop or self._stop,
                    partial(_exchange, self._contained, request),
                    self._check,
                )
            # it does not answer, or something else writes to its standard output
            except (OSError, ValueError, MemoryError):
                pass
            finally:
                if answer is None:
                    self._end()
        return answer

    def close(self) -> None:
        """Kill the process and what it started."""
        with self._lock:
            self._end()

    def _check(self) -> None:
        if self._memory == UNLIMITED or self._contained is None:
            return
        if self._contained.resident() > self._memory:
            raise MemoryError("the process uses more memory than it may")

    def _end(self) -> None:
        if self._contained is not None:
            self._contained.reap()
            for pipe in (self._contained.process.stdin, self._contained.process.stdout):
                with suppress(OSError, ValueError):
                    pipe.close()  # type: ignore[union-attr]
            self._contained = None


def _exchange(contained: Contained, request: bytes) -> bytes | None:
    source, sink = contained.process.stdout, contained.process.stdin
    assert source
    assert sink
    sink.write(f"{len(request):08x}".encode() + request)
    sink.flush()
    length = int(source.read(8), 16)
    data = source.read(length)
    return data if len(data) == length else None
