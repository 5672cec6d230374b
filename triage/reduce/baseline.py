"""What a reduction starts from: the failure on one toolchain, and none on the other."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from triage.execution.judge import Match, rules_of, same_signature
from triage.execution.metrics import TIMES, Metric, value_of
from triage.execution.prober import Naming, Prober
from triage.execution.runner import ProbeRunner
from triage.model.case import Case
from triage.model.outcome import Cause, Compiled, Failed, Failure, Outcome, Probe, Untestable
from triage.model.revision import Toolchain
from triage.reduce.draft import Draft
from triage.reduce.oracle import Oracle
from triage.reduce.state import NotReproducible

_MEASURE = 8  # compiles of a failure that comes and goes, to learn how often it comes
_SURE = 0.99  # that a program which fails at that rate is seen to
_MOST = 12  # compiles of one draft
_DOUBTED = frozenset(("crash", "timeout", "out-of-memory"))


@dataclass(frozen=True, slots=True)
class Baseline:
    """The failure to keep, and how a draft's is compared with it. seconds: how long the compile took that failed;
    repeats: compiles to make of a draft before it is believed to pass; whole: the failure as a probe in full tells it,
    where one was made before; factor: how many times as much a draft has to take on the bad toolchain, where a number grew.
    """

    failure: Failure
    match: Match
    naming: Naming
    seconds: float
    repeats: int
    probes: tuple[Probe, ...]
    whole: Failure | None = None
    notes: tuple[str, ...] = ()
    again: tuple[Probe, ...] = ()  # further compiles of the original
    factor: float | None = None

    @property
    def calls(self) -> int:
        """Compiles that were made for this."""
        return sum(not probe.cached for probe in (*self.probes, *self.again))

    @property
    def compile_seconds(self) -> float:
        """What they took, summed."""
        return sum(probe.measured.seconds for probe in (*self.probes, *self.again) if not probe.cached)

    @property
    def known(self) -> int:
        """Compiles that were known before."""
        return len(self.probes) + len(self.again) - self.calls


def baseline(
    bench: ProbeRunner,
    case: Case,
    bad: Toolchain,
    good: Toolchain | None,
    match: Callable[[Failure], Match],
    repeats: int | None,
) -> Baseline | NotReproducible:
    """Compile the case on both toolchains, or recall what came of it. repeats: None to choose by how often it fails."""
    task = bench.progress.task(f"reduce  {case.name}: the original", total=None)
    try:
        with bench.threads(2) as pool:
            asked = [pool.submit(_known_or_tried, bench.prober, case, one) for one in (bad, good) if one]
            tried, recalled = zip(*(answer.result() for answer in asked), strict=True)
        failing, known = tried[0], recalled[0]
        match failing.outcome:
            case Compiled():
                return NotReproducible(case, f"it compiles on {bad.revision.name}; there is nothing to reduce", tried)
            case Untestable(cause=cause, reason=reason):
                return NotReproducible(case, f"untestable on {bad.revision.name}: {reason}", tried, cause)
            case Failed(failure=failure, flaky=flaky):
                pass
        why_not = _why_not_good(tried[1].outcome, good) if good else None
        if why_not:
            return NotReproducible(case, why_not, tried)
        naming = Naming.AT_ONCE if failure.family == "crash" or rules_of(case).needs_pass(failure) else Naming.NEVER
        whole = failure if known else None
        return _referred(_Trials(bench.prober, case, bad, naming), failing, flaky, whole, match, repeats, tried)
    finally:
        task.finish()


@dataclass(slots=True)
class _Trials:
    """Repetitions of the original's compile."""

    prober: Prober
    case: Case
    toolchain: Toolchain
    naming: Naming
    made: list[Probe] = field(default_factory=list)

    def __call__(self, attempt: int) -> Probe:
        self.made.append(self.prober.trial(self.case, self.toolchain, self.naming, attempt=attempt))
        return self.made[-1]


def _known_or_tried(prober: Prober, case: Case, toolchain: Toolchain) -> tuple[Probe, bool]:
    """What came of the case; whether that is a probe in full, known from before."""
    known = prober.recall(case, toolchain)
    return (known, True) if known else (prober.trial(case, toolchain, Naming.NEVER), False)


def _why_not_good(outcome: Outcome, good: Toolchain) -> str | None:
    name = good.revision.name
    match outcome:
        case Compiled():
            return None
        case Failed(failure=failure):
            return f"it fails on {name} as well ({failure.failure_class}), which --good says it does not"
        case Untestable(reason=reason):
            return f"untestable on {name}, given as --good: {reason}"


def _referred(
    trials: _Trials,
    failing: Probe,
    flaky: bool,
    whole: Failure | None,
    match: Callable[[Failure], Match],
    repeats: int | None,
    tried: tuple[Probe, ...],
) -> Baseline | NotReproducible:
    """The failure as trials show it, which drafts are compared with; doubted where its kind deserves it."""
    reference = failing
    if trials.naming is Naming.AT_ONCE or (whole and whole.family in _DOUBTED):
        reference = trials(0)
    if not isinstance(reference.outcome, Failed):
        return _flaky(trials, match(_failure(failing)), _failure(failing), repeats, tried)
    failure = reference.outcome.failure
    chased = match(failure)
    if failure.family in _DOUBTED:
        again = trials(1).outcome
        flaky = flaky or not (isinstance(again, Failed) and chased(again.failure))
    if flaky:
        return _flaky(trials, chased, failure, repeats, tried)
    seconds, made = reference.measured.seconds, tuple(trials.made)
    return Baseline(failure, chased, trials.naming, seconds, repeats or 1, tried, whole, again=made)


