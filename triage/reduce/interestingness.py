"""The interestingness test: compiles a candidate and decides whether it shows the
failure of the original case.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

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
from triage.reduce.problem import ReducedCase
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

    @property
    def refs(self) -> list[ToolchainRef]:
        return [self.bad, self.good] if self.good else [self.bad]


class NotReducibleError(Exception):
    """Why a case cannot be reduced."""

    def __init__(self, answer: NoAnswer, probes: Sequence[Probe]) -> None:
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
    naming, times = Naming.NEVER, 0
    rule = rules_of(case).by_name.get(failure.failure_class)
    if failure.family == "crash" or (rule and rule.needs_pass):
        naming, times = Naming.AT_ONCE, 1
    if failure.family in _DOUBTED:
        times = 2
    # as smaller programs are compiled
    repeated = [
        engine.probe(ProbeJob(case, request.bad, once=naming, attempt=attempt))
        for attempt in range(times)
    ]
    for probe in repeated[:1]:
        failure = probe.outcome.failure or failure
    same = same_signature(failure)
    if failure.failure_class == "wrong-result":
        # the signature has the index of the result, which may change
        same = same_wrong_result(failure)
    repeats = 1
    for probe in (probes[0], *repeated):
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
        seconds=(repeated or probes)[0].measured.seconds,
        repeats=repeats,
        probes=(*probes, *repeated),
    )


def _probe_original(
    engine: Engine, request: ReductionRequest, case: Case
) -> list[Probe]:
    jobs = [ProbeJob(case, ref) for ref in request.refs]
    return [
        engine.recall(job) or engine.probe(replace(job, once=Naming.NEVER))
        for job in jobs
    ]


def _failure_to_keep(probes: Sequence[Probe]) -> Failure:
    """Find the failure on the bad toolchain. Raises NotReducibleError if there is none,
    if the good toolchain fails, or if one cannot be tested.
    """
    for probe in probes:
        if isinstance(probe.outcome, NoAnswer):
            why = f"untestable on {probe.revision.name}: {probe.outcome.reason}"
            raise NotReducibleError(NoAnswer(probe.outcome.cause, why), probes)
    failure, name = probes[0].outcome.failure, probes[0].revision.name
    why = f"it passes on {name}; there is nothing to reduce"
    if failure and failure.stage is Stage.IMPORT:
        why = f"the importer of {name} fails before the compiler runs"
    elif isinstance(probes[-1].outcome, Failed) and len(probes) > 1:
        why = f"it fails on {probes[-1].revision.name}, the --good version, too"
    elif failure:
        return failure
    raise NotReducibleError(NoAnswer(Cause.NOT_FOUND, why), probes)


@dataclass
class CompileTest:
    """Compiles candidates. Safe for several threads; deletes each candidate's file
    after its compile.
    """

    engine: Engine
    baseline: Baseline
    folder: Path
    """An existing folder for the candidates' files."""
    probes: list[Probe] = field(default_factory=list)
    """All compiles that were made or looked up."""
    is_complete: bool = False
    """Whether each candidate gets the complete test, with the good toolchain; else only
    the result of each pass does.
    """

    def begin(self, original: ReducedCase) -> ReducedCase | None:
        """Choose the candidate to start from; None if it does not fail as the
        original.
        """
        if self.is_interesting(original, threading.Event()):
            return original
        return None

    def ready(self, candidate: ReducedCase) -> ReducedCase | None:
        """Give a candidate the values that it is run with; None if there are no values
        for it.
        """
        return candidate

    def is_interesting(self, candidate: ReducedCase, stop: threading.Event) -> bool:
        """Tell whether a candidate fails as the original does. Raises Interrupted when
        `stop` is set.
        """
        bad, good = self.baseline.request.bad, self.baseline.request.good
        with self.on_disk(candidate) as case:
            for attempt in range(self.baseline.repeats):
                outcome = self.compile(case, bad, stop, attempt)
                # Only the root cause counts: later runs identify it by that.
                if isinstance(outcome, Failed) and self.baseline.match(outcome.failure):
                    if good and self.is_complete:
                        return isinstance(self.compile(case, good, stop), Passed)
                    return True
        return False

    def is_confirmed(self, candidate: ReducedCase) -> bool:
        """Tell whether an interesting candidate passes the complete test. If not, each
        candidate gets it from now on.
        """
        before, self.is_complete = self.is_complete, True
        ready = self.ready(candidate)
        assert ready  # it is interesting
        is_confirmed = self.is_interesting(ready, threading.Event())
        self.is_complete = before or not is_confirmed
        return is_confirmed

    def complete(self, candidate: ReducedCase) -> ReducedCase:
        """Give a candidate all that its case needs to be probed by itself."""
        return candidate

    def compile(
        self, case: Case, ref: ToolchainRef, stop: threading.Event, attempt: int = 0
    ) -> Outcome:
        """Compile a candidate, or look it up."""
        naming, here = self.baseline.naming, not self.baseline.is_portable
        job = ProbeJob(case, ref, once=naming, attempt=attempt, stop=stop, here=here)
        probe = self.engine.probe(job)
        self.probes.append(probe)
        return probe.outcome

    @contextmanager
    def on_disk(self, candidate: ReducedCase) -> Iterator[Case]:
        """Yield the case of a candidate, whose file exists meanwhile."""
        case, program = candidate.case, candidate.program
        # A folder for each candidate: some compilers derive names from the file name,
        # which must be an identifier, and write files next to it.
        with TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as folder:
            path = Path(folder, f"input.{program.suffix}")
            path.write_bytes(program.content)
            # another name, so that its results are not taken for the recipe's
            yield replace(
                case,
                name=f"{case.name} (reducing)",
                input=case.input.rewritten(path, program.kind),
                expect=(),
            )

    @property
    def jobs(self) -> int:
        """How many candidates can be compiled at once."""
        if self.baseline.is_portable:
            return self.engine.jobs
        return self.engine.local_jobs

    @property
    def calls(self) -> int:
        """Compiles that were made."""
        return sum(not probe.cached for probe in (*self.baseline.probes, *self.probes))
