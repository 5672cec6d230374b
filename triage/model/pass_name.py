"""A pass of a compiler, by the names that compilers print."""

from __future__ import annotations

from dataclasses import dataclass


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
