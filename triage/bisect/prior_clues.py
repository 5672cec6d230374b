"""What is known of a failure before its commit is sought."""

from __future__ import annotations

from dataclasses import dataclass

from triage.model.outcome import Failure


@dataclass(frozen=True, slots=True)
class Clues:
    """What a prior over commits goes by; everything may be missing.

    failure_class: a rule's name, or `numerics` or `performance` for what only shows when the program runs.
    backend: as in a recipe's target. phase: as a failure has it.
    failing_pass: class name or argument of the pass that failed. text: the diagnostics, flags included.
    passes, files: what other evidence suspects, such as the first pass after which a good and a bad compiler differ; paths
    are relative to the repository.
    noticed: the bad end is where somebody noticed the failure, so that late commits are likelier than early ones. Not so
    where the end was picked, such as a release or the last nightly.
    """

    failure_class: str = "unknown"
    backend: str | None = None
    phase: str | None = None
    failing_pass: str | None = None
    text: str = ""
    passes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    noticed: bool = False

    @classmethod
    def of(cls, failure: Failure, backend: str | None = None, text: str = "") -> Clues:
        """From a diagnosed failure; `text` beyond its headline, such as the command line."""
        told = " ".join([failure.headline, *(str(value) for value in failure.details.values()), text])
        return cls(failure.failure_class, backend, failure.phase, failure.failing_pass, told)
