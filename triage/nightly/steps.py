"""The steps of an investigation. Each takes a cluster of cases with one new failure and returns what it found out."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from triage.attribute.divergence import Depth, attribute
from triage.attribute.result import Attribution, ComparisonResult
from triage.bisect.result import Answer, Bisection
from triage.bisect.versions import rev_text
from triage.execution.engine import Engine
from triage.execution.judge import same_signature
from triage.execution.scheduler import ProbeJob
from triage.git_history import Repository
from triage.model.case import Case
from triage.model.execution import Stage
from triage.model.outcome import Compiled, Failed, Failure, Outcome
from triage.nightly.origin import Ends, OriginFinder
from triage.nightly.result import CaseChangeKind, CaseResult, Divergence, FailureCluster, IssueDraft
from triage.nightly.run import NightRun
from triage.reduce.replay import RECORD, open_reproducers, replay
from triage.reduce.reproducer import Reproducer, reproducer_of, slug
from triage.reduce.workflow import ReductionRequest, reduce_case
from triage.remedy.workflow import RemedyRequest, find_remedies
from triage.toolchains.registry import ToolchainRef

_REMEDIES_TRIED = 60  # candidates for one case
_REMEDY_SECONDS = 300.0  # for the candidates of one case; a budget may allow less
_PATIENCE = 120.0  # seconds for each compile that prints its IR
_LONGEST_PROGRAM = 40_000  # characters that an issue shows; GitHub accepts issues of 65536
_OUTPUT_LINES = 40
_OUTPUT_WIDTH = 300


class StepFailed(Exception):
    """A step has no result, for a reason that another run would not change."""


class StepUnfinished(Exception):
    """A step used its share of the budget without a result."""


@dataclass(frozen=True)
class InvestigationSetting:
    """What all steps share.

    run: the night; out: folder of the reports; words: those of a command line that name a case; again: the line that
    continues the night; write_reproducer: writes a folder below another one; write_page: writes the page of a divergence into
    a folder; repo, project_file: as in `OriginFinder`; failure_names: that a recipe may expect.
    """

    run: NightRun
    out: Path
    words: Callable[[Case], list[str]]
    again: str
    write_reproducer: Callable[[Reproducer, Path], Path]
    write_page: Callable[[Attribution, Path], Path]
    repo: Path | None = None
    project_file: Path | None = None
    failure_names: frozenset[str] = frozenset()

    @property
    def runner(self) -> Engine:
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

    @cached_property
    def repository(self) -> Repository | None:
        return Repository(self.finder.repo) if self.finder.repo else None

    def command(self, name: str, case: Case, *words: str) -> str:
        """Return a command line about a case."""
        return shlex.join(["triage", name, *self.words(case), *words])


@dataclass
class ClusterInWork:
    """A cluster with its cases. representative: the result that stands for it, of `case`; path: of the file that keeps the
    record. ends: the toolchains before and at the culprit, once they are known; all: the clusters of the night; allowance:
    seconds that a step may take of a budget.
    """

    record: FailureCluster
    members: tuple[CaseResult, ...]
    representative: CaseResult
    case: Case
    path: Path
    is_new: bool = True
    ends: Ends | None = None
    all: Sequence[ClusterInWork] = field(default=(), repr=False)
    allowance: float | None = None

    @property
    def failure(self) -> Failure:
        assert self.representative.failure
        return self.representative.failure

    @property
    def changed(self) -> Failure | None:
        """The failure, where the representative failed in another way on the baseline."""
        return self.representative.changed_failure

    @property
    def stands_for(self) -> str | None:
        """Why an earlier cluster with the same culprit stands for this one; None where none does."""
        earlier = takewhile(lambda other: other is not self, self.all)
        other = next((other for other in earlier if other.record.id in self.record.same_culprit), None)
        return f"{other.case.name} has the same culprit" if other else None

    @property
    def without_culprit(self) -> str | None:
        return None if names_around(self.record.culprit) else "its culprit is not known"

    def has_failure(self, outcome: Outcome) -> bool:
        """Return whether an outcome is this failure, and not only sometimes."""
        return isinstance(outcome, Failed) and not outcome.flaky and same_signature(self.failure)(outcome.failure)


Run = Callable[[InvestigationSetting, ClusterInWork], FailureCluster]
Skipped = Callable[[InvestigationSetting, ClusterInWork], str | None]
Command = Callable[[InvestigationSetting, ClusterInWork], str]


@dataclass(frozen=True)
class InvestigationStep:
    """A step by its name.

    run: returns the cluster's record with what this step found, and raises StepFailed when that is nothing; command: the line
    that does this step by itself; skipped: why a cluster does not need it, None when it does; is_limited: it is stopped when
    the cluster's allowance is spent.
    """

    name: str
    run: Run
    command: Command = lambda setting, _: setting.again
    skipped: Skipped = lambda _, cluster: cluster.stands_for
    is_limited: bool = False


def commit_of(culprit: Bisection | None) -> str | None:
    """Return the commit that is the culprit. Two failures that came with one release need not have the same culprit."""
    if culprit is None or culprit.status != Answer.CULPRIT:
        return None
    [suspect] = culprit.suspects
    return suspect.commit if suspect.commit and suspect.commit.startswith(suspect.name) else None


def names_around(bisection: Bisection | None, *, is_fix: bool = False) -> tuple[str, str] | None:
    """Return the names of the revisions around a culprit, or around a fix, the one without the failure first."""
    if bisection is None or bisection.before is None or bisection.after is None:
        return None
    before, after = bisection.before.name, bisection.after.name
    return (before, after) if bisection.undone is is_fix else (after, before)


def _bisect(setting: InvestigationSetting, cluster: ClusterInWork) -> FailureCluster:
    """Find the culprit; first try the culprits of other clusters, with two probes each."""
    for other in cluster.all:
        ends = _ends_of(setting, other) if other is not cluster else None
        if ends and (known := _same_culprit(setting, cluster, other, ends)):
            fixed = setting.finder.find_fix(cluster.case)
            return replace(known, fix=fixed.bisection if fixed else None)
    origin, fixed = setting.finder.bisect(cluster.case, cluster.changed), setting.finder.find_fix(cluster.case)
    cluster.ends, culprit = origin.ends, origin.bisection
    found = replace(cluster.record, culprit=culprit, fix=fixed.bisection if fixed else None)
    if culprit.after is None:
        cluster.record = found
        raise StepFailed(culprit.reason or "no answer")
    return found


def _not_narrowed(setting: InvestigationSetting, cluster: ClusterInWork) -> str | None:
    ends = _ends_of(setting, cluster)
    if ends is None:
        return "its culprit is not known"
    if not setting.finder.can_narrow(ends):
        return "its culprit is not a pair of releases"
    if setting.finder.repo is None and len((nightlies := setting.finder.nightlies_inside(ends)).refs) == len(ends):
        return f"{nightlies.skipped or 'there is no nightly between its releases'}; commits are searched with --repo"
    return None


def _narrow(setting: InvestigationSetting, cluster: ClusterInWork) -> FailureCluster:
    """Narrow a pair of releases: by the commits of a clone that a source has compilers of, or else by nightlies."""
    record, releases = cluster.record, _known_ends(setting, cluster)
    for other in cluster.all:
        is_inside = other is not cluster and names_around(other.record.release_culprit) == names_around(record.culprit)
        if is_inside and (ends := _ends_of(setting, other)) and (known := _same_culprit(setting, cluster, other, ends)):
            return known
    origin = setting.finder.narrow(cluster.case, releases, cluster.changed)
    if isinstance(origin, str):
        raise StepFailed(origin)
    if origin.ends is None:
        raise StepFailed(origin.bisection.reason or "no answer")
    cluster.ends = origin.ends
    return replace(record, culprit=origin.bisection, release_culprit=record.culprit)


def _confirm(setting: InvestigationSetting, cluster: ClusterInWork) -> FailureCluster:
    """Probe the other cases of a cluster before and at the culprit, and before and at its fix in a newer release."""
    others = [case for case in cluster.members if case is not cluster.representative]
    confirmed = _changes_between(setting, cluster, others, _known_ends(setting, cluster))
    if fix := names_around(cluster.record.fix, is_fix=True):
        refs = {ref.revision.name: ref for ref in setting.finder.fixes.refs}
        fixed = [case for case in others if case.case in confirmed]
        is_known = set(fix) <= refs.keys()  # a release may have been yanked since
        confirmed = _changes_between(setting, cluster, fixed, (refs[fix[0]], refs[fix[1]])) if is_known else []
    different = [case.case for case in others if case.case not in confirmed]
    return replace(cluster.record, confirmed=confirmed, different=different)


def _not_attributed(setting: InvestigationSetting, cluster: ClusterInWork) -> str | None:
    if setting.runner.compilers[cluster.case.compiler].ir() is None:
        return f"the IR of {cluster.case.compiler} cannot be printed"
    if cluster.failure.stage is not Stage.COMPILE:
        return f"it fails in the stage {cluster.failure.stage.value}"
    return cluster.stands_for or cluster.without_culprit


def _attribute(setting: InvestigationSetting, cluster: ClusterInWork) -> FailureCluster:
    """Find the pass after which the IR before and at the culprit diverges."""
    ends, depth = _known_ends(setting, cluster), Depth(phases=False, patience=_PATIENCE)
    found = attribute(setting.runner, cluster.case, *ends, setting.repository, depth)
    if found.status is ComparisonResult.INCONCLUSIVE:
        raise StepFailed(found.reason or "no answer")
    page = setting.write_page(found, setting.out / "attribution" / slug(cluster.case))
    answer = Divergence(
        status=found.status.value,
        pass_=found.suspects[0].name if found.suspects else None,
        phase=found.phase,
        function=found.function[1],
        files=list(found.files[:10]),
        page=f"attribution/{slug(cluster.case)}/{page.name}",
    )
    return replace(cluster.record, attribution=answer)


def _attribute_line(setting: InvestigationSetting, cluster: ClusterInWork) -> str:
    good, bad = names_around(cluster.record.culprit) or map(rev_text, setting.run.refs)
    return setting.command("attribute", cluster.case, "--good", good, "--bad", bad)


def _remedy(setting: InvestigationSetting, cluster: ClusterInWork) -> FailureCluster:
    """Find flags or input changes that work around the failure."""
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


def _remedy_line(setting: InvestigationSetting, cluster: ClusterInWork) -> str:
    good, bad = map(rev_text, setting.run.refs)
    return setting.command("remedy", cluster.case, "-t", bad, "--good", good)


def _reduce(setting: InvestigationSetting, cluster: ClusterInWork) -> FailureCluster:
    """Reduce the representative and write its reproducer."""
    changed = cluster.changed is not None
    request = ReductionRequest(cluster.case, setting.toolchain, setting.baseline, same_signature, resume=True, changed=changed)
    result = reduce_case(setting.runner, request)
    if result.reason is not None:
        raise StepFailed(result.reason)
    reproducer = reproducer_of(setting.runner, result, setting.toolchain)
    folder = setting.write_reproducer(reproducer, setting.out / "reproducers")
    program = reproducer.reduction.program or ""
    install = [f"pip install {reproducer.compile.requirement}"] if reproducer.compile.requirement else []
    line = shlex.join(json.loads((folder / RECORD).read_text("utf-8"))["command"])
    headline = reproducer.failure.headline
    draft = IssueDraft(
        file=reproducer.compile.source,
        program=program if len(program) <= _LONGEST_PROGRAM else None,
        command="\n".join([*install, line]),
        error=next((found for found in reproducer.output.splitlines() if headline in found), headline)[:_OUTPUT_WIDTH],
        output=_trimmed(reproducer.output),
        unneeded=[flag.text for flag in cluster.case.flags if flag not in result.small.flags],
    )
    operations, path = result.operations.after, f"reproducers/{folder.name}"
    return replace(cluster.record, reproducer=path, operations=operations, size=result.size, draft=draft)


def _reduce_line(setting: InvestigationSetting, cluster: ClusterInWork) -> str:
    good, bad = map(rev_text, setting.run.refs)
    old = ["--good", good] if cluster.representative.change is CaseChangeKind.REGRESSED else []
    out = ["--out", str(setting.out / "reproducers"), "--resume"]
    return setting.command("reduce", cluster.case, "-t", bad, *old, *out)


def _trimmed(output: str) -> str:
    """Return the first lines of the compiler's output, long lines cut."""
    lines = [line if len(line) <= _OUTPUT_WIDTH else f"{line[:_OUTPUT_WIDTH]}…" for line in output.rstrip().splitlines()]
    more = len(lines) - _OUTPUT_LINES
    return "\n".join([*lines[:_OUTPUT_LINES], *([f"... {more} more lines"] if more > 0 else [])])


