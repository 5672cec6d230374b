"""Compare each case's probe on the new toolchain with its probe on the baseline: pure functions."""

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

_SLOWER = 1.5  # a compile is slower when it takes this many times the baseline's CPU time
_SLOWER_BY = 1.0  # and this many seconds more


class CaseChangeKind(StrEnum):
    """What happened to a case between baseline and toolchain."""

    REGRESSED = "regressed"
    FIXED = "fixed"
    CHANGED = "changed"  # fails on both, with different failures
    KNOWN = "known"  # fails as its recipe expects
    UNCHANGED = "unchanged"
    UNTESTABLE = "untestable"


@dataclass(frozen=True, slots=True)
class Pair:
    """One case on both toolchains. `bisections`: the changes that introduced and, in newer releases, fixed its failure."""

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
        """The failure on the new toolchain, or else the one on the baseline."""
        for probe in (self.probe, self.baseline):
            if isinstance(probe.outcome, Failed):
                return probe.outcome.failure
        return None

    @property
    def slower(self) -> float | None:
        """The factor by which the compile's CPU time grew; None when it compiles about as fast as before."""
        old, new = self.baseline.measured.cpu_seconds, self.probe.measured.cpu_seconds
        both = status_of(self.baseline) in _GOOD and status_of(self.probe) in _GOOD
        return new / old if both and old > 0 and new > _SLOWER * old and new - old > _SLOWER_BY else None


@dataclass(frozen=True, slots=True)
class Example:
    """The reduction of one case of a new failure.

    signature: the failure's, shared by all cases that regressed with it. folder: the reproducer's, None when the
    reduction failed.
    """

    signature: str
    result: Reduced | NotReproducible
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Night:
    """The result of a nightly. `compiles`: compiles made; `cached`: cache hits.

    stopped: why the nightly ended early, None when it is complete; not_compared: cases without a result on both toolchains.
    """

    toolchain: Revision
    baseline: Revision
    pairs: tuple[Pair, ...]
    seconds: float
    compiles: int
    cached: int
    examples: tuple[Example, ...] = ()
    stopped: str | None = None
    not_compared: tuple[str, ...] = ()

    def of(self, change: CaseChangeKind | str) -> tuple[Pair, ...]:
        """Return the pairs with one kind of change, in the order of the recipes."""
        return tuple(pair for pair in self.pairs if pair.change == change)

    def example_of(self, pair: Pair) -> Example | None:
        """Return the reduction with the failure of a regressed case, if there is one."""
        signature = pair.failure.signature if pair.failure and pair.change is CaseChangeKind.REGRESSED else None
        return next((example for example in self.examples if example.signature == signature), None)

    @property
    def slower(self) -> tuple[Pair, ...]:
        """Cases that compile on both toolchains but take much longer on the new one, the slowest first."""
        return tuple(sorted((pair for pair in self.pairs if pair.slower), key=lambda pair: -(pair.slower or 0)))

    @property
    def unexpected_passes(self) -> tuple[str, ...]:
        """Cases that pass on the new toolchain although a failure is expected there."""
        return tuple(pair.name for pair in self.pairs if status_of(pair.probe) is Status.XPASS)

    @property
    def clusters(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """New failure signatures with the cases that have them, the most frequent first."""
        groups: dict[str, list[str]] = {}
        for pair in (*self.of(CaseChangeKind.REGRESSED), *self.of(CaseChangeKind.CHANGED)):
            if pair.failure:
                groups.setdefault(pair.failure.signature, []).append(pair.name)
        return tuple(
            sorted(((key, tuple(names)) for key, names in groups.items()), key=lambda group: (-len(group[1]), group[0]))
        )


_GOOD = (Status.PASSED, Status.XPASS)
_BAD = (Status.FAILED, Status.XFAIL)


def compare(baseline: Probe, probe: Probe) -> CaseChangeKind:
    """Return how a case changed. A failure that the recipe expects at this version is known, not a regression."""
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
    """Pair the probes of each case in the order of the case names. Cases without a probe of both revisions are left out."""
    by_name = {(probe.case.name, probe.revision.name): probe for probe in probes}
    pairs = ((by_name.get((name, baseline)), by_name.get((name, toolchain))) for name in order)
    return tuple(Pair(old, new, compare(old, new)) for old, new in pairs if old and new)


def _signature(probe: Probe) -> str | None:
    return probe.outcome.failure.signature if isinstance(probe.outcome, Failed) else None
