"""Refuse system calls to a thread and to all that it starts, for ever (seccomp).

A filter is a small program that the kernel runs before each system call. It sees the
number of the call and its arguments, but no memory: what a pointer leads to cannot be
decided here. A rule is a call, conditions on its arguments, and the answer.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_PR_SET_NO_NEW_PRIVS = 38
_RLIMIT_RTTIME = 15
# Instructions of the filter, and the fields of what it reads.
_LOAD, _AND, _JUMP, _RETURN = 0x20, 0x54, 0x05, 0x06
_IF_EQUAL, _IF_AT_LEAST = 0x15, 0x35
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _ANSWER = 0x7FFF0000, 0x00050000
_X32 = 0x40000000  # added to the numbers of x86-64's third interface

REFUSED = _ANSWER | errno.EACCES
FORBIDDEN = _ANSWER | errno.EPERM
UNKNOWN = _ANSWER | errno.ENOSYS
IGNORED = _ANSWER
"""Success, and nothing is done."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """How the kernel names an architecture, and the older interface for 32-bit
    programs that it also has.
    """

    mark: int
    column: int
    """Of its numbers in `CALLS`."""
    older_mark: int
    older_calls: Mapping[str, int]


ARCHITECTURES = {
    "x86_64": Architecture(
        0xC000003E, 0, 0x40000003, {"setrlimit": 75, "prlimit64": 340}
    ),
    "aarch64": Architecture(
        0xC00000B7, 1, 0x40000028, {"setrlimit": 75, "prlimit64": 369}
    ),
}

# Calls with their numbers on x86-64 and on arm64, from the kernel's tables; - where
# there is none. These are refused: other ways to use sockets; keys and memory of the
# whole system; other processes; the kernel itself, namespaces, files without a path.
_REFUSED_CALLS = """
socket 41 198
io_uring_setup 425 425
add_key 248 217
request_key 249 218
keyctl 250 219
shmget 29 194
msgget 68 186
semget 64 190
mq_open 240 180
mq_unlink 241 181
ptrace 101 117
process_vm_readv 310 270
process_vm_writev 311 271
process_madvise 440 440
pidfd_getfd 438 438
kcmp 312 272
move_pages 279 239
migrate_pages 256 238
process_mrelease 448 448
bpf 321 280
perf_event_open 298 241
userfaultfd 323 282
fanotify_init 300 262
open_by_handle_at 304 265
unshare 272 97
setns 308 268
chroot 161 51
"""
# These change mode, owner, times and attributes of files. Landlock has no right for
# them, and a linker or `cp` must go on.
_IGNORED_CALLS = """
chmod 90 -
fchmod 91 52
fchmodat 268 53
fchmodat2 452 452
chown 92 -
fchown 93 55
lchown 94 -
fchownat 260 54
utime 132 -
utimes 235 -
futimesat 261 -
utimensat 280 88
setxattr 188 5
lsetxattr 189 6
fsetxattr 190 7
removexattr 197 14
lremovexattr 198 15
fremovexattr 199 16
setxattrat 463 463
removexattrat 466 466
file_setattr 469 469
"""
# The answer to these depends on their arguments.
_OTHER_CALLS = """
setrlimit 160 164
prlimit64 302 261
socketpair 53 199
sched_setaffinity 203 122
sched_setparam 142 118
sched_setscheduler 144 119
sched_setattr 314 274
setpriority 141 140
ioprio_set 251 30
clone 56 220
clone3 435 435
ioctl 16 29
open 2 -
openat 257 56
openat2 437 437
truncate 76 45
"""


def _numbers(table: str) -> dict[str, tuple[int | None, ...]]:
    numbers = {}
    for line in filter(None, table.splitlines()):
        name, *texts = line.split()
        numbers[name] = tuple(None if text == "-" else int(text) for text in texts)
    return numbers


CALLS = _numbers(_REFUSED_CALLS + _IGNORED_CALLS + _OTHER_CALLS)
"""The numbers of each call, by its name."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on 32 bits of an argument: `argument & mask == value`, or its
    opposite.
    """

    argument: int
    """Counted from 0."""
    value: int
    mask: int = 0xFFFFFFFF
    equal: bool = True
    upper: bool = False
    """Of the upper half of the argument."""


@dataclass(frozen=True, slots=True)
class CallRule:
    """The answer to a call if all conditions hold."""

    call: str
    answer: int
    conditions: tuple[Condition, ...] = ()


def _unless_zero(call: str, argument: int, answer: int) -> CallRule:
    """Answer a call for another process or thread than the caller, which 0 stands
    for.
    """
    return CallRule(call, answer, (Condition(argument, 0, equal=False),))


_IS_REALTIME = Condition(1, _RLIMIT_RTTIME)
MARK_RULES = (
    CallRule("setrlimit", FORBIDDEN, (Condition(0, _RLIMIT_RTTIME),)),
    CallRule("prlimit64", FORBIDDEN, (_IS_REALTIME, Condition(2, 0, equal=False))),
    CallRule(
        "prlimit64", FORBIDDEN, (_IS_REALTIME, Condition(2, 0, equal=False, upper=True))
    ),
)
"""Every process of a run keeps its mark; see `containment`."""

_NAMESPACES = 0x7E020000  # flags of clone
_STREAM, _LOCAL = 1, 1  # a pair of streams leads nowhere; one of datagrams may
# `ioctl` that change a file's attributes, and those of its encryption
_FILE_ATTRIBUTES = (0x40086602, 0x401C5820)
# Call -> the argument that names a thread. A program with many threads binds each to a
# core by its number, and must go on.
_OF_A_THREAD = {
    "sched_setaffinity": 0,
    "sched_setparam": 0,
    "sched_setscheduler": 0,
    "sched_setattr": 0,
    "setpriority": 1,
    "ioprio_set": 1,
}
SEALED_RULES = (
    *MARK_RULES,
    *(CallRule(name, REFUSED) for name in _numbers(_REFUSED_CALLS)),
    *(CallRule(name, IGNORED) for name in _numbers(_IGNORED_CALLS)),
    CallRule("socketpair", REFUSED, (Condition(0, _LOCAL, equal=False),)),
    CallRule("socketpair", REFUSED, (Condition(1, _STREAM, mask=0xF, equal=False),)),
    CallRule("clone", REFUSED, (Condition(0, 0, mask=_NAMESPACES, equal=False),)),
    # its flags are in memory; the C library uses `clone` then
    CallRule("clone3", UNKNOWN),
    _unless_zero("prlimit64", 0, FORBIDDEN),
    *(_unless_zero(name, index, IGNORED) for name, index in _OF_A_THREAD.items()),
    # a third kind, all processes of a user, does not name one
    CallRule("setpriority", FORBIDDEN, (Condition(0, 2),)),
    CallRule("ioprio_set", FORBIDDEN, (Condition(0, 3),)),
    *(CallRule("ioctl", FORBIDDEN, (Condition(1, code),)) for code in _FILE_ATTRIBUTES),
)

_ACCESS, _TRUNCATE = 0o3, 0o1000  # of the flags of `open`
TRUNCATE_RULES = (
    CallRule("truncate", REFUSED),
    CallRule("open", REFUSED, (Condition(1, _TRUNCATE, _ACCESS | _TRUNCATE),)),
    CallRule("openat", REFUSED, (Condition(2, _TRUNCATE, _ACCESS | _TRUNCATE),)),
    CallRule("openat2", UNKNOWN),  # its flags are in memory
)
"""Landlock knows them from its third version on."""


def forbid_privileges() -> None:
    """Let no program that this thread starts gain privileges: none of root, and none of
    a program that sets its user. The kernel asks for this before it takes limits.
    """
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def apply_rules(rules: tuple[CallRule, ...], *, older_programs: bool = False) -> None:
    """Apply rules to this thread and to all that it starts.

    Args:
        rules: The first that fits decides. A call that none fits is allowed.
        older_programs: Allow 32-bit programs. Of the rules, those for setting limits
            hold for them.

    Raises:
        OSError: The system does not allow filters.
    """
    code = filter_code(rules, platform.machine(), older_programs=older_programs)
    memory = ctypes.create_string_buffer(code, len(code))
    size = struct.calcsize("HBBI")
    program = struct.pack("HxxxxxxP", len(code) // size, ctypes.addressof(memory))
    forbid_privileges()
    if _LIBC.prctl(_PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0):
        raise OSError(ctypes.get_errno(), "the system allows no filter of its calls")


@cache
def filter_code(
    rules: tuple[CallRule, ...], machine: str, *, older_programs: bool
) -> bytes:
    """Return the filter for a machine as `platform.machine` names it. Raises OSError if
    its calls are not known.
    """
    architecture = ARCHITECTURES.get(machine)
    if architecture is None:
        raise OSError(errno.ENOSYS, f"the system calls of {machine} are not known")
    newer = [
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, REFUSED),
    ]
    older = [(_RETURN, 0, 0, REFUSED)]
    if older_programs:
        older = [(_IF_EQUAL, 1, 0, architecture.older_mark), *older]
    for rule in rules:
        number = CALLS[rule.call][architecture.column]
        if number is not None:
            newer += _lines_of(rule, number)
        if older_programs and rule.call in architecture.older_calls:
            older += _lines_of(rule, architecture.older_calls[rule.call])
    newer.append((_RETURN, 0, 0, _ALLOW))
    older.append((_RETURN, 0, 0, _ALLOW))
    begin = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, architecture.mark),
        (_JUMP, 0, 0, len(newer)),
    ]
    lines = [*begin, *newer, *older]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def _lines_of(rule: CallRule, number: int) -> list[tuple[int, int, int, int]]:
    """Return the instructions of a rule: the answer, or on to what follows."""
    lines = [(_RETURN, 0, 0, rule.answer)]
    for condition in reversed(rule.conditions):
        place = _ARGUMENTS + 8 * condition.argument + 4 * condition.upper
        jumps = (0, len(lines))
        if not condition.equal:
            jumps = jumps[::-1]
        lines = [
            (_LOAD, 0, 0, place),
            (_AND, 0, 0, condition.mask),
            (_IF_EQUAL, *jumps, condition.value),
            *lines,
        ]
    return [(_LOAD, 0, 0, _NUMBER), (_IF_EQUAL, 0, len(lines), number), *lines]
