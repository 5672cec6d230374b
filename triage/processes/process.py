"""Run programs under limits of time, memory and output, and capture what they print.
The module `containment` starts and ends them.
"""

from __future__ import annotations

import math
import os
import resource
import selectors
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple, Protocol, TypeVar

from triage.model.errors import Interrupted
from triage.model.execution import UNLIMITED, Captured, Ending, Execution, Limits
from triage.processes.containment import (
    NULL,
    PIPE,
    Contained,
    Purpose,
    environment,
    fix_addresses,
)
from triage.processes.sealing import Seal, is_sealing

_TICK = 0.05  # seconds between checks of memory and time
_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
_STOP_GRACE = 0.5  # the same when the user waits for the program to end
# Seconds for which descendants may keep a pipe open after the process has ended.
_DRAIN = 1.0
# If time without a core does not count, a run may still take at most this many times
# its limit.
_MAX_STRETCH = 4.0
_ROOT = Path("/")
_LARGEST_ANSWER = 64 << 20  # bytes of a captured answer
_BLOCK = 4096  # bytes; a smaller file counts as much
# After a measurement of a folder, at least this many times its duration passes before
# the next one.
_MEASURING_PAUSE = 20
_EMPTY: Mapping[str, str | None] = {}

T = TypeVar("T")
Sink = Callable[[bytes], object]


class StopSignal(Protocol):
    """Ends a run from outside, such as a `threading.Event`."""

    def is_set(self) -> bool:
        """Return whether the run must end."""


_interruptions = 0


def interrupt_all() -> None:
    """End each process that a thread waits for now, also those without a stop signal.
    Does not wait until they have ended.
    """
    global _interruptions
    _interruptions += 1


def within(
    seconds: float,
    stop: StopSignal,
    action: Callable[[], T],
    on_tick: Callable[[], None] = lambda: None,
) -> T:
    """Run an action in a thread of its own, and return its result. `on_tick` is called
    about 20 times a second, and may raise. A thread that hangs is left behind.

    Raises:
        TimeoutError: The action takes longer than `seconds`.
        Interrupted: `stop` was set.
    """
    answer, interruptions, end = Future[T](), _interruptions, time.monotonic() + seconds

    def act() -> None:
        try:
            answer.set_result(action())
        except BaseException as error:  # raised again in the thread that waits
            answer.set_exception(error)

    threading.Thread(target=act, daemon=True).start()
    while not wait([answer], _TICK).done:
        if interruptions != _interruptions or stop.is_set():
            raise Interrupted("stopped")
        on_tick()
        if time.monotonic() > end:
            raise TimeoutError(f"no answer within {seconds:g} s")
    return answer.result()


class Capture:
    """Keeps the first and the last bytes of a stream, and counts those it drops."""

    def __init__(self, first: int, last: int) -> None:
        """Keep this many bytes of the beginning and of the end."""
        self._head_left, self._tail_size = first, last
        self._head, self._tail = bytearray(), bytearray()
        self.dropped = 0

    def write(self, data: bytes) -> bytes:
        """Take the next bytes of the stream. Return those that belong to the first
        bytes.
        """
        first = data[: self._head_left]
        self._head += first
        self._head_left -= len(first)
        self._tail += data[len(first) :]
        # not at every write, so that many small writes take linear time
        if len(self._tail) > 2 * self._tail_size:
            self.tail()
        return first

    def tail(self) -> bytes:
        """Drop all but the last bytes, and return these. The first bytes are not among
        them.
        """
        surplus = max(0, len(self._tail) - self._tail_size)
        del self._tail[:surplus]
        self.dropped += surplus
        return bytes(self._tail)

    def captured(self) -> Captured:
        """Return what was kept as text. Invalid characters are replaced."""
        head, tail = bytes(self._head), self.tail()
        if not self.dropped:
            head, tail = head + tail, b""
        return Captured(
            head.decode("utf-8", "replace"),
            tail.decode("utf-8", "replace"),
            self.dropped,
        )