def _failure(probe: Probe) -> Failure:
    assert isinstance(probe.outcome, Failed)
    return probe.outcome.failure


def _flaky(
    trials: _Trials, chased: Match, failure: Failure, repeats: int | None, tried: tuple[Probe, ...]
) -> Baseline | NotReproducible:
    """Compile again and again to learn how often the failure comes, and from that how often a draft has to be tried."""
    again = [trials(attempt) for attempt in range(_MEASURE)]
    seen = sum(isinstance(one.outcome, Failed) and chased(one.outcome.failure) for one in again)
    name = trials.toolchain.revision.name
    if not seen:
        reason = f"it failed once on {name} and in none of {_MEASURE} further compiles"
        return NotReproducible(trials.case, reason, (*tried, *again))
    rate = seen / _MEASURE
    needed = 1 if rate == 1 else min(_MOST, math.ceil(math.log(1 - _SURE) / math.log(1 - rate)))
    note = f"it fails in {seen} of {_MEASURE} compiles; a program counts as passing after {repeats or needed}"
    seconds = max(one.measured.seconds for one in again)
    return Baseline(failure, chased, trials.naming, seconds, repeats or needed, tried, None, (note,), tuple(trials.made))


_LEAST = 1.5  # times as much on the bad toolchain; less is lost in the noise of small programs
_NEAR = 1.25  # a ratio this close to the one that is asked for, as a factor, is measured again


class Growth(Oracle):
    """A draft counts while its number on the bad toolchain is `factor` times that on the good one. The smallest of a few
    measurements counts, since a busy machine only adds.
    """

    def __init__(
        self,
        prober: Prober,
        folder: Path,
        bad: Toolchain,
        good: Toolchain,
        metric: Metric,
        factor: float,
        *,
        slipped: Path | None = None,
    ) -> None:
        """folder, slipped: as for any oracle."""
        super().__init__(prober, folder, bad, good, lambda _: False, naming=Naming.NEVER, slipped=slipped)
        self._metric, self._factor, self._pair = metric, factor, (bad, good)

    def fails(self, draft: Draft, cancelled: threading.Event) -> bool:
        """Whether the number is still so many times as large; a draft that fails on either toolchain has none."""
        low = high = math.inf
        for attempt in range(TIMES):
            values = []
            for toolchain in self._pair:
                probe = self.tried(draft, toolchain, attempt, cancelled)
                value = value_of(probe, self._metric)
                if value is None:
                    if isinstance(probe.outcome, Failed):
                        self.note(probe.outcome.failure, draft)
                    return False
                values.append(value)
            high, low = min(high, values[0]), min(low, values[1])
            if not self._factor / _NEAR < high / max(low, 1e-9) < self._factor * _NEAR:
                break
        return high > self._factor * low

    def compiles(self, draft: Draft, cancelled: threading.Event) -> bool:  # noqa: ARG002 - the oracle's names
        """Whatever fails as it should was compiled by both."""
        return True


def grown(prober: Prober, case: Case, bad: Toolchain, good: Toolchain | None, metric: Metric) -> Baseline | NotReproducible:
    """Measure the case on both toolchains. A draft has to keep half of the growth, as a factor."""
    if good is None:
        return NotReproducible(case, f"{metric} has grown since when? name a toolchain with --good")
    probes: list[Probe] = []
    again: list[Probe] = []
    smallest: list[float] = []
    for toolchain in (bad, good):
        made = [prober.trial(case, toolchain, Naming.NEVER, attempt=attempt) for attempt in range(TIMES)]
        probes.append(made[0])
        again += made[1:]
        values = [value for one in made if (value := value_of(one, metric)) is not None]
        if not values:
            why = made[0].outcome.reason if isinstance(made[0].outcome, Untestable) else "it does not compile"
            cause = made[0].outcome.cause if isinstance(made[0].outcome, Untestable) else Cause.RECIPE
            return NotReproducible(case, f"no {metric} on {toolchain.revision.name}: {why}", tuple(probes), cause)
        smallest.append(min(values))
    high, low = smallest
    ratio = high / max(low, 1e-9)
    words = f"{metric} is {high:.4g} on {bad.revision.name} and {low:.4g} on {good.revision.name}"
    if ratio < _LEAST:
        return NotReproducible(case, f"{words}: less than {_LEAST} times as much, too little to reduce", tuple(probes))
    failure = Failure("metric", "metric", f"metric:{metric}", f"{words}, {ratio:.1f} times as much")
    return Baseline(
        failure,
        same_signature(failure),
        Naming.NEVER,
        seconds=probes[0].measured.seconds,
        repeats=1,
        probes=tuple(probes),
        again=tuple(again),
        factor=max(_LEAST, math.sqrt(ratio)),
    )
