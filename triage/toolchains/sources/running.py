"""Commands that take long and print much: a build, an installer, a user's script."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from triage.model.errors import Interrupted
from triage.toolchains.sources.base import Workplace

_HEAD = 1 << 20  # bytes of a log that are kept from its beginning
_TAIL = 3 << 20  # and from its end
_AFTERWARDS = 0.5  # seconds that something left behind may keep a pipe open
_GRACE = 2.0
# A guard in the command's own process group reads a pipe that nobody writes to. When this program ends, however it ends, the
# pipe ends as well, and the guard takes the whole group with it; a signal of the kernel to the first child would leave that
# one's children. It is nobody's child, so that no command waits for it.
_GUARDED = 'exec 3<&0 </dev/null; ( (read -r _; kill -KILL 0) <&3 >/dev/null 2>&1 & ); exec 3<&-; exec "$@"'


class TimedOut(Exception):
    """A command was stopped at its time limit."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended: `status` as of subprocess (negative: the signal), the last line it printed on stdout."""

    status: int
    last_line: str


class Log:
    """A file that keeps the beginning and the end of what is written to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sink: IO[bytes] = path.open("wb")
        self._room = _HEAD
        self._tail = bytearray()
        self._dropped = 0

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        if self._dropped:
            self._sink.write(f"\n… {self._dropped} bytes left out …\n".encode())
        self._sink.write(self._tail)
        self._sink.close()

    def write(self, data: bytes) -> None:
        """Append, dropping from the middle when there is too much."""
        head, rest = data[: self._room], data[self._room :]
        self._sink.write(head)
        self._room -= len(head)
        self._tail += rest
        if len(self._tail) > 2 * _TAIL:
            self._dropped += len(self._tail) - _TAIL
            del self._tail[:-_TAIL]


def run(
    command: Sequence[str], log: Log, place: Workplace, *, env: Mapping[str, str], cwd: Path, timeout: float | None = None
) -> Finished:
    """Run a command to its end in a process group of its own; all it prints goes to `log`. timeout: seconds of wall time.

    TimedOut and Interrupted end the whole group, as does the end of this program, kill -9 included. FileNotFoundError when
    there is no such program.
    """
    if shutil.which(command[0], path=env.get("PATH")) is None:
        raise FileNotFoundError(f"there is no program {command[0]}")
    end = None if timeout is None else time.monotonic() + timeout
    guarded, alive = os.pipe()
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _GUARDED, "sh", *command],
            stdin=guarded,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
        )
    except BaseException:
        os.close(alive)
        raise
    finally:
        os.close(guarded)
    said = bytearray()
    try:
        _read(process, log, said, place, end)
    finally:
        _end(process)
        os.close(alive)
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return Finished(process.returncode, lines[-1].strip() if lines else "")


def _read(process: subprocess.Popen[bytes], log: Log, said: bytearray, place: Workplace, end: float | None) -> None:
    gone: float | None = None
    with selectors.DefaultSelector() as waiting:
        for pipe in (process.stdout, process.stderr):
            waiting.register(pipe, selectors.EVENT_READ)  # type: ignore[arg-type]
        while waiting.get_map():
            for key, _ in waiting.select(0.1):
                data = os.read(key.fd, 1 << 16)
                if not data:
                    waiting.unregister(key.fileobj)
                log.write(data)
                if key.fileobj is process.stdout:
                    said += data
                    del said[: -(1 << 16)]
            _go_on(place, end)
            if process.poll() is not None:
                gone = gone or time.monotonic()
                if time.monotonic() - gone > _AFTERWARDS:  # a daemon it started holds the pipe
                    return
    while True:  # the pipes are closed, the command may go on without them
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
            return
        _go_on(place, end)


def _go_on(place: Workplace, end: float | None) -> None:
    """Raise when it is time to stop."""
    if place.stop.is_set():
        raise Interrupted("stopped")
    if end is not None and time.monotonic() > end:
        raise TimedOut


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing of the group behind."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
