"""The steps of an investigation. Each takes a cluster and returns what it found out."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from triage.attribute.divergence import Depth, attribute
from triage.attribute.result import ComparisonResult
from triage.bisect.result import Answer, Bisection
from triage.bisect.versions import rev_text
from triage.execution.judge import same_signature
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.git_history import Repository
from triage.model.case import Case
from triage.model.execution import Stage
from triage.model.outcome import Compiled, Failed, Failure, Outcome
from triage.nightly.compare import CaseChangeKind, Pair
from triage.nightly.origin import CaseOrigin, OriginFinder
from triage.reduce.reproducer import open_reproducers, replay, reproducer_of, slug
from triage.reduce.state import NotReproducible
from triage.reduce.workflow import ReductionRequest, reduce_case
from triage.remedy.result import NothingToRemedy
from triage.remedy.workflow import RemedyRequest, find_remedies
from triage.report.attribution import AttributionReport
from triage.report.bisection import bisect_shape
from triage.report.night_issue import write_issue
from triage.report.night_record import AttributionRecord, ClusterRecord
from triage.report.remedy import remedy_shape
from triage.report.reproducer import write_reproducer
from triage.toolchains.registry import ToolchainRef

_REMEDIES_TRIED = 60  # candidates for one case
_PATIENCE = 120.0  # seconds for each compile that prints its IR


class StepFailed(Exception):
    """A step has no result, for a reason that another run would not change."""


class StepUnfinished(Exception):
    """A step used its share of the budget without a result."""


@dataclass(frozen=True)
class InvestigationSetting:
    """What all steps share.

    cases: of the night; out: folder of the reports; words: those of a command line that name a case; again: the line that
    continues the night; failure_names: the failures that a recipe may expect.
    """

    runner: ProbeRunner
    finder: OriginFinder
    cases: Sequence[Case]
    out: Path
    words: Callable[[Case], list[str]]
    again: str
    failure_names: frozenset[str] = frozenset()

    @property
    def baseline(self) -> ToolchainRef:
        return self.finder.baseline

    @property
    def toolchain(self) -> ToolchainRef:
        return self.finder.toolchain

    def command(self, name: str, pair: Pair, *words: str) -> str:
        """Return a command line about a case."""
        return shlex.join(["triage", name, *self.words(pair.probe.case), *words])

    @cached_property
    def repository(self) -> Repository | None:
        return Repository(self.finder.repo) if self.finder.repo else None


@dataclass
class ClusterInWork:
    """A cluster with its probes. representative: the case that stands for it; path: of the file that keeps the record.
    ends: the toolchains before and at the culprit, once they are known; all: the clusters of the night; allowance: seconds
    that a step may take of a budget.
    """

    record: ClusterRecord
    pairs: tuple[Pair, ...]
    representative: Pair
    path: Path
    is_new: bool = True
    ends: tuple[ToolchainRef, ToolchainRef] | None = None
    all: Sequence[ClusterInWork] = field(default=(), repr=False)
    allowance: float | None = None

    @property
    def case(self) -> Case:
        return self.representative.probe.case

    @property
    def failure(self) -> Failure:
        assert isinstance(self.representative.probe.outcome, Failed)
        return self.representative.probe.outcome.failure

    @property
    def same_commit(self) -> ClusterInWork | None:
        """An earlier cluster with the same culprit commit, which stands for this one."""
        earlier = takewhile(lambda other: other is not self, self.all)
        return next((other for other in earlier if other.record.id in self.record.same_culprit and _is_commit(other)), None)

    def has_failure(self, outcome: Outcome) -> bool:
        """Return whether an outcome is this failure, and not only sometimes."""
        return isinstance(outcome, Failed) and not outcome.flaky and same_signature(self.failure)(outcome.failure)


class InvestigationStep(ABC):
    """A step by its name. is_free: it compiles nothing, and is done even when the budget is spent."""

    name: str
    is_free = False

    def skipped(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str | None:
        """Return why a cluster does not need this step; None when it does."""
        return None

    @abstractmethod
    def run(self, setting: InvestigationSetting, cluster: ClusterInWork) -> ClusterRecord:
        """Return the cluster's record with what this step found. Raises StepFailed when that is nothing."""

    @abstractmethod
    def command(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str:
        """Return the command line that does this step by itself."""


class Bisect(InvestigationStep):
    """Find the culprit; first try the culprits of other clusters, with two probes each."""

    name = "bisect"

    def run(self, setting: InvestigationSetting, cluster: ClusterInWork) -> ClusterRecord:
        record = cluster.record
        if cluster.representative.change is CaseChangeKind.CHANGED:
            raise StepFailed(f"it fails on {setting.baseline.revision.name} too, in another way; only regressions are bisected")
        for other in cluster.all:
            ends = _ends_of(setting, other) if other is not cluster else None
            if ends and other.record.culprit and _changes_between(setting, cluster, [cluster.case], ends, fresh=True):
                cluster.ends = ends
                culprit = replace(other.record.culprit, case=cluster.case.name, probes=2, rounds=1, cached=0)
                same = [other.record.id, *other.record.same_culprit]
                fixed = setting.finder.find_fix(cluster.case)
                fix = bisect_shape(fixed.bisection) if fixed else None
                return replace(record, culprit=culprit, fix=fix, same_culprit=same)
        origins = setting.finder.find(cluster.case)
        cluster.ends = _ends(origins[0])
        fix = bisect_shape(origins[1].bisection) if len(origins) > 1 else None
        found = replace(record, culprit=bisect_shape(origins[0].bisection), fix=fix)
        if found.culprit is not None and found.culprit.after is None:
            cluster.record = found
            raise StepFailed(found.culprit.reason or "no answer")
        return found

    def command(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str:
        repo = ["--repo", str(setting.finder.repo)] if setting.finder.repo else []
        ends = ["--good", rev_text(setting.baseline), "--bad", rev_text(setting.toolchain)]
        return setting.command("bisect", cluster.representative, *ends, *repo)


class Confirm(InvestigationStep):
    """Probe the other cases of a cluster before and at the culprit."""

    name = "confirm"

    def skipped(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str | None:
        return "it has no other case" if len(cluster.pairs) == 1 else _without_culprit(cluster)

    def run(self, setting: InvestigationSetting, cluster: ClusterInWork) -> ClusterRecord:
        cases = [pair.probe.case for pair in cluster.pairs if pair is not cluster.representative]
        confirmed = _changes_between(setting, cluster, cases, _known_ends(setting, cluster))
        different = [case.name for case in cases if case.name not in confirmed]
        return replace(cluster.record, confirmed=confirmed, different=different)

    def command(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str:
        return setting.again


class Attribute(InvestigationStep):
    """Find the pass after which the IR before and at the culprit diverges."""

    name = "attribute"

    def skipped(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str | None:
        if setting.runner.prober.compilers[cluster.case.compiler].ir() is None:
            return f"the IR of {cluster.case.compiler} cannot be printed"
        if cluster.failure.stage is not Stage.COMPILE:
            return f"it fails in the stage {cluster.failure.stage.value}"
        return _stands_for(cluster) or _without_culprit(cluster)

    def run(self, setting: InvestigationSetting, cluster: ClusterInWork) -> ClusterRecord:
        ends, depth = _known_ends(setting, cluster), Depth(phases=False, patience=_PATIENCE)
        found = attribute(setting.runner, cluster.case, *ends, setting.repository, depth)
        if found.status is ComparisonResult.INCONCLUSIVE:
            raise StepFailed(found.reason or "no answer")
        page = AttributionReport(found).write_page(setting.out / "attribution" / slug(cluster.case))
        suspects, function = found.suspects, found.function[1]
        answer = AttributionRecord(
            status=found.status.value,
            pass_=suspects[0].name if suspects else None,
            phase=found.phase,
            function=function,
            files=list(found.files[:10]),
            page=str(page),
        )
        return replace(cluster.record, attribution=answer)

    def command(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str:
        culprit = cluster.record.culprit
        pair = (culprit.before, culprit.after) if culprit else (None, None)
        good, bad = (end.name if end else rev_text(ref) for end, ref in zip(pair, _night_ends(setting), strict=True))
        return setting.command("attribute", cluster.representative, "--good", good, "--bad", bad)


class FindRemedies(InvestigationStep):
    """Find flags or input changes that work around the failure."""

    name = "remedy"

    def skipped(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str | None:
        return _stands_for(cluster)

    def run(self, setting: InvestigationSetting, cluster: ClusterInWork) -> ClusterRecord:
        siblings = [case for case in setting.cases if case.source == cluster.case.source]
        good = setting.baseline if cluster.representative.change is CaseChangeKind.REGRESSED else None
        request = RemedyRequest(cluster.case, setting.toolchain, good, _REMEDIES_TRIED, siblings, seconds=cluster.allowance)
        found = find_remedies(setting.runner, request)
        if isinstance(found, NothingToRemedy):
            raise StepFailed(found.reason)
        if not found.found:
            if found.is_out_of_time:
                raise StepUnfinished(f"none of {found.tried} candidates works; {found.left} are left")
            raise StepFailed(f"none of {found.tried} candidates works")
        return replace(cluster.record, remedies=[remedy_shape(remedy) for remedy in found.found])

    def command(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str:
        good, bad = map(rev_text, _night_ends(setting))
        return setting.command("remedy", cluster.representative, "-t", bad, "--good", good)


class Reduce(InvestigationStep):
    """Reduce the representative and write its reproducer."""

    name = "reduce"

    def skipped(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str | None:
        return _stands_for(cluster)

    def run(self, setting: InvestigationSetting, cluster: ClusterInWork) -> ClusterRecord:
        good = setting.baseline if cluster.representative.change is CaseChangeKind.REGRESSED else None
        request = ReductionRequest(cluster.case, setting.toolchain, good, same_signature, resume=True)
        result = reduce_case(setting.runner, request)
        if isinstance(result, NotReproducible):
            raise StepFailed(result.reason)
        reproducer = reproducer_of(setting.runner, result, setting.toolchain)
        folder = write_reproducer(reproducer, setting.out / "reproducers")
        size = result.after
        return replace(cluster.record, reproducer=str(folder), operations=size.operations, size=str(size))

    def command(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str:
        good, bad = map(rev_text, _night_ends(setting))
        old = ["--good", good] if cluster.representative.change is CaseChangeKind.REGRESSED else []
        out = ["--out", str(setting.out / "reproducers"), "--resume"]
        return setting.command("reduce", cluster.representative, "-t", bad, *old, *out)


class ReplayReproducer(InvestigationStep):
    """Compile the reproducer, as it was written, on all installed releases and on the new toolchain."""

    name = "replay"

    def skipped(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str | None:
        return None if cluster.record.reproducer else "it has no reproducer"

    def run(self, setting: InvestigationSetting, cluster: ClusterInWork) -> ClusterRecord:
        reproducers = open_reproducers([Path(cluster.record.reproducer or "")], setting.failure_names or None)
        family = cluster.case.compiler
        names = [ref.revision.name for ref in setting.runner.registry.installed_releases(family)]
        revs = list(dict.fromkeys([*names, rev_text(setting.toolchain)]))
        [replayed] = replay(setting.runner, reproducers, {family: revs})
        replays = {probe.revision.name: replayed.state(probe).value for probe in replayed.probes}
        return replace(cluster.record, replays=replays)

    def command(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str:
        return shlex.join(
            ["triage", "replay", cluster.record.reproducer or str(setting.out / "reproducers" / slug(cluster.case))]
        )


class DraftIssue(InvestigationStep):
    """Write the draft of an issue with what is known."""

    name = "issue"
    is_free = True

    def skipped(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str | None:
        return _stands_for(cluster)

    def run(self, setting: InvestigationSetting, cluster: ClusterInWork) -> ClusterRecord:
        file = setting.out / "issues" / f"{slug(cluster.case)}.md"
        revisions = (setting.runner.registry.revision(ref) for ref in _night_ends(setting))
        write_issue(file, cluster.record, *revisions)
        return replace(cluster.record, issue=str(file))

    def command(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str:
        return setting.again


# The cheap ones first; each may use what those before it found.
STEPS: tuple[InvestigationStep, ...] = (
    Bisect(),
    Confirm(),
    Attribute(),
    FindRemedies(),
    Reduce(),
    ReplayReproducer(),
    DraftIssue(),
)


def _night_ends(setting: InvestigationSetting) -> tuple[ToolchainRef, ToolchainRef]:
    return setting.baseline, setting.toolchain


def _stands_for(cluster: ClusterInWork) -> str | None:
    other = cluster.same_commit
    return f"{other.case.name} has the same culprit" if other else None


def _without_culprit(cluster: ClusterInWork) -> str | None:
    culprit = cluster.record.culprit
    return None if culprit and culprit.before and culprit.after else "its culprit is not known"


def _is_commit(cluster: ClusterInWork) -> bool:
    """Return whether the culprit is one commit: revisions of commits are named by their shas."""
    culprit = cluster.record.culprit
    if culprit is None or culprit.status != Answer.CULPRIT or culprit.after is None:
        return False
    return bool(culprit.after.commit and culprit.after.commit.startswith(culprit.after.name))


def _ends(origin: CaseOrigin) -> tuple[ToolchainRef, ToolchainRef] | None:
    return (origin.before, origin.after) if origin.before and origin.after else None


def _known_ends(setting: InvestigationSetting, cluster: ClusterInWork) -> tuple[ToolchainRef, ToolchainRef]:
    """Return the toolchains before and at the culprit. Raises StepFailed where they are not known."""
    if (ends := _ends_of(setting, cluster)) is None:
        raise StepFailed("its culprit is not known")
    return ends


def _ends_of(setting: InvestigationSetting, cluster: ClusterInWork) -> tuple[ToolchainRef, ToolchainRef] | None:
    """Return the toolchains before and at the culprit, also where an earlier run found it; None where they are not known."""
    culprit = cluster.record.culprit
    if cluster.ends is None and culprit and culprit.before and culprit.after:
        refs = {ref.revision.name: ref for ref in setting.finder.between.refs}
        names = culprit.before.name, culprit.after.name
        if not set(names) <= refs.keys():
            search = setting.finder.search(cluster.case)
            if not isinstance(search, Bisection):
                refs = {search.range.revision(index).name: search.range.ref(index) for index in range(len(search.range))}
        if set(names) <= refs.keys():
            cluster.ends = refs[names[0]], refs[names[1]]
    return cluster.ends


def _changes_between(
    setting: InvestigationSetting,
    cluster: ClusterInWork,
    cases: Sequence[Case],
    ends: tuple[ToolchainRef, ToolchainRef],
    *,
    fresh: bool = False,
) -> list[str]:
    """Return the names of the cases that compile with the first toolchain and have the cluster's failure with the second.

    fresh: compile again what is known.
    """
    jobs = [ProbeJob(case, ref, fresh) for case in cases for ref in ends]
    probes = setting.runner.probe_all(jobs, "confirm the culprit")
    outcomes = {(probe.case.name, probe.revision.name): probe.outcome for probe in probes}
    old, new = (ref.revision.name for ref in ends)
    return [
        case.name
        for case in cases
        if isinstance(outcomes[case.name, old], Compiled) and cluster.has_failure(outcomes[case.name, new])
    ]
