"""The steps of an investigation. Each takes a cluster of cases with one new failure and
adds what it finds out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import TypeVar

from triage.attribute.divergence import AttributionRequest, attribute
from triage.attribute.result import Attribution
from triage.bisect.result import Answer, Bisection
from triage.execution.engine import Engine
from triage.execution.match import same_signature
from triage.execution.stop import time_limit
from triage.execution.task import ProbeJob
from triage.git_history.repository import Repository
from triage.investigate.origin import OriginFinder, ToolchainPair
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
    engine: Engine,
    step: str,
    seconds: float,
    do: Callable[[], T | NoAnswer],
    spent: str = _SPENT,
) -> tuple[T | None, StepResult]:
    """Do a step within its time, and return its answer and how it ended. spent: the
    reason where the time was too short.
    """
    if seconds <= 0:
        return None, StepResult(step, "left", reason=spent)
    began = time.monotonic()
    answer: T | NoAnswer
    with time_limit(engine.stop, seconds) as over:
        try:
            answer = do()
        except Interrupted:
            if not over.is_set():
                raise
            answer = NoAnswer(Cause.TIME, spent)
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
        why = f"the IR of {family} cannot be printed"
        return NoAnswer(Cause.NEEDLESS, why)
    if failure.stage is not Stage.COMPILE:
        why = f"it fails in the stage {failure.stage.value}"
        return NoAnswer(Cause.NEEDLESS, why)
    found = attribute(engine, request)
    return found.unanswered or found


def working_remedies(engine: Engine, request: RemedyRequest) -> Remedies | NoAnswer:
    """Find flags or input changes that work around a failure."""
    found = find_remedies(engine, request)
    if found.failure is None:
        return found.unanswered or NoAnswer(Cause.NOT_FOUND, "no answer")
    if found.remedies:
        return found
    reason = f"none of {found.tried} candidates works"
    if not found.tried and found.is_out_of_time:
        reason = "nothing was tried: the time left is too short"
    elif not found.tried:
        reason = "nothing was tried: no candidate is known"
    if found.is_out_of_time:
        reason += f"; {found.left} are left"
    if found.upgrade:
        reason += f"; it passes on {found.upgrade.name}"
    cause = Cause.TIME if found.is_out_of_time else Cause.NOT_FOUND
    return NoAnswer(cause, reason)


@dataclass(frozen=True)
class InvestigationSetting:
    """The values that all steps share."""

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


@dataclass
class ClusterInWork:
    """A cluster with its cases."""

    record: FailureCluster
    members: tuple[CaseResult, ...]
    representative: CaseResult
    """The result that stands for the cluster, of `case`."""
    case: Case
    path: Path
    """The file that keeps the record."""
    is_new: bool = True
    pair: ToolchainPair | None = None
    """The toolchains before and at the culprit, once they are known."""
    others: Sequence[ClusterInWork] = field(default=(), repr=False)
    """All clusters of the night, this one included."""
    allowance: float = inf
    """Seconds that a step may take which need not end."""

    @property
    def failure(self) -> Failure:
        assert self.representative.failure
        return self.representative.failure

    def pair_or_reason(self) -> ToolchainPair | NoAnswer:
        return self.pair or NoAnswer(Cause.NEEDLESS, "its culprit is not known")

    @property
    def is_tested_on_baseline(self) -> bool:
        return self.representative.change is not CaseChangeKind.NEW_UNTESTED

    def why_needless(self) -> NoAnswer | None:
        """Return why the cluster needs no search of its own: an earlier cluster has the
        same culprit. None if it needs one.
        """
        for other in self.others[: self.others.index(self)]:
            if other.record.id in self.record.same_culprit:
                why = f"{other.case.name} has the same culprit"
                return NoAnswer(Cause.NEEDLESS, why)
        return None

    def has_failure(self, outcome: Outcome) -> bool:
        """Return whether an outcome is this failure, and not only sometimes."""
        return (
            isinstance(outcome, Failed)
            and not outcome.flaky
            and same_signature(self.failure)(outcome.failure)
        )


def _bisect(setting: InvestigationSetting, cluster: ClusterInWork) -> NoAnswer | None:
    origin = setting.finder.bisect(cluster.case, cluster.representative.changed_failure)
    fix = setting.finder.find_fix(cluster.case)
    cluster.pair, culprit = origin.pair, origin.bisection
    cluster.record = replace(
        cluster.record, culprit=culprit, release_culprit=None, fix=fix
    )
    if culprit.after is None:
        return culprit.unanswered or NoAnswer(Cause.NOT_FOUND, "no answer")
    return None


def _narrow(setting: InvestigationSetting, cluster: ClusterInWork) -> NoAnswer | None:
    """Narrow a pair of releases: by the commits of a clone that a source has compilers
    of, or else by nightlies.
    """
    finder, releases = setting.finder, cluster.pair_or_reason()
    if isinstance(releases, NoAnswer):
        return releases
    if not finder.can_narrow(releases):
        return NoAnswer(Cause.NEEDLESS, "its culprit is not a pair of releases")
    try:
        origin = finder.narrow(
            cluster.case, releases, cluster.representative.changed_failure
        )
    except BadInput as error:
        if finder.repo is None:
            why = f"{error}; commits are searched with --repo"
            return NoAnswer(Cause.NEEDLESS, why)
        raise
    if origin.pair is None:
        return origin.bisection.unanswered or NoAnswer(Cause.NOT_FOUND, "no answer")
    cluster.pair = origin.pair
    cluster.record = replace(
        cluster.record, culprit=origin.bisection, release_culprit=cluster.record.culprit
    )
    return None


def _confirm(setting: InvestigationSetting, cluster: ClusterInWork) -> NoAnswer | None:
    """Probe the other cases of a cluster before and at the culprit, and before and at
    its fix in a newer release.
    """
    others = [case for case in cluster.members if case is not cluster.representative]
    if not others:
        return NoAnswer(Cause.NEEDLESS, "it has no other case")
    pair = cluster.pair_or_reason()
    if isinstance(pair, NoAnswer):
        return pair
    confirmed = _cases_that_change(setting, cluster, others, pair)
    fix = cluster.record.fix
    if fix and fix.before and fix.after:
        # the failure is on the other side of a fix
        without, having = fix.after, fix.before
        refs = {ref.revision.name: ref for ref in setting.finder.newer_releases.refs}
        pair = refs[without.name], refs[having.name]
        confirmed = _cases_that_change(setting, cluster, confirmed, pair)
    names = [case.case for case in confirmed]
    different = [case.case for case in others if case.case not in names]
    cluster.record = replace(cluster.record, confirmed=names, different=different)
    return None


def _cases_that_change(
    setting: InvestigationSetting,
    cluster: ClusterInWork,
    members: Sequence[CaseResult],
    pair: ToolchainPair,
) -> list[CaseResult]:
    """Return the cases that lack the cluster's failure with the first toolchain of a
    pair and have it with the second.

    With the first one, those that compile on the baseline must compile.
    """
    jobs = [
        ProbeJob(setting.cases[member.case], ref) for member in members for ref in pair
    ]
    outcomes = {
        (probe.case.name, probe.revision.name): probe.outcome
        for probe in setting.engine.probe_all(jobs, "confirm the culprit")
    }
    changing = []
    for member in members:
        before, after = (outcomes[member.case, ref.revision.name] for ref in pair)
        lacked_it = isinstance(before, Passed)
        if isinstance(before, Failed) and member.changed_failure is not None:
            lacked_it = not before.flaky and not cluster.has_failure(before)
        if lacked_it and cluster.has_failure(after):
            changing.append(member)
    return changing


def _attribute(
    setting: InvestigationSetting, cluster: ClusterInWork
) -> NoAnswer | None:
    needless = cluster.why_needless()
    if needless is not None:
        return needless
    pair = cluster.pair_or_reason()
    if isinstance(pair, NoAnswer):
        return pair
    repository = Repository(setting.finder.repo) if setting.finder.repo else None
    request = AttributionRequest(cluster.case, *pair, repository, patience=_PATIENCE)
    found = diverging_pass(setting.engine, request, cluster.failure)
    if isinstance(found, NoAnswer):
        return found
    folder = f"attribution/{slug(cluster.case)}"
    page = setting.write_page(found, setting.out / folder)
    cluster.record = replace(
        cluster.record,
        attribution=found.without_excerpts(),
        attribution_page=f"{folder}/{page.name}",
    )
    return None


def _remedy(setting: InvestigationSetting, cluster: ClusterInWork) -> NoAnswer | None:
    needless = cluster.why_needless()
    if needless is not None:
        return needless
    siblings = [
        case for case in setting.cases.values() if case.source == cluster.case.source
    ]
    passes_before = cluster.representative.change is CaseChangeKind.REGRESSED
    request = RemedyRequest(
        cluster.case,
        setting.toolchain,
        setting.baseline if passes_before else None,
        _REMEDIES_TRIED,
        siblings,
        seconds=min(_REMEDY_SECONDS, cluster.allowance),
    )
    found = working_remedies(setting.engine, request)
    if isinstance(found, NoAnswer):
        return found
    cluster.record = replace(cluster.record, remedies=list(found.remedies))
    return None


def _reduce(setting: InvestigationSetting, cluster: ClusterInWork) -> NoAnswer | None:
    needless = cluster.why_needless()
    if needless is not None:
        return needless
    changed = cluster.representative.changed_failure is not None
    request = ReductionRequest(
        cluster.case,
        setting.toolchain,
        setting.baseline if cluster.is_tested_on_baseline else None,
        same_signature,
        good_may_fail=changed,
    )
    result = reduce_case(setting.engine, request)
    if result.unanswered is not None:
        return result.unanswered
    reproducer = reproducer_of(setting.engine, result, setting.toolchain)
    folder = setting.write_reproducer(reproducer, setting.out / "reproducers")
    unneeded = [
        flag.text for flag in cluster.case.flags if flag not in result.small.flags
    ]
    draft = replace(draft_of(reproducer), unneeded=unneeded)
    path = f"reproducers/{folder.name}"
    replays = replay_states(reproducer.reduction.versions, reproducer.failure.signature)
    cluster.record = replace(
        cluster.record, reproducer=path, size=result.size, draft=draft, replays=replays
    )
    return None


#: The cheap ones first; each may use what those before it found. A step adds its answer
#: to the cluster, and returns why it has none.
STEPS: Mapping[
    str, Callable[[InvestigationSetting, ClusterInWork], NoAnswer | None]
] = {
    "bisect": _bisect,
    "narrow": _narrow,
    "confirm": _confirm,
    "attribute": _attribute,
    "remedy": _remedy,
    "reduce": _reduce,
}


def culprit_commit(culprit: Bisection | None) -> str | None:
    """Return the commit that is the culprit. Two failures that came with one release
    need not have the same culprit.
    """
    if culprit is None or culprit.status != Answer.CULPRIT:
        return None
    [suspect] = culprit.suspects
    if suspect.commit and suspect.commit.startswith(suspect.name):
        return suspect.commit
    return None
