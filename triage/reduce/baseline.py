"""What to reduce, and the failure that a reduction keeps: how the original case fails
on both toolchains.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from triage.execution.engine import Engine
from triage.execution.judge import rules_of
from triage.execution.match import Match, same_signature, same_wrong_result
from triage.execution.task import Naming, ProbeJob
from triage.model.case import Case
from triage.model.execution import Stage
from triage.model.outcome import (
    Cause,
    Failed,
    Failure,
    NoAnswer,
    Outcome,
    Passed,
    Probe,
)
from triage.model.revision import Toolchain
from triage.toolchains.registry import ToolchainRef

_MEASURING = 8  # compiles of a flaky failure, to measure how often it occurs
# probability that a candidate which fails at that rate is seen to fail
_CONFIDENCE = 0.99
_MOST_REPEATS = 12  # compiles of one candidate
# families that may be flaky, so that they are compiled twice
_DOUBTED = frozenset(("crash", "timeout", "out-of-memory"))


@dataclass(frozen=True, slots=True)
class ReductionRequest:
    """What to reduce."""

    case: Case
    bad: ToolchainRef
    good: ToolchainRef | None
    match: Callable[[Failure], Match]
    """Returns, for the failure of the case, the test whether another is the same."""
    good_may_fail: bool = False
    """The good toolchain fails on the case in another way, and may on candidates."""

    def same_as(self, failure: Failure) -> Match:
        """Return the test whether another failure is the same as this one.

        The signature of a wrong result has the result's index, which may change.
        """
        is_wrong = failure.failure_class == "wrong-result"
        if is_wrong and self.match is same_signature:
            return same_wrong_result(failure)
        return self.match(failure)


class NotReducibleError(Exception):
    """Why a case cannot be reduced."""

    def __init__(
        self, answer: NoAnswer, case: Case, probes: tuple[Probe, ...] = ()
    ) -> None:
        """probes: of the original, as far as it was probed."""
        super().__init__(answer.reason)
        self.answer, self.case, self.probes = answer, case, probes


@dataclass(frozen=True, slots=True)
class Baseline:
    """The failure to keep and how a candidate's failure is compared with it."""

    case: Case
    """Without its run, if it fails to compile."""
    failure: Failure
    match: Match
    naming: Naming
    seconds: float
    """Of the failing compile."""
    repeats: int
    """Compiles of a candidate before it counts as passing."""
    probes: tuple[Probe, ...]
    """The original on the bad toolchain, on the good one if there is one, and further
    compiles of it.
    """
    notes: tuple[str, ...] = ()
    good_may_fail: bool = False
    """The good toolchain may fail on candidates in another way."""

    @property
    def is_portable(self) -> bool:
        """Whether candidates can be compiled on other machines: nothing is computed
        here.
        """
        return self.failure.stage is Stage.COMPILE

    def lacks_failure(self, outcome: Outcome) -> bool:
        """Return whether an outcome on the good toolchain is as expected: it passes or,
        if it may fail, fails in another way.
        """
        if self.good_may_fail and isinstance(outcome, Failed):
            return not self.match(outcome.failure)
        return isinstance(outcome, Passed)


def measure_baseline(
    engine: Engine, request: ReductionRequest, bad: Toolchain, good: Toolchain | None
) -> Baseline:
    """Compile the case on both toolchains, or take the cached results. Raises
    NotReducibleError.
    """
    case = request.case
    probes = _probe_original(engine, case, bad, good)
    match probes[0].outcome:
        case Failed(failure=Failure(stage=Stage.COMPILE)) if case.run:
            # what the good toolchain computes does not matter
            case = replace(case, run=None)
            probes = _probe_original(engine, case, bad, good)
    failure = _failure_to_keep(request, probes)
    naming, count = _trials_for(case, failure)

    def trials(count: int) -> list[Probe]:
        ref = engine.registry.ref_of(bad)
        return [
            engine.probe(ProbeJob(case, ref, once=naming, attempt=attempt))
            for attempt in range(count)
        ]

    # smaller programs are tried in the same way
    tried = trials(count)
    if tried and isinstance(tried[0].outcome, Failed):
        failure = tried[0].outcome.failure
    same = request.same_as(failure)
    seconds = (tried or probes)[0].measured.seconds
    repeats, notes = 1, list[str]()
    is_flaky = isinstance(probes[0].outcome, Failed) and probes[0].outcome.flaky
    if is_flaky or not all(_fails(probe, same) for probe in tried):
        name = bad.revision.name
        if failure.stage in (Stage.RUN, Stage.COMPARE):
            why = f"runs of one compiled program on {name} end differently"
            raise NotReducibleError(NoAnswer(Cause.NOT_FOUND, why), case, probes)
        measured = trials(_MEASURING)
        tried += measured
        failed = sum(_fails(probe, same) for probe in measured)
        if not failed:
            why = (
                f"it failed once on {name} and in none of {_MEASURING} further compiles"
            )
            raise NotReducibleError(NoAnswer(Cause.NOT_FOUND, why), case, probes)
        repeats = _repeats_at(failed / _MEASURING)
        notes.append(
            f"it fails in {failed} of {_MEASURING} compiles; a program counts as "
            f"passing after {repeats}"
        )
        seconds = max(probe.measured.seconds for probe in measured)
    return Baseline(
        case,
        failure,
        same,
        naming,
        seconds,
        repeats,
        (*probes, *tried),
        tuple(notes),
        request.good_may_fail,
    )


