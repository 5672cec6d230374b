"""What to reduce, and the failure that a reduction keeps: how the original case fails
on both toolchains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from triage.execution.engine import Engine
from triage.execution.judge import rules_of
from triage.execution.match import Match, same_signature, same_wrong_result
from triage.execution.task import Naming, ProbeJob
from triage.model.case import Case
from triage.model.execution import Stage
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Probe
from triage.model.revision import Toolchain
from triage.toolchains.registry import ToolchainRef

_REPEATS = 8  # compiles of a program before it counts as passing, of a flaky failure
# families that may be flaky, so that they are compiled twice
_DOUBTED = frozenset(("crash", "timeout", "out-of-memory"))


@dataclass(frozen=True, slots=True)
class ReductionRequest:
    """What to reduce."""

    case: Case
    bad: ToolchainRef
    good: ToolchainRef | None
    match: Callable[[Failure], Match] = same_signature
    """Returns, for the failure of the case, the test whether another is the same."""


class NotReducibleError(Exception):
    """Why a case cannot be reduced."""

    def __init__(self, answer: NoAnswer, probes: Sequence[Probe] = ()) -> None:
        """probes: of the original, as far as it was probed."""
        super().__init__(answer.reason)
        self.answer, self.probes = answer, tuple(probes)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The failure to keep and how a candidate's failure is compared with it."""

    request: ReductionRequest
    case: Case
    """Without its run, if it fails to compile."""
    bad: Toolchain
    failure: Failure
    match: Match
    naming: Naming
    seconds: float
    """Of the failing compile."""
    repeats: int
    """Compiles of a candidate before it counts as passing."""
    probes: tuple[Probe, ...]
    """The original on the bad toolchain, then on the good one, then compiled again."""

    @property
    def is_portable(self) -> bool:
        """Whether candidates can be compiled on other machines: nothing is computed
        here.
        """
        return self.failure.stage is Stage.COMPILE


def measure_baseline(engine: Engine, request: ReductionRequest) -> Baseline:
    """Compile the case on both toolchains, or take the cached results. Raises
    NotReducibleError.
    """
    case = request.case
    probes = _probe_original(engine, request, case)
    failure = probes[0].outcome.failure
    if case.run and failure and failure.stage is Stage.COMPILE:
        # what the good toolchain computes does not matter
        case = replace(case, run=None)
        probes = _probe_original(engine, request, case)
    failure = _failure_to_keep(probes)
    naming, trials = _trials_for(case, failure)
    # smaller programs are tried in the same way
    tried = tuple(
        engine.probe(ProbeJob(case, request.bad, once=naming, attempt=attempt))
        for attempt in range(trials)
    )
    if tried and isinstance(tried[0].outcome, Failed):
        failure = tried[0].outcome.failure
    same = request.match(failure)
    if failure.failure_class == "wrong-result" and request.match is same_signature:
        # the signature has the index of the result, which may change
        same = same_wrong_result(failure)
    repeats = 1
    for probe in (probes[0], *tried):
        failed = probe.outcome.failure
        if probe.outcome.flaky or failed is None or not same(failed):
            repeats = _REPEATS
    if repeats > 1 and failure.stage is not Stage.COMPILE:
        why = f"runs on {request.bad.revision.name} end differently"
        raise NotReducibleError(NoAnswer(Cause.NOT_FOUND, why), probes)
    return Baseline(
        request,
        case,
        bad=engine.registry.obtain(request.bad),
        failure=failure,
        match=same,
        naming=naming,
        seconds=(tried or probes)[0].measured.seconds,
        repeats=repeats,
        probes=(*probes, *tried),
    )


def _probe_original(
    engine: Engine, request: ReductionRequest, case: Case
) -> tuple[Probe, ...]:
    def probe(ref: ToolchainRef) -> Probe:
        job = ProbeJob(case, ref)
        return engine.recall(job) or engine.probe(replace(job, once=Naming.NEVER))

    return tuple(map(probe, filter(None, (request.bad, request.good))))


def _failure_to_keep(probes: Sequence[Probe]) -> Failure:
    """Return the failure on the bad toolchain. Raises NotReducibleError if there is
    none, if the good toolchain fails, or if one cannot be tested.
    """
    why, failure = "", probes[0].outcome.failure
    for probe in probes:
        name = probe.revision.name
        if isinstance(probe.outcome, NoAnswer):
            why = f"untestable on {name}: {probe.outcome.reason}"
            raise NotReducibleError(NoAnswer(probe.outcome.cause, why), probes)
        if probe is not probes[0] and isinstance(probe.outcome, Failed):
            why = f"it fails on {name}, the --good version, too"
    name = probes[0].revision.name
    if failure is None:
        why = f"it passes on {name}; there is nothing to reduce"
    elif failure.stage is Stage.IMPORT:
        why = f"the importer of {name} fails before the compiler runs"
    if failure is None or why:
        raise NotReducibleError(NoAnswer(Cause.NOT_FOUND, why), probes)
    return failure


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
