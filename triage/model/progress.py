"""How long work reports its progress. The command line subclasses these to draw it; by
themselves they show nothing.
"""

from __future__ import annotations

from typing import Self


class ProgressTask:
    """A task in progress, whose bar is removed at the end of a `with` block. Calls may
    come from any thread.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def advance(self, amount: float = 1.0) -> None:
        """Count `amount` more of the total as done."""

    def describe(self, text: str) -> None:
        """Replace the text next to the bar."""

    def finish(self) -> None:
        """Remove the bar."""


class Progress:
    """Shows tasks and notes."""

    def task(self, text: str, total: float | None = None) -> ProgressTask:  # noqa: ARG002 - nothing is shown
        """Show a new bar. total: of the amounts, if it is known."""
        return ProgressTask()

    def note(self, text: str) -> None:
        """Print a line that stays."""

    def error(self, text: str) -> None:
        """Print a message that stays, also where progress is suppressed."""
