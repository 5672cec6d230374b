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
from triage.bisect.result import Bisection
from triage.bisect.versions import rev_text
from triage.execution.judge import same_signature
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.git_history import Repository
from triage.model.case import Case
from triage.model.execution import Stage
from triage.model.outcome import Compiled, Failed, Failure, Outcome
from triage.nightly.compare import CaseChangeKind, Pair
from triage.nightly.night import NightRun
from triage.nightly.origin import Ends, OriginFinder
from triage.reduce.reproducer import open_reproducers, replay, reproducer_of, slug
from triage.reduce.workflow import ReductionRequest, reduce_case
from triage.remedy.workflow import RemedyRequest, find_remedies
from triage.report.attribution import AttributionReport
from triage.report.bisection import BisectShape, bisect_shape
from triage.report.night_issue import issue_text
from triage.report.night_record import AttributionRecord, ClusterRecord
from triage.report.reproducer import write_reproducer
from triage.toolchains.home import disk_errors, write_whole
from triage.toolchains.registry import ToolchainRef

_REMEDIES_TRIED = 60  # candidates for one case
_REMEDY_SECONDS = 300.0  # for the candidates of one case; a budget may allow less
_PATIENCE = 120.0  # seconds for each compile that prints its IR


class StepFailed(Exception):
    """A step has no result, for a reason that another run would not change."""


class StepUnfinished(Exception):
    """A step used its share of the budget without a result."""


@dataclass(frozen=True)
class InvestigationSetting:
    """What all steps share.

    run: the night; out: folder of the reports; words: those of a command line that name a case; again: the line that
    continues the night; repo, project_file: as in `OriginFinder`; failure_names: the failures that a recipe may expect.
    """

    run: NightRun
    out: Path
    words: Callable[[Case], list[str]]
    again: str
    repo: Path | None = None
    project_file: Path | None = None
    failure_names: frozenset[str] = frozenset()

    @property
    def runner(self) -> ProbeRunner:
        return self.run.runner

    @property
    def baseline(self) -> ToolchainRef:
        return self.run.baseline

    @property
    def toolchain(self) -> ToolchainRef:
        return self.run.toolchain

    @cached_property
    def finder(self) -> OriginFinder:
        return self.run.finder(self.repo, self.project_file)

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
    ends: Ends | None = None
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
    def changed(self) -> Failure | None:
        """The failure, where the representative failed in another way on the baseline."""
        return self.representative.changed

    @property
    def same_commit(self) -> ClusterInWork | None:
        """An earlier cluster with the same culprit commit, which stands for this one."""
        earlier = takewhile(lambda other: other is not self, self.all)
        return next((other for other in earlier if other.record.id in self.record.same_culprit), None)

    def has_failure(self, outcome: Outcome) -> bool:
        """Return whether an outcome is this failure, and not only sometimes."""
        return isinstance(outcome, Failed) and not outcome.flaky and same_signature(self.failure)(outcome.failure)


