"""Start programs that read and write only what is named, and reach no other process.

The key insight: Landlock limits a thread and all that it starts, for ever. So a thread
of its own takes the limits, starts the program, and ends. Nothing else of this process
changes, no code runs between fork and exec, and no privileges are needed.

Starting a program is not limited: whatever can be read can be run, by the loader, by an
interpreter, from memory. What is started has the same limits.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

from triage.processes import call_filter

T = TypeVar("T")
_LIBC = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # on every architecture
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_GET_SECCOMP = 21
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION = 0x20080522

# Rights by their bits, see linux/landlock.h.
_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # version -> bits; later versions as 5
_NETWORK = 0b11  # bind and connect with TCP, from version 4 on
_SCOPES = 0b11  # signals and abstract sockets of others, from version 6 on
_NETWORK_VERSION, _SCOPES_VERSION = 4, 6
_TRUNCATE_VERSION = 3

# What every program may read: the libraries and programs of the system, and what the
# C library, Python and LLVM ask about the machine.
_SYSTEM = """
/usr/bin /usr/sbin /usr/lib /usr/lib32 /usr/lib64 /usr/libexec /usr/libx32
/usr/share /usr/include /bin /sbin /lib /lib32 /lib64 /libx32 /nix/store /gnu/store
/etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d /etc/ld.so.preload
/etc/alternatives /etc/localtime /etc/os-release
/proc/cpuinfo /proc/meminfo /proc/version /proc/filesystems
/proc/sys/vm/overcommit_memory
/sys/devices/system/cpu /sys/devices/system/node /sys/kernel/mm/transparent_hugepage
/dev/urandom /dev/random /dev/zero
"""
SYSTEM = tuple(map(Path, _SYSTEM.split()))
_SINK = Path("/dev/null")


@dataclass(frozen=True, slots=True)
class Seal:
    """What a program may read and write, besides `SYSTEM`. A folder stands for all that
    is below it. What does not exist is left out.
    """

    reads: tuple[Path, ...]
    writes: tuple[Path, ...] = ()
    devices: tuple[Path, ...] = ()
    """Device files, with all that they are asked to do."""

    def reading_all(self) -> Seal:
        """Return the seal of a program that may read every file of a disk."""
        not_on_disk = {"dev", "proc", "run", "sys"}
        folders = (path for path in Path("/").iterdir() if path.name not in not_on_disk)
        return replace(self, reads=tuple(folders))

    def may_read(self, path: Path) -> bool:
        """Return whether a program may read a file."""
        real = path.resolve()
        allowed = (*SYSTEM, *self.reads, *self.writes, *self.devices, _SINK)
        return any(real.is_relative_to(root.resolve()) for root in allowed)


@cache
def landlock_version() -> int:
    """Return the version of Landlock; 0 if the kernel has none."""
    with suppress(OSError):
        return _system_call(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    return 0


@cache
def can_seal() -> bool:
    """Return whether this system can seal programs: it has Landlock and filters of
    calls.
    """
    if platform.machine() not in _CAPSET or not landlock_version():
        return False
    return not _LIBC.prctl(_GET_SECCOMP) < 0


_is_wanted = True


def switch_sealing(*, on: bool) -> None:
    """Seal nothing from now on if it is off, because the user typed `--unsealed`."""
    global _is_wanted
    _is_wanted = on


def is_sealing() -> bool:
    """Return whether programs are sealed: the system can, and the user wants it."""
    return _is_wanted and can_seal()


def missing_seals() -> list[str]:
    """Return what this system's seal does not hold."""
    if not can_seal():
        return ["reads, writes, sockets and other processes (Landlock, Linux 5.13)"]
    if landlock_version() < _SCOPES_VERSION:
        return ["signals to other processes (Landlock 6, Linux 6.12)"]
    return []


def restricted(seal: Seal | None, action: Callable[[], T]) -> T:
    """Return the result of an action in a thread with limits. What it starts keeps
    them: the mark of containment cannot be changed, and what `seal` says.

    Raises OSError if the system cannot seal; what the action raises.
    """

    def act() -> T:
        if seal:
            _restrict_thread(seal)
        else:
            with suppress(OSError):  # a sandbox may forbid it
                call_filter.apply_rules("mark")
        return action()

    from concurrent.futures import ThreadPoolExecutor  # slow to import

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(act).result()


def _restrict_thread(seal: Seal) -> None:
    """Take the limits of a seal, for ever."""
    if not can_seal():
        raise OSError(errno.ENOSYS, "the kernel has no Landlock")
    version = landlock_version()
    _restrict_files(seal, version)
    # The rights of root. After `no_new_privs` no program gets them back.
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    _system_call(_CAPSET[platform.machine()], header, bytes(24))
    sections = ["mark", "sealed"]
    if version < _TRUNCATE_VERSION:
        sections.append("truncate")
    call_filter.apply_rules(*sections)


def _restrict_files(seal: Seal, version: int) -> None:
    rights = (1 << _RIGHTS[min(version, max(_RIGHTS))]) - 1
    asked = struct.pack("Q", rights)  # later fields are unknown to an older kernel
    if version >= _NETWORK_VERSION:
        asked += struct.pack("Q", _NETWORK)
    if version >= _SCOPES_VERSION:
        asked += struct.pack("Q", _SCOPES)
    ruleset = _system_call(_CREATE_RULESET, asked, len(asked), 0)
    try:
        for path in (*SYSTEM, *seal.reads):
            _allow(ruleset, path, rights & (_EXECUTE | _READ | _LIST))
        for path in seal.writes:
            _allow(ruleset, path, rights)
        for path in (_SINK, *seal.devices):
            _allow(ruleset, path, rights & (_READ | _WRITE | _LIST | _IOCTL))
        call_filter.forbid_privileges()
        _system_call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # there is no such file, or nobody may reach it
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        beneath = struct.pack("=Qi", rights, descriptor)
        _system_call(_ADD_RULE, ruleset, _PATH_BENEATH, beneath, 0)
    finally:
        os.close(descriptor)


def _system_call(*words: int | bytes | None) -> int:
    """Return the answer of the kernel to a call: its number and its arguments. Raises
    OSError if it fails.
    """
    arguments = [
        ctypes.c_long(word) if isinstance(word, int) else word for word in words
    ]
    answer: int = _LIBC.syscall(*arguments)
    if answer < 0:
        raise OSError(ctypes.get_errno(), "the kernel refuses to seal; pass --unsealed")
    return answer
