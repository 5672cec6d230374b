"""From what a user names (a case, a repository, two revisions or none) to a search and its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from triage.bisect.candidates import BisectRange, CommitCandidates, ReleaseCandidates, candidates_from
from triage.bisect.ends import find_release_ends, part_of, with_fix_alone
from triage.bisect.failure_path import with_path
from triage.bisect.pass_evidence import pass_evidence
from triage.bisect.result import CONFIDENCE, Bisection, BisectKind, Transition, UntestableRevision
from triage.bisect.search import BisectSearch, answer, run_search
from triage.bisect.session import Journal, Session
from triage.bisect.versions import versions_between
from triage.execution.engine import Engine
from triage.execution.judge import Match, same_signature
from triage.git_history import Branch, CommitRange, Repository, Timeline, UnknownCommit, main_refs, same_change
from triage.model.case import Case
from triage.model.errors import BadInput, Interrupted
from triage.model.outcome import Failure, Untestable
from triage.model.revision import Commit
from triage.toolchains.registry import ToolchainRef
from triage.toolchains.sources.project import FILE, Project, find_project, load_project, sources_of, tagged_commit

_JOURNAL_FORMAT = "2"  # changes when the meaning of its entries does


@dataclass(frozen=True, slots=True)
class RangeEnd:
    """One end of a range of commits. `commit`: a full sha; `ref`: its toolchain, where it is not the commit's own."""

    text: str
    commit: str
    ref: ToolchainRef | None = None


@dataclass(frozen=True)
class BisectRequest:
    """What to bisect and how, without the two revisions.

    repo: a clone of the compiler, to search commits; without one, releases are searched. project_file: named by the user;
    otherwise a `triage.yaml` here or in the clone, otherwise the one that is shipped. match, confidence: as in
    `BisectSearch`. build: build commits from source where only the shipped project file says how. go_on: whether to start a
    search over commits whose cost is this text. attribute: compare the passes of both ends first, as evidence about the commit.
    """

    runner: Engine
    case: Case
    repo: Path | None = None
    project_file: Path | None = None
    kind: BisectKind = BisectKind.REGRESSION
    match: Callable[[Failure], Match] = same_signature
    confidence: float = CONFIDENCE
    attribute: bool = True
    build: bool = False
    go_on: Callable[[str], bool] = lambda _: True

    @cached_property
    def repository(self) -> Repository:
        """The clone.

        Raises:
            BadInput: `repo` is missing or no clone.
        """
        if self.repo is None:
            raise BadInput("commits need a clone of the compiler: name it with --repo")
        return Repository(self.repo)

    @cached_property
    def project(self) -> Project:
        """The project file.

        Raises:
            BadFiles: It has mistakes.
        """
        if self.project_file:
            return load_project(self.project_file)
        folders = [Path(), *filter(None, [self.repo])]
        project = find_project(self.case.compiler, *folders)
        is_own = any((folder / FILE).is_file() for folder in folders)
        return project if self.build or is_own else project.model_copy(update={"build": None})


def open_session(request: BisectRequest, before: str | None, after: str | None) -> Session | Bisection:
    """Open a search that a person leads, its ends verified; return the answer instead where it cannot begin."""
    search = plan(request, before, after)
    if isinstance(search, Bisection):
        return search
    if not search.begin():
        return answer(search)
    first, last = (search.range.revision(index).name for index in (0, search.last))
    key = (_JOURNAL_FORMAT, request.case.name, first, last, request.kind.value)
    return Session(search, Journal(request.runner.registry.home / "bisects", key))


def report_progress(search: BisectSearch) -> None:
    """Print one line of progress after a round that changed anything."""
    if search.belief is not None:
        (index, chance), *others = search.belief.suspects()
        steps, likeliest = search.belief.steps, search.range.suspect(index)
        name = f"{likeliest.name} {likeliest.subject or ''}".rstrip()
        if not others:
            line = f"1 suspect left: {name}"
        else:
            line = f"{1 + len(others)} suspects left, about {steps} step{'' if steps == 1 else 's'}"
            if chance > others[0][1]:
                line += f"; most likely ({chance:.0%}): {name}"
        if line != search.told:
            search.told = line
            search.runner.progress.note(line)


