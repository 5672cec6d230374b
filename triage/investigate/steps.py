"""The steps of an investigation. Each takes a cluster of cases with one new failure and
adds what it finds out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, TypeVar

from triage.attribute.divergence import AttributionRequest, attribute
from triage.compilers.parts import IrPrinter
from triage.execution.engine import Engine
from triage.execution.match import same_signature
from triage.execution.task import ProbeJob
from triage.investigate.origin import OriginFinder, ToolchainPair, is_of_releases
from triage.investigate.result import (
    CaseChangeKind,
    CaseResult,
    FailureCluster,
    ReportFiles,
    StepResult,
)
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure, Interrupted
from triage.model.execution import Stage
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Outcome, Passed
from triage.reduce.interestingness import ReductionRequest
from triage.reduce.replay import replay_states
from triage.reduce.reproducer import draft_of, reproducer_of
from triage.reduce.workflow import reduce_case
from triage.remedy.search import RemedyRequest, find_remedies
from triage.toolchains.registry import ToolchainRef

_REMEDIES_TRIED = 60  # candidates
_REMEDY_SECONDS = 300.0  # a budget may allow less
_PATIENCE = 120.0  # seconds for each compile that prints its IR
_SPENT = "the budget is spent"
T = TypeVar("T")


#: The status of a step without an answer; `failed` for other causes.
_STATUSES = {
    Cause.TIME: "left",
    Cause.ENVIRONMENT: "left",
    Cause.TOOLCHAIN: "left",
    Cause.NEEDLESS: "skipped",
}


def do_step(
    engine: Engine, step: str, seconds: float, do: Callable[[], T | NoAnswer]
) -> tuple[T | None, StepResult]:
    """Do a step within its time, and return its answer and how it ended."""
    if seconds <= 0:
        return None, StepResult(step, "left", reason=_SPENT)
    began = time.monotonic()
    answer: T | NoAnswer
    with _time_limit(engine.stop, seconds) as over:
        try:
            answer = do()
        except Interrupted:
            if not over.is_set():
                raise
            answer = NoAnswer(Cause.TIME, _SPENT)
        except EnvironmentFailure as error:  # another run may succeed
            answer = NoAnswer(Cause.ENVIRONMENT, str(error))
        except BadInput as error:
            answer = NoAnswer(Cause.NOT_FOUND, str(error))
        except OSError:
            raise
        except Exception as error:
            answer = engine.internal_error(f"the step {step}", error)
    taken = round(time.monotonic() - began, 2)
    if not isinstance(answer, NoAnswer):
        return answer, StepResult(step, "done", taken)
    # a search that fails sets it, too, to end its other compiles
    engine.stop.clear()
    status = _STATUSES.get(answer.cause, "failed")
    return None, StepResult(step, status, taken, answer.reason)


@dataclass(frozen=True)
class InvestigationSetting:
    """The values that all clusters share."""

    engine: Engine
    cases: Mapping[str, Case]
    """All cases by name."""
    finder: OriginFinder
    files: ReportFiles | None = None

    @property
    def toolchain(self) -> ToolchainRef:
        return self.finder.pair[1]

    @property
    def baseline(self) -> ToolchainRef | None:
        return self.finder.pair[0]


@dataclass(eq=False)
class ClusterInWork:
    """A cluster and the case that stands for it. A step adds its answer to the record,
    and returns why it has none. Compiles are cached, so a later run repeats steps.
    """

    setting: InvestigationSetting
    record: FailureCluster
    case: Case
    failure: Failure
    members: Sequence[CaseResult] = ()
    """The results of all its cases in a night."""
    change: CaseChangeKind = CaseChangeKind.REGRESSED
    speed: float = 0.0
    """Seconds of a compile."""
    pair: ToolchainPair | None = None
    """The toolchains before and at the culprit, once they are known."""
    seconds: float = inf
    """What a step may take."""

    @property
    def changed(self) -> Failure | None:
        """The failure, if another one was there before."""
        if self.change is CaseChangeKind.CHANGED:
            return self.failure
        return None

    def add(self, **answers: Any) -> None:
        self.record = replace(self.record, **answers)

    def ending(self, step: str) -> StepResult | None:
        """Return how a step ended, if it was done."""
        endings = {ending.step: ending for ending in self.record.steps}
        return endings.get(step)

    def do(self, step: str) -> StepResult:
        """Do a step within its time, and record how it ended."""
        engine = self.setting.engine
        _, ending = do_step(engine, step, self.seconds, partial(STEPS[step], self))
        self.add(steps=[*self.record.steps, ending])
        return ending

    def bisect(self) -> NoAnswer | None:
        finder = self.setting.finder
        culprit = finder.bisect(self.case, self.changed)
        self.pair = finder.pair_of(culprit)
        self.add(culprit=culprit)
        fix = finder.find_fix(self.case)
        self.add(fix=fix)
        if culprit.after is None and fix is None:
            return culprit.unanswered or NoAnswer(Cause.NOT_FOUND, "no answer")
        return None

    def narrow(self) -> NoAnswer | None:
        """Narrow a pair of releases by commits or nightlies."""
        finder = self.setting.finder
        if self.pair is None or not is_of_releases(self.pair):
            return NoAnswer(Cause.NEEDLESS, "its culprit is not a pair of releases")
        try:
            culprit = finder.narrow(self.case, self.pair, self.changed)
        except BadInput as error:
            if finder.repo is None:
                why = f"{error}; commits are searched with --repo"
                return NoAnswer(Cause.NEEDLESS, why)
            raise
        if culprit.after is None:
            return culprit.unanswered or NoAnswer(Cause.NOT_FOUND, "no answer")
        self.pair = finder.pair_of(culprit)
        self.add(culprit=culprit, release_culprit=self.record.culprit)
        return None

    def confirm(self) -> NoAnswer | None:
        """Probe the other cases before and at the culprit."""
        setting = self.setting
        pair = self.pair
        others = [member for member in self.members if member.case != self.case.name]
        if pair is None:
            return NoAnswer(Cause.NEEDLESS, "its culprit is not known")
        if not others:
            return NoAnswer(Cause.NEEDLESS, "it has no other case")
        cases = [setting.cases[member.case] for member in others]
        jobs = [ProbeJob(case, ref) for case in cases for ref in pair]
        outcomes = {
            (probe.case.name, probe.revision.name): probe.outcome
            for probe in setting.engine.probe_all(jobs, "confirm the culprit")
        }
        confirmed: list[str] = []
        different: list[str] = []
        for member in others:
            before, at = (outcomes[member.case, ref.revision.name] for ref in pair)
            lacked_it = isinstance(before, Passed)
            if isinstance(before, Failed) and member.changed_failure:
                lacked_it = not before.flaky and not self._has_failure(before)
            came_here = lacked_it and self._has_failure(at)
            if came_here:
                confirmed.append(member.case)
            else:
                different.append(member.case)
        self.add(confirmed=confirmed, different=different)
        return None

    def _has_failure(self, outcome: Outcome) -> bool:
        """Return whether an outcome is this failure, and not only sometimes."""
        if not isinstance(outcome, Failed) or outcome.flaky:
            return False
        return same_signature(self.failure)(outcome.failure)

    def attribute(self) -> NoAnswer | None:
        """Find the pass after which the IR of both toolchains diverges."""
        engine = self.setting.engine
        pair = self.pair or self.setting.finder.pair_of(self.record.fix)
        if pair is None:
            return NoAnswer(Cause.NEEDLESS, "its culprit is not known")
        if not isinstance(engine.compilers[self.case.compiler].passes, IrPrinter):
            why = f"the IR of {self.case.compiler} cannot be printed"
            return NoAnswer(Cause.NEEDLESS, why)
        if self.failure.stage is not Stage.COMPILE:
            why = f"it fails in the stage {self.failure.stage.value}"
            return NoAnswer(Cause.NEEDLESS, why)
        request = AttributionRequest(
            self.case, *pair, excerpts=False, patience=_PATIENCE
        )
        attribution = attribute(engine, request)
        if attribution.unanswered:
            return attribution.unanswered
        self.add(attribution=attribution)
        return None

    def remedy(self) -> NoAnswer | None:
        """Find flags or input changes that work around the failure."""
        setting = self.setting
        good = self.setting.baseline
        if self.change is not CaseChangeKind.REGRESSED:
            good = None
        elif good is None and self.pair:
            good = self.pair[0]
        case = self.case
        cases = setting.cases.values()
        request = RemedyRequest(
            case,
            setting.toolchain,
            good,
            _REMEDIES_TRIED,
            [other for other in cases if other.source == case.source],
            min(_REMEDY_SECONDS, self.seconds / 2),
        )
        remedies = find_remedies(setting.engine, request)
        self.add(remedies=list(remedies.remedies))
        return remedies.unanswered

    def reduce(self) -> NoAnswer | None:
        setting, case, files = self.setting, self.case, self.setting.files
        assert files
        passed = self.change is CaseChangeKind.REGRESSED
        request = ReductionRequest(
            case,
            setting.toolchain,
            setting.baseline if passed else None,
        )
        reduction = reduce_case(setting.engine, request)
        if reduction.unanswered is not None:
            return reduction.unanswered
        reproducer = reproducer_of(setting.engine, reduction, setting.toolchain)
        folder = files.write_reproducer(reproducer, files.out / "reproducers")
        versions = reproducer.reduction.evidence
        self.add(
            reproducer=f"reproducers/{folder.name}",
            size=reduction.size,
            draft=draft_of(reproducer),
            replays=replay_states(versions, reproducer.failure.signature),
        )
        return None


#: The cheap ones first; each may use what those before it found.
STEPS: Mapping[str, Callable[[ClusterInWork], NoAnswer | None]] = {
    "bisect": ClusterInWork.bisect,
    "narrow": ClusterInWork.narrow,
    "confirm": ClusterInWork.confirm,
    "attribute": ClusterInWork.attribute,
    "remedy": ClusterInWork.remedy,
    "reduce": ClusterInWork.reduce,
}


@contextmanager
def _time_limit(stop: threading.Event, seconds: float) -> Iterator[threading.Event]:
    """Set `stop`, which ends an engine's work with Interrupted, after so many seconds.
    Yields an event that is set by then.
    """
    over = threading.Event()

    def end() -> None:
        over.set()
        stop.set()

    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), end)
    timer.daemon = True
    timer.start()
    try:
        yield over
    finally:
        timer.cancel()
        if over.is_set():
            stop.clear()
