"""The kinds of a bisect, and its answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from triage.model.outcome import (
    Exit,
    Failure,
    MayLackAnswer,
    NoAnswer,
    ProbeResult,
    Verdict,
    exit_without_answer,
)
from triage.model.revision import Revision

T = TypeVar("T")


class BisectKind(StrEnum):
    """Which change is looked for: good to bad, or bad to good."""

    REGRESSION = "regression"
    FIX = "fix"

    def in_order(self, good: T, bad: T) -> tuple[T, T]:
        """Return the older of two first; given the older first, the good one."""
        if self is BisectKind.REGRESSION:
            return good, bad
        return bad, good


class Answer(StrEnum):
    """How precise the answer is."""

    CULPRIT = "culprit"
    SUSPECTS = "suspects"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Suspect(Revision):
    """A revision that may be the culprit. Of a commit, the fields say what is known."""

    probability: float = 0.0
    pull_request: int | None = None
    url: str | None = None
    """Of the pull request or the commit."""
    files: tuple[str, ...] = ()
    """The paths that it changed."""
    reasons: tuple[str, ...] = ()
    """Why it is suspicious."""


@dataclass(frozen=True)
class RankedChange(Suspect):
    """A change between two revisions: the likeliest of its commits, and the probability
    that one of them is the culprit.
    """

    with_commits: tuple[str, ...] = ()
    """Its further commits, such as a revert of it, oldest first."""


@dataclass(frozen=True)
class RankedChanges:
    """The changes between two revisions, the most suspicious first; nothing was
    built.
    """

    suspects: tuple[RankedChange, ...]
    commits: int
    """How many commits there are in all."""
    failure: Failure | None = None


@dataclass(frozen=True)
class LoggedProbe:
    """A probe of a bisect, as others can check it."""

    revision: str
    commit: str | None
    verdict: Verdict
    failure: str | None
    """The signature of what failed."""
    reason: str | None
    """Why it is skipped."""
    cached: bool
    seconds: float


@dataclass(frozen=True)
class Transition:
    """Two revisions between which a case broke, its failure changed, or was fixed."""

    before: Revision
    after: Revision
    failure: Failure
    """The one that came or went."""
    confirmed: bool
    """Both revisions were probed again and agreed each time."""
    suspects: tuple[Suspect, ...]

    @property
    def status(self) -> Answer:
        if self.confirmed and len(self.suspects) == 1:
            return Answer.CULPRIT
        return Answer.SUSPECTS


@dataclass(frozen=True)
class Bisection(MayLackAnswer):
    """The answer of a bisect and how it was found."""

    case: str
    kind: BisectKind = BisectKind.REGRESSION
    status: Answer = Answer.INCONCLUSIVE
    before: Revision | None = None
    """The last revision of the old state: last good of a regression, last bad of a fix.
    """
    after: Revision | None = None
    """The first revision of the new state."""
    suspects: tuple[Suspect, ...] = ()
    """What may have brought the change, the likeliest first; a culprit is the only one.
    """
    confirmed: bool = False
    """Both revisions of the pair were probed again and agreed each time."""
    failure: Failure | None = None
    probes: int = 0
    rounds: int = 0
    cached: int = 0
    seconds: float = 0.0
    other_failures: tuple[ProbeResult, ...] = ()
    """Revisions with another failure than the one that is searched for."""
    untestable: tuple[ProbeResult, ...] = ()
    unanswered: NoAnswer | None = None
    """Why it is inconclusive, or not confirmed."""
    broke: Transition | None = None
    """From passing to failing in any way, or for a fix to passing: what `git bisect
    run` names. None if it never passed.
    """
    changed: Transition | None = None
    """To the present failure from another one, or for a fix from it to another one;
    None if `broke` is this change.
    """
    fixed: Transition | None = None
    """From failing to compiling, if the newest revision compiles."""
    command: str | None = None
    """The command line that continues."""
    log: tuple[LoggedProbe, ...] = ()
    """All probes, in order; `probes` is how many."""

    @property
    def exit(self) -> Exit:
        if self.status is Answer.CULPRIT:
            return Exit.OK
        return exit_without_answer(self.cause)

    @property
    def fixed_in(self) -> Revision | None:
        """The first revision with a fix of the failure."""
        if self.brought_failure:
            if self.fixed:
                return self.fixed.after
            return None
        return (self.broke or self).after

    @property
    def brought_failure(self) -> bool:
        """Whether the change is from good to bad."""
        return self.kind is BisectKind.REGRESSION

    def about(self, change: Transition, **more: Any) -> Bisection:
        """Return the answer about one of several changes."""
        fields = {
            name: getattr(change, name)
            for name in ("before", "after", "suspects", "confirmed")
        }
        return replace(self, **{**fields, "status": change.status, **more})
