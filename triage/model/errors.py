"""Errors that a user sees. Each knows the exit code it ends the program with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class TriageError(Exception):
    """Base of the errors that are shown as a message, without a traceback."""

    exit_code = 2


class BadInput(TriageError):
    """A recipe, an option or a path cannot be used. Exit 2."""


class EnvironmentFailure(TriageError):
    """The machine or the network failed: no such toolchain, disk full, no permission.
    Exit 4.
    """

    exit_code = 4


class Unobtainable(EnvironmentFailure):
    """There will never be a toolchain of this revision: its build fails, or its
    artifact is gone or damaged. `log` is the file with the output of the attempt.

    A problem that may go away, such as the network, the disk or a missing token, is a
    plain EnvironmentFailure.
    """

    def __init__(self, reason: str, log: Path | None = None) -> None:
        super().__init__(reason if log is None else f"{reason} (log: {log})")
        self.reason = reason
        self.log = log


class Interrupted(TriageError):
    """The work was stopped before it ended; finished work is kept. Exit 130."""

    exit_code = 130


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake in a file. `line` and `column` count from 1; None for the file as a
    whole.
    """

    path: str
    line: int | None
    column: int | None
    message: str

    def __str__(self) -> str:
        parts = (self.path, self.line, self.column, f" {self.message}")
        return ":".join(str(part) for part in parts if part is not None)


class BadFiles(BadInput):
    """All problems of all files, reported together."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
