"""Read regressions with known culprits and the commits of their ranges, for the benchmarks of the commit search.

CASES has one JSON object a line: id, class, backend, diagnostics, diag_source, good (excluded), bad (included), culprit.
COMMITS, gzipped, has one a line: sha, parent, date, subject, files as [path, added, removed].
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np

from triage.bisect.belief import Floats
from triage.bisect.prior import Clues, feature_matrix, features, suspicion
from triage.model.revision import ChangedFile, Commit
from triage.toolchains.sources.project import find_project

CLASSES = {
    "timeout/compile-time": "timeout",
    "shared-memory": "shared-memory-overflow",
    "crash-assert": "assertion",
    "performance-regression": "performance",
    "convergence": "affinity-non-convergence",
    "other": "unknown",
}
# These cannot be fitted: all reverts that are used change the compiler, and no case names a phase or a pass.
FIXED = frozenset({"not-built", "runtime-only", "phase", "named-pass"})


@dataclass(frozen=True, slots=True)
class Known:
    """A case whose culprit is known: the features of its range, shape (C, F), and the culprit's row.

    nightlies: rows of the last commit of each day (UTC), for which there would be a package. commits, clues: what the features
    were computed from.
    """

    name: str
    group: str
    source: str
    matrix: Floats
    culprit: int
    nightlies: tuple[int, ...] = ()
    commits: tuple[Commit, ...] = ()
    clues: Clues = field(default_factory=Clues)


def read_cases(cases: Path, commits: Path, *, noticed: bool = True) -> list[Known]:
    by_sha = {}
    with gzip.open(commits, "rt", encoding="utf-8") as lines:
        for line in lines:
            one = json.loads(line)
            files = tuple(ChangedFile(*changed) for changed in one["files"])
            by_sha[one["sha"]] = Commit(one["sha"], one["parent"], one["date"], one["subject"], files)
    known = []
    for line in cases.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        found, sha = [], case["bad"]
        while sha != case["good"]:
            found.append(by_sha[sha])
            sha = by_sha[sha].parent
        found.reverse()
        backend = None if case["backend"] == "unknown" else case["backend"]
        clues = Clues(CLASSES.get(case["class"], case["class"]), backend, text=case["diagnostics"], noticed=noticed)
        at = next(index for index, commit in enumerate(found) if commit.sha == case["culprit"])
        line = tuple(found)
        group, matrix = _group(by_sha[case["culprit"]]), feature_matrix(line, clues, "iree")
        known.append(Known(case["id"], group, case["diag_source"], matrix, at, nightlies_of(line), line, clues))
    return known


def merged(prior: Floats, case: Known) -> tuple[Floats, Known]:
    """Leave out the commits that cannot change the compiler, as a bisect does; their nightlies stand for the one before."""
    changes = find_project("iree").can_change
    kept = [row for row, commit in enumerate(case.commits) if not commit.files or any(changes(f.path) for f in commit.files)]
    before = np.searchsorted(kept, [*case.nightlies, case.culprit], side="right") - 1
    nightlies = tuple(sorted({int(row) for row in before[:-1] if 0 <= row < len(kept) - 1}))
    chances = prior[kept] / prior[kept].sum()
    return chances, replace(case, matrix=case.matrix[kept], culprit=int(before[-1]), nightlies=nightlies)


def nightlies_of(commits: Sequence[Commit]) -> tuple[int, ...]:
    days = [datetime.fromisoformat(commit.date).astimezone(UTC).date() for commit in commits]
    return tuple(row for row, (day, following) in enumerate(pairwise(days)) if following > day)


def _group(culprit: Commit) -> str:
    """Name the change; one that was applied again is the same, so that no weight is fitted to the case it is judged by."""
    quoted = re.search(r'"(.*?)(?: \(#\d+\))?"', culprit.subject)
    return quoted[1] if quoted else re.sub(r" \(#\d+\)$", "", culprit.subject)


BINS = (0.0, 0.002, 0.005, 0.02, 0.1, 0.3, 1.01)  # of the probability that the shares are compared in


def reliability(priors: Sequence[tuple[Floats, int]]) -> list[dict[str, float]]:
    """Compare the probabilities of all commits with the shares of culprits among them. Priors come with the culprit's row."""
    every = np.concatenate([chances for chances, _ in priors])
    is_culprit = np.concatenate([np.arange(len(chances)) == culprit for chances, culprit in priors])
    rows = []
    for low, high in pairwise(BINS):
        inside = (every >= low) & (every < high)
        if inside.any():
            mean_chance, share = float(every[inside].mean()), float(is_culprit[inside].mean())
            rows.append({"from": low, "commits": int(inside.sum()), "probability": mean_chance, "culprits": share})
    return rows


def start_weights() -> Floats:
    return np.array([feature.start for feature in features()])


def shipped_weights() -> Floats:
    return np.array([feature.weight for feature in features()])


def fitted(known: Sequence[Known], strength: float, start: Floats | None = None) -> Floats:
    """Fit weights in bits that make the culprits likely; `start` counts as much as `strength` cases for each feature.

    A conditional logit: softmax over the commits of each range, Newton's method, a normal prior around `start`.
    """
    start = start_weights() if start is None else start
    held = np.array([1e6 if feature.name in FIXED else strength for feature in features()])
    weights, bit = start.copy(), np.log(2)
    for _ in range(50):
        slope, curve = -held * (weights - start), np.diag(held)
        for one in known:
            chances = suspicion(one.matrix, weights, floor=0.0, doubt=0.0)
            mean = chances @ one.matrix
            slope = slope + bit * (one.matrix[one.culprit] - mean)
            curve = curve + bit**2 * ((one.matrix * chances[:, None]).T @ one.matrix - np.outer(mean, mean))
        step = np.linalg.solve(curve, slope)
        weights = weights + step
        if np.abs(step).max() < 1e-7:
            break
    return weights


def cross_validated(known: Sequence[Known], strength: float, also: Sequence[Known] = ()) -> dict[str, Floats]:
    """Return for each case the weights fitted to `also` and all cases with another culprit."""
    groups = sorted({one.group for one in known})
    by_group = {group: fitted([*also, *(one for one in known if one.group != group)], strength) for group in groups}
    return {one.name: by_group[one.group] for one in known}
