"""From what a user names (a repository, two revisions or none) to a search over commits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from triage.bisect.commits import CONFIDENCE, CommitSearch, answer, bisect_commits
from triage.bisect.journal import Journal
from triage.bisect.line import CandidateLine, CommitLine, ReleaseLine, spots_of
from triage.bisect.pass_evidence import pass_evidence
from triage.bisect.releases import bisect_releases
from triage.bisect.result import Bisection, BisectKind
from triage.bisect.session import Session
from triage.execution.judge import Match, same_signature
from triage.execution.runner import ProbeRunner
from triage.git_history import CommitRange, Repository, Timeline, UnknownCommit
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import Failure
from triage.toolchains.registry import ToolchainRef
from triage.toolchains.sources import ProjectFormat, Workplace, find_project, load_project, sources_of

_LINES = ("HEAD", "origin/HEAD", "origin/main", "origin/master", "main", "master")


@dataclass(frozen=True, slots=True)
class End:
    """One end of a range. `commit`: a sha or ref; `place`: its toolchain, where it is not the commit's own."""

    text: str
    commit: str
    place: ToolchainRef | None = None


@dataclass(frozen=True)
class Chase:
    """What is chased and where: everything but the two revisions. `repo`: a clone; `file`: a project file named by the
    user, else a `triage.yaml` here or in the clone serves, else the one that is shipped. attribute: whether the passes of
    both ends are compared first, for what that tells of the commit.
    """

    bench: ProbeRunner
    case: Case
    repo: Path | None = None
    file: Path | None = None
    kind: BisectKind = BisectKind.REGRESSION
    match: Callable[[Failure], Match] = same_signature
    confidence: float = CONFIDENCE
    repeats: int = 1
    attribute: bool = True

    @cached_property
    def repository(self) -> Repository:
        """BadInput when `repo` is no clone."""
        if self.repo is None:
            raise BadInput("commits need a clone of the compiler: name it with --repo")
        return Repository(self.repo)

    @cached_property
    def project(self) -> ProjectFormat:
        """BadFiles with all mistakes of the project file."""
        return load_project(self.file) if self.file else find_project(self.case.compiler, Path(), *filter(None, [self.repo]))


def open_session(chase: Chase, before: str | None, after: str | None) -> Session | Bisection:
    """A search that a person leads, its ends verified; the answer instead where it cannot begin. Without commits to go
    along (`repo` None), it goes along the releases.
    """
    search = plan(chase, before, after)
    if isinstance(search, Bisection):
        return search
    if (wrong := search.begin()) is not None:
        return answer(search, reason=wrong)
    first, last = (search.line.revision(index).name for index in (0, search.last))
    key = (chase.case.name, first, last, chase.kind.value)
    return Session(search, Journal(chase.bench.shed.home / "bisects", key))


def bisect_between(chase: Chase, before: str | None, after: str | None) -> Bisection:
    """The commit that changed the case between two revisions, the old state's first."""
    planned = plan(chase, before, after)
    return planned if isinstance(planned, Bisection) else bisect_commits(planned, tell)


def tell(search: CommitSearch) -> None:
    """One line of progress after each round."""
    if search.belief is not None:
        (index, chance), *others = search.belief.suspects()
        likeliest = search.line.revision(index)
        search.bench.progress.note(
            f"{1 + len(others)} suspect{'s' if others else ''} left, {search.belief.entropy:.1f} bits; "
            f"likeliest with {chance:.0%}: {likeliest.name} {likeliest.subject or ''}"
        )


def plan(chase: Chase, before: str | None, after: str | None) -> CommitSearch | Bisection:
    """The search between two revisions. Where a release bisect has to narrow the range first and finds no pair, its
    answer is returned instead.

    BadInput: a revision that is none, or ends in the wrong order; EnvironmentFailure: no source can be asked.
    """
    if chase.repo is None:
        return _plan_releases(chase, before, after)
    ends = _ends(chase, before, after)
    if isinstance(ends, Bisection):
        return ends
    search = search_on(chase, _commit_line(chase, *ends))
    if chase.attribute:
        search.witness = partial(pass_evidence, chase.bench, chase.case, repository=chase.repository)
    return search


def compilers_at(chase: Chase, before: str, after: str) -> tuple[ToolchainRef, ToolchainRef]:
    """The compilers of two revisions, or of one given twice; nothing is probed. BadInput as in `plan`."""
    if chase.repo is None:
        family = chase.case.compiler
        return chase.bench.shed.place(before, family), chase.bench.shed.place(after, family)
    old, new = end_of(chase, before), end_of(chase, after)
    if old.place and new.place:
        return old.place, new.place
    if old.commit == new.commit:
        raise BadInput(f"{before} and {after} are the same commit; name a compiler that stays as a release or with path:")
    line = _commit_line(chase, old, new)
    return line.place(0), line.place(len(line) - 1)


