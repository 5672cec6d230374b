"""Run programs under limits of time, memory and output, and talk to workers. `containment` starts and ends them."""

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from triage.execution.containment import NULL, PIPE, Contained, fix_addresses
from triage.execution.disk import DiskUse
from triage.execution.environment import Purpose, environment
from triage.execution.streams import Capture, Log
from triage.model.errors import Interrupted
from triage.model.execution import UNLIMITED, Captured, Ending, Execution, Limits

_TICK = 0.05  # seconds between checks of memory and time
_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
_STOP_GRACE = 0.5  # the same when the user waits for the program to end
_DRAIN = 1.0  # seconds that descendants may keep a pipe open after the process has ended
_MAX_STRETCH = 4.0  # a time limit that leaves out waiting for a core is extended to at most this many times itself
_LARGEST_ANSWER = 64 << 20  # bytes of a captured answer
_EMPTY: Mapping[str, str | None] = {}

T = TypeVar("T")
Sink = Callable[[bytes], object]


class StopSignal(Protocol):
    """Ends a run from outside, such as a `threading.Event`."""

    def is_set(self) -> bool:
        """Return whether the run must end."""


_interruptions = 0


def interrupt_all() -> None:
    """End each process that a thread waits for at this moment, those without a stop signal included. Does not wait."""
    global _interruptions
    _interruptions += 1


def within(seconds: float, stop: StopSignal, action: Callable[[], T]) -> T:
    """Return what an action returns in a thread of its own. A thread that hangs is left behind.

    Raises:
        TimeoutError: it takes longer than that.
        Interrupted: `stop` is set meanwhile.
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
        if time.monotonic() > end:
            raise TimeoutError(f"no answer within {seconds:g} s")
    return answer.result()


def run(
    argv: Sequence[str],
    limits: Limits,
    scratch: Path,
    *,
    env: Mapping[str, str | None] = _EMPTY,
    stdout_to: Path | None = None,
    stop: StopSignal | None = None,
    on_stderr: Sink | None = None,
) -> Execution:
    """Run a program under limits in a scratch folder, which is also its TMPDIR, and wait until all its processes have ended.

    `env` has variables in addition to those for a compiler, see `environment`; the file `stdout_to` receives standard output
    instead of the execution; `on_stderr` receives all of standard error as it arrives.

    Raises Interrupted when `stop` is set. A program that cannot be started gives an execution that ended as NOT_STARTED.
    """
    environ = environment(Purpose.COMPILE, {**env, "TMPDIR": str(scratch)})
    return _Run(tuple(argv), limits, scratch, environ, stop, stdout_to=stdout_to, on_stderr=on_stderr).execute()


def run_logged(
    argv: Sequence[str],
    log: Log,
    cwd: Path,
    *,
    purpose: Purpose,
    env: Mapping[str, str | None] = _EMPTY,
    stop: StopSignal,
    timeout: float = math.inf,
    on_tick: Callable[[], None] | None = None,
) -> Execution:
    """Run a build, an installer or a user's script, and write everything that it prints to a log.

    `env` has variables in addition to those of the purpose, see `environment`; `timeout` is in wall seconds; `on_tick` is
    called about 20 times a second while the program runs. Raises Interrupted when `stop` is set.
    """
    limits, environ = Limits(timeout, UNLIMITED, UNLIMITED, kept=128 << 10), environment(purpose, env)
    return _Run(tuple(argv), limits, cwd, environ, stop, on_stdout=log.write, on_stderr=log.write, on_tick=on_tick).execute()


def capture(
    argv: Sequence[str], timeout: float, *, purpose: Purpose = Purpose.COMPILE, env: Mapping[str, str | None] = _EMPTY
) -> Execution:
    """Ask a program for a short answer, such as its version. env: variables in addition to those of the purpose."""
    limits = Limits(timeout, UNLIMITED, UNLIMITED, _LARGEST_ANSWER)
    return _Run(tuple(argv), limits, Path(), environment(purpose, env), None).execute()


class Worker:
    """A process that answers one request after another.

    A request and an answer are each sent as their length, in 8 hexadecimal digits, and their bytes.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """Start the process. env: variables in addition to `Purpose.COMPILE`. OSError when it cannot be started."""
        environ = environment(Purpose.COMPILE, env)
        self._contained = Contained(argv, stdin=PIPE, stdout=PIPE, stderr=NULL, env=environ)
        self._process = self._contained.process

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, request: bytes, timeout: float, stop: StopSignal) -> bytes | None:
        """Return the answer; None when the worker ended, or gave none within `timeout` seconds. Close it in both cases.

        Raises Interrupted when `stop` is set.
        """
        with suppress(OSError, ValueError):  # it has ended, is silent, or something else writes to its standard output
            return within(timeout, stop, lambda: self._exchange(request))
        return None

    def _exchange(self, request: bytes) -> bytes | None:
        source, sink = self._process.stdout, self._process.stdin
        assert source
        assert sink
        sink.write(f"{len(request):08x}".encode() + request)
        sink.flush()
        length = int(source.read(8), 16)
        data = source.read(length)
        return data if len(data) == length else None

    def close(self) -> None:
        """Kill the process and what it started."""
        if self._process.returncode is None:
            self._contained.reap()
            for pipe in (self._process.stdin, self._process.stdout):
                with suppress(OSError, ValueError):
                    pipe.close()  # type: ignore[union-attr]


