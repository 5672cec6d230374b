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
from triage.bisect.prior_features import feature_matrix, features
from triage.bisect.prior_text import project_names, project_table
from triage.git_history import CommitRange, Timeline, pull_request
from triage.git_history.refs import links_of
from triage.model.outcome import Failure
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


@dataclass(frozen=True, slots=True)
class Suspect:
    """One commit of a range. probability: of being the culprit, by the prior alone; url: its pull request or page."""

    commit: Commit
    probability: float
    reasons: tuple[Reason, ...]
    pull_request: int | None
    url: str | None


def rank(
    timeline: Timeline, span: CommitRange, clues: Clues, project: str | None, top: int | None = None, web: str | None = None
) -> Sequence[Suspect]:
    """The span's commits, the most suspicious first; the `top` first of them, all when None. web: the repository's page, where
    the clone names no remote.
    """
    commits = timeline.with_files(span.indices)
    chances = commit_prior(commits, clues, project)
    order = sorted(range(len(commits)), key=lambda index: (-chances[index], index))[:top]
    reasons = explain(commits, clues, project)
    links = timeline.links or links_of(web)
    found: list[Suspect] = []
    for index in order:
        commit = commits[index]
        number = pull_request(commit.subject)
        url = (links.pull(number) if number else links.commit(commit.sha)) if links else None
        found.append(Suspect(commit, float(chances[index]), reasons[index], number, url))
    return found
