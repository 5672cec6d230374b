"""Where long work tells how far it is. The command line draws it; everything below only speaks."""

from __future__ import annotations

from typing import Protocol


class Task(Protocol):
    """One thing under way. Calls may come from any thread."""

    def advance(self, amount: float = 1.0) -> None:
        """Count `amount` more of the total as done."""

    def describe(self, text: str) -> None:
        """Replace what is said beside the bar."""

    def finish(self) -> None:
        """Take the bar away (nothing more will be said about it)."""


class Progress(Protocol):
    """Begins tasks and passes notes on."""

    def task(self, text: str, total: float | None = None) -> Task:
        """A new bar; `total` None where the size is not known."""

    def note(self, text: str) -> None:
        """One line that stays."""


class _NoTask:
    def advance(self, amount: float = 1.0) -> None:
        pass

    def describe(self, text: str) -> None:
        pass

    def finish(self) -> None:
        pass


class Silent:
    """A progress that says nothing."""

    def task(self, text: str, total: float | None = None) -> Task:  # noqa: ARG002 - the port's names
        return _NoTask()

    def note(self, text: str) -> None:
        pass
