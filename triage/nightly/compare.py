"""Compare each case's probe on the new toolchain with its probe on the baseline: pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from triage.bisect.result import Bisection
from triage.execution.benchmark import Series
from triage.execution.judge import status_of
from triage.execution.statistics import Comparison, Pace
from triage.model.outcome import FAILING, PASSING, Failed, Failure, Probe, Status
from triage.model.revision import Revision

_SUSPICIOUS = 1.5  # a compile is measured again when it takes this many times the baseline's CPU time
_SUSPICIOUS_BY = 1.0  # and this many seconds more


class CaseChangeKind(StrEnum):
    """What happened to a case between baseline and toolchain. The values are part of the JSON of a night."""

    REGRESSED = "regressed"
    FIXED = "fixed"
    CHANGED = "changed"  # fails on both, with different failures
    KNOWN = "known"  # fails as its recipe expects
    FAILING = "failing"  # as on the baseline
    PASSING = "passing"
    UNEXPECTED_PASS = "unexpected-pass"  # noqa: S105 - it passes although its recipe expects a failure
    FLAKY = "flaky"  # its state changes without a change of the compiler
    UNTESTABLE = "untestable"


@dataclass(frozen=True, slots=True)
class CompileTimes:
    """The CPU times of compiles on both toolchains in turn. baseline, new: medians in seconds; count: compiles of each;
    comparison: None when there are too few; bisection: where the compile became slower.
    """

    baseline: float
    new: float
    count: int
    comparison: Comparison | None
    bisection: Bisection | None = None

    @property
    def pace(self) -> Pace:
        return self.comparison.pace if self.comparison else Pace.NOISY


@dataclass(frozen=True, slots=True)
class RunTimes:
    """The run times of one function of a case on both toolchains. bisection: where it became slower."""

    case: str
    baseline: Series
    new: Series
    bisection: Bisection | None = None

    @property
    def pace(self) -> Pace | None:
        """The verdict; None where there is none because of the reason or of too few samples."""
        return self.new.comparison.pace if self.new.comparison and self.reason is None else None

    @property
    def reason(self) -> str | None:
        """Why the function was not measured on a toolchain."""
        for series in (self.new, self.baseline):
            if series.reason is not None:
                return f"{series.configuration.ref.revision.name}: {series.reason}"
        return None


@dataclass(frozen=True, slots=True)
class Pair:
    """One case on both toolchains.

    bisections: the changes that introduced and, in newer releases, fixed its failure; compiles: the times of its compile,
    where they were measured again; runs: the times of its functions.
    """

    baseline: Probe
    probe: Probe
    change: CaseChangeKind
    bisections: tuple[Bisection, ...] = ()
    compiles: CompileTimes | None = None
    runs: tuple[RunTimes, ...] = ()

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
    def is_new_failure(self) -> bool:
        """Whether the case fails the night."""
        return self.change in (CaseChangeKind.REGRESSED, CaseChangeKind.CHANGED)

    @property
    def changed(self) -> Failure | None:
        """The new failure of a case that failed in another way on the baseline; None for other cases."""
        return self.failure if self.change is CaseChangeKind.CHANGED else None

    @property
    def compiles_on_both(self) -> bool:
        """Whether the case succeeds on both toolchains."""
        return status_of(self.baseline) in PASSING and status_of(self.probe) in PASSING

    @property
    def is_suspicious(self) -> bool:
        """Whether the compile took so much longer than on the baseline that it is worth measuring again."""
        old, new = self.baseline.measured.cpu_seconds, self.probe.measured.cpu_seconds
        return self.compiles_on_both and old > 0 and new > _SUSPICIOUS * old and new - old > _SUSPICIOUS_BY


@dataclass(frozen=True, slots=True)
class Night:
    """The result of a nightly. `compiles`: compiles made; `cached`: cache hits.

    started: ISO 8601 in UTC; shard: `I/N`, None for all cases; positions: of its cases among the `total` of all shards.
    stopped: why the nightly ended early, None when it is complete; not_compared: cases without a result on both toolchains;
    fail_on_slower: slower compiles and runs count as regressions; strict: unexpected passes do, too. scope: what bisects can
    search between both toolchains, None without bisects.
    """

    toolchain: Revision
    baseline: Revision
    pairs: tuple[Pair, ...]
    seconds: float
    compiles: int
    cached: int
    stopped: str | None = None
    not_compared: tuple[str, ...] = ()
    fail_on_slower: bool = False
    strict: bool = False
    started: str | None = None
    shard: str | None = None
    scope: str | None = None
    positions: Mapping[str, int] = field(default_factory=dict)
    total: int = 0

    def of(self, change: CaseChangeKind | str) -> tuple[Pair, ...]:
        """Return the pairs with one kind of change, in the order of the recipes."""
        return tuple(pair for pair in self.pairs if pair.change == change)

    @property
    def new_failures(self) -> tuple[Pair, ...]:
        """The pairs that fail the night: those that regressed, then those with another failure than before."""
        return (*self.of(CaseChangeKind.REGRESSED), *self.of(CaseChangeKind.CHANGED))

    def compiled(self, pace: Pace) -> tuple[tuple[str, CompileTimes], ...]:
        """Return the cases whose compile times were measured again with this verdict, the slowest first."""
        rows = [(pair.name, pair.compiles) for pair in self.pairs if pair.compiles and pair.compiles.pace is pace]
        return tuple(sorted(rows, key=lambda row: -row[1].new / row[1].baseline))

    @property
    def runs(self) -> tuple[RunTimes, ...]:
        """The run times that were measured, or the reason why not, in the order of the recipes."""
        return tuple(row for pair in self.pairs for row in pair.runs)

    @property
    def clusters(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """New failure signatures with the cases that have them, the most frequent first."""
        groups: dict[str, list[str]] = {}
        for pair in self.new_failures:
            if pair.failure:
                groups.setdefault(pair.failure.signature, []).append(pair.name)
        return tuple(
            sorted(((key, tuple(names)) for key, names in groups.items()), key=lambda group: (-len(group[1]), group[0]))
        )


def compare(baseline: Probe, probe: Probe) -> CaseChangeKind:
    """Return how a case changed. A failure that the recipe expects at this version is known, not a regression."""
    old, new = status_of(baseline), status_of(probe)
    if Status.UNTESTABLE in (old, new):
        return CaseChangeKind.UNTESTABLE
    if new in PASSING:
        passing = CaseChangeKind.UNEXPECTED_PASS if new is Status.XPASS else CaseChangeKind.PASSING
        return CaseChangeKind.FIXED if old in FAILING else passing
    if new is Status.XFAIL:
        return CaseChangeKind.KNOWN
    if old in PASSING:
        return CaseChangeKind.REGRESSED
    return CaseChangeKind.FAILING if _signature(baseline) == _signature(probe) else CaseChangeKind.CHANGED


def pair_up(probes: Iterable[Probe], toolchain: str, baseline: str, order: Sequence[str]) -> tuple[Pair, ...]:
    """Pair the probes of each case in the order of the case names. Cases without a probe of both revisions are left out."""
    by_name = {(probe.case.name, probe.revision.name): probe for probe in probes}
    pairs = ((by_name.get((name, baseline)), by_name.get((name, toolchain))) for name in order)
    return tuple(Pair(old, new, compare(old, new)) for old, new in pairs if old and new)


def _signature(probe: Probe) -> str | None:
    return probe.outcome.failure.signature if isinstance(probe.outcome, Failed) else None
