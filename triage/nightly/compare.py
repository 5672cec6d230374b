"""Two probes of each case, the baseline's and the new one's, and what the difference means: pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from triage.bisect.result import Bisection
from triage.execution.judge import status_of
from triage.model.outcome import Failed, Failure, Probe, Status
from triage.model.revision import Revision
from triage.reduce.state import NotReproducible, Reduced

_SLOWER = 1.5  # times the baseline's CPU time ...
_SLOWER_BY = 1.0  # ... and at least so many seconds, before a compile is called slower


class CaseChangeKind(StrEnum):
    """What happened to a case between baseline and toolchain."""

    REGRESSED = "regressed"
    FIXED = "fixed"
    CHANGED = "changed"  # fails as before, in another way
    KNOWN = "known"  # fails, as its recipe expects
    UNCHANGED = "unchanged"
    UNTESTABLE = "untestable"


@dataclass(frozen=True, slots=True)
class Pair:
    """One case on both compilers. `bisections`: where its change came from, and where it was undone again."""

    baseline: Probe
    probe: Probe
    change: CaseChangeKind
    bisections: tuple[Bisection, ...] = ()

    @property
    def name(self) -> str:
        """The case's name."""
        return self.probe.case.name

    @property
    def failure(self) -> Failure | None:
        """The failure on the new compiler, or the one that was fixed."""
        for one in (self.probe, self.baseline):
            if isinstance(one.outcome, Failed):
                return one.outcome.failure
        return None

    @property
    def slower(self) -> float | None:
        """How many times the baseline's CPU time the compile took, when that is worth telling."""
        old, new = self.baseline.measured.cpu_seconds, self.probe.measured.cpu_seconds
        both = status_of(self.baseline) in _GOOD and status_of(self.probe) in _GOOD
        return new / old if both and old > 0 and new > _SLOWER * old and new - old > _SLOWER_BY else None


@dataclass(frozen=True, slots=True)
class Example:
    """A case made small that stands for all which regressed with its signature. `folder`: its reproducer's, None where
    nothing was reduced.
    """

    signature: str
    found: Reduced | NotReproducible
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Night:
    """The result of a nightly. `compiles`: real ones; `cached`: answers that were known."""

    toolchain: Revision
    baseline: Revision
    pairs: tuple[Pair, ...]
    seconds: float
    compiles: int
    cached: int
    examples: tuple[Example, ...] = ()

    def of(self, change: CaseChangeKind | str) -> tuple[Pair, ...]:
        """The pairs with one kind of change, in the order of the recipes."""
        return tuple(pair for pair in self.pairs if pair.change == change)

    def example_of(self, pair: Pair) -> Example | None:
        """The small program that fails as a regressed case does."""
        signature = pair.failure.signature if pair.failure and pair.change is CaseChangeKind.REGRESSED else None
        return next((one for one in self.examples if one.signature == signature), None)

    @property
    def slower(self) -> tuple[Pair, ...]:
        """Cases that compile on both but take much longer now, the worst first."""
        found = [pair for pair in self.pairs if pair.slower]
        return tuple(sorted(found, key=lambda pair: -(pair.slower or 0)))

    @property
    def clusters(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Signatures that were not there before, with the cases that have them, the most frequent first."""
        groups: dict[str, list[str]] = {}
        for pair in (*self.of(CaseChangeKind.REGRESSED), *self.of(CaseChangeKind.CHANGED)):
            if pair.failure:
                groups.setdefault(pair.failure.signature, []).append(pair.name)
        return tuple(sorted(((key, tuple(names)) for key, names in groups.items()), key=lambda one: (-len(one[1]), one[0])))


_GOOD = (Status.PASSED, Status.XPASS)
_BAD = (Status.FAILED, Status.XFAIL)


def compare(baseline: Probe, probe: Probe) -> CaseChangeKind:
    """What happened to a case. A failure that the recipe expects at this version is known, not a regression."""
    old, new = status_of(baseline), status_of(probe)
    if Status.UNTESTABLE in (old, new):
        return CaseChangeKind.UNTESTABLE
    if new in _GOOD:
        return CaseChangeKind.FIXED if old in _BAD else CaseChangeKind.UNCHANGED
    if new is Status.XFAIL:
        return CaseChangeKind.KNOWN
    if old in _GOOD:
        return CaseChangeKind.REGRESSED
    return CaseChangeKind.UNCHANGED if _signature(baseline) == _signature(probe) else CaseChangeKind.CHANGED


def pair_up(probes: Iterable[Probe], toolchain: str, baseline: str, order: Sequence[str]) -> tuple[Pair, ...]:
    """Pairs of probes by case, in the order of the case names given. Both revisions must be there for every case."""
    found = {(probe.case.name, probe.revision.name): probe for probe in probes}
    pairs = ((found[name, baseline], found[name, toolchain]) for name in order)
    return tuple(Pair(old, new, compare(old, new)) for old, new in pairs)


def _signature(probe: Probe) -> str | None:
    return probe.outcome.failure.signature if isinstance(probe.outcome, Failed) else None
