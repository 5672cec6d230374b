"""Ports through which long work reports its progress. The command line draws it."""

from __future__ import annotations

from typing import Protocol


class Task(Protocol):
    """A task in progress. Calls may come from any thread."""

    def advance(self, amount: float = 1.0) -> None:
        """Count `amount` more of the total as done."""

    def describe(self, text: str) -> None:
        """Replace the text beside the bar."""

    def finish(self) -> None:
        """Remove the bar."""


class Progress(Protocol):
    """Shows tasks and notes."""

    def task(self, text: str, total: float | None = None) -> Task:
        """Show a new bar; `total`: None when it is not known."""

    def note(self, text: str) -> None:
        """Print a line that stays."""

    def error(self, text: str) -> None:
        """Print a message that stays, also where progress is suppressed."""


class _NoTask:
    def advance(self, amount: float = 1.0) -> None:
        pass

    def describe(self, text: str) -> None:
        pass

    def finish(self) -> None:
        pass


class Silent:
    """Shows nothing."""

    def task(self, text: str, total: float | None = None) -> Task:  # noqa: ARG002 - the port's names
        return _NoTask()

    def note(self, text: str) -> None:
        pass

    def error(self, text: str) -> None:
        pass
