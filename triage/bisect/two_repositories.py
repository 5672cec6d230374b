"""Find which of two repositories brought a change, the compiler's or the model's, and then the commit in it.

Four combinations are probed: the old and the new compiler, each with the old and the new model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from triage.bisect.candidates import ReleaseCandidates
from triage.bisect.models import ModelHistory, model_candidates
from triage.bisect.plan import BisectRequest, bisect_between, compilers_at, line_to, report_progress, search_on
from triage.bisect.result import Answer, Bisection, Side
from triage.bisect.search import run_search, wrong_end
from triage.execution.judge import verdict_of
from triage.execution.runner import ProbeJob
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import Failed, Failure, Outcome, Untestable
from triage.model.revision import Revision
from triage.toolchains.registry import ToolchainRef

_Key = tuple[Side, Side]  # of the compiler, of the model
_OLD: _Key = (Side.OLD, Side.OLD)
_NEW: _Key = (Side.NEW, Side.NEW)
_NEW_COMPILER: _Key = (Side.NEW, Side.OLD)
_NEW_MODEL: _Key = (Side.OLD, Side.NEW)


class ChangedSide(StrEnum):
    """Which repository brought the change. `EITHER`: each alone is enough; `BOTH`: only both together are."""

    COMPILER = "compiler"
    MODEL = "model"
    EITHER = "either"
    BOTH = "both"

    @property
    def sentence(self) -> str:
        """The same as a sentence."""
        match self:
            case ChangedSide.COMPILER:
                return "the compiler changed it: its change alone is enough, the model's alone is not"
            case ChangedSide.MODEL:
                return "the model changed it: its change alone is enough, the compiler's alone is not"
            case ChangedSide.EITHER:
                return "both changed it, and each change alone is enough"
            case ChangedSide.BOTH:
                return "both changed it, and only the two changes together are enough"


@dataclass(frozen=True, slots=True)
class Combination:
    """The outcome of one compiler with one commit of the model."""

    compiler: Revision
    model: Revision
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class TwoRepositories:
    """The answer of a bisect over two repositories.

    changed: None when it is inconclusive; `undecided` then has the reason. Otherwise each repository that it names has a bisect
    of its own, for which the other repository stays the same.
    """

    changed: ChangedSide | None
    combinations: tuple[Combination, ...]
    compiler: Bisection | None = None
    model: Bisection | None = None
    undecided: Bisection | None = None

    @property
    def bisections(self) -> tuple[Bisection, ...]:
        """The bisects that exist, the compiler's first."""
        return tuple(bisection for bisection in (self.compiler, self.model, self.undecided) if bisection)


@dataclass
class _Combinations:
    """The combinations in progress. `compilers`, `cases`, `models`: old and new of each."""

    request: BisectRequest
    compilers: dict[Side, ToolchainRef]
    cases: dict[Side, Case]
    models: dict[Side, Revision]
    outcomes: dict[_Key, Outcome] = field(default_factory=dict)

    def ask(self, keys: Iterable[_Key], *, fresh: bool = False) -> None:
        """Probe combinations at once; those with equal compilers and models are probed once."""
        names = {key: (self.cases[key[1]].source, self.compilers[key[0]].revision.name) for key in keys}
        jobs = {name: ProbeJob(self.cases[key[1]], self.compilers[key[0]], fresh) for key, name in names.items()}
        probes = self.request.runner.probe_all(list(jobs.values()), "combinations")
        outcomes = {(probe.case.source, probe.revision.name): probe.outcome for probe in probes}
        self.outcomes |= {key: outcomes[name] for key, name in names.items()}

    @property
    def failure(self) -> Failure:
        """The failure that is bisected. Precondition: `wrong_end` is None."""
        end = self.outcomes[_NEW if self.request.kind.failing is Side.NEW else _OLD]
        assert isinstance(end, Failed)
        return end.failure

    def side(self, key: _Key) -> Side | None:
        """The side that a combination is on; None when it cannot be judged."""
        return self.request.kind.side(verdict_of(self.outcomes[key], self.request.match(self.failure)))

    def name(self, key: _Key) -> str:
        return f"{self.compilers[key[0]].revision.name} with the model of {self.models[key[1]].name}"

    def wrong_end(self) -> str | None:
        """Why one of the ends has the wrong state; None when both are right."""
        reasons = (wrong_end(self.name(key), self.outcomes[key], key[0], self.request.kind) for key in (_OLD, _NEW))
        return next((reason for reason in reasons if reason), None)

    def undecided(self, key: _Key) -> str | None:
        """Why a combination cannot be judged; None when it can."""
        match self.outcomes[key]:
            case _ if self.side(key) is not None:
                return None
            case Untestable(reason=reason):
                return f"{self.name(key)} cannot be tested: {reason}"
            case Failed(flaky=True):
                return f"{self.name(key)} is flaky: repeated probes disagree"
            case Failed(failure=failure):
                return f"{self.name(key)} has another failure: {failure.failure_class}: {failure.headline}"
            case _:
                return None

    def answer(self, changed: ChangedSide | None, reason: str | None = None) -> TwoRepositories:
        """Report the combinations probed so far, with the reason when it is inconclusive."""
        registry = self.request.runner.registry
        combinations = tuple(
            Combination(registry.revision(self.compilers[compiler]), self.models[model], outcome)
            for (compiler, model), outcome in self.outcomes.items()
        )
        if changed is not None:
            return TwoRepositories(changed, combinations)
        causes = [outcome.cause for outcome in self.outcomes.values() if isinstance(outcome, Untestable)]
        undecided = Bisection(
            case=self.cases[Side.NEW],
            kind=self.request.kind,
            answer=Answer.INCONCLUSIVE,
            probes=len(combinations),
            reason=reason,
            cause=causes[0] if causes else None,
        )
        return TwoRepositories(None, combinations, undecided=undecided)