class InvestigationStep(ABC):
    """A step by its name. is_free: it compiles nothing, and is done even when the budget is spent; is_limited: it is stopped
    when the cluster's allowance is spent.
    """

    name: str
    is_free = False
    is_limited = False

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
        for other in cluster.all:
            ends = _ends_of(setting, other) if other is not cluster else None
            if ends and (known := _same_culprit(setting, cluster, other, ends)):
                fixed = setting.finder.find_fix(cluster.case)
                return replace(known, fix=bisect_shape(fixed.bisection) if fixed else None)
        origin, fixed = setting.finder.bisect(cluster.case, cluster.changed), setting.finder.find_fix(cluster.case)
        cluster.ends, culprit = origin.ends, bisect_shape(origin.bisection)
        found = replace(record, culprit=culprit, fix=bisect_shape(fixed.bisection) if fixed else None)
        if culprit.after is None:
            cluster.record = found
            raise StepFailed(culprit.reason or "no answer")
        return found

    def command(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str:
        return _bisect_line(setting, cluster, _night_ends(setting))


class Narrow(InvestigationStep):
    """Narrow a pair of releases: by the commits of a clone that a source has compilers of, or else by nightlies."""

    name = "narrow"
    is_limited = True

    def skipped(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str | None:
        ends = _ends_of(setting, cluster)
        if ends is None:
            return "its culprit is not known"
        if not setting.finder.can_narrow(ends):
            return "its culprit is not a pair of releases"
        if setting.finder.repo is None and len((nightlies := setting.finder.nightlies_inside(ends)).refs) == len(ends):
            return f"{nightlies.skipped or 'there is no nightly between its releases'}; commits are searched with --repo"
        return None

    def run(self, setting: InvestigationSetting, cluster: ClusterInWork) -> ClusterRecord:
        record, releases = cluster.record, _known_ends(setting, cluster)
        for other in cluster.all:
            is_inside = other is not cluster and _releases_of(other.record) == _names(record.culprit)
            if is_inside and (ends := _ends_of(setting, other)) and (known := _same_culprit(setting, cluster, other, ends)):
                return known
        origin = setting.finder.narrow(cluster.case, releases, cluster.changed)
        if isinstance(origin, str):
            raise StepFailed(origin)
        if origin.ends is None:
            raise StepFailed(origin.bisection.reason or "no answer")
        cluster.ends = origin.ends
        return replace(record, culprit=bisect_shape(origin.bisection), release_culprit=record.culprit)

    def command(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str:
        ends = _ends_of(setting, cluster)
        return _bisect_line(setting, cluster, ends) if ends and setting.finder.repo else setting.again


class Confirm(InvestigationStep):
    """Probe the other cases of a cluster before and at the culprit, and before and at its fix in a newer release."""

    name = "confirm"

    def skipped(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str | None:
        return "it has no other case" if len(cluster.pairs) == 1 else _without_culprit(cluster)

    def run(self, setting: InvestigationSetting, cluster: ClusterInWork) -> ClusterRecord:
        others = [pair for pair in cluster.pairs if pair is not cluster.representative]
        confirmed = _changes_between(setting, cluster, others, _known_ends(setting, cluster))
        if fix := _names(cluster.record.fix, is_fix=True):
            refs = {ref.revision.name: ref for ref in setting.finder.fixes.refs}
            fixed = [pair for pair in others if pair.name in confirmed]
            is_known = set(fix) <= refs.keys()  # a release may have been yanked since
            confirmed = _changes_between(setting, cluster, fixed, (refs[fix[0]], refs[fix[1]])) if is_known else []
        different = [pair.name for pair in others if pair.name not in confirmed]
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
        good, bad = _names(cluster.record.culprit) or map(rev_text, _night_ends(setting))
        return setting.command("attribute", cluster.representative, "--good", good, "--bad", bad)


class FindRemedies(InvestigationStep):
    """Find flags or input changes that work around the failure."""

    name = "remedy"

    def skipped(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str | None:
        return _stands_for(cluster)

    def run(self, setting: InvestigationSetting, cluster: ClusterInWork) -> ClusterRecord:
        siblings = [case for case in setting.run.cases if case.source == cluster.case.source]
        good = setting.baseline if cluster.representative.change is CaseChangeKind.REGRESSED else None
        seconds = _REMEDY_SECONDS if cluster.allowance is None else min(_REMEDY_SECONDS, cluster.allowance)
        request = RemedyRequest(cluster.case, setting.toolchain, good, _REMEDIES_TRIED, siblings, seconds=seconds)
        found = find_remedies(setting.runner, request)
        if found.failure is None:
            raise StepFailed(found.reason or "")
        if not found.remedies:
            if found.is_out_of_time:
                raise StepUnfinished(f"none of {found.tried} candidates works; {found.left} are left")
            raise StepFailed(f"none of {found.tried} candidates works")
        return replace(cluster.record, remedies=list(found.remedies))

    def command(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str:
        good, bad = map(rev_text, _night_ends(setting))
        return setting.command("remedy", cluster.representative, "-t", bad, "--good", good)


class Reduce(InvestigationStep):
    """Reduce the representative and write its reproducer."""

    name = "reduce"

    def skipped(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str | None:
        return _stands_for(cluster)

    def run(self, setting: InvestigationSetting, cluster: ClusterInWork) -> ClusterRecord:
        changed = cluster.changed is not None
        request = ReductionRequest(
            cluster.case, setting.toolchain, setting.baseline, same_signature, resume=True, changed=changed
        )
        result = reduce_case(setting.runner, request)
        if result.reason is not None:
            raise StepFailed(result.reason)
        reproducer = reproducer_of(setting.runner, result, setting.toolchain)
        folder = write_reproducer(reproducer, setting.out / "reproducers")
        return replace(cluster.record, reproducer=str(folder), operations=result.operations.after, size=result.size)

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
        [written] = open_reproducers([Path(cluster.record.reproducer or "")], setting.failure_names or None)
        family = cluster.case.compiler
        own = replace(written, case=replace(written.case, compiler=family))  # a command's family is named by its recipe
        names = [ref.revision.name for ref in setting.runner.registry.installed_releases(family)]
        revs = list(dict.fromkeys([*names, rev_text(setting.toolchain)]))
        [replayed] = replay(setting.runner, [own], {family: revs})
        replays = {version.toolchain.name: version.status.value for version in replayed.versions}
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
        with disk_errors(f"write {file}"):
            write_whole(file, issue_text(cluster.record, *revisions, fails_before=bool(cluster.changed)))
        return replace(cluster.record, issue=str(file))

    def command(self, setting: InvestigationSetting, cluster: ClusterInWork) -> str:
        return setting.again


# The cheap ones first; each may use what those before it found.
STEPS: tuple[InvestigationStep, ...] = (
    Bisect(),
    Narrow(),
    Confirm(),
    Attribute(),
    FindRemedies(),
    Reduce(),
    ReplayReproducer(),
    DraftIssue(),
)


def _night_ends(setting: InvestigationSetting) -> Ends:
    return setting.baseline, setting.toolchain


def _stands_for(cluster: ClusterInWork) -> str | None:
    other = cluster.same_commit
    return f"{other.case.name} has the same culprit" if other else None


def _without_culprit(cluster: ClusterInWork) -> str | None:
    return None if _names(cluster.record.culprit) else "its culprit is not known"


def _known_ends(setting: InvestigationSetting, cluster: ClusterInWork) -> Ends:
    """Return the toolchains before and at the culprit. Raises StepFailed where they are not known."""
    if (ends := _ends_of(setting, cluster)) is None:
        raise StepFailed("its culprit is not known")
    return ends


def _ends_of(setting: InvestigationSetting, cluster: ClusterInWork) -> Ends | None:
    """Return the toolchains before and at the culprit, also where an earlier run found it; None where they are not known."""
    if cluster.ends is None and (names := _names(cluster.record.culprit)):
        finder, outside = setting.finder, _names(cluster.record.release_culprit)
        refs = {ref.revision.name: ref for ref in finder.between.refs}
        if not set(names) <= refs.keys():
            releases = (refs[outside[0]], refs[outside[1]]) if outside and set(outside) <= refs.keys() else None
            search = finder.search_inside(cluster.case, releases) if releases else finder.search(cluster.case)
            if not isinstance(search, Bisection | str):
                refs = {search.range.revision(index).name: search.range.ref(index) for index in range(len(search.range))}
        if set(names) <= refs.keys():
            cluster.ends = refs[names[0]], refs[names[1]]
    return cluster.ends


def _names(bisection: BisectShape | None, *, is_fix: bool = False) -> tuple[str, str] | None:
    """Return the names of the revisions around a culprit, or around a fix, the one without the failure first."""
    if bisection is None or bisection.before is None or bisection.after is None:
        return None
    before, after = bisection.before.name, bisection.after.name
    return (before, after) if bisection.undone is is_fix else (after, before)


def _releases_of(record: ClusterRecord) -> tuple[str, str] | None:
    """Return the releases around a culprit that was narrowed."""
    return _names(record.release_culprit)


def _same_culprit(
    setting: InvestigationSetting, cluster: ClusterInWork, other: ClusterInWork, ends: Ends
) -> ClusterRecord | None:
    """Return a cluster's record with the culprit of another one where it changes there too, by two fresh probes."""
    culprit = other.record.culprit
    if culprit is None or not _changes_between(setting, cluster, [cluster.representative], ends, fresh=True):
        return None
    cluster.ends = ends
    own = replace(culprit, case=cluster.case.name, probes=2, rounds=1, cached=0)
    return replace(cluster.record, culprit=own, release_culprit=other.record.release_culprit)


def _bisect_line(setting: InvestigationSetting, cluster: ClusterInWork, ends: Ends) -> str:
    """Return the command that bisects a regression; one that failed in another way before needs the night."""
    if cluster.changed:
        return setting.again
    good, bad = map(rev_text, ends)
    options = {"--repo": setting.finder.repo, "--project": setting.finder.project_file}
    words = [word for name, value in options.items() if value for word in (name, str(value))]
    return setting.command("bisect", cluster.representative, "--good", good, "--bad", bad, *words)


def _changes_between(
    setting: InvestigationSetting, cluster: ClusterInWork, pairs: Sequence[Pair], ends: Ends, *, fresh: bool = False
) -> list[str]:
    """Return the names of the cases that do not have the cluster's failure with the first toolchain and have it with the
    second. With the first one, those that compile on the baseline must compile.

    fresh: compile again what is known.
    """
    jobs = [ProbeJob(pair.probe.case, ref, fresh) for pair in pairs for ref in ends]
    probes = setting.runner.probe_all(jobs, "confirm the culprit")
    outcomes = {(probe.case.name, probe.revision.name): probe.outcome for probe in probes}
    old, new = (ref.revision.name for ref in ends)

    def was_without(pair: Pair) -> bool:
        outcome = outcomes[pair.name, old]
        fails_otherwise = pair.changed and isinstance(outcome, Failed) and not outcome.flaky
        return isinstance(outcome, Compiled) or bool(fails_otherwise and not cluster.has_failure(outcome))

    return [pair.name for pair in pairs if was_without(pair) and cluster.has_failure(outcomes[pair.name, new])]
