"""Start processes: the only module that does. Every process gets limits, a session of its own, and is never left behind."""

from __future__ import annotations

import math
import os
import resource
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from triage.execution.containment import Contained, fix_addresses, mark_of_all_runs, processes_with
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
_KILLED = 5.0  # seconds that killed processes have to disappear
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

    env: variables in addition to those for a compiler, see `environment`; stdout_to: file that receives standard output
    instead of the execution; on_stderr: receives all of standard error as it arrives.

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

    env: variables in addition to those of the purpose, see `environment`; timeout: wall seconds; on_tick: called about 20
    times a second while the program runs.
    Raises Interrupted when `stop` is set.
    """
    limits, environ = Limits(timeout, UNLIMITED, UNLIMITED, kept=128 << 10), environment(purpose, env)
    return _Run(tuple(argv), limits, cwd, environ, stop, on_stdout=log.write, on_stderr=log.write, on_tick=on_tick).execute()


def capture(
    argv: Sequence[str], timeout: float, *, purpose: Purpose = Purpose.COMPILE, env: Mapping[str, str | None] = _EMPTY
) -> Execution:
    """Ask a program for a short answer, such as its version. `env`: variables in addition to those of the purpose."""
    limits = Limits(timeout, UNLIMITED, UNLIMITED, _LARGEST_ANSWER)
    return _Run(tuple(argv), limits, Path(), environment(purpose, env), None).execute()


class Worker:
    """A process that answers one request after another.

    A request and an answer are each sent as their length, in 8 hexadecimal digits, and their bytes.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """Start the process. `env`: variables in addition to `Purpose.COMPILE`. OSError when it cannot be started."""
        self._contained, pipe, environ = Contained(), subprocess.PIPE, environment(Purpose.COMPILE, env)
        _watchdog()
        with self._contained.starting():
            self._process = subprocess.Popen(
                argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environ, start_new_session=True
            )
        self._contained.lead(self._process.pid)
        _watchdog().watch(self._process.pid)

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
            _reap(self._process, self._contained)
            for pipe in (self._process.stdin, self._process.stdout):
                with suppress(OSError, ValueError):
                    pipe.close()  # type: ignore[union-attr]


@dataclass
class _Run:
    """The state of one run: pipes, clock, and what was read and measured."""

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

    def execute(self) -> Execution:
        randomised = not fix_addresses()
        watchdog = _watchdog()  # running before the process, so that it is watched from its first moment
        self.contained = Contained(self.limits.output)
        self.disk = DiskUse(self.cwd, self.stdout_to, self.limits.output)
        half = max(1, self.limits.kept // 2)
        stdout, stderr = Capture(half, half), Capture(half, half)
        self._interruptions, started = _interruptions, time.monotonic()
        with ExitStack() as stack:
            try:
                output = stack.enter_context(self.stdout_to.open("wb")) if self.stdout_to else subprocess.PIPE
                with self.contained.starting():
                    process = subprocess.Popen(
                        self.argv,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.PIPE,
                        cwd=self.cwd,
                        env=self.env,
                        start_new_session=True,
                    )
            except OSError as error:
                reason = Captured(head=f"{error.filename or self.argv[0]}: {error.strerror or error}\n")
                return Execution(self.argv, Ending.NOT_STARTED, None, None, 0.0, 0.0, 0.0, Captured(), reason)
            self.contained.lead(process.pid)
            watchdog.watch(process.pid)
            selector = stack.enter_context(selectors.DefaultSelector())
            for pipe, kept, sink in ((process.stdout, stdout, self.on_stdout), (process.stderr, stderr, self.on_stderr)):
                if pipe:
                    os.set_blocking(pipe.fileno(), False)
                    selector.register(stack.enter_context(pipe), selectors.EVENT_READ, (kept, sink))
            try:
                self._attend(process.pid, selector, started)
            finally:
                # What it left behind is killed while its process id cannot be reused.
                status, usage = _reap(process, self.contained)
            give_up = time.monotonic() + _DRAIN
            while selector.get_map() and time.monotonic() < give_up:
                _read(selector, _TICK)
        code = os.waitstatus_to_exitcode(status)
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
            seconds=round(time.monotonic() - started, 4),
            cpu_seconds=round(usage.ru_utime + usage.ru_stime, 4),
            peak_rss_mb=round(peak_mb, 1),
            stdout=stdout.captured(),
            stderr=stderr.captured(),
            randomised=randomised,
            disk_free=self.disk.least_free,
            waited=round(self.waited, 4),
        )

    def _attend(self, pid: int, selector: selectors.BaseSelector, started: float) -> None:
        """Read and check the limits until the process has ended."""
        next_check = started + _TICK
        with ExitStack() as stack:
            with suppress(OSError):  # a sandbox may forbid it; then the end is seen at the next check
                notice = os.pidfd_open(pid)  # readable when the process ends
                stack.callback(os.close, notice)
                selector.register(notice, selectors.EVENT_READ)
                stack.callback(selector.unregister, notice)
            while not _has_ended(pid):
                _read(selector, max(0.0, next_check - time.monotonic()))
                if time.monotonic() >= next_check:
                    next_check = time.monotonic() + _TICK
                    self._check(pid, started)

    def _check(self, pid: int, started: float) -> None:
        """End the run when a limit is exceeded or `stop` is set."""
        if self._interruptions != _interruptions or (self.stop and self.stop.is_set()):
            _end(self.contained, _STOP_GRACE)
            raise Interrupted("stopped")
        if self.on_tick:
            self.on_tick()
        if self.ending:
            return
        rss = 0 if self.limits.memory == UNLIMITED else self.contained.resident()
        self.peak = max(self.peak, rss)
        self.disk.note_free()
        elapsed = time.monotonic() - started
        if rss > self.limits.memory:
            self.ending = Ending.OVER_MEMORY
        elif elapsed > self.limits.timeout:
            used = elapsed - _seconds_without_core(pid)
            if not self.limits.without_waiting or used > self.limits.timeout or elapsed > _MAX_STRETCH * self.limits.timeout:
                self.ending, self.waited = Ending.TIMED_OUT, max(0.0, self.limits.timeout - used)
        elif self.disk.is_exceeded():
            self.ending = Ending.OVER_OUTPUT
        if self.ending:
            _end(self.contained)


