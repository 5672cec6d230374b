"""Refuse system calls to a thread and to all that it starts, for ever (seccomp).

A filter is a small program that the kernel runs before each system call. It sees the
number of the call and its arguments, but no memory: what a pointer leads to cannot be
decided here. `call_rules.txt` has the rules.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_PR_SET_NO_NEW_PRIVS = 38
# Instructions of the filter, and the fields of what it reads.
_LOAD, _AND, _JUMP, _RETURN = 0x20, 0x54, 0x05, 0x06
_IF_EQUAL, _IF_AT_LEAST = 0x15, 0x35
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
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
Line = tuple[int, int, int, int]
"""An instruction: its code, where to go on if it holds or not, and its operand."""


@dataclass(frozen=True, slots=True)
class CallRule:
    """The answer to a system call if all conditions on its arguments hold."""

    call: str
    numbers: tuple[str, str]
    """Of the call in each interface; - where there is none."""
    answer: str
    conditions: str

    def lines(self, column: int) -> list[Line]:
        """Return the instructions: the answer, or on to what follows."""
        number = self.numbers[column]
        if number == "-":
            return []
        lines: list[Line] = [(_RETURN, 0, 0, ANSWERS[self.answer])]
        for match in reversed(list(_CONDITION.finditer(self.conditions))):
            offset = _ARGUMENTS + 8 * int(match["argument"])
            if match["high"]:
                offset += 4
            jumps = (0, len(lines))
            if match["unlike"]:
                jumps = (len(lines), 0)
            lines = [
                (_LOAD, 0, 0, offset),
                (_AND, 0, 0, int(match["mask"] or "0xFFFFFFFF", 0)),
                (_IF_EQUAL, *jumps, int(match["value"], 0)),
                *lines,
            ]
        is_call = (_IF_EQUAL, 0, len(lines), int(number))
        return [(_LOAD, 0, 0, _NUMBER), is_call, *lines]


@cache
def call_rules(section: str) -> tuple[CallRule, ...]:
    """Return the rules of a section of the file."""
    part = _RULES.split(f"\n[{section}]\n")[1].split("\n[")[0]
    rules = []
    for match in filter(None, map(_RULE.fullmatch, part.splitlines())):
        call, *numbers, answer, conditions = match.groups()
        rules.append(CallRule(call, (numbers[0], numbers[1]), answer, conditions))
    return tuple(rules)


def forbid_privileges() -> None:
    """Let no program that this thread starts gain privileges: none of root, and none of
    a program that sets its user. The kernel asks for this before it takes limits.
    """
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def apply_rules(*sections: str) -> None:
    """Apply the rules of some sections to this thread and to all that it starts. A call
    that none fits is allowed.

    Raises OSError if the system allows no filters.
    """
    code = filter_code(sections, platform.machine())
    memory = ctypes.create_string_buffer(code, len(code))
    size = struct.calcsize("HBBI")
    program = struct.pack("HxxxxxxP", len(code) // size, ctypes.addressof(memory))
    forbid_privileges()
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
    refuse: Line = (_RETURN, 0, 0, ANSWERS["refused"])
    allow: Line = (_RETURN, 0, 0, ANSWERS["allowed"])
    lines: list[Line] = [(_LOAD, 0, 0, _NUMBER), (_IF_AT_LEAST, 0, 1, _X32), refuse]
    for section in sections:
        for rule in call_rules(section):
            lines += rule.lines(column)
    older = [refuse]
    if sections == ("mark",):  # only what is not sealed may be a 32-bit program
        older = [(_IF_EQUAL, 1, 0, older_mark), refuse]
        for rule in call_rules("older"):
            older += rule.lines(column)
        older.append(allow)
    begin: list[Line] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, mark),
        (_JUMP, 0, 0, len(lines) + 1),
    ]
    lines = [*begin, *lines, allow, *older]
    return b"".join(struct.pack("HBBI", *line) for line in lines)
