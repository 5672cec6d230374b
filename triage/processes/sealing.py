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
import re
import stat
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_LIBC = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # on every architecture
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_PR_GET_SECCOMP = 21
_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
# Let no program that a thread starts gain privileges: none of root, and none of a
# program that sets its user. The kernel asks for this before it takes limits.
_NO_NEW_PRIVILEGES = (38, 1, 0, 0, 0)
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION = 0x20080522

# Rights by their bits, see linux/landlock.h.
_EXECUTE = 1
_WRITE = 2
_READ = 4
_LIST = 8
_TRUNCATE = 1 << 14
_IOCTL = 1 << 15
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # version -> bits; later versions as 5
_NETWORK = 0b11  # bind and connect with TCP, from version 4 on
_SCOPES = 0b11  # signals and abstract sockets of others, from version 6 on
_NETWORK_VERSION = 4
_SCOPES_VERSION = 6
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


@dataclass(frozen=True)
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
    return not _LIBC.prctl(_PR_GET_SECCOMP) < 0


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


def call_restricted(seal: Seal | None, action: Callable[[], T]) -> T:
    """Call an action in a thread with limits, and return its result. What it starts
    keeps the limits: those of `seal`, and the mark of containment cannot be changed.

    Raises OSError if the system cannot seal; what the action raises.
    """
    from concurrent.futures import ThreadPoolExecutor  # slow to import

    with ThreadPoolExecutor(1) as thread:
        thread.submit(_restrict_thread, seal).result()
        return thread.submit(action).result()


def _restrict_thread(seal: Seal | None) -> None:
    """Take the limits of a seal, for ever. Without one, only the mark is kept."""
    if seal is None:
        with suppress(OSError):  # a sandbox may forbid it
            _filter_calls("mark")
        return
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
    _filter_calls(*sections)