def bisect_between(
    request: BisectRequest,
    before: str | None = None,
    after: str | None = None,
    report: Callable[[BisectSearch], None] = report_progress,
) -> Bisection:
    """Find the release or commit that changed the case between two revisions, the old one first. `report`: see `run_search`."""
    planned = plan(request, before, after)
    if isinstance(planned, Bisection):
        return with_fix_alone(planned, request.case)
    bisection = run_search(planned, report)
    is_open = before is None or after is None
    return with_path(planned, bisection) if is_open and request.kind is BisectKind.REGRESSION else bisection


def plan(request: BisectRequest, before: str | None, after: str | None) -> BisectSearch | Bisection:
    """Plan the search between two revisions, the old one first; either may be missing.

    The answer is returned instead where the releases around a change have to be found first and are not.

    Raises:
        BadInput: A revision does not exist, or the ends are in the wrong order.
        EnvironmentFailure: No source can be asked.
    """
    if request.repo is None:
        return _plan_releases(request, before, after)
    ends = _commit_ends(request, before, after)
    if isinstance(ends, Bisection):
        return ends
    old, new, broke, fixed = ends
    return replace(_plan_commits(request, old, new), broke=broke, fixed=fixed)


def plan_commits(request: BisectRequest, before: str, after: str) -> BisectSearch:
    """Plan the search along the commits between two revisions, the old one first, also where both are releases. Errors as
    of `plan`.
    """
    return _plan_commits(request, range_end(request, before), range_end(request, after))


def _plan_commits(request: BisectRequest, old: RangeEnd, new: RangeEnd) -> BisectSearch:
    commits = _commits_between(request, old, new)
    cost = commits.cost()
    request.runner.progress.note(f"{request.case.name}: {cost.text}")
    if not request.go_on(cost.text):
        raise Interrupted("stopped before the search over commits")
    search = search_on(request, commits)
    if request.attribute:
        search.compare = partial(pass_evidence, request.runner, request.case, repository=request.repository)
    return search


def search_on(request: BisectRequest, candidates: BisectRange) -> BisectSearch:
    """Make the search along a range; nothing is probed yet."""
    return BisectSearch(
        request.runner,
        request.case,
        candidates,
        kind=request.kind,
        match=request.match,
        confidence=request.confidence,
    )


def _plan_releases(request: BisectRequest, before: str | None, after: str | None) -> BisectSearch | Bisection:
    """Plan a search along releases. Without `after` the newest testable release is the new end; without `before` the old end
    is searched backwards from it. Between two named ends nightlies are searched too, where an end is not a release.
    """
    if before and after and (mixed := _mixed_range(request, before, after)):
        return search_on(request, mixed)
    search, (first, last) = all_releases(request, before, after)
    if first is not None and last is not None and first >= last:
        other = "--find fix" if request.kind is BisectKind.REGRESSION else "no --find fix"
        raise BadInput(
            f"{before} is not older than {after}: a {request.kind.value} needs its old state first. "
            f"Pass {other}, or no ends: they are found"
        )
    if first is None or last is None:
        ends = find_release_ends(search, first, last)
        if ends is None:
            return answer(search)
        first, last = ends
    inside = range(first, last + 1)
    return replace(
        part_of(search, first, last),
        untestable_outside=tuple(
            UntestableRevision(search.range.revision(index), outcomes[-1].reason)
            for index, outcomes in sorted(search.outcomes.items())
            if index not in inside and isinstance(outcomes[-1], Untestable)
        ),
    )


def _mixed_range(request: BisectRequest, before: str, after: str) -> ReleaseCandidates | None:
    """The releases and nightlies between two ends that are not both releases; None where both are.

    Raises:
        BadInput: The ends are in the wrong order, or a build reports no version.
    """
    registry, family = request.runner.registry, request.case.compiler
    old, new = registry.resolve(before, family), registry.resolve(after, family)
    # An installed nightly, named by its version, looks like a pre-release of the index.
    if not any(ref.is_nightly or ref.path or (ref.release and ref.release.prerelease) for ref in (old, new)):
        return None
    versions = versions_between(registry, old, new)
    if versions.problem is not None:
        raise BadInput(f"{before} .. {after}: {versions.problem}; with --repo, a clone of the compiler, commits are searched")
    if versions.skipped is not None:
        request.runner.progress.note(versions.skipped)
    return ReleaseCandidates(versions.refs, registry)


