"""The failure that a reduction keeps, as it is on both toolchains before anything is changed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from triage.execution.engine import Engine
from triage.execution.judge import Match, rules_of
from triage.execution.task import Naming
from triage.model.case import Case
from triage.model.execution import Stage
from triage.model.outcome import Compiled, Failed, Failure, Outcome, Probe, Untestable
from triage.model.revision import Toolchain
from triage.reduce.result import Reduction

_MEASURE = 8  # compiles of a flaky failure, to measure how often it occurs
_SURE = 0.99  # probability that a candidate which fails at that rate is seen to fail
_MOST = 12  # compiles of one candidate
_DOUBTED = frozenset(("crash", "timeout", "out-of-memory"))  # families that are compiled twice
_LEAST = 1.2  # smallest growth worth reducing


@dataclass(frozen=True, slots=True)
class Baseline:
    """The failure to keep and how a candidate's failure is compared with it."""

    failure: Failure
    match: Match
    naming: Naming
    seconds: float
    """Of the failing compile."""
    repeats: int
    """Compiles of a candidate before it counts as passing."""
    probes: tuple[Probe, ...]
    again: tuple[Probe, ...] = ()
    """Further compiles of the original."""
    notes: tuple[str, ...] = ()
    changed: bool = False
    """The good toolchain may fail in another way."""

    @property
    def is_portable(self) -> bool:
        """Whether candidates can be compiled on other machines: nothing is computed here."""
        return self.failure.stage is Stage.COMPILE

    def is_without(self, outcome: Outcome) -> bool:
        """Return whether an outcome on the good toolchain is without the failure, in the way that the original's is."""
        if self.changed and isinstance(outcome, Failed):
            return not self.match(outcome.failure)
        return isinstance(outcome, Compiled)


def baseline(
    runner: Engine,
    case: Case,
    bad: Toolchain,
    good: Toolchain | None,
    match: Callable[[Failure], Match],
    repeats: int | None,
    *,
    changed: bool = False,
) -> Baseline | Reduction:
    """Compile the case on both toolchains, or take the cached results.

    match: makes the comparison from the failure found. repeats: None to choose it by how often the case fails. changed: the
    good toolchain may fail in another way.
    """

    def probe(case: Case) -> tuple[Probe, ...]:
        with runner.threads(2) as pool:
            asked = [pool.submit(first_probe, case, toolchain) for toolchain in (bad, good) if toolchain]
            return tuple(answer.result() for answer in asked)

    def first_probe(case: Case, toolchain: Toolchain) -> Probe:
        return runner.known_on(case, toolchain) or runner.trial(case, toolchain, Naming.NEVER)

    task = runner.progress.task(f"reduce  {case.name}: the original", total=None)
    try:
        probes = probe(case)
        outcome = probes[0].outcome
        if case.run and isinstance(outcome, Failed) and outcome.failure.stage is Stage.COMPILE:
            case = replace(case, run=None)  # what the good toolchain computes does not matter
            probes = probe(case)
        same = match(outcome.failure) if changed and isinstance(outcome, Failed) else None
        if why := _unusable(probes, bad, good, same):
            return why
        start = _of_failure(runner, case, bad, match, repeats, probes)
        return start if isinstance(start, Reduction) else replace(start, changed=changed)
    finally:
        task.finish()


def _unusable(probes: tuple[Probe, ...], bad: Toolchain, good: Toolchain | None, same: Match | None) -> Reduction | None:
    """Return why the pair is not a start for a reduction, or None when the bad toolchain fails and the good one compiles, or
    fails without being the `same`.
    """
    case, name = probes[0].case, bad.revision.name
    match probes[0].outcome:
        case Compiled():
            does = "computes what it must" if case.run else "compiles"
            return Reduction(case, f"it {does} on {name}; there is nothing to reduce", probes=probes)
        case Untestable(cause=cause, reason=reason):
            return Reduction(case, f"untestable on {name}: {reason}", cause, probes)
        case Failed(failure=Failure(stage=Stage.IMPORT)):
            why = f"the importer of {name} fails before the compiler runs; only programs that are imported can be reduced"
            return Reduction(case, why, probes=probes)
    if good is None:
        return None
    name = good.revision.name
    match probes[1].outcome:
        case Failed(failure=failure) if same is None or same(failure):
            does = "compute the right result" if case.run else "compile"
            why = f"expected {name} to {does}, but it fails: {failure.failure_class}; pass --good with another version"
            return Reduction(case, why, probes=probes)
        case Untestable(reason=reason):
            return Reduction(case, f"untestable on {name}, the --good version: {reason}", probes=probes)
    return None


def _of_failure(
    runner: Engine,
    case: Case,
    bad: Toolchain,
    match: Callable[[Failure], Match],
    repeats: int | None,
    probes: tuple[Probe, ...],
) -> Baseline | Reduction:
    """Return the failure as trials see it, because candidates are compared with it. A doubtful one is compiled again."""
    assert isinstance(probes[0].outcome, Failed)
    failure, flaky, seconds = probes[0].outcome.failure, probes[0].outcome.flaky, probes[0].measured.seconds
    named = failure.family == "crash" or rules_of(case).needs_pass(failure)
    naming = Naming.AT_ONCE if named else Naming.NEVER
    again: list[Probe] = []

    def fails_again(attempt: int, same: Match) -> bool:
        again.append(runner.trial(case, bad, naming, attempt=attempt))
        outcome = again[-1].outcome
        return isinstance(outcome, Failed) and same(outcome.failure)

    if named or failure.family in _DOUBTED:
        flaky = not fails_again(0, lambda _: True) or flaky
        seconds = again[0].measured.seconds
        if isinstance(again[0].outcome, Failed):
            failure = again[0].outcome.failure
    same = match(failure)
    if failure.family in _DOUBTED:
        flaky = not fails_again(1, same) or flaky
    if flaky and failure.stage in (Stage.RUN, Stage.COMPARE):
        return Reduction(case, f"runs of one compiled program on {bad.revision.name} end differently", probes=(*probes, *again))
    if not flaky:
        return Baseline(failure, same, naming, seconds, repeats or 1, probes, tuple(again))
    seen = sum([fails_again(attempt, same) for attempt in range(_MEASURE)])
    if not seen:
        why = f"it failed once on {bad.revision.name} and in none of {_MEASURE} further compiles"
        return Reduction(case, why, probes=(*probes, *again[-_MEASURE:]))
    rate = seen / _MEASURE
    needed = 1 if rate == 1 else min(_MOST, math.ceil(math.log(1 - _SURE) / math.log(1 - rate)))
    note = f"it fails in {seen} of {_MEASURE} compiles; a program counts as passing after {repeats or needed}"
    seconds = max(probe.measured.seconds for probe in again[-_MEASURE:])
    return Baseline(failure, same, naming, seconds, repeats or needed, probes, tuple(again), notes=(note,))
