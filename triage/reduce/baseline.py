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
from triage.execution.task import Naming
from triage.model.case import Case
from triage.model.execution import Stage
from triage.model.outcome import Failed, Failure, NoAnswer, Outcome, Passed, Probe
from triage.model.revision import Toolchain
from triage.reduce.result import Reduction, not_reduced
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
    resume: bool = False
    good_may_fail: bool = False
    """The good toolchain fails on the case in another way, and may on candidates."""

    def same_as(self, failure: Failure) -> Match:
        """Return the test whether another failure is the same as this one.

        The signature of a wrong result has the result's index, which may change.
        """
        is_wrong = (
            self.match is same_signature and failure.failure_class == "wrong-result"
        )
        if is_wrong:
            return same_wrong_result(failure)
        return self.match(failure)


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
    """The original on the bad toolchain, then on the good one if there is one."""
    again: tuple[Probe, ...] = ()
    """Further compiles of the original."""
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
) -> Baseline | Reduction:
    """Compile the case on both toolchains, or take the cached results.

    A case that fails to compile on the bad toolchain is no longer run. Returns a
    `Reduction` with the reason if there is nothing to reduce.
    """

    def probe(case: Case, toolchain: Toolchain) -> Probe:
        cached = engine.cached_probe_on(case, toolchain)
        return cached or engine.probe_on(case, toolchain, once=Naming.NEVER)

    def probe_both(case: Case) -> tuple[Probe, ...]:
        """Probe on the bad toolchain, then on the good one if there is one."""
        with engine.threads(2) as pool:
            asked = [
                pool.submit(probe, case, toolchain)
                for toolchain in (bad, good)
                if toolchain
            ]
            return tuple(answer.result() for answer in asked)

    case = request.case
    task = engine.progress.task(f"reduce  {case.name}: the original", total=None)
    try:
        probes = probe_both(case)
        on_bad = probes[0].outcome
        if (
            case.run
            and isinstance(on_bad, Failed)
            and on_bad.failure.stage is Stage.COMPILE
        ):
            # what the good toolchain computes does not matter
            case = replace(case, run=None)
            probes = probe_both(case)
        problem = _reason_not_to_reduce(request, probes)
        if problem:
            return problem
        return _baseline_of(engine, replace(request, case=case), bad, probes)
    finally:
        task.finish()


def _reason_not_to_reduce(
    request: ReductionRequest, probes: tuple[Probe, ...]
) -> Reduction | None:
    """Return why the case cannot be reduced: it passes on the bad toolchain, fails on
    the good one, or cannot be tested. None if it can. probes: see `Baseline`.
    """
    case, name = probes[0].case, probes[0].revision.name
    match probes[0].outcome:
        case Passed():
            does = "computes what it must" if case.run else "compiles"
            why = f"it {does} on {name}; there is nothing to reduce"
            return not_reduced(case, probes, why)
        case NoAnswer(cause=cause, reason=reason):
            why = f"untestable on {name}: {reason}"
            return not_reduced(case, probes, why, cause)
        case Failed(failure=Failure(stage=Stage.IMPORT)):
            why = (
                f"the importer of {name} fails before the compiler runs; only "
                "programs that are imported can be reduced"
            )
            return not_reduced(case, probes, why)
        case Failed(failure=bad_failure):
            for probe in probes[1:]:
                name = probe.revision.name
                match probe.outcome:
                    case Failed(failure=failure) if (
                        not request.good_may_fail
                        or request.same_as(bad_failure)(failure)
                    ):
                        does = "compute the right result" if case.run else "compile"
                        why = (
                            f"expected {name} to {does}, but it fails: "
                            f"{failure.failure_class}; pass --good with another version"
                        )
                        return not_reduced(case, probes, why)
                    case NoAnswer(cause=cause, reason=reason):
                        why = f"untestable on {name}, the --good version: {reason}"
                        return not_reduced(case, probes, why, cause)
    return None


def _baseline_of(
    engine: Engine, request: ReductionRequest, bad: Toolchain, probes: tuple[Probe, ...]
) -> Baseline | Reduction:
    """Return the baseline with the failure that a trial reports, because smaller
    programs are tried in the same way.

    If the case does not fail every time, more trials measure how often.
    """
    case, outcome = request.case, probes[0].outcome
    assert isinstance(outcome, Failed)
    failure = outcome.failure
    naming, attempts = _trials_for(case, failure)

    def trials(count: int) -> list[Probe]:
        return [
            engine.probe_on(case, bad, once=naming, attempt=attempt)
            for attempt in range(count)
        ]

    tried = trials(attempts)
    if tried and isinstance(tried[0].outcome, Failed):
        failure = tried[0].outcome.failure
    same = request.same_as(failure)
    seconds = (tried or probes)[0].measured.seconds
    repeats, notes = 1, list[str]()
    if outcome.flaky or not all(_fails(probe, same) for probe in tried):
        if failure.stage in (Stage.RUN, Stage.COMPARE):
            why = f"runs of one compiled program on {bad.revision.name} end differently"
            return not_reduced(case, (*probes, *tried), why)
        measured = trials(_MEASURING)
        tried += measured
        failed = sum(_fails(probe, same) for probe in measured)
        if not failed:
            why = (
                f"it failed once on {bad.revision.name} and in none of {_MEASURING} "
                "further compiles"
            )
            return not_reduced(case, (*probes, *measured), why)
        repeats = _repeats_at(failed / _MEASURING)
        notes.append(
            f"it fails in {failed} of {_MEASURING} compiles; a program counts as "
            f"passing after {repeats}"
        )
        seconds = max(probe.measured.seconds for probe in measured)
    return Baseline(
        failure,
        same,
        naming,
        seconds,
        repeats,
        probes,
        tuple(tried),
        tuple(notes),
        request.good_may_fail,
    )


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