@dataclass
class _Run:
    """The state of one run: clock, and what was read and measured."""

    argv: tuple[str, ...]
    limits: Limits
    cwd: Path
    env: Mapping[str, str]
    stop: StopSignal | None
    stdout_to: Path | None = None
    on_stdout: Sink | None = None
    on_stderr: Sink | None = None
    on_tick: Callable[[], None] | None = None
    ending: Ending | None = None
    """The limit that was exceeded."""
    peak: int = 0
    """Bytes."""
    waited: float = 0.0
    """Seconds of the time limit without a core."""
    interruptions: int = field(default_factory=lambda: _interruptions)

    def execute(self) -> Execution:
        randomised = not fix_addresses()
        self.disk = DiskUse(self.cwd, self.stdout_to, self.limits.output)
        half = max(1, self.limits.kept // 2)
        stdout, stderr = Capture(half, half), Capture(half, half)
        self.started = time.monotonic()
        with ExitStack() as stack:
            try:
                output = stack.enter_context(self.stdout_to.open("wb")) if self.stdout_to else PIPE
                streams = {"stdin": NULL, "stdout": output, "stderr": PIPE}
                self.contained = Contained(self.argv, self.limits.output, cwd=self.cwd, env=self.env, **streams)
            except OSError as error:
                reason = Captured(head=f"{error.filename or self.argv[0]}: {error.strerror or error}\n")
                return Execution(self.argv, Ending.NOT_STARTED, None, None, 0.0, 0.0, 0.0, Captured(), reason)
            process, selector = self.contained.process, stack.enter_context(selectors.DefaultSelector())
            for pipe, kept, sink in ((process.stdout, stdout, self.on_stdout), (process.stderr, stderr, self.on_stderr)):
                if pipe:
                    os.set_blocking(pipe.fileno(), False)
                    selector.register(stack.enter_context(pipe), selectors.EVENT_READ, (kept, sink))
            try:
                self._attend(selector)
            finally:
                # What it left behind is killed while its process id cannot be reused.
                code, usage = self.contained.reap()
            give_up = time.monotonic() + _DRAIN
            while selector.get_map() and time.monotonic() < give_up:
                _read(selector, _TICK)
        by_signal = -code if code < 0 else None
        self.disk.note_free()
        is_too_large = signal.SIGXFSZ in (by_signal, code - 128)  # a file; a shell makes the signal an exit code
        if self.ending is None and self.limits.output != UNLIMITED and (is_too_large or self.disk.is_exceeded(at_end=True)):
            self.ending = Ending.OVER_OUTPUT
        peak_mb = self.peak / (1 << 20)
        # Between fork and exec the pages of this program count as the child's. A figure below this program's own peak
        # therefore does not describe the child: use the largest sample instead.
        if usage.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:
            peak_mb = max(peak_mb, usage.ru_maxrss / 1024)
        return Execution(
            argv=self.argv,
            ending=self.ending or (Ending.SIGNALLED if by_signal else Ending.EXITED),
            exit_code=None if by_signal else code,
            signal=by_signal,
            seconds=round(time.monotonic() - self.started, 4),
            cpu_seconds=round(usage.ru_utime + usage.ru_stime, 4),
            peak_rss_mb=round(peak_mb, 1),
            stdout=stdout.captured(),
            stderr=stderr.captured(),
            randomised=randomised,
            disk_free=self.disk.least_free,
            waited=round(self.waited, 4),
        )

    def _attend(self, selector: selectors.BaseSelector) -> None:
        """Read and check the limits until the process has ended."""
        next_check = self.started + _TICK
        with ExitStack() as stack:
            with suppress(OSError):  # a sandbox may forbid it; then the end is seen at the next check
                notice = os.pidfd_open(self.contained.leader)  # readable when the process ends
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
        if self.on_tick:
            self.on_tick()
        if self.ending:
            return
        rss = 0 if self.limits.memory == UNLIMITED else self.contained.resident()
        self.peak = max(self.peak, rss)
        self.disk.note_free()
        elapsed, limit = time.monotonic() - self.started, self.limits.timeout
        if rss > self.limits.memory:
            self.ending = Ending.OVER_MEMORY
        elif elapsed > limit:
            used = elapsed - _seconds_without_core(self.contained.leader)
            if not self.limits.without_waiting or used > limit or elapsed > _MAX_STRETCH * limit:
                self.ending, self.waited = Ending.TIMED_OUT, max(0.0, limit - used)
        elif self.disk.is_exceeded():
            self.ending = Ending.OVER_OUTPUT
        if self.ending:
            self.contained.end(_GRACE)


def _read(selector: selectors.BaseSelector, timeout: float) -> None:
    for key, _ in selector.select(timeout):
        if key.data is None:
            continue
        kept, sink = key.data
        if data := os.read(key.fd, 1 << 20):
            kept.write(data)
            if sink:
                sink(data)
        else:
            selector.unregister(key.fileobj)


def _seconds_without_core(pid: int) -> float:
    """Return how long a process was ready to run and had no core; 0 where the system does not report it."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class Memory(NamedTuple):
    """Main memory of this machine in bytes."""

    total: int
    available: int


def memory() -> Memory:
    """Return the size of main memory and how much of it programs can use without swapping."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return Memory(*(int(fields[name].split()[0]) << 10 for name in ("MemTotal", "MemAvailable")))
