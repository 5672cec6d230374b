"""The answer of a bisect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from triage.model.case import Case
from triage.model.outcome import Cause, Failure
from triage.model.revision import Revision


class BisectKind(StrEnum):
    """Which way the sought change goes."""

    REGRESSION = "regression"
    FIX = "fix"


class Answer(StrEnum):
    """How much was found out."""

    CULPRIT = "culprit"
    SUSPECTS = "suspects"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class CommitNote:
    """What a person wants to know of a suspected commit. pull_request: its number; url: of the pull request or the commit;
    files: what it changed; pinned: the path of a submodule it moved, and from where to where.
    """

    sha: str
    subject: str
    date: str
    pull_request: int | None = None
    url: str | None = None
    files: tuple[str, ...] = ()
    pinned: tuple[str, str, str] | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bisection:
    """What a bisect found out, and how.

    before, after: the last revision of the old state and the first of the new one, where both are known.
    suspects: revisions that may have brought the change, with probabilities that sum to 1; one of them for a culprit.
    confirmed: the pair was probed a second time, nothing recalled, and agreed. reason: why it is inconclusive; cause: of the
    untestable end, where that is why.
    evidence: what the passes of both ends told before anything between them was probed.
    notes: of the suspects that are commits, by sha. other_failures, untestable: what was met on the way that says
    nothing about the failure being chased.
    """

    case: Case
    kind: BisectKind
    answer: Answer
    failure: Failure | None = None
    before: Revision | None = None
    after: Revision | None = None
    suspects: tuple[tuple[Revision, float], ...] = ()
    confirmed: bool = False
    probes: int = 0
    rounds: int = 0
    cached: int = 0
    other_failures: tuple[tuple[Revision, Failure], ...] = ()
    untestable: tuple[tuple[Revision, str], ...] = ()
    reason: str | None = None
    cause: Cause | None = None
    evidence: str | None = None
    notes: Mapping[str, CommitNote] = field(default_factory=dict)