def all_releases(request: BisectRequest, *texts: str | None) -> tuple[BisectSearch, list[int | None]]:
    """A search along all releases, and the indices of some of them.

    Raises:
        BadInput: A text is not a release of the index.
    """
    releases = ReleaseCandidates(request.runner.registry.releases(request.case.compiler), request.runner.registry)
    index_of = {ref.revision.name: index for index, ref in enumerate(releases.refs)}
    return search_on(request, releases), [_release_index(request, text, index_of) if text else None for text in texts]


def candidates_of(request: BisectRequest, before: str | None, after: str | None) -> BisectRange:
    """What a bisect may probe. Commits where both ends are named and are no releases, else releases; probes nothing."""
    if request.repo is not None and before and after:
        old, new = range_end(request, before), range_end(request, after)
        are_releases = old.ref and old.ref.is_release and new.ref and new.ref.is_release
        if not are_releases or len(_releases_between(request, before, after)) == 2:
            return _commits_between(request, old, new)
    if before and after and (mixed := _mixed_range(request, before, after)):
        return mixed
    return _releases_between(request, before, after)


def _releases_between(request: BisectRequest, before: str | None, after: str | None) -> ReleaseCandidates:
    search, (first, last) = all_releases(request, before, after)
    releases = search.range
    assert isinstance(releases, ReleaseCandidates)
    return replace(releases, refs=releases.refs[first or 0 : None if last is None else last + 1])


def _release_index(request: BisectRequest, text: str, index_of: Mapping[str, int]) -> int:
    name = request.runner.registry.resolve(text, request.case.compiler).revision.name
    if name not in index_of:
        names = list(index_of)
        raise BadInput(
            f"{text!r} is no stable release of the index ({names[0]} .. {names[-1]}); commits and nightlies need --repo"
        )
    return index_of[name]


def compilers_at(request: BisectRequest, before: str, after: str) -> tuple[ToolchainRef, ToolchainRef]:
    """The compilers of two revisions, which may be the same; nothing is probed.

    Raises:
        BadInput: As in `plan`.
    """
    if request.repo is None:
        family = request.case.compiler
        return request.runner.registry.resolve(before, family), request.runner.registry.resolve(after, family)
    old, new = range_end(request, before), range_end(request, after)
    if old.ref and new.ref:
        return old.ref, new.ref
    if old.commit == new.commit:
        raise BadInput(f"{before} and {after} are the same commit; name a compiler that stays as a release or with path:")
    commits = _commits_between(request, old, new)
    return commits.ref(0), commits.ref(len(commits) - 1)


def _commits_between(request: BisectRequest, old: RangeEnd, new: RangeEnd) -> CommitCandidates:
    workspace = request.runner.registry.workspace
    timeline = line_to(request.repository, new.commit)
    span = timeline.between(old.commit, new.commit)
    fork = timeline.fork(old.commit)
    sources = sources_of(request.project, request.repository, workspace, Path().absolute())
    undone, candidates = candidates_from(fork, span.bad, sources, request.project.can_change)
    return CommitCandidates(
        timeline=timeline,
        family=request.case.compiler,
        candidates=candidates,
        undone=undone,
        branch=fork.line,
        sources={source.name: source for source in sources},
        ends=(old.ref, new.ref),
        project=request.project.name,
        pin=request.project.llvm,
        web=request.project.repository,
        reported=partial(request.runner.registry.reported_commit, request.case.compiler),
    )


def span_between(request: BisectRequest, good: str, bad: str) -> tuple[Timeline, CommitRange]:
    """The commits between two revisions and the line that they are on; nothing is probed."""
    old, new = range_end(request, good), range_end(request, bad)
    timeline = line_to(request.repository, new.commit)
    return timeline, timeline.between(old.commit, new.commit)