def _read(selector: selectors.BaseSelector, timeout: float) -> None:
    for key, _ in selector.select(timeout):
        if key.data is None:
            continue
        data = os.read(key.fd, 1 << 20)
        if not data:
            selector.unregister(key.fileobj)
            continue
        kept, sink = key.data
        kept.write(data)
        if sink:
            sink(data)


def _has_ended(pid: int) -> bool:
    """Return whether a child has ended. It stays a zombie, so that its process id is not reused."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(contained: Contained, grace: float = _GRACE) -> None:
    """Send SIGTERM to all processes, then SIGKILL to what is left of them after the grace period."""
    _signal(contained, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and not _has_ended(contained.leader):
        time.sleep(0.01)
    _signal(contained, signal.SIGKILL)


def _reap(process: subprocess.Popen[bytes], contained: Contained) -> tuple[int, resource.struct_rusage]:
    """Kill all processes, wait until they have disappeared, and return the wait status and the usage of the leader."""
    deadline = time.monotonic() + _KILLED
    while _signal(contained, signal.SIGKILL) and time.monotonic() < deadline:
        time.sleep(0.001)
    _watchdog().forget(process.pid)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return status, usage


def _signal(contained: Contained, number: signal.Signals) -> bool:
    """Send a signal to the leader's group and to all other processes. Returns whether there were others, also if just ended."""
    with suppress(OSError):
        os.killpg(contained.leader, number)
    contained.has_reaped = False
    others = contained.others()
    for pid in others:
        with suppress(OSError):
            os.kill(pid, number)
    return bool(others) or contained.has_reaped


def _seconds_without_core(pid: int) -> float:
    """Return how long a process was ready to run and had no core; 0 where the system does not report it."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


# Reads `+ GROUP` when a run starts and `- GROUP` when it has ended. When this program ends, however it ends, the input ends as
# well, and the watchdog kills the groups that are left and then every process that has the mark of a run.
_WATCHDOG = """
running=
while read -r sign group; do
  others=
  for other in $running; do [ "$other" = "$group" ] || others="$others $other"; done
  if [ "$sign" = + ]; then running="$others $group"; else running=$others; fi
done
[ -n "$running" ] || exit
for group in $running; do kill -KILL -"$group"; done
cd /proc || exit
for round in 1 2 3 4 5 6 7 8 9; do
  files=$(echo [0-9]*/limits | xargs grep -lsE "^Max realtime timeout +$1")
  [ -n "$files" ] || exit
  for file in $files; do kill -KILL "${file%%/*}"; done
  sleep 0.1
done
"""


class _Watchdog:
    """A process that outlives this program, `kill -9` included, and then kills every process of a run left running."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "watchdog", mark_of_all_runs()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath)},  # other processes can read it
            start_new_session=True,
        )

    def watch(self, pid: int) -> None:
        """Register a process group."""
        self._send(f"+ {pid}\n")

    def forget(self, pid: int) -> None:
        """Forget a group, before its process is reaped and its id can be used again."""
        self._send(f"- {pid}\n")

    def _send(self, line: str) -> None:
        assert self._process.stdin
        with suppress(OSError):  # somebody killed the watchdog
            os.write(self._process.stdin.fileno(), line.encode())


@cache
def _watchdog() -> _Watchdog:
    return _Watchdog()


class Memory(NamedTuple):
    """Main memory of this machine in bytes."""

    total: int
    available: int


def memory() -> Memory:
    """Return the size of main memory and how much of it programs can use without swapping."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return Memory(*(int(fields[name].split()[0]) << 10 for name in ("MemTotal", "MemAvailable")))


def kill_all_with(name: str, value: str) -> None:
    """Kill every other process that was started with this environment variable, and wait until they have ended."""
    deadline = time.monotonic() + _KILLED
    while left := processes_with(name, value):
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return
        time.sleep(0.01)