def _commit_line(chase: Chase, old: End, new: End) -> CommitLine:
    timeline = line_to(chase.repository, chase.bench.shed.home, new.commit)
    span = timeline.between(old.commit, new.commit)
    workplace = Workplace(chase.bench.shed.home, chase.bench.progress, chase.bench.stop)
    sources = sources_of(chase.project, chase.repository, workplace, Path().absolute())
    return CommitLine(
        timeline=timeline,
        family=chase.case.compiler,
        first=span.good.index,
        spots=spots_of(timeline, span, sources),
        sources={source.name: source for source in sources},
        ends=(old.place, new.place),
        project=chase.project.name,
        pin=chase.project.llvm,
        web=chase.project.repository,
    )


def _plan_releases(chase: Chase, before: str | None, after: str | None) -> CommitSearch | Bisection:
    """A search along the releases, for a person to lead. Ends that are not named are looked for."""
    shed, family = chase.bench.shed, chase.case.compiler
    if before is None or after is None:
        places = shed.releases(family)
        names = [place.revision.name for place in places]
        first, last = (names.index(shed.place(text, family).revision.name) if text else None for text in (before, after))
        return bisect_releases(chase.bench, chase.case, places, kind=chase.kind, before=first, after=last, match=chase.match)
    return search_on(chase, ReleaseLine(shed.between(family, before, after), shed))


def search_on(chase: Chase, line: CandidateLine) -> CommitSearch:
    """The search for what is chased along a line; nothing is probed yet."""
    return CommitSearch(
        chase.bench,
        chase.case,
        line,
        kind=chase.kind,
        match=chase.match,
        confidence=chase.confidence,
        repeats=chase.repeats,
    )


def span_between(chase: Chase, good: str, bad: str) -> tuple[Timeline, CommitRange]:
    """The commits between two revisions and the line they lie on; nothing is probed."""
    old, new = end_of(chase, good), end_of(chase, bad)
    timeline = line_to(chase.repository, chase.bench.shed.home, new.commit)
    return timeline, timeline.between(old.commit, new.commit)


def line_to(repository: Repository, home: Path, newest: str) -> Timeline:
    """The line that holds `newest`: the checked out one or the main one, else the line of `newest` itself."""
    cache = home / "timelines"
    for ref in _LINES:
        try:
            timeline = Timeline(repository, cache, ref)
            if timeline.place(newest).exact:
                return timeline
        except UnknownCommit:
            continue
    return Timeline(repository, cache, newest)


def _ends(chase: Chase, before: str | None, after: str | None) -> tuple[End, End] | Bisection:
    """The ends as commits. Releases between them, and ends that are not named, are settled by a release bisect."""
    family, shed = chase.case.compiler, chase.bench.shed
    old = end_of(chase, before) if before else None
    new = end_of(chase, after) if after else None
    if old and new and not (old.place and old.place.release and new.place and new.place.release):
        return old, new
    places = shed.releases(family)
    names = [place.revision.name for place in places]
    for end in (old, new):
        if end and not (end.place and end.place.release and end.place.revision.name in names):
            raise BadInput(f"{end.text} has no other end: name both --good and --bad where one of them is no release")
    first, last = (names.index(end.place.revision.name) if end and end.place else None for end in (old, new))
    if first is not None and last is not None and first >= last:
        raise BadInput(f"{before} is not older than {after}")
    found = bisect_releases(chase.bench, chase.case, places, kind=chase.kind, before=first, after=last, match=chase.match)
    if found.before is None or found.after is None:
        return found
    return end_of(chase, found.before.name), end_of(chase, found.after.name)


def end_of(chase: Chase, text: str) -> End:
    """A revision as a commit. BadInput when it is neither a revision nor a name that git knows."""
    word, colon, rest = text.partition(":")
    if colon and word == "commit":
        return End(text, chase.repository.resolve(rest))
    if colon and word == "nightly":
        return _nightly(chase, text, rest)
    try:
        place = chase.bench.shed.place(text, chase.case.compiler)
    except BadInput as wrong:
        try:
            return End(text, chase.repository.resolve(text))
        except UnknownCommit as unknown:
            raise BadInput(f"{wrong}, or with --repo a commit: {unknown}") from unknown
    toolchain = chase.bench.shed.obtain(place)
    commit = toolchain.revision.commit
    if commit is None:
        raise BadInput(f"{text} does not tell which commit it was built from; name a commit instead")
    return End(text, chase.repository.resolve(commit), place)


def _nightly(chase: Chase, text: str, day: str) -> End:
    """The newest tagged nightly of a day, or the newest commit of that day where there is no tag."""
    timeline = Timeline(chase.repository, chase.bench.shed.home / "timelines", "HEAD")
    stamp = day.replace("-", "")
    if not (stamp.isdigit() and len(stamp) == 8):
        raise BadInput(f"{text!r}: a nightly is named by its day, such as nightly:2025-06-04")
    tagged = timeline.tags(f"*{stamp}*")
    if tagged:
        return End(text, tagged[-1].sha)
    return End(text, timeline.commits[timeline.newest_at(f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:]}")].sha)
