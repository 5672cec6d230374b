"""Report the progress of long work. The command line subclasses these classes to draw
it; they themselves show nothing.
"""

from __future__ import annotations

from typing import Self


class ProgressTask:
    """A task in progress. Its bar is removed at the end of a `with` block. Any thread
    may call its methods.
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
        """Show a new bar. `total` is the sum of all amounts, if it is known."""
        return ProgressTask()

    def note(self, text: str) -> None:
        """Print a line that stays."""

    def error(self, text: str) -> None:
        """Print a message that stays, also where progress is suppressed."""