def _restrict_files(seal: Seal, version: int) -> None:
    rights = (1 << _RIGHTS[min(version, max(_RIGHTS))]) - 1
    attributes = struct.pack("Q", rights)  # later fields are unknown to an older kernel
    if version >= _NETWORK_VERSION:
        attributes += struct.pack("Q", _NETWORK)
    if version >= _SCOPES_VERSION:
        attributes += struct.pack("Q", _SCOPES)
    ruleset = _system_call(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for path in (*SYSTEM, *seal.reads):
            _allow(ruleset, path, rights & (_EXECUTE | _READ | _LIST))
        for path in seal.writes:
            _allow(ruleset, path, rights)
        for path in (_SINK, *seal.devices):
            _allow(ruleset, path, rights & (_READ | _WRITE | _LIST | _IOCTL))
        _LIBC.prctl(*_NO_NEW_PRIVILEGES)
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


# The filter of system calls: a small program that the kernel runs before each one. It
# sees the number of the call and its arguments, but no memory: what a pointer leads to
# cannot be decided here. `call_rules.txt` has the rules.

# Instructions of the filter, and the fields of what it reads.
_LOAD = 0x20
_AND = 0x54
_JUMP = 0x05
_RETURN = 0x06
_IF_EQUAL = 0x15
_IF_AT_LEAST = 0x35
_NUMBER = 0
_ARCHITECTURE = 4
_ARGUMENTS = 16
_X32 = 0x40000000  # added to the numbers of x86-64's third interface
_ANSWER = 0x00050000
ANSWERS = {
    "allowed": 0x7FFF0000,
    "refused": _ANSWER | errno.EACCES,
    "forbidden": _ANSWER | errno.EPERM,
    "unknown": _ANSWER | errno.ENOSYS,
    "ignored": _ANSWER,
}
# The kernel's marks of an interface and of the one for 32-bit programs, and the column
# of their numbers in the rules.
INTERFACES = {
    "x86_64": (0xC000003E, 0x40000003, 0),
    "aarch64": (0xC00000B7, 0x40000028, 1),
}
# a sealed thread cannot read it any more
_RULES = Path(__file__).with_name("call_rules.txt").read_text("utf-8")
_RULE = re.compile(r"(\w+) ([-\d]+) ([-\d]+) ([a-z]+)(.*)")
_CONDITION = re.compile(
    r" (?P<argument>\d)(?P<high>\.high)?"
    r"(?:&(?P<mask>\w+))?(?P<unlike>!?)=(?P<value>\w+)"
)
Instruction = tuple[int, int, int, int]
"""An instruction: its code, where to go on if it holds or not, and its operand."""


@dataclass(frozen=True)
class CallRule:
    """The answer to a system call if all conditions on its arguments hold."""

    call: str
    numbers: tuple[str, str]
    """Of the call in each interface; - where there is none."""
    answer: str
    conditions: str

    def instructions(self, column: int) -> list[Instruction]:
        """Return the instructions: the answer, or on to what follows."""
        number = self.numbers[column]
        if number == "-":
            return []
        instructions: list[Instruction] = [(_RETURN, 0, 0, ANSWERS[self.answer])]
        for match in reversed(list(_CONDITION.finditer(self.conditions))):
            offset = _ARGUMENTS + 8 * int(match["argument"])
            if match["high"]:
                offset += 4
            jumps = (0, len(instructions))
            if match["unlike"]:
                jumps = (len(instructions), 0)
            instructions = [
                (_LOAD, 0, 0, offset),
                (_AND, 0, 0, int(match["mask"] or "0xFFFFFFFF", 0)),
                (_IF_EQUAL, *jumps, int(match["value"], 0)),
                *instructions,
            ]
        is_call = (_IF_EQUAL, 0, len(instructions), int(number))
        return [(_LOAD, 0, 0, _NUMBER), is_call, *instructions]


@cache
def call_rules(section: str) -> tuple[CallRule, ...]:
    """Return the rules of a section of the file."""
    part = _RULES.split(f"\n[{section}]\n")[1].split("\n[")[0]
    rules = []
    for match in filter(None, map(_RULE.fullmatch, part.splitlines())):
        call, *numbers, answer, conditions = match.groups()
        rules.append(CallRule(call, (numbers[0], numbers[1]), answer, conditions))
    return tuple(rules)


def _filter_calls(*sections: str) -> None:
    """Apply the rules of some sections to this thread and to all that it starts. A call
    that none fits is allowed.

    Raises OSError if the system allows no filters.
    """
    code = filter_code(sections, platform.machine())
    memory = ctypes.create_string_buffer(code, len(code))
    size = struct.calcsize("HBBI")
    program = struct.pack("HxxxxxxP", len(code) // size, ctypes.addressof(memory))
    _LIBC.prctl(*_NO_NEW_PRIVILEGES)
    if _LIBC.prctl(_PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0):
        raise OSError(
            ctypes.get_errno(),
            "the system allows no filter of its calls; see --unsealed",
        )


@cache
def filter_code(sections: Sequence[str], machine: str) -> bytes:
    """Return the filter for a machine as `platform.machine` names it. Raises OSError if
    its calls are not known.
    """
    if machine not in INTERFACES:
        raise OSError(errno.ENOSYS, f"the system calls of {machine} are not known")
    mark, older_mark, column = INTERFACES[machine]
    refuse: Instruction = (_RETURN, 0, 0, ANSWERS["refused"])
    allow: Instruction = (_RETURN, 0, 0, ANSWERS["allowed"])
    instructions: list[Instruction] = [
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, 0, 1, _X32),
        refuse,
    ]
    for rule in chain.from_iterable(map(call_rules, sections)):
        instructions += rule.instructions(column)
    older = [refuse]
    if sections == ("mark",):  # only what is not sealed may be a 32-bit program
        older = [(_IF_EQUAL, 1, 0, older_mark), refuse]
        for rule in call_rules("older"):
            older += rule.instructions(column)
        older.append(allow)
    instructions = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, mark),
        (_JUMP, 0, 0, len(instructions) + 1),
        *instructions,
        allow,
        *older,
    ]
    return b"".join(struct.pack("HBBI", *line) for line in instructions)
