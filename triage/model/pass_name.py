"""The name of a compiler's pass, as compilers print it."""

from __future__ import annotations

import re
from dataclasses import dataclass

IR_DUMP = "IR Dump "
IR_DUMP_LINE = f"// -----// {IR_DUMP}"
"""The beginning of the line above each dump of MLIR."""
_DUMPED = re.compile(
    r"(?:After|Before) (?P<name>(?:\(anonymous namespace\)|\S)+?)(?P<failed> Failed)?"
    r"(?:(?: \(|: )(?P<argument>[\w.-]*)| //-----|\Z)"
)


@dataclass(frozen=True, slots=True)
class PassName:
    """A pass: its class without namespaces, and its command-line argument if that was
    printed.
    """

    name: str
    argument: str | None = None

    def __bool__(self) -> bool:
        """Return whether a pass is named; `NO_PASS` names none."""
        return bool(self.name)

    @property
    def key(self) -> str:
        """The name that identifies the pass: its argument, or else its class."""
        return self.argument or self.name


NO_PASS = PassName("")
"""The failing pass of a compile that failed before the first pass or after the last."""


def dumped_pass(header: str, begin: str = IR_DUMP_LINE) -> tuple[PassName, bool] | None:
    """Return the pass in the line above a dump, and whether it failed. Returns None for
    a line that does not begin with `begin`.

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
