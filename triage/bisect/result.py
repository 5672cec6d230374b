"""The kinds of a bisect, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from triage.model.fields import in_json
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
class RankedChanges:
    """The changes between two revisions, the most suspicious first; nothing was built.
    Each is the likeliest of its commits, with the probability of all of them.
    """

    suspects: tuple[Suspect, ...]
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
    command: str | None = None
    """The command line that continues."""
    log: tuple[LoggedProbe, ...] = ()
    """All probes, in order; `probes` is how many."""

    @property
    def change(self) -> Transition | None:
        """The change of this failure."""
        return self.changed or self.broke

    @in_json
    def status(self) -> Answer:
        """A culprit only if each change has one."""
        found = [change.status for change in (self.broke, self.changed) if change]
        return max(found, key=list(Answer).index, default=Answer.INCONCLUSIVE)

    @in_json
    def before(self) -> Revision | None:
        """The last revision of the old state: last good of a regression, last bad of a
        fix.
        """
        if self.change:
            return self.change.before
        return None

    @in_json
    def after(self) -> Revision | None:
        """The first revision of the new state."""
        if self.change:
            return self.change.after
        return None

    @in_json
    def suspects(self) -> tuple[Suspect, ...]:
        """What may have brought the change, the likeliest first; a culprit is the only
        one.
        """
        if self.change:
            return self.change.suspects
        return ()

    @in_json
    def confirmed(self) -> bool:
        """Both revisions of each pair were probed again and agreed each time."""
        changes = [change for change in (self.broke, self.changed) if change]
        return bool(changes) and all(change.confirmed for change in changes)

    @property
    def exit(self) -> Exit:
        if self.status is Answer.CULPRIT:
            return Exit.OK
        return exit_without_answer(self.cause)

    @property
    def fixed_in(self) -> Revision | None:
        """The first revision with a fix of the failure."""
        fix = self.broke or self.changed
        if self.brought_failure:
            fix = self.fixed
        if fix:
            return fix.after
        return None

    @property
    def brought_failure(self) -> bool:
        """Whether the change is from good to bad."""
        return self.kind is BisectKind.REGRESSION
