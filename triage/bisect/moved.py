"""Which of two repositories moved, the compiler's or the model's; then where.

Four corners are probed: the old and the new compiler, each with the old and the new model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from triage.bisect.commits import bisect_commits
from triage.bisect.ends import wrong_end
from triage.bisect.line import ReleaseLine
from triage.bisect.models import ModelHistory, model_line
from triage.bisect.plan import Chase, bisect_between, compilers_at, line_to, search_on, tell
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.execution.judge import verdict_of
from triage.execution.runner import ProbeJob
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import Failed, Failure, Outcome, Untestable, Verdict
from triage.model.revision import Revision
from triage.toolchains.registry import ToolchainRef

_OLD, _NEW = 0, 1
_At = tuple[int, int]  # which compiler, which model


class ChangedSide(StrEnum):
    """Which repository brought the change. `EITHER`: each alone would have; `BOTH`: neither alone does."""

    COMPILER = "compiler"
    MODEL = "model"
    EITHER = "either"
    BOTH = "both"

    @property
    def story(self) -> str:
        """The same as a sentence."""
        match self:
            case ChangedSide.COMPILER:
                return "the compiler moved: its change alone is enough, the model's alone is not"
            case ChangedSide.MODEL:
                return "the model moved: its change alone is enough, the compiler's alone is not"
            case ChangedSide.EITHER:
                return "both moved, and each change alone is enough"
            case ChangedSide.BOTH:
                return "both moved, and only the two changes together are enough"


@dataclass(frozen=True, slots=True)
class Combination:
    """One compiler with one commit of the model."""

    compiler: Revision
    model: Revision
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class TwoRepositories:
    """What a bisect over two repositories found. moved: None when it is inconclusive, and `undecided` says why; else the
    repositories it names have a bisect each, along which the other repository stood still.
    """

    moved: ChangedSide | None
    corners: tuple[Combination, ...]
    compiler: Bisection | None = None
    model: Bisection | None = None
    undecided: Bisection | None = None

    @property
    def parts(self) -> tuple[Bisection, ...]:
        """The answers there are, the compiler's first."""
        return tuple(part for part in (self.compiler, self.model, self.undecided) if part)


@dataclass
class _Corners:
    """The corners under way. `compilers`, `cases`, `models`: old and new of each."""

    chase: Chase
    compilers: tuple[ToolchainRef, ToolchainRef]
    cases: tuple[Case, Case]
    models: tuple[Revision, Revision]
    outcomes: dict[_At, Outcome] = field(default_factory=dict)

    def ask(self, corners: Iterable[_At], *, fresh: bool = False) -> None:
        bench = self.chase.bench
        # Whatever is alike is asked once: keys are what a probe tells of itself.
        keys = {at: (self.cases[at[1]].source, self.compilers[at[0]].revision.name) for at in corners}
        jobs = {key: ProbeJob(self.cases[at[1]], self.compilers[at[0]], fresh) for at, key in keys.items()}
        told = {
            (probe.case.source, probe.revision.name): probe.outcome for probe in bench.probe_all(list(jobs.values()), "corners")
        }
        self.outcomes |= {at: told[key] for at, key in keys.items()}

    @property
    def failure(self) -> Failure:
        """What is chased. Precondition: the ends were found to be what they must be."""
        end = self.outcomes[(_NEW, _NEW) if self.chase.kind is BisectKind.REGRESSION else (_OLD, _OLD)]
        assert isinstance(end, Failed)
        return end.failure

    def is_new(self, at: _At) -> bool | None:
        """Whether a corner is in the new state; None when it tells nothing."""
        said = verdict_of(self.outcomes[at], self.chase.match(self.failure))
        return None if said is Verdict.SKIP else (said is Verdict.BAD) == (self.chase.kind is BisectKind.REGRESSION)

    def name(self, at: _At) -> str:
        return f"{self.compilers[at[0]].revision.name} with the model of {self.models[at[1]].name}"

    def wrong(self) -> str | None:
        """Why the ends are none; None when they are."""
        for at, new in (((_OLD, _OLD), False), ((_NEW, _NEW), True)):
            must_fail = new == (self.chase.kind is BisectKind.REGRESSION)
            if (why := wrong_end(self.name(at), self.outcomes[at], must_fail=must_fail)) is not None:
                return why
        return None

    def silent(self, at: _At) -> str | None:
        """Why a corner does not tell which repository moved; None when it does."""
        match self.outcomes[at]:
            case _ if self.is_new(at) is not None:
                return None
            case Untestable(reason=reason):
                return f"{self.name(at)} cannot be tested: {reason}"
            case Failed(flaky=True):
                return f"{self.name(at)} does not give the same result twice"
            case Failed(failure=failure):
                return f"{self.name(at)} fails otherwise: {failure.failure_class}: {failure.headline}"
            case _:
                return None


