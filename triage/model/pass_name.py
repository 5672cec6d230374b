"""A pass of a compiler, by the names that compilers print."""

from __future__ import annotations

import re
from dataclasses import dataclass

IR_DUMP = "IR Dump "
IR_DUMP_LINE = f"// -----// {IR_DUMP}"
"""How the line above each dump of MLIR begins."""
_DUMPED = re.compile(
    r"(?:After|Before) (?P<name>(?:\(anonymous namespace\)|\S)+?)(?P<failed> Failed)?"
    r"(?:(?: \(|: )(?P<argument>[\w.-]*)| //-----|\Z)"
)


@dataclass(frozen=True, slots=True)
class PassName:
    """A pass: its class without namespaces and, where it was printed, its command-line
    argument.
    """

    name: str
    argument: str | None = None

    def __bool__(self) -> bool:
        """Return whether a pass is named; `NO_PASS` names none."""
        return bool(self.name)

    @property
    def key(self) -> str:
        """The name that identifies the pass: its argument, otherwise its class."""
        return self.argument or self.name


NO_PASS = PassName("")
"""The answer of a run that prints the failing pass, when the compiler failed before any
pass or after all of them.
"""


def dumped_pass(header: str, begin: str = IR_DUMP_LINE) -> tuple[PassName, bool] | None:
    """Return the pass that the line above a dump names, and whether it failed; None for
    other lines. begin: of the line.

    >>> dumped_pass("// -----// IR Dump After CSEPass Failed (cse) //----- //")
    (PassName(name='CSEPass', argument='cse'), True)
    """
    if not header.startswith(begin):
        return None
    found = _DUMPED.match(header, len(begin))
    if found is None:
        return None
    name = PassName(found["name"].rsplit("::", 1)[-1], found["argument"] or None)
    return name, bool(found["failed"])