class Log(Capture):
    """A file that keeps the first MiB and the last 3 MiB of what is written to it. Only
    its owner can read it: what programs print may have a password in it.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(1 << 20, 3 << 20)
        self.path = path
        self._sink = path.open("wb", buffering=0)
        path.chmod(0o600)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        tail = self.tail()
        if self.dropped:
            self._sink.write(f"\n... {self.dropped} bytes left out ...\n".encode())
        self._sink.write(tail)
        self._sink.close()

    def write(self, data: bytes) -> bytes:
        """Append to the log. If it grows too large, its middle is dropped."""
        first = super().write(data)
        self._sink.write(first)
        return first


def run(
    argv: Sequence[str],
    limits: Limits,
    cwd: Path,
    *,
    seal: Seal | None,
    purpose: Purpose = Purpose.COMPILE,
    env: Mapping[str, str | None] = _EMPTY,
    data: bytes = b"",
    stdout_to: Path | None = None,
    log: Log | None = None,
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
        log: Receives all that it prints.
        stop: Ends the run.
        on_stdout: Receives its standard output, instead of `log`.
        on_stderr: Receives its standard error, instead of `log`.

    Returns:
        The execution, with `NOT_STARTED` if the program cannot be started.

    Raises:
        Interrupted: `stop` was set.
    """
    if not is_sealing():
        seal = None
    elif seal and cwd != _ROOT:
        seal = replace(seal, writes=(*seal.writes, cwd))
    most_used = UNLIMITED
    if limits.output != UNLIMITED:  # what is there before does not count
        most_used = _used(cwd, limits.output) + limits.output
    half = max(1, limits.kept // 2)
    stdout, stderr = Capture(half, half), Capture(half, half)
    sink = log.write if log else None
    randomised, started = not fix_addresses(), time.monotonic()
    with ExitStack() as stack:
        given: IO[bytes] | int = NULL
        output: IO[bytes] | int = PIPE
        try:
            if data:
                given = stack.enter_context(TemporaryFile())
                given.write(data)
                given.seek(0)
            if stdout_to:
                output = stack.enter_context(stdout_to.open("wb"))
            contained = Contained(
                argv,
                seal,
                limits.output,
                cwd=cwd,
                env=environment(purpose, env, cwd),
                stdin=given,
                stdout=output,
                stderr=PIPE,
            )
        except OSError as error:
            return _not_started(tuple(argv), error)
        watched = _Run(contained, limits, cwd, stop, most_used, started)
        selector = stack.enter_context(selectors.DefaultSelector())
        for pipe, kept, to in (
            (contained.process.stdout, stdout, on_stdout or sink),
            (contained.process.stderr, stderr, on_stderr or sink),
        ):
            if pipe:
                os.set_blocking(pipe.fileno(), False)
                stack.enter_context(pipe)
                selector.register(pipe, selectors.EVENT_READ, (kept, to))
        try:
            watched.attend(selector)
        finally:
            # What it left behind is killed while its process id cannot be reused.
            code, usage = contained.reap()
        give_up = time.monotonic() + _DRAIN
        while selector.get_map() and time.monotonic() < give_up:
            _read(selector, _TICK)
    by_signal = -code if code < 0 else None
    watched.note_end(code, usage)
    return Execution(
        argv=tuple(argv),
        ending=watched.ending or (Ending.SIGNALLED if by_signal else Ending.EXITED),
        exit_code=None if by_signal else code,
        signal=by_signal,
        seconds=round(time.monotonic() - started, 4),
        cpu_seconds=round(usage.ru_utime + usage.ru_stime, 4),
        peak_rss_mb=round(watched.peak / (1 << 20), 1),
        stdout=stdout.captured(),
        stderr=stderr.captured(),
        randomised=randomised,
        disk_free=watched.disk_free,
        waited=round(watched.waited, 4),
    )


def unlimited(timeout: float = math.inf, kept: int = 128 << 10) -> Limits:
    """Return limits without bounds of memory and output, for a build, an installer or a
    user's script. `kept` is how many bytes of what it prints are kept.
    """
    return Limits(timeout, UNLIMITED, UNLIMITED, kept)


def capture(
    argv: Sequence[str],
    timeout: float,
    *,
    seal: Seal | None,
    purpose: Purpose = Purpose.COMPILE,
    env: Mapping[str, str | None] = _EMPTY,
) -> Execution:
    """Run a program that prints a short answer, such as its version, and writes no
    file.
    """
    limits = unlimited(timeout, _LARGEST_ANSWER)
    return run(argv, limits, _ROOT, seal=seal, purpose=purpose, env=env)


def _not_started(argv: tuple[str, ...], error: OSError) -> Execution:
    place, reason = error.filename or argv[0], error.strerror or error
    printed = Captured(head=f"{place}: {reason}\n")
    ending, nothing = Ending.NOT_STARTED, Captured()
    return Execution(argv, ending, None, None, 0.0, 0.0, 0.0, nothing, printed)


@dataclass
class _Run:
    """One run, whose limits are checked."""

    contained: Contained
    limits: Limits
    cwd: Path
    stop: StopSignal | None
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
    interruptions: int = field(default_factory=lambda: _interruptions)

    def note_end(self, code: int, usage: resource.struct_rusage) -> None:
        """Note what only the end of a run tells. `code` is negative for a signal."""
        self._note_free_space()
        # A file was too large. A shell turns the signal into an exit code.
        is_too_large = signal.SIGXFSZ in (-code, code - 128)
        if (
            self.ending is None
            and self.limits.output != UNLIMITED
            and (is_too_large or self._has_written_too_much())
        ):
            self.ending = Ending.OVER_OUTPUT
        # Between fork and exec the pages of this program count as the child's. A figure
        # below this program's own peak therefore does not describe the child: use the
        # largest sample instead.
        if usage.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:
            self.peak = max(self.peak, usage.ru_maxrss << 10)

    def attend(self, selector: selectors.BaseSelector) -> None:
        """Read and check the limits until the process has ended."""
        next_check = self.started + _TICK
        with ExitStack() as stack:
            # a sandbox may forbid it; then the end is seen at the next check
            with suppress(OSError):
                # readable when the process ends
                notice = os.pidfd_open(self.contained.leader)
                stack.callback(os.close, notice)
                selector.register(notice, selectors.EVENT_READ)
                stack.callback(selector.unregister, notice)
            while not self.contained.has_ended():
                _read(selector, max(0.0, next_check - time.monotonic()))
                if time.monotonic() >= next_check:
                    next_check = time.monotonic() + _TICK
                    self._check()

    def _check(self) -> None:
        """End the run when a limit is exceeded or `stop` is set."""
        if self.interruptions != _interruptions or (self.stop and self.stop.is_set()):
            self.contained.end(_STOP_GRACE)
            raise Interrupted("stopped")
        if self.ending:
            return
        is_measured = self.limits.memory != UNLIMITED
        rss = self.contained.resident() if is_measured else 0
        self.peak = max(self.peak, rss)
        self._note_free_space()
        elapsed, limit = time.monotonic() - self.started, self.limits.timeout
        if rss > self.limits.memory:
            self.ending = Ending.OVER_MEMORY
        elif elapsed > limit:
            used = elapsed - _seconds_without_core(self.contained.leader)
            if (
                not self.limits.without_waiting
                or used > limit
                or elapsed > _MAX_STRETCH * limit
            ):
                self.ending, self.waited = Ending.TIMED_OUT, max(0.0, limit - used)
        elif time.monotonic() >= self.next_measurement and self._has_written_too_much():
            self.ending = Ending.OVER_OUTPUT
        if self.ending:
            self.contained.end(_GRACE)

    def _has_written_too_much(self) -> bool:
        """Measure the folder. If that takes long, because it has many files, the next
        measurement is made later.
        """
        started = time.monotonic()
        used = 0
        if self.most_used != UNLIMITED:
            used = _used(self.cwd, self.most_used)
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


def _used(folder: Path, enough: int) -> int:
    """Return the bytes of all files below a folder. Stop counting above `enough`. Links
    are not followed.

    A sparse file counts with its length. Every entry counts at least a block, so that
    the number of files is limited, too.
    """
    total, folders = 0, [os.fspath(folder)]
    for path in folders:
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                if total > enough:
                    return total
                with suppress(OSError):  # removed meanwhile
                    state = entry.stat(follow_symlinks=False)
                    total += max(state.st_size, state.st_blocks * 512, _BLOCK)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    return total


def _read(selector: selectors.BaseSelector, timeout: float) -> None:
    for key, _ in selector.select(timeout):
        if key.data is None:
            continue
        kept, sink = key.data
        data = os.read(key.fd, 1 << 20)
        if data:
            kept.write(data)
            if sink:
                sink(data)
        else:
            selector.unregister(key.fileobj)


def _seconds_without_core(pid: int) -> float:
    """Return how long a process waited for a core; 0 if the system does not say."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class Memory(NamedTuple):
    """Main memory of this machine in bytes."""

    total: int
    available: int


def memory() -> Memory:
    """Return the size of main memory, and how much is free without swapping."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    kibibytes = (fields[name].split()[0] for name in ("MemTotal", "MemAvailable"))
    return Memory(*(int(text) << 10 for text in kibibytes))
