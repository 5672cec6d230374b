"""Run programs under limits of time, memory and output, and capture what they print, or
keep one that answers requests. The module `containment` starts and ends them.
"""

from __future__ import annotations

import os
import resource
import selectors
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Protocol

from triage.model.errors import Interrupted
from triage.model.execution import UNLIMITED, Captured, Ending, Execution, Limits
from triage.processes.containment import (
    NULL,
    PIPE,
    Contained,
    Purpose,
    disable_address_randomisation,
    environment,
)
from triage.processes.sealing import Seal

if TYPE_CHECKING:  # slow to import
    from concurrent.futures import Future, ThreadPoolExecutor

TICK = 0.05  # seconds between checks of memory and time
_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
_STOP_GRACE = 0.5  # the same when the user waits for the program to end
# Seconds for which descendants may keep a pipe open after the process has ended.
_DRAIN = 1.0
# If time without a core does not count, a run may still take at most this many times
# its limit.
_MAX_STRETCH = 4.0
_ROOT = Path("/")
_BLOCK = 4096  # bytes; a smaller file counts as much
# After a measurement of a folder, at least this many times its duration passes before
# the next one.
_MEASURING_PAUSE = 20

Sink = Callable[[bytes], object]


class StopSignal(Protocol):
    """Ends a run from outside, such as a `threading.Event`."""

    def is_set(self) -> bool:
        """Return whether the run must end."""


class StopWatch:
    """Says that a wait must end: a stop signal is set, or `interrupt_all` was called
    since it began.
    """

    _interruptions = 0

    def __init__(self, stop: StopSignal | None) -> None:
        self._stop = stop
        self._before = StopWatch._interruptions

    def is_set(self) -> bool:
        """Return whether the wait must end."""
        if self._before != StopWatch._interruptions:
            return True
        return self._stop is not None and self._stop.is_set()


def interrupt_all() -> None:
    """End each process that a thread waits for now, also those without a stop signal.
    Does not wait until they have ended.
    """
    StopWatch._interruptions += 1  # noqa: SLF001 - of this module