def _replay(setting: InvestigationSetting, cluster: ClusterInWork) -> FailureCluster:
    """Compile the reproducer, as it was written, on all installed releases and on the new toolchain."""
    [written] = open_reproducers([_reproducer_folder(setting, cluster)], setting.failure_names or None)
    family = cluster.case.compiler
    own = replace(written, case=replace(written.case, compiler=family))  # a command's family is named by its recipe
    names = [ref.revision.name for ref in setting.runner.registry.installed_releases(family)]
    revs = list(dict.fromkeys([*names, rev_text(setting.toolchain)]))
    [replayed] = replay(setting.runner, [own], {family: revs})
    replays = {version.toolchain.name: version.status.value for version in replayed.versions}
    return replace(cluster.record, replays=replays)


def _reproducer_folder(setting: InvestigationSetting, cluster: ClusterInWork) -> Path:
    return setting.out / (cluster.record.reproducer or f"reproducers/{slug(cluster.case)}")


# The cheap ones first; each may use what those before it found.
STEPS: tuple[InvestigationStep, ...] = (
    InvestigationStep(
        "bisect",
        _bisect,
        command=lambda setting, cluster: _bisect_line(setting, cluster, setting.run.refs),
        skipped=lambda _setting, _cluster: None,
    ),
    InvestigationStep(
        "narrow",
        _narrow,
        command=lambda setting, cluster: (
            _bisect_line(setting, cluster, ends)
            if (ends := _ends_of(setting, cluster)) and setting.finder.repo
            else setting.again
        ),
        skipped=_not_narrowed,
        is_limited=True,
    ),
    InvestigationStep(
        "confirm",
        _confirm,
        skipped=lambda _, cluster: "it has no other case" if len(cluster.members) == 1 else cluster.without_culprit,
    ),
    InvestigationStep("attribute", _attribute, command=_attribute_line, skipped=_not_attributed),
    InvestigationStep("remedy", _remedy, command=_remedy_line),
    InvestigationStep("reduce", _reduce, command=_reduce_line),
    InvestigationStep(
        "replay",
        _replay,
        command=lambda setting, cluster: shlex.join(["triage", "replay", str(_reproducer_folder(setting, cluster))]),
        skipped=lambda _, cluster: None if cluster.record.reproducer else "it has no reproducer",
    ),
)


