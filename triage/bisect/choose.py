"""Which places to probe next: those that tell most about the first bad place for each second they cost.

Values only, like the belief they are chosen for. Prices are seconds to obtain a place's toolchain and to compile with
it; infinity where it cannot be had.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triage.bisect.belief import Belief, Floats


def next_probes(
    belief: Belief, prices: ArrayLike | None = None, jobs: int = 1, *, untestable: ArrayLike | None = None
) -> tuple[int, ...]:
    """Up to `jobs` distinct places to probe at once, oldest first; empty when no probe can tell anything more.

    prices: shape (N,), seconds, non-negative, infinite for places that cannot be probed; all alike when None.
    untestable: shape (N,), the chance that a place turns out to say nothing; learnt from the belief when None.
    """
    raise NotImplementedError


def untestable_odds(belief: Belief) -> Floats:
    """Shape (N,): the chance that probing a place tells nothing, learnt from the places probed so far."""
    raise NotImplementedError


def information(belief: Belief, untestable: ArrayLike | None = None) -> Floats:
    """Shape (N,): bits that one probe of each place is expected to tell."""
    raise NotImplementedError
