"""How suspicious each commit of a range is before anything is probed: a prior for the belief of a bisect.

A commit's suspicion is two to the sum of its features' bits, made to sum to 1 over the range and mixed with a floor, so
that a wrong guess costs little and no commit is ever excluded. What the features are worth stands in `prior_weights.yaml`,
what a project's paths and words mean in `prior_projects.yaml`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from triage.bisect.belief import Floats
from triage.bisect.prior_clues import Clues
from triage.bisect.prior_features import feature_matrix, features
from triage.bisect.prior_text import project_names, project_table
from triage.model.revision import Commit

__all__ = ["Clues", "Reason", "commit_prior", "explain", "project_names", "suspicion"]

FLOOR = 0.1


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a commit is more suspicious (`bits` above 0) or less so; one bit is a factor of two."""

    feature: str
    text: str
    bits: float


def commit_prior(commits: Sequence[Commit], clues: Clues, project: str | None = "iree") -> Floats:
    """Shape (len(commits),), positive, sums to 1: the chance of each to be the first bad one, in their order.

    project: whose tables are used, one of `project_names()`; any other repository gets what holds for all of them.

    Raises:
        ValueError: there are no commits.
    """
    if not commits:
        raise ValueError("a range without commits has no prior")
    weights = np.array([feature.weight for feature in features()])
    return suspicion(_matrix(tuple(commits), clues, project), weights)


def suspicion(matrix: Floats, weights: Floats, floor: float = FLOOR) -> Floats:
    """Probabilities, shape (C,), from features, shape (C, F), and their bits, shape (F,)."""
    bits = matrix @ weights
    odds = np.exp2(bits - bits.max())
    mixed: Floats = (1 - floor) * odds / odds.sum() + floor / len(odds)
    return mixed


def explain(commits: Sequence[Commit], clues: Clues, project: str | None = "iree") -> tuple[tuple[Reason, ...], ...]:
    """For each commit why it stands where it does in `commit_prior`, strongest reason first; empty when nothing speaks."""
    return tuple(
        tuple(
            sorted(
                (
                    Reason(feature.name, feature.says, round(float(value) * feature.weight, 2))
                    for feature, value in zip(features(), row, strict=True)
                    if value and feature.weight
                ),
                key=lambda reason: -abs(reason.bits),
            )
        )
        for row in _matrix(tuple(commits), clues, project)
    )


@lru_cache(maxsize=4)
def _matrix(commits: tuple[Commit, ...], clues: Clues, project: str | None) -> Floats:
    """Remembered: a prior and its reasons are asked for one after the other."""
    return feature_matrix(commits, clues, project_table(project))