def _known_ends(setting: InvestigationSetting, cluster: ClusterInWork) -> Ends:
    """Return the toolchains before and at the culprit. Raises StepFailed where they are not known."""
    if (ends := _ends_of(setting, cluster)) is None:
        raise StepFailed("its culprit is not known")
    return ends


def _ends_of(setting: InvestigationSetting, cluster: ClusterInWork) -> Ends | None:
    """Return the toolchains before and at the culprit, also where an earlier run found it; None where they are not known."""
    if cluster.ends is None and (names := names_around(cluster.record.culprit)):
        finder, outside = setting.finder, names_around(cluster.record.release_culprit)
        refs = {ref.revision.name: ref for ref in finder.between.refs}
        if not set(names) <= refs.keys():
            releases = (refs[outside[0]], refs[outside[1]]) if outside and set(outside) <= refs.keys() else None
            search = finder.search_inside(cluster.case, releases) if releases else finder.search(cluster.case)
            if not isinstance(search, Bisection | str):
                refs = {search.range.revision(index).name: search.range.ref(index) for index in range(len(search.range))}
        if set(names) <= refs.keys():
            cluster.ends = refs[names[0]], refs[names[1]]
    return cluster.ends


def _same_culprit(
    setting: InvestigationSetting, cluster: ClusterInWork, other: ClusterInWork, ends: Ends
) -> FailureCluster | None:
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
    return setting.command("bisect", cluster.case, "--good", good, "--bad", bad, *words)


def _changes_between(
    setting: InvestigationSetting, cluster: ClusterInWork, members: Sequence[CaseResult], ends: Ends, *, fresh: bool = False
) -> list[str]:
    """Return the names of the cases that do not have the cluster's failure with the first toolchain and have it with the
    second. With the first one, those that compile on the baseline must compile.

    fresh: compile again what is known.
    """
    jobs = [ProbeJob(setting.run.case(member.case), ref, fresh) for member in members for ref in ends]
    probes = setting.runner.probe_all(jobs, "confirm the culprit")
    outcomes = {(probe.case.name, probe.revision.name): probe.outcome for probe in probes}
    old, new = (ref.revision.name for ref in ends)

    def was_without(member: CaseResult) -> bool:
        outcome = outcomes[member.case, old]
        fails_otherwise = member.changed_failure and isinstance(outcome, Failed) and not outcome.flaky
        return isinstance(outcome, Compiled) or bool(fails_otherwise and not cluster.has_failure(outcome))

    return [member.case for member in members if was_without(member) and cluster.has_failure(outcomes[member.case, new])]
