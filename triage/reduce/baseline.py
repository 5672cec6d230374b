"""What to reduce, and the failure that a reduction keeps, as it is on both toolchains
before anything is changed.
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

_MEASURE = 8  # compiles of a flaky failure, to measure how often it occurs
_SURE = 0.99  # probability that a candidate which fails at that rate is seen to fail
_MOST = 12  # compiles of one candidate
# families that are compiled twice
_DOUBTED = frozenset(("crash", "timeout", "out-of-memory"))


@dataclass(frozen=True, slots=True)
class ReductionRequest:
    """What to reduce."""

    case: Case
    bad: ToolchainRef
    good: ToolchainRef | None
    match: Callable[[Failure], Match]
    """Makes the comparison of failures from the one that is found."""
    resume: bool = False
    changed: bool = False
    """The case fails on the good toolchain too, in another way, as candidates may."""

    def same_as(self, failure: Failure) -> Match:
        """Return the comparison with a failure. The signature of a wrong result has the
        result's index, which may change.
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
    again: tuple[Probe, ...] = ()
    """Further compiles of the original."""
    notes: tuple[str, ...] = ()
    changed: bool = False
    """The good toolchain may fail in another way."""

    @property
    def is_portable(self) -> bool:
        """Whether candidates can be compiled on other machines: nothing is computed
        here.
        """
        return self.failure.stage is Stage.COMPILE

    def is_without(self, outcome: Outcome) -> bool:
        """Return whether an outcome on the good toolchain is without the failure, in
        the way that the original's is.
        """
        if self.changed and isinstance(outcome, Failed):
            return not self.match(outcome.failure)
        return isinstance(outcome, Passed)


def baseline(
    engine: Engine, request: ReductionRequest, bad: Toolchain, good: Toolchain | None
) -> Baseline | Reduction:
    """Compile the case on both toolchains, or take the cached results. Returns a
    `Reduction` with the reason if there is nothing to reduce.
    """

    def probe(case: Case, toolchain: Toolchain) -> Probe:
        return engine.known_on(case, toolchain) or engine.trial(
            case, toolchain, Naming.NEVER
        )

    def probe_both(case: Case) -> tuple[Probe, ...]:
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
        outcome = probes[0].outcome
        if (
            case.run
            and isinstance(outcome, Failed)
            and outcome.failure.stage is Stage.COMPILE
        ):
            # what the good toolchain computes does not matter
            case = replace(case, run=None)
            probes = probe_both(case)
        return _unusable(request, probes) or _of_failure(
            engine, replace(request, case=case), bad, probes
        )
    finally:
        task.finish()


def _unusable(request: ReductionRequest, probes: tuple[Probe, ...]) -> Reduction | None:
    """Return why the case cannot be reduced: it passes on the bad toolchain, fails on
    the good one, or cannot be tested. None if it can.
    """
    case, name = probes[0].case, probes[0].revision.name
    match probes[0].outcome:
        case Passed():
            if case.run:
                does = "computes what it must"
            else:
                does = "compiles"
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
                        not request.changed or request.same_as(bad_failure)(failure)
                    ):
                        if case.run:
                            does = "compute the right result"
                        else:
                            does = "compile"
                        why = (
                            f"expected {name} to {does}, but it fails: "
                            f"{failure.failure_class}; pass --good with another version"
                        )
                        return not_reduced(case, probes, why)
                    case NoAnswer(cause=cause, reason=reason):
                        why = f"untestable on {name}, the --good version: {reason}"
                        return not_reduced(case, probes, why, cause)
    return None


def _of_failure(
    engine: Engine, request: ReductionRequest, bad: Toolchain, probes: tuple[Probe, ...]
) -> Baseline | Reduction:
    """Return the failure that each smaller program must show.

    It is the failure as a trial reports it, because smaller programs are tried in the
    same way. If the case does not fail every time, more trials measure how often.
    """
    case, outcome = request.case, probes[0].outcome
    assert isinstance(outcome, Failed)
    failure = outcome.failure
    naming, attempts = _trials_of(case, failure)

    def trials(count: int) -> list[Probe]:
        return [
            engine.trial(case, bad, naming, attempt=attempt) for attempt in range(count)
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
        measured = trials(_MEASURE)
        tried += measured
        failed = sum(_fails(probe, same) for probe in measured)
        if not failed:
            why = (
                f"it failed once on {bad.revision.name} and in none of {_MEASURE} "
                "further compiles"
            )
            return not_reduced(case, (*probes, *measured), why)
        repeats = _repeats_at(failed / _MEASURE)
        notes.append(
            f"it fails in {failed} of {_MEASURE} compiles; a program counts as "
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
        request.changed,
    )


def _trials_of(case: Case, failure: Failure) -> tuple[Naming, int]:
    """Return whether a trial of the failure names the pass, and how many trials to do.

    Only a trial names the failing pass. A failure that may be flaky gets two trials.
    """
    is_named = failure.family == "crash" or rules_of(case).needs_pass(failure)
    if is_named:
        naming = Naming.AT_ONCE
    else:
        naming = Naming.NEVER
    if failure.family in _DOUBTED:
        return naming, 2
    return naming, int(is_named)


def _repeats_at(rate: float) -> int:
    """Return how often a program must pass to count as passing, if it fails at a
    rate.
    """
    if rate == 1:
        return 1
    return min(_MOST, math.ceil(math.log(1 - _SURE) / math.log(1 - rate)))


def _fails(probe: Probe, same: Match) -> bool:
    return isinstance(probe.outcome, Failed) and same(probe.outcome.failure)