@dataclass
class Capture:
    """Keeps the first and the last bytes of a stream, and counts those it drops."""

    half: int
    """How many bytes are kept of the beginning, and as many of the end."""
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)
    _written: int = 0

    def write(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self._written += len(data)
        room = self.half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        # not at every write, so that many small writes take linear time
        if len(self._tail) > 2 * self.half:
            del self._tail[: -self.half]

    def captured(self) -> Captured:
        """Return what was kept as text. Invalid characters are replaced."""
        del self._tail[: -self.half]
        head = self._head
        tail = self._tail
        dropped = self._written - len(head) - len(tail)
        if not dropped:
            head, tail = head + tail, bytearray()
        first, last = (part.decode("utf-8", "replace") for part in (head, tail))
        return Captured(first, last, dropped)


def unlimited(timeout: float) -> Limits:
    """Return limits without bounds of memory and output, for a build, an installer or a
    user's script.
    """
    return Limits(timeout, UNLIMITED, UNLIMITED)


def run(
    argv: Sequence[str],
    limits: Limits,
    cwd: Path = _ROOT,
    *,
    seal: Seal | None,
    purpose: Purpose = Purpose.COMPILE,
    env: Mapping[str, str | None] | None = None,
    data: bytes = b"",
    stdout_to: Path | None = None,
    kept_bytes: int = 512 << 10,
    stop: StopSignal | None = None,
    on_stdout: Sink | None = None,
    on_stderr: Sink | None = None,
) -> Execution:
    """Run a program under limits, and wait until all its processes have ended.

    Args:
        argv: The program and its arguments.
        limits: Its limits.
        cwd: Its working folder, which it may write to unless it is the root of all.
        seal: What it may read and write besides; None for all that this program may.
        purpose: Decides which variables it gets.
        env: Variables in addition to these.
        data: Its standard input.
        stdout_to: A file in `cwd` for its standard output, which the result then lacks.
        kept_bytes: How many bytes of each stream are kept, half of them from its end.
        stop: Ends the run.
        on_stdout: Receives its standard output as it arrives.
        on_stderr: Receives its standard error as it arrives.

    Returns:
        The execution, with `NOT_STARTED` if the program cannot be started.

    Raises:
        Interrupted: `stop` was set.
    """
    if seal and cwd != _ROOT:
        seal = replace(seal, writes=(*seal.writes, cwd))
    most_used = UNLIMITED
    if limits.output != UNLIMITED:  # what is there before does not count
        most_used = used_bytes(cwd, limits.output) + limits.output
    stdout = Capture(kept_bytes // 2)
    stderr = Capture(kept_bytes // 2)
    disable_address_randomisation()
    started = time.monotonic()
    with ExitStack() as stack:
        stdin: IO[bytes] | int = NULL
        output: IO[bytes] | int = PIPE
        try:
            if data:
                stdin = stack.enter_context(TemporaryFile())
                stdin.write(data)
                stdin.seek(0)
            if stdout_to:
                output = stack.enter_context(stdout_to.open("wb"))
            contained = Contained(
                argv,
                seal,
                limits.output,
                cwd=cwd,
                env=environment(purpose, env or {}, cwd),
                stdin=stdin,
                stdout=output,
                stderr=PIPE,
            )
        except OSError as error:
            message = f"{error.filename or argv[0]}: {error.strerror or error}\n"
            return Execution(tuple(argv), Ending.NOT_STARTED, stderr=Captured(message))
        selector = stack.enter_context(selectors.DefaultSelector())
        for pipe, capture, sink in (
            (contained.process.stdout, stdout, on_stdout),
            (contained.process.stderr, stderr, on_stderr),
        ):
            if pipe:
                os.set_blocking(pipe.fileno(), False)
                stack.enter_context(pipe)
                selector.register(pipe, selectors.EVENT_READ, (capture, sink))
        watch = _Watch(contained, limits, cwd, StopWatch(stop), most_used, started)
        try:
            watch.read_until_end(selector)
        finally:
            # What it left behind is killed while its process id cannot be reused.
            code, usage = contained.reap()
        give_up = time.monotonic() + _DRAIN
        while selector.get_map() and time.monotonic() < give_up:
            _read_pipes(selector, TICK)
    watch.note_end(code, usage)
    by_signal = -code if code < 0 else None
    return Execution(
        argv=tuple(argv),
        ending=watch.ending or (Ending.SIGNALLED if by_signal else Ending.EXITED),
        exit_code=None if by_signal else code,
        signal=by_signal,
        seconds=round(time.monotonic() - started, 4),
        cpu_seconds=round(usage.ru_utime + usage.ru_stime, 4),
        peak_rss_mb=round(watch.peak / (1 << 20), 1),
        stdout=stdout.captured(),
        stderr=stderr.captured(),
        disk_free=watch.disk_free,
        waited=round(watch.waited, 4),
    )


@dataclass
class _Watch:
    """Checks the limits of one run."""

    contained: Contained
    limits: Limits
    cwd: Path
    stop: StopWatch
    most_used: int
    """The bytes that its folder may have."""
    started: float
    ending: Ending | None = None
    """The limit that was exceeded."""
    peak: int = 0
    """The most memory that was seen, in bytes."""
    waited: float = 0.0
    """Seconds of the time limit in which it waited for a core."""
    disk_free: int | None = None
    """The smallest free space of the disk that was seen, in bytes."""
    next_measurement: float = 0.0

    def read_until_end(self, selector: selectors.BaseSelector) -> None:
        """Read and check the limits until the process has ended."""
        next_check = self.started + TICK
        with ExitStack() as stack:
            # a sandbox may forbid it; then the end is seen at the next check
            with suppress(OSError):
                # readable when the process ends
                notice = os.pidfd_open(self.contained.leader)
                stack.callback(os.close, notice)
                selector.register(notice, selectors.EVENT_READ)
                stack.callback(selector.unregister, notice)
            while not self.contained.has_ended():
                _read_pipes(selector, max(0.0, next_check - time.monotonic()))
                if time.monotonic() >= next_check:
                    next_check = time.monotonic() + TICK
                    self._check()

    def note_end(self, code: int, usage: resource.struct_rusage) -> None:
        """Note what only the end of a run tells. `code` is negative for a signal."""
        self._note_free_space()
        if self.ending is None and self.limits.output != UNLIMITED:
            # A file was too large. A shell turns the signal into an exit code.
            is_too_large = signal.SIGXFSZ in (-code, code - 128)
            if is_too_large or self._has_written_too_much():
                self.ending = Ending.OVER_OUTPUT
        # Between fork and exec the pages of this program count as the child's. A figure
        # below this program's own peak therefore does not describe the child: use the
        # largest sample instead.
        if usage.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:
            self.peak = max(self.peak, usage.ru_maxrss << 10)

    def _check(self) -> None:
        """End the run when a limit is exceeded or `stop` is set."""
        if self.stop.is_set():
            self.contained.end(_STOP_GRACE)
            raise Interrupted("stopped")
        if self.ending:
            return
        rss = self.contained.resident_bytes()
        self.peak = max(self.peak, rss)
        self._note_free_space()
        if rss > self.limits.memory:
            self.ending = Ending.OVER_MEMORY
        elif self._is_out_of_time():
            self.ending = Ending.TIMED_OUT
        elif time.monotonic() >= self.next_measurement and self._has_written_too_much():
            self.ending = Ending.OVER_OUTPUT
        if self.ending:
            self.contained.end(_GRACE)

    def _is_out_of_time(self) -> bool:
        """Compare the time with the limit, and note how much of that it waited."""
        elapsed = time.monotonic() - self.started
        limit = self.limits.timeout
        if elapsed <= limit:
            return False
        used = elapsed - _seconds_without_core(self.contained.leader)
        if used <= limit and elapsed <= limit * _MAX_STRETCH:
            return False
        self.waited = max(0.0, limit - used)
        return True

    def _has_written_too_much(self) -> bool:
        """Measure the folder. If that takes long, because it has many files, the next
        measurement is made later.
        """
        if self.most_used == UNLIMITED:
            return False
        started = time.monotonic()
        used = used_bytes(self.cwd, self.most_used)
        now = time.monotonic()
        self.next_measurement = now + _MEASURING_PAUSE * (now - started)
        return used >= self.most_used

    def _note_free_space(self) -> None:
        """Note the smallest free space of the disk, or 0 if no file can be created."""
        with suppress(OSError):
            state = os.statvfs(self.cwd)
            free = state.f_bavail * state.f_frsize
            if state.f_files and not state.f_favail:
                free = 0
            if self.disk_free is None or free < self.disk_free:
                self.disk_free = free


def used_bytes(folder: Path, limit: int) -> int:
    """Return the bytes of all files below a folder. Stop counting above `limit`. Links
    are not followed.

    A sparse file counts with its length. Every entry counts at least a block, so that
    the number of files is limited, too.
    """
    total = 0
    folders = [os.fspath(folder)]
    for path in folders:
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                if total > limit:
                    return total
                with suppress(OSError):  # removed meanwhile
                    state = entry.stat(follow_symlinks=False)
                    total += max(state.st_size, state.st_blocks * 512, _BLOCK)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    return total


def _read_pipes(selector: selectors.BaseSelector, timeout: float) -> None:
    """Hand what the pipes hold to their receivers."""
    for key, _ in selector.select(timeout):
        if key.data is None:  # the process has ended
            continue
        capture, sink = key.data
        data = os.read(key.fd, 1 << 20)
        if not data:
            selector.unregister(key.fileobj)
            continue
        capture.write(data)
        if sink:
            sink(data)


def _seconds_without_core(pid: int) -> float:
    """Return how long a process waited for a core; 0 if the system does not say."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _one_thread() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1)


@dataclass
class AnsweringProcess:
    """A process that answers one request after another, because its start takes longer
    than an answer. A request or an answer is its length, in 8 hexadecimal digits, and
    its bytes.

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
    _thread: ThreadPoolExecutor = field(default_factory=_one_thread)
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
        from concurrent.futures import wait

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
