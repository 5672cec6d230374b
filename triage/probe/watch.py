"""What the operating system knows of a running process group."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil

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
