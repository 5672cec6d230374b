"""Find every process of a run, also one that left its group and session, lost its parent or cleared its environment."""

from __future__ import annotations

import ctypes
import itertools
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from triage.model.execution import UNLIMITED

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_ADDR_NO_RANDOMIZE = 0x0040000
# A 4, 8 random digits for this program, and 10 digits to count with: 19 digits, below the largest limit.
_FIRST = 4 * 10**18 + int.from_bytes(os.urandom(4)) % 10**8 * 10**10
_NUMBERS = itertools.count(_FIRST)
_STARTING = threading.Lock()


class Contained:
    """The processes of one run: its leader, and all that the leader and its descendants start.

    The number of the run marks them, as a limit of real-time scheduling. That limit affects no compiler, is inherited, and
    stays when a process clears its environment. As a subreaper, this program becomes the parent of marked processes whose
    parent ended, which keeps their ids from being reused.
    """

    def __init__(self, largest_file: int = UNLIMITED) -> None:
        """largest_file: bytes of each file that the run writes."""
        become_subreaper()
        self.number = next(_NUMBERS)
        self.leader = 0
        self.has_reaped = False
        """Whether `others` met one that has ended. It may have started another, which a second look finds."""
        self._largest_file = largest_file

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Mark the processes that this program starts in this block, from their first moment."""
        with _STARTING:
            before = resource.getrlimit(resource.RLIMIT_RTTIME)
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_RTTIME, (self.number, before[1]))
            try:
                yield
            finally:
                resource.setrlimit(resource.RLIMIT_RTTIME, before)

    def lead(self, pid: int) -> None:
        """Take a process that was just started as the leader."""
        self.leader = pid
        self._limit(pid)

    def _limit(self, pid: int) -> None:
        limits = [(resource.RLIMIT_CORE, 0)]
        if self._largest_file != UNLIMITED:
            limits.append((resource.RLIMIT_FSIZE, self._largest_file))
        for name, value in limits:
            with suppress(OSError, ValueError):  # it has ended, or has a lower limit
                resource.prlimit(pid, name, (value, value))

    def others(self) -> list[int]:
        """Return the living processes except the leader. Ended ones that this program has inherited are reaped."""
        own = (pid for pid in _children(os.getpid()) if pid != self.leader and self.owns(pid))
        family = [self.leader, *(pid for pid in own if not self._reap(pid))]
        for pid in family:
            family += _children(pid)
        return list(dict.fromkeys(family))[1:]

    def _reap(self, pid: int) -> bool:
        """Reap an inherited process if it has ended. Returns whether it has."""
        with suppress(ChildProcessError):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is None:
                return False
        self.has_reaped = True
        return True

    def resident(self) -> int:
        """Return the resident bytes of all processes. Those that started before the leader was limited are limited too."""
        total = 0
        for pid in (self.leader, *self.others()):
            self._limit(pid)
            with suppress(OSError, IndexError):
                total += int(_content(f"/proc/{pid}/statm").split()[1])
        return total * os.sysconf("SC_PAGE_SIZE")

    def owns(self, pid: int) -> bool:
        """Return whether a process has the mark of this run.

        Another thread may start a process of its own, such as git, while the mark is set. It stays in the session of this
        program, which no process of a run is in and none can enter.
        """
        try:
            is_marked = resource.prlimit(pid, resource.RLIMIT_RTTIME)[0] == self.number
            return is_marked and (pid == os.getpid() or os.getsid(pid) != os.getsid(0))
        except (OSError, ValueError):
            return False


def mark_of_all_runs() -> str:
    """Return the digits that the number of every run of this program begins with."""
    return str(_FIRST)[:9]


@cache
def become_subreaper() -> bool:
    """Become the parent of descendants whose own parent ends. Returns whether the system allows it.

    Also keep processes of the same user from reading the environment and the memory of this program, tokens included.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    return bool(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def fix_addresses() -> bool:
    """Disable address randomisation for the processes that this thread starts. Returns whether the system allows it.

    A compiler that iterates over pointers in hash order can give different answers for different address layouts.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    current = libc.personality(0xFFFFFFFF)
    return bool(current != -1 and libc.personality(current | _ADDR_NO_RANDOMIZE) != -1)


def missing_containment() -> list[str]:
    """Return what the system lacks to find every process of a run."""
    run = Contained()
    with run.starting():
        is_marked = run.owns(os.getpid())
    return [
        *([] if become_subreaper() else ["subreapers (PR_SET_CHILD_SUBREAPER)"]),
        *([] if is_marked else ["marks (prlimit of RLIMIT_RTTIME)"]),
        *([] if Path(f"/proc/self/task/{os.getpid()}/children").exists() else ["lists of children in /proc"]),
    ]


def _children(pid: int) -> list[int]:
    """Return the processes that a process is the parent of."""
    listed: list[int] = []
    tasks = f"/proc/{pid}/task"
    with suppress(OSError):
        for task in os.listdir(tasks):  # noqa: PTH208 - three times as fast as `Path`, 20 times a second for each run
            with suppress(OSError):  # the thread has ended
                listed += map(int, _content(f"{tasks}/{task}/children").split())
    return listed


def _content(path: str) -> bytes:
    """Return the content of a file in /proc."""
    file, content = os.open(path, os.O_RDONLY | os.O_CLOEXEC), b""
    try:
        while piece := os.read(file, 1 << 16):
            content += piece
        return content
    finally:
        os.close(file)


def processes_with(name: str, value: str) -> list[int]:
    """Return every other process that was started with this environment variable."""
    setting, found = f"{name}={value}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):  # it has ended, or belongs to another user
                if setting in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found
