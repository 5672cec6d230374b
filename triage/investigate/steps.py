"""The steps of an investigation. Each takes a cluster of cases with one new failure and
adds what it finds out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from triage.attribute.divergence import AttributionRequest, attribute
from triage.attribute.result import Attribution
from triage.execution.engine import Engine, time_limit
from triage.execution.match import same_signature
from triage.execution.task import ProbeJob
from triage.git_history.repository import Repository
from triage.investigate.origin import OriginFinder, ToolchainPair, is_of_releases
from triage.investigate.result import (
    CaseChangeKind,
    CaseResult,
    FailureCluster,
    StepResult,
)
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure, Interrupted
from triage.model.execution import Stage
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Outcome, Passed
from triage.reduce.baseline import ReductionRequest
from triage.reduce.replay import replay_states
from triage.reduce.reproducer import Reproducer, draft_of, reproducer_of, slug
from triage.reduce.workflow import reduce_case
from triage.remedy.result import Remedies
from triage.remedy.search import RemedyRequest, find_remedies
from triage.toolchains.registry import ToolchainRef

_REMEDIES_TRIED = 60  # candidates for one case
_REMEDY_SECONDS = 300.0  # for the candidates of one case; a budget may allow less
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
    with time_limit(engine.stop, seconds) as over:
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


def diverging_pass(
    engine: Engine, request: AttributionRequest, failure: Failure
) -> Attribution | NoAnswer:
    """Find the pass after which the IR of two toolchains diverges."""
    family = request.case.compiler
    if engine.compilers[family].passes is None:
        return NoAnswer(Cause.NEEDLESS, f"the IR of {family} cannot be printed")
    if failure.stage is not Stage.COMPILE:
        why = f"it fails in the stage {failure.stage.value}"
        return NoAnswer(Cause.NEEDLESS, why)
    attribution = attribute(engine, request)
    return attribution.unanswered or attribution


def working_remedies(engine: Engine, request: RemedyRequest) -> Remedies | NoAnswer:
    """Find flags or input changes that work around a failure."""
    found = find_remedies(engine, request)
    return found.unanswered or found


@dataclass(frozen=True)
class InvestigationSetting:
    """The values that all clusters share."""

    engine: Engine
    cases: Mapping[str, Case]
    """All cases of the night by name."""
    toolchain: ToolchainRef
    baseline: ToolchainRef
    finder: OriginFinder
    out: Path
    """Folder of the reports."""
    write_reproducer: Callable[[Reproducer, Path], Path]
    """Writes a folder below another one."""
    write_page: Callable[[Attribution, Path], Path]
    """Writes the page of a divergence into a folder."""


@dataclass(eq=False)
class ClusterInWork:
    """A cluster, its cases, and its steps.

    A step adds its answer to the record, and returns why it has none. The compiles of a
    step are cached, so a later run repeats steps to continue.
    """

    setting: InvestigationSetting
    record: FailureCluster
    members: Sequence[CaseResult]
    result: CaseResult
    """Of the case that stands for the cluster."""
    pair: ToolchainPair | None = None
    """The toolchains before and at the culprit, once they are known."""
    seconds: float = inf
    """What a step may take that need not end."""

    @property
    def case(self) -> Case:
        return self.setting.cases[self.result.case]

    @property
    def failure(self) -> Failure:
        assert self.result.failure
        return self.result.failure

    def add(self, **answers: Any) -> None:
        self.record = replace(self.record, **answers)

    def ending(self, step: str) -> StepResult | None:
        """Return how a step ended, if it was done."""
        endings = {ending.step: ending for ending in self.record.steps}
        return endings.get(step)

    def do(self, step: str, others: Sequence[ClusterInWork]) -> NoAnswer | None:
        """Do a step unless its pair is not known, or another cluster before this one
        has the same culprit.
        """
        if step in _NEED_PAIR and self.pair is None:
            return NoAnswer(Cause.NEEDLESS, "its culprit is not known")
        for other in others[: others.index(self)]:
            is_same = other.record.id in self.record.same_culprit
            if step in _ONCE_A_CULPRIT and is_same:
                why = f"{other.case.name} has the same culprit"
                return NoAnswer(Cause.NEEDLESS, why)
        return STEPS[step](self)

    def bisect(self) -> NoAnswer | None:
        finder = self.setting.finder
        origin = finder.bisect(self.case, self.result.changed_failure)
        fix = finder.find_fix(self.case)
        self.pair, culprit = origin.pair, origin.bisection
        self.add(culprit=culprit, fix=fix)
        if culprit.after is None:
            return culprit.unanswered or NoAnswer(Cause.NOT_FOUND, "no answer")
        return None

    def narrow(self) -> NoAnswer | None:
        """Narrow a pair of releases by commits or nightlies."""
        finder = self.setting.finder
        assert self.pair
        if not is_of_releases(self.pair):
            return NoAnswer(Cause.NEEDLESS, "its culprit is not a pair of releases")
        try:
            origin = finder.narrow(self.case, self.pair, self.result.changed_failure)
        except BadInput as error:
            if finder.repo is None:
                why = f"{error}; commits are searched with --repo"
                return NoAnswer(Cause.NEEDLESS, why)
            raise
        if origin.pair is None:
            return origin.bisection.unanswered or NoAnswer(Cause.NOT_FOUND, "no answer")
        self.pair = origin.pair
        self.add(culprit=origin.bisection, release_culprit=self.record.culprit)
        return None

    def confirm(self) -> NoAnswer | None:
        """Probe the other cases before and at the culprit.

        Those that compile on the baseline must compile before the culprit.
        """
        setting, pair = self.setting, self.pair
        assert pair
        others = [member for member in self.members if member is not self.result]
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
            (confirmed if came_here else different).append(member.case)
        self.add(confirmed=confirmed, different=different)
        return None

    def _has_failure(self, outcome: Outcome) -> bool:
        """Return whether an outcome is this failure, and not only sometimes."""
        if not isinstance(outcome, Failed) or outcome.flaky:
            return False
        return same_signature(self.failure)(outcome.failure)

    def attribute(self) -> NoAnswer | None:
        setting = self.setting
        assert self.pair
        repository = Repository(setting.finder.repo) if setting.finder.repo else None
        request = AttributionRequest(
            self.case, *self.pair, repository, patience=_PATIENCE
        )
        attribution = diverging_pass(setting.engine, request, self.failure)
        if isinstance(attribution, NoAnswer):
            return attribution
        folder = f"attribution/{slug(self.case)}"
        page = setting.write_page(attribution, setting.out / folder)
        self.add(
            attribution=attribution.without_excerpts(),
            attribution_page=f"{folder}/{page.name}",
        )
        return None

    def remedy(self) -> NoAnswer | None:
        setting, case = self.setting, self.case
        every = setting.cases.values()
        passed = self.result.change is CaseChangeKind.REGRESSED
        request = RemedyRequest(
            case,
            setting.toolchain,
            setting.baseline if passed else None,
            _REMEDIES_TRIED,
            [other for other in every if other.source == case.source],
            seconds=min(_REMEDY_SECONDS, self.seconds),
        )
        answer = working_remedies(setting.engine, request)
        if isinstance(answer, NoAnswer):
            return answer
        self.add(remedies=list(answer.remedies))
        return None

    def reduce(self) -> NoAnswer | None:
        setting, case = self.setting, self.case
        was_tested = self.result.change is not CaseChangeKind.NEW_UNTESTED
        request = ReductionRequest(
            case,
            setting.toolchain,
            setting.baseline if was_tested else None,
            same_signature,
            good_may_fail=self.result.changed_failure is not None,
        )
        reduction = reduce_case(setting.engine, request)
        if reduction.unanswered is not None:
            return reduction.unanswered
        reproducer = reproducer_of(setting.engine, reduction, setting.toolchain)
        folder = setting.write_reproducer(reproducer, setting.out / "reproducers")
        small = reduction.small.flags
        unneeded = [flag.text for flag in case.flags if flag not in small]
        versions = reproducer.reduction.versions
        self.add(
            reproducer=f"reproducers/{folder.name}",
            size=reduction.size,
            draft=replace(draft_of(reproducer), unneeded=unneeded),
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
_NEED_PAIR = {"narrow", "confirm", "attribute"}
_ONCE_A_CULPRIT = {"attribute", "remedy", "reduce"}