def bisect_two(
    request: BisectRequest, models: ModelHistory, before: tuple[str, str], after: tuple[str, str]
) -> TwoRepositories:
    """Name the repository that changed the outcome, and the commit or release in it.

    Args:
        request: What to bisect; its case is replaced by those of the model's commits.
        models: Reads the case at a commit of the model repository.
        before: The old state: a compiler's revision and the full sha of a commit of the model repository.
        after: The new state, likewise. The same compiler in both stays the same.

    Raises:
        BadInput: A revision does not exist, the ends are in the wrong order, or nothing differs between them.
    """
    (_, old), (_, new) = before, after
    revisions = before[0], after[0]
    cases = {Side.OLD: models.at(old), Side.NEW: models.at(new)}
    refs = compilers_at(request, *revisions)
    same_compiler = refs[0].revision.name == refs[1].revision.name
    same_model = cases[Side.OLD].source == cases[Side.NEW].source
    if same_compiler and same_model:
        raise BadInput(f"nothing changes: there is one compiler, and {old[:10]} and {new[:10]} hold the same recipe and models")
    compilers = dict(zip(Side, refs, strict=True))
    combinations = _Combinations(
        request, compilers, cases, {side: Revision(sha[:10], sha) for side, sha in zip(Side, (old, new), strict=True)}
    )

    def along_compilers(model: Side) -> Bisection:
        return _along_compilers(replace(request, case=cases[model]), revisions, refs)

    def along_models(compiler: Side) -> Bisection:
        timeline = line_to(models.repository, request.runner.registry.home, new)
        commits = model_candidates(timeline, timeline.between(old, new), models, compilers[compiler])
        return run_search(search_on(replace(request, case=cases[Side.NEW]), commits), report_progress)

    combinations.ask([_OLD, _NEW])
    if (why := combinations.wrong_end()) is not None:
        return combinations.answer(None, why)
    if same_compiler:
        return replace(combinations.answer(ChangedSide.MODEL), model=along_models(Side.NEW))
    if same_model:
        return replace(combinations.answer(ChangedSide.COMPILER), compiler=along_compilers(Side.NEW))
    changed = _decide(combinations)
    if not isinstance(changed, ChangedSide):
        return combinations.answer(None, changed)
    request.runner.progress.note(changed.sentence)
    # While one repository is bisected, the other one must not bring the change by itself.
    other = Side.OLD if changed is ChangedSide.EITHER else Side.NEW
    return replace(
        combinations.answer(changed),
        compiler=None if changed is ChangedSide.MODEL else along_compilers(other),
        model=None if changed is ChangedSide.COMPILER else along_models(other),
    )


def _decide(combinations: _Combinations) -> ChangedSide | str:
    """Which repository brought the change, or why that is undecided. The two combinations that decide it are probed twice."""
    crossed = (_NEW_COMPILER, _NEW_MODEL)
    combinations.ask(crossed)
    for key in crossed:
        if (why := combinations.undecided(key)) is not None:
            return why
    sides = [combinations.side(key) for key in crossed]
    combinations.ask(crossed, fresh=True)
    for key, side in zip(crossed, sides, strict=True):
        if combinations.side(key) is not side:
            return f"{combinations.name(key)} is flaky: repeated probes disagree"
    by_compiler, by_model = (side is Side.NEW for side in sides)
    if by_compiler:
        return ChangedSide.EITHER if by_model else ChangedSide.COMPILER
    return ChangedSide.MODEL if by_model else ChangedSide.BOTH


def _along_compilers(request: BisectRequest, revisions: tuple[str, str], refs: tuple[ToolchainRef, ToolchainRef]) -> Bisection:
    """Find the change between two compilers with one case. Without --repo nothing is known between two that are no releases."""
    if request.repo is not None or all(ref.release for ref in refs):
        return bisect_between(request, *revisions)
    return run_search(search_on(request, ReleaseCandidates(refs, request.runner.registry)), report_progress)