def only_before(timeline: Timeline, span: CommitRange, branches: Sequence[Branch]) -> tuple[Commit, ...]:
    """The commits of the old end's branch that the new end lacks, also as cherry-picks and by merges; the newest first."""
    fork = timeline.fork(span.good.sha)
    present = {sha for index in span.indices for sha in same_change(timeline.commits[index].sha, branches)}
    lines = reversed(fork.own)
    return fork.line.with_files(i for i in lines if present.isdisjoint(same_change(fork.line.commits[i].sha, branches)))


def line_to(repository: Repository, newest: str) -> Timeline:
    """The line with the commit `newest`: the checked out one or the main one, else the line that ends with it."""
    for ref in ("HEAD", *main_refs(repository)):
        try:
            timeline = Timeline(repository, ref)
            if timeline.place(newest).exact:
                return timeline
        except BadInput:  # no such ref, or a line without a common commit
            continue
    return Timeline(repository, newest)


def _commit_ends(
    request: BisectRequest, before: str | None, after: str | None
) -> tuple[RangeEnd, RangeEnd, Transition | None, Transition | None] | Bisection:
    """The ends as commits. A bisect over releases narrows them first where both are releases or one is not named.

    Commits are searched where it broke, even if the failure changed later.
    """
    old = range_end(request, before) if before else None
    new = range_end(request, after) if after else None
    if old and new and not (old.ref and old.ref.is_release and new.ref and new.ref.is_release):
        return old, new, None, None
    for end in (old, new):
        if end and not (end.ref and end.ref.is_release):
            raise BadInput(f"{end.text} has no other end: name both --good and --bad where one of them is not a release")
    releases = bisect_between(replace(request, repo=None), before, after)
    pair = releases.broke or releases.transition()
    if pair is None or releases.kind is not request.kind:
        return releases
    broke = None if before and after else pair
    return range_end(request, pair.before.name), range_end(request, pair.after.name), broke, releases.fixed


def range_end(request: BisectRequest, text: str) -> RangeEnd:
    """Resolve a revision to a commit.

    Raises:
        BadInput: It is neither a revision nor a name that git knows.
    """
    word, colon, rest = text.partition(":")
    if colon and word == "commit":
        return RangeEnd(text, request.repository.resolve(rest))
    if colon and word == "nightly":
        return _nightly(request, text, rest)
    try:
        ref = request.runner.registry.resolve(text, request.case.compiler)
    except BadInput as wrong:
        try:
            return RangeEnd(text, request.repository.resolve(text))
        except UnknownCommit as unknown:
            raise BadInput(f"{wrong}, or with --repo a commit: {unknown}") from unknown
    toolchain = request.runner.registry.obtain(ref)
    commit = toolchain.revision.commit or tagged_commit(request.project, request.repository, ref.revision.name)
    try:
        return RangeEnd(text, request.repository.resolve(commit), ref)
    except UnknownCommit as unknown:
        raise UnknownCommit(f"{ref.revision.name} was built from {commit[:10]}, which the clone lacks: {unknown}") from unknown


def _nightly(request: BisectRequest, text: str, day: str) -> RangeEnd:
    """The newest tagged nightly of a day, or the newest commit of that day where there is no tag.

    Tags that the project file describes come before others with that day in their names.
    """
    timeline = Timeline(request.repository)
    stamp = day.replace("-", "")
    if not (stamp.isdigit() and len(stamp) == 8):
        raise BadInput(f"{text!r}: a nightly is named by its day, such as nightly:2025-06-04")
    patterns = request.project.nightlies.tags if request.project.nightlies else ()
    tagged = [tag for pattern in patterns for tag in timeline.tags(pattern.format(version=f"*{stamp}*"))]
    placed: dict[int, str] = {}
    for tag in tagged or timeline.tags(f"*{stamp}*"):
        with suppress(BadInput):  # a tag without common history
            placed[timeline.place(tag.sha).index] = tag.sha
    if placed:
        return RangeEnd(text, placed[max(placed)])
    return RangeEnd(text, timeline.commits[timeline.newest_at(f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:]}")].sha)
