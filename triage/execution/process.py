"""Run one process group under limits and account for it."""

from __future__ import annotations

import ctypes
import os
import resource
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Protocol

import psutil

from triage.model.errors import Interrupted
from triage.model.execution import Captured, Ending, Execution, Limits

_TICK = 0.05  # seconds between looks at memory and time
_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
_DRAIN = 1.0  # seconds that descendants may keep a pipe open after the process is gone
_STRETCH = 4.0  # a time limit never grows past this many times itself, however busy the machine is
_ADDR_NO_RANDOMIZE = 0x0040000


class Switch(Protocol):
    """What ends a run from outside: a `threading.Event`, or several as one."""

    def is_set(self) -> bool:
        """Whether the run shall end."""


def run(
    argv: Sequence[str],
    limits: Limits,
    cwd: Path,
    *,
    env: Mapping[str, str] | None = None,
    stdout_to: Path | None = None,
    stop: Switch | None = None,
    on_stderr: Callable[[bytes], None] | None = None,
) -> Execution:
    """Run `argv` in a session of its own with no standard input, and wait until the whole group is gone.

    stdout_to: a file for standard output instead of the capture; on_stderr: is given every byte of standard error.
    Raises Interrupted when `stop` is set. A program that cannot be started gives an Execution with NOT_STARTED.
    """
    return _Run(argv, limits, cwd, env or {}, stdout_to, stop or threading.Event(), on_stderr).go()


