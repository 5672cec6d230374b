"""The kinds of a bisect, its verdicts as sides of a range, and its answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from triage.git_history import Branch
from triage.model.case import Case
from triage.model.outcome import Cause, Failure, Verdict
from triage.model.revision import Revision
from triage.recipes import matches

CONFIDENCE = 0.995  # posterior probability of a culprit


class Side(StrEnum):
    """The end of the range that a candidate belongs to: before the change or after it."""

    OLD = "old"
    NEW = "new"


class BisectKind(StrEnum):
    """Which change is looked for: good to bad, or bad to good."""

    REGRESSION = "regression"
    FIX = "fix"

    @property
    def failing(self) -> Side:
        """The side with the failure."""
        return Side.NEW if self is BisectKind.REGRESSION else Side.OLD

    @property
    def opposite(self) -> BisectKind:
        """The kind of the same change backwards."""
        return BisectKind.FIX if self is BisectKind.REGRESSION else BisectKind.REGRESSION

    def side(self, verdict: Verdict) -> Side | None:
        """The side that a verdict belongs to; None for skip."""
        if verdict is Verdict.SKIP:
            return None
        return Side.NEW if (verdict is Verdict.BAD) == (self.failing is Side.NEW) else Side.OLD

    def verdict(self, side: Side | None) -> Verdict:
        """The verdict of a candidate on `side`; skip for None."""
        if side is None:
            return Verdict.SKIP
        return Verdict.BAD if side is self.failing else Verdict.GOOD


class Answer(StrEnum):
    """How precise the answer is."""

    CULPRIT = "culprit"
    SUSPECTS = "suspects"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Transition:
    """Two revisions between which the state of a case changed.

    failure: the one that came, or the one that went. suspects: the revisions that may have brought the change, with
    probabilities; confirmed: both revisions were probed again and agreed each time.
    """

    before: Revision
    after: Revision
    failure: Failure
    suspects: tuple[tuple[Revision, float], ...]
    confirmed: bool

    @property
    def answer(self) -> Answer:
        """How precise it is."""
        return Answer.CULPRIT if self.confirmed and len(self.suspects) == 1 else Answer.SUSPECTS


@dataclass(frozen=True, slots=True)
class FailurePath:
    """The changes of a failure's state, for a bisect whose ends were not named.

    broke: from compiling to failing in any way. changed: to the present failure from another one; None where there was no
    other. fixed: from failing to compiling, where the newest revision compiles.
    """

    broke: Transition | None = None
    changed: Transition | None = None
    fixed: Transition | None = None


@dataclass(frozen=True, slots=True)
class CommitNote:
    """Details of a suspected commit.

    url: of the pull request or the commit; files: paths that it changed; pinned: the path of a submodule that it moved, with
    the old and the new commit; reasons: why it is suspicious; branch: its place on the branches of the ends.
    """

    sha: str
    subject: str
    date: str
    pull_request: int | None = None
    url: str | None = None
    files: tuple[str, ...] = ()
    pinned: tuple[str, str, str] | None = None
    reasons: tuple[str, ...] = ()
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class Bisection:
    """The answer of a bisect and how it was found.

    before, after: the last revision of the old state and the first of the new one, where both are known.
    undone: the new end lacks the suspects, so that `kind` is the opposite of what was searched: a fix is missing.
    suspects: revisions that may have brought the change, with probabilities that sum to 1; a culprit is the only one.
    confirmed: both revisions of the pair were probed again and agreed each time.
    reason: why it is inconclusive; cause: of the untestable end, where that is the reason.
    candidates: how many revisions were searched, the good end not counted; halving tests log2 of them. obtained: compilers that
    were downloaded or built for it, by source. seconds: that the search took.
    evidence: what the passes of both ends show, compared before any probe between them.
    notes: of suspects that are commits, by sha. branches: those that the ends lie on, beside the main line.
    other_failures, untestable: revisions whose probes were skipped.
    path: where the failure came, changed and went; empty where both ends were named.
    command: a command line that answers, where the named ends do not fit.
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
    candidates: int = 0
    obtained: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    other_failures: tuple[tuple[Revision, Failure], ...] = ()
    untestable: tuple[tuple[Revision, str], ...] = ()
    reason: str | None = None
    cause: Cause | None = None
    evidence: str | None = None
    notes: Mapping[str, CommitNote] = field(default_factory=dict)
    branches: tuple[Branch, ...] = ()
    path: FailurePath = field(default_factory=FailurePath)
    command: str | None = None
    undone: bool = False

    @property
    def halvings(self) -> int:
        """How many probes plain halving needs at worst, without confirmation."""
        return math.ceil(math.log2(self.candidates)) if self.candidates > 1 else 0

    def transition(self, failure: Failure | None = None) -> Transition | None:
        """The change between `before` and `after`; None where they are not known. failure: instead of the own one."""
        about = failure or self.failure
        if self.before is None or self.after is None or about is None:
            return None
        return Transition(self.before, self.after, about, self.suspects, self.confirmed)


def unexpected(case: Case, failure: Failure) -> str | None:
    """A hint where the recipe expects other failures than this one; None where it expects this one or none.

    A metric above its threshold gives no hint: no recipe expects one.
    """
    if not case.expect or failure.family == "metric" or any(matches(item, failure) for item in case.expect):
        return None
    expected = dict.fromkeys(item.failure or f"a failure to {item.stage}" for item in case.expect)
    return (
        f"The recipe expects {' or '.join(expected)}, but this is {failure.failure_class}. To bisect the expected failure, "
        "pass an end that fails with it."
    )
