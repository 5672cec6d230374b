"""Errors that a user sees. Each knows the exit code it ends the program with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class TriageError(Exception):
    """Base of every error that is told to the user as a sentence, never as a traceback."""

    exit_code = 2


class BadInput(TriageError):
    """What the user wrote cannot be used: a recipe, an option, a path. Exit 2."""


class EnvironmentFailure(TriageError):
    """The machine or the network failed: no such toolchain, disk full, no permission. Exit 4."""

    exit_code = 4


class Unobtainable(EnvironmentFailure):
    """There is no toolchain of this revision, today or tomorrow: its build fails, its artifact is gone or damaged. It
    says nothing about any bug. `log`: what was printed while it was tried, where that was kept.

    What may go better another time (the network, the disk, a missing token) is a plain EnvironmentFailure.
    """

    def __init__(self, reason: str, log: Path | None = None) -> None:
        super().__init__(reason if log is None else f"{reason} (log: {log})")
        self.reason = reason
        self.log = log


class Interrupted(TriageError):
    """Work was stopped from outside before it ended; what was finished is kept. Exit 130."""

    exit_code = 130


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a file. `line` and `column` count from 1; None where the file as a whole is meant."""

    path: str
    line: int | None
    column: int | None
    message: str

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.path, self.line, self.column) if part is not None)
        return f"{place}: {self.message}"


class BadFiles(BadInput):
    """All problems of all files given, told at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