class _Run:
    """The state of one run: pipes, clock, and what has been seen so far."""

    def __init__(
        self,
        argv: Sequence[str],
        limits: Limits,
        cwd: Path,
        env: Mapping[str, str],
        stdout_to: Path | None,
        stop: Switch,
        on_stderr: Callable[[bytes], None] | None,
    ) -> None:
        self.argv, self.limits, self.cwd, self.env = tuple(argv), limits, cwd, env
        self.stdout_to, self.stop = stdout_to, stop
        self.stdout, self.stderr = Capture(limits.output), Capture(limits.output)
        self.on_stderr = on_stderr
        self.ending: Ending | None = None
        self.peak = 0

    def go(self) -> Execution:
        randomised = not _without_randomisation()
        if shutil.which(self.argv[0]) is None:  # setpriv would turn it into an exit status
            return self._not_started("no such program, or it may not be executed")
        sink = self.stdout_to.open("wb") if self.stdout_to else None
        started = time.monotonic()
        try:
            process = subprocess.Popen(
                [*die_with_parent(), *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=sink or subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.cwd,
                env={**os.environ, **self.env, "TMPDIR": str(self.cwd)},
                start_new_session=True,
            )
        except OSError as error:
            return self._not_started(error.strerror or str(error))
        finally:
            if sink:
                sink.close()
        try:
            status, usage = self._attend(process, started)
        finally:
            if process.returncode is None:  # interrupted: reap it, whatever it was doing
                kill_group(process.pid, signal.SIGKILL)
                process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe:
                    pipe.close()
        code = os.waitstatus_to_exitcode(status)
        by_signal = -code if code < 0 else None
        return Execution(
            argv=self.argv,
            ending=self.ending or (Ending.SIGNALLED if by_signal else Ending.EXITED),
            exit_code=None if by_signal else code,
            signal=by_signal,
            seconds=round(time.monotonic() - started, 4),
            cpu_seconds=round(usage.ru_utime + usage.ru_stime, 4),
            peak_rss_mb=round(self._peak_mb(usage), 1),
            stdout=self.stdout.captured(),
            stderr=self.stderr.captured(),
            randomised=randomised,
        )

    def _not_started(self, reason: str) -> Execution:
        told = Captured(head=f"{self.argv[0]}: {reason}\n")
        return Execution(self.argv, Ending.NOT_STARTED, None, None, 0.0, 0.0, 0.0, Captured(), told)

    def _peak_mb(self, usage: resource.struct_rusage) -> float:
        # Between fork and exec the child counts this program's own pages as its, so that a smaller figure than ours
        # says nothing of the child: then the largest sample stands.
        ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sampled = self.peak / (1 << 20)
        return max(sampled, usage.ru_maxrss / 1024) if usage.ru_maxrss > ours else sampled

    def _attend(self, process: subprocess.Popen[bytes], started: float) -> tuple[int, resource.struct_rusage]:
        """Read, watch and reap. The exit status and the rusage of the process and its reaped children."""
        streams = [(process.stdout, self._take_stdout), (process.stderr, self._take_stderr)]
        with selectors.DefaultSelector() as selector, _ExitNotice(process.pid) as notice:
            for pipe, take in streams:
                if pipe:
                    os.set_blocking(pipe.fileno(), False)
                    selector.register(pipe.fileno(), selectors.EVENT_READ, take)
            if notice.fd is not None:
                selector.register(notice.fd, selectors.EVENT_READ, None)
            ended: tuple[int, resource.struct_rusage] | None = None
            next_look, give_up = started + _TICK, 0.0
            while True:
                open_pipes = [key for key in selector.get_map().values() if key.data is not None]
                if ended and (not open_pipes or time.monotonic() > give_up):
                    return ended
                self._read(selector, max(0.0, next_look - time.monotonic()))
                if not ended and os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    # What it left behind is killed while its own number is still taken, so that no stranger is hit.
                    kill_group(process.pid, signal.SIGKILL)
                    _, status, usage = os.wait4(process.pid, 0)
                    process.returncode = os.waitstatus_to_exitcode(status)
                    ended, give_up = (status, usage), time.monotonic() + _DRAIN
                    if notice.fd is not None:
                        selector.unregister(notice.fd)
                if time.monotonic() >= next_look:
                    next_look = time.monotonic() + _TICK
                    if not ended:
                        self._look(process.pid, started)

    def _read(self, selector: selectors.BaseSelector, patience: float) -> None:
        for key, _ in selector.select(patience):
            if key.data is None:
                continue
            data = os.read(key.fd, 1 << 20)
            if data:
                key.data(data)
            else:
                selector.unregister(key.fd)

    def _take_stdout(self, data: bytes) -> None:
        self.stdout.feed(data)

    def _take_stderr(self, data: bytes) -> None:
        self.stderr.feed(data)
        if self.on_stderr:
            self.on_stderr(data)

    def _look(self, pid: int, started: float) -> None:
        """Compare what is used with the limits; end the group when one is passed or a stop was asked for."""
        if self.stop.is_set():
            _end(pid)
            raise Interrupted("stopped")
        if self.ending:
            return
        rss = group_rss(pid)
        self.peak = max(self.peak, rss)
        elapsed = time.monotonic() - started
        if rss > self.limits.memory:
            self.ending = Ending.OVER_MEMORY
        elif elapsed > self.limits.timeout:
            # On a starved machine the wall clock says little: time spent ready but without a core is given back.
            allowed = min(self.limits.timeout + waited_for_core(pid), _STRETCH * self.limits.timeout)
            if elapsed > allowed:
                self.ending = Ending.TIMED_OUT
        elif self.stdout_to and self.stdout_to.stat().st_size > _LARGEST_FILE:
            self.ending = Ending.OVER_OUTPUT
        if self.ending:
            _end(pid)


_LARGEST_FILE = 2 << 30


def _end(pid: int) -> None:
    """SIGTERM to the group, then SIGKILL to what is left of it after the grace."""
    kill_group(pid, signal.SIGTERM)
    until = time.monotonic() + _GRACE
    while time.monotonic() < until:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        time.sleep(0.01)
    kill_group(pid, signal.SIGKILL)


class _ExitNotice:
    """A descriptor that becomes readable when the process ends, where the system has one."""

    def __init__(self, pid: int) -> None:
        self.fd: int | None = None
        with suppress(OSError, AttributeError):
            self.fd = os.pidfd_open(pid)

    def __enter__(self) -> _ExitNotice:
        return self

    def __exit__(self, *_: object) -> None:
        if self.fd is not None:
            os.close(self.fd)


@cache
def die_with_parent() -> tuple[str, ...]:
    """A prefix that has the kernel kill the compiler when this process dies, kill -9 included; empty where there is none."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return ()
    prefix = (setpriv, "--pdeathsig", "KILL", "--")
    works = subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    return prefix if works else ()


@cache
def _libc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None, use_errno=True)
    return libc if hasattr(libc, "personality") else None


def _without_randomisation() -> bool:
    """Switch address randomisation off for what this thread starts; whether the system allowed it.

    A compiler that iterates over pointers in hash order gives another verdict for another address layout.
    """
    libc = _libc()
    if libc is None:
        return False
    current = libc.personality(0xFFFFFFFF)
    return bool(current != -1 and libc.personality(current | _ADDR_NO_RANDOMIZE) != -1)


_PAGE = os.sysconf("SC_PAGE_SIZE")


def group_rss(pid: int) -> int:
    """Resident bytes of a process and its descendants; 0 when it is gone."""
    total = 0
    for member in _members(pid):
        try:
            total += int(Path(f"/proc/{member}/statm").read_bytes().split()[1]) * _PAGE
        except (OSError, IndexError):
            with suppress(psutil.Error):
                total += psutil.Process(member).memory_info().rss
    return total


def waited_for_core(pid: int) -> float:
    """Seconds that a process was ready to run and had no core; 0 where the system does not say."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def kill_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process group and to descendants that left it. Those already gone are no error."""
    for member in _members(pid)[1:]:
        with suppress(OSError):
            os.kill(member, number)
    with suppress(OSError):
        os.killpg(pid, number)


def _members(pid: int) -> list[int]:
    """A process and its descendants, itself first."""
    found = [pid]
    for member in found:
        try:
            for task in Path(f"/proc/{member}/task").iterdir():
                found += [int(child) for child in (task / "children").read_bytes().split()]
        except OSError:
            if member == pid and not Path("/proc/self/task").exists():
                with suppress(psutil.Error):
                    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    return found


class Capture:
    """Keeps the first and the last `limit / 2` bytes of what it is fed and counts the rest."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail += data[-self._half :]
        self._dropped += max(0, len(data) - self._half)
        if len(self._tail) > 2 * self._half:  # trimmed seldom, so that feeding small pieces stays linear
            self._trim()

    def captured(self) -> Captured:
        """What was kept, as text; broken characters are replaced."""
        self._trim()
        head, tail = bytes(self._head), bytes(self._tail)
        if not self._dropped:
            return Captured(head=(head + tail).decode("utf-8", "replace"))
        return Captured(head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), self._dropped)

    def _trim(self) -> None:
        surplus = len(self._tail) - self._half
        if surplus > 0:
            del self._tail[:surplus]
            self._dropped += surplus
