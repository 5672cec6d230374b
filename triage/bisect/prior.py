"""Which commits a failure makes suspicious before anything is probed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from triage.bisect.belief import Floats
from triage.model.commit import Commit
from triage.model.failure import Failure


@dataclass(frozen=True, slots=True)
class Clues:
    """What is known of a failure.

    failure_class: a rule's name. backend: as in a recipe's target. text: the diagnostics. failing_pass: class name or
    argument of a pass. files, passes: what other evidence (IR that differs after a pass) makes suspicious.
    """

    failure_class: str = "unknown"
    backend: str | None = None
    phase: str | None = None
    failing_pass: str | None = None
    text: str = ""
    files: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()

    @classmethod
    def of(cls, failure: Failure, backend: str | None = None, text: str = "") -> Clues:
        """From a diagnosed failure."""
        return cls(failure.failure_class, backend, failure.phase, failure.failing_pass, text or failure.headline)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a commit is more or less suspicious: `bits` is positive for it, negative against it."""

    text: str
    bits: float


def commit_prior(commits: Sequence[Commit], clues: Clues, project: str | None = "iree") -> Floats:
    """Shape (len(commits),), positive, sums to 1: how suspicious each commit of a range is, in the range's order."""
    return np.full(len(commits), 1 / len(commits))


def explain(commits: Sequence[Commit], index: int, clues: Clues, project: str | None = "iree") -> tuple[Reason, ...]:
    """Why `commits[index]` stands where it does in the prior, strongest first."""
    return ()