def _probe_original(
    engine: Engine, case: Case, bad: Toolchain, good: Toolchain | None
) -> tuple[Probe, ...]:
    """Probe on the bad toolchain, then on the good one if there is one."""

    def probe(toolchain: Toolchain) -> Probe:
        job = ProbeJob(case, engine.registry.ref_of(toolchain))
        return engine.recall(job) or engine.probe(replace(job, once=Naming.NEVER))

    with engine.threads(2) as pool:
        return tuple(pool.map(probe, filter(None, [bad, good])))


def _failure_to_keep(request: ReductionRequest, probes: tuple[Probe, ...]) -> Failure:
    """Return the failure on the bad toolchain. Raises NotReducibleError if the case
    passes there, fails on the good one, or cannot be tested. probes: see `Baseline`.
    """
    case, name = probes[0].case, probes[0].revision.name
    match probes[0].outcome:
        case Passed():
            does = "compiles"
            if case.run:
                does = "computes what it must"
            why = f"it {does} on {name}; there is nothing to reduce"
            answer = NoAnswer(Cause.NOT_FOUND, why)
        case NoAnswer(cause=cause, reason=reason):
            answer = NoAnswer(cause, f"untestable on {name}: {reason}")
        case Failed(failure=failure):
            if failure.stage is not Stage.IMPORT:
                return _checked_on_good(request, probes, failure)
            why = (
                f"the importer of {name} fails before the compiler runs; only "
                "programs that are imported can be reduced"
            )
            answer = NoAnswer(Cause.NOT_FOUND, why)
    raise NotReducibleError(answer, case, probes)


def _checked_on_good(
    request: ReductionRequest, probes: tuple[Probe, ...], kept: Failure
) -> Failure:
    """Return a failure. Raises NotReducibleError unless the good toolchain lacks it."""
    case = probes[0].case
    for probe in probes[1:]:
        name = probe.revision.name
        match probe.outcome:
            case NoAnswer(cause=cause, reason=reason):
                why = f"untestable on {name}, the --good version: {reason}"
                raise NotReducibleError(NoAnswer(cause, why), case, probes)
            case Failed(failure=failure) if (
                not request.good_may_fail or request.same_as(kept)(failure)
            ):
                does = "compile"
                if case.run:
                    does = "compute the right result"
                why = (
                    f"expected {name} to {does}, but it fails: "
                    f"{failure.failure_class}; pass --good with another version"
                )
                raise NotReducibleError(NoAnswer(Cause.NOT_FOUND, why), case, probes)
    return kept


def _trials_for(case: Case, failure: Failure) -> tuple[Naming, int]:
    """Return whether a trial names the failing pass, and the number of trials.

    A failure that may be flaky gets two trials. Any other gets one if only a trial
    names its pass.
    """
    naming, trials = Naming.NEVER, 0
    if failure.family == "crash" or rules_of(case).needs_pass(failure):
        naming, trials = Naming.AT_ONCE, 1
    if failure.family in _DOUBTED:
        trials = 2
    return naming, trials


def _repeats_at(rate: float) -> int:
    """Return how often a program must pass to count as passing, if the original fails
    at this rate.

    >>> _repeats_at(0.5)
    7
    """
    if rate == 1:
        return 1
    return min(_MOST_REPEATS, math.ceil(math.log(1 - _CONFIDENCE) / math.log(1 - rate)))


def _fails(probe: Probe, same: Match) -> bool:
    return isinstance(probe.outcome, Failed) and same(probe.outcome.failure)