def bisect_two(chase: Chase, models: ModelHistory, before: tuple[str, str], after: tuple[str, str]) -> TwoRepositories:
    """Name the repository that moved, and the commit or release in it.

    before, after: a compiler's revision and the full sha of a commit of the model repository, of the old state and the new
    one. The same compiler in both stands still. BadInput: a revision that is none, ends in the wrong order, or nothing that
    moves.
    """
    home = chase.bench.shed.home
    (_, old), (_, new) = before, after
    compilers = before[0], after[0]
    cases = models.at(old), models.at(new)
    places = compilers_at(chase, *compilers)
    stands = places[_OLD].revision.name == places[_NEW].revision.name
    same_model = cases[_OLD].source == cases[_NEW].source
    if stands and same_model:
        raise BadInput(f"nothing moves: one compiler, and {old[:10]} and {new[:10]} hold the same recipe and models")
    names = tuple(Revision(sha[:10], sha) for sha in (old, new))
    corners = _Corners(chase, places, cases, (names[_OLD], names[_NEW]))

    def along_compilers(model: int) -> Bisection:
        return _along_compilers(replace(chase, case=cases[model]), compilers, places)

    def along_models(compiler: int) -> Bisection:
        timeline = line_to(models.repository, home, new)
        line = model_line(timeline, timeline.between(old, new), models, places[compiler])
        return bisect_commits(search_on(replace(chase, case=cases[_NEW]), line), tell)

    corners.ask([(_OLD, _OLD), (_NEW, _NEW)])
    if (why := corners.wrong()) is not None:
        return _told(corners, None, why)
    if stands:
        return replace(_told(corners, ChangedSide.MODEL), model=along_models(_NEW))
    if same_model:
        return replace(_told(corners, ChangedSide.COMPILER), compiler=along_compilers(_NEW))
    moved = _decide(corners)
    if not isinstance(moved, ChangedSide):
        return _told(corners, None, moved)
    chase.bench.progress.note(moved.story)
    other = _OLD if moved is ChangedSide.EITHER else _NEW  # the other repository, where it does not bring the change itself
    return replace(
        _told(corners, moved),
        compiler=None if moved is ChangedSide.MODEL else along_compilers(other),
        model=None if moved is ChangedSide.COMPILER else along_models(other),
    )


def _decide(corners: _Corners) -> ChangedSide | str:
    """Which repository moved, or why that cannot be told. Both corners that say so are probed twice."""
    crossed = ((_NEW, _OLD), (_OLD, _NEW))
    corners.ask(crossed)
    first = [corners.is_new(at) for at in crossed]
    for at in crossed:
        if (why := corners.silent(at)) is not None:
            return why
    corners.ask(crossed, fresh=True)
    for at, said in zip(crossed, first, strict=True):
        if corners.is_new(at) is not said:
            return f"{corners.name(at)} does not give the same result twice"
    by_compiler, by_model = first
    if by_compiler:
        return ChangedSide.EITHER if by_model else ChangedSide.COMPILER
    return ChangedSide.MODEL if by_model else ChangedSide.BOTH


def _along_compilers(chase: Chase, names: tuple[str, str], places: tuple[ToolchainRef, ToolchainRef]) -> Bisection:
    """The change between two compilers with one case. Between two that are no releases nothing is known to lie."""
    if chase.repo is not None or all(place.release for place in places):
        return bisect_between(chase, *names)
    return bisect_commits(search_on(chase, ReleaseLine(places, chase.bench.shed)), tell)


def _told(corners: _Corners, moved: ChangedSide | None, reason: str | None = None) -> TwoRepositories:
    seen = tuple(
        Combination(corners.chase.bench.shed.revision(corners.compilers[compiler]), corners.models[model], outcome)
        for (compiler, model), outcome in corners.outcomes.items()
    )
    if moved is not None:
        return TwoRepositories(moved, seen)
    causes = [corner.outcome.cause for corner in seen if isinstance(corner.outcome, Untestable)]
    undecided = Bisection(
        case=corners.cases[_NEW],
        kind=corners.chase.kind,
        answer=Answer.INCONCLUSIVE,
        probes=len(seen),
        reason=reason,
        cause=causes[0] if causes else None,
    )
    return TwoRepositories(None, seen, undecided=undecided)
