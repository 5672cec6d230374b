"""Bisect over a compiler and a repository of models: which of the two brought a change, and the commit in it.

Four combinations are probed: the old and the new compiler, each with the old and the new model. The commits of the repository
that changed are then one more list of candidates, while the other repository stays the same.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import ClassVar

from triage.bisect.candidates import BisectRange, ReleaseCandidates, commit_note
from triage.bisect.history import plain_status
from triage.bisect.plan import BisectRequest, bisect_between, compilers_at, line_to, report_progress, search_on
from triage.bisect.prior import Clues
from triage.bisect.result import Answer, Bisection, Combination, Side, Suspect, commit_revision
from triage.bisect.search import run_search, wrong_end
from triage.execution.judge import verdict_of
from triage.execution.task import ProbeJob
from triage.git_history import Repository, Timeline
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import Cause, Failed, Outcome, Untestable
from triage.model.revision import Revision
from triage.toolchains.home import disk_errors
from triage.toolchains.registry import ToolchainRef


class ModelHistory:
    """Reads a recipe from commits; the work tree is not read.

    A recipe is extracted with its folder, or with the whole tree when it needs more. Extracted trees are cached by content, so
    that commits that change nothing of it give the same case.
    """

    def __init__(
        self, repository: Repository, recipe: Path, home: Path, load: Callable[[Path], Case], ends: Sequence[str]
    ) -> None:
        """Find out whether the recipe's folder is enough; BadInput when the recipe is outside the repository.

        home: where extracted trees are cached; load: reads a file's only case; ends: shas of the two ends.
        """
        self.repository, self.ends = repository, tuple(ends)
        self._cache, self._load = home / "models", load
        self._recipe = _path_inside(recipe, repository)
        self._folder = self._recipe.parent
        try:
            for sha in ends:
                self.at(sha)
        except BadInput:
            self._folder = PurePosixPath()

    def at(self, sha: str) -> Case:
        """Load the case at a commit. Raises BadInput, which names the commit, where there is none."""
        try:
            return self._at(sha)
        except BadInput as error:
            problems = "; ".join(re.sub(rf"{re.escape(str(self._cache))}/[0-9a-f]+/", "", str(error)).splitlines())
            raise BadInput(f"{self._recipe} at {sha[:10]}: {problems}") from error

    def _at(self, sha: str) -> Case:
        [tree] = self.trees([sha])
        if tree is None:
            raise BadInput("the commit has no such folder")
        return self._load(self._extract(tree) / self._recipe.relative_to(self._folder))

    def trees(self, shas: Sequence[str]) -> list[str | None]:
        """Return for each commit the git object of all that the case is made of, if it exists."""
        path = "" if self._folder == PurePosixPath() else str(self._folder)
        output = self.repository.ask("cat-file", "--batch-check", lines=[f"{sha}:{path}" for sha in shas])
        lines = output.decode("utf-8", "replace").splitlines()
        return [line.split()[0] if line.split()[1] == "tree" else None for line in lines]

    def _extract(self, tree: str) -> Path:
        folder = self._cache / tree
        if folder.is_dir():
            return folder
        packed = self.repository.ask("archive", "--format=tar", tree)
        with disk_errors("extract a model from its repository"):
            self._cache.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=self._cache, prefix=".taking-") as scratch:
                try:
                    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                        archive.extractall(Path(scratch, "tree"), filter="data")
                except tarfile.TarError as error:  # such as a link that leads out of the repository
                    raise BadInput(f"cannot be extracted: {error}") from error
                if not folder.is_dir():  # no other process was faster
                    Path(scratch, "tree").rename(folder)
        return folder


def _path_inside(recipe: Path, repository: Repository) -> PurePosixPath:
    tree = repository.work_tree
    for path in (recipe.absolute(), recipe.resolve()):
        if tree and path.is_relative_to(tree):
            return PurePosixPath(path.relative_to(tree))
    if recipe.is_absolute() or ".." in recipe.parts:
        raise BadInput(f"{recipe} is not in the repository {repository.path}")
    return PurePosixPath(recipe)


@dataclass(frozen=True, slots=True)
class ModelCandidates(BisectRange):
    """The old end and the commits that changed anything the case is made of, all with one compiler.

    Where the new end changed nothing, the last commit that did stands for it. `indices`: places on the timeline.
    """

    timeline: Timeline
    models: ModelHistory
    indices: tuple[int, ...]
    compiler: ToolchainRef

    def __len__(self) -> int:
        return len(self.indices)

    def ref(self, index: int) -> ToolchainRef:  # noqa: ARG002 - the same for all
        return self.compiler

    def case(self, index: int, case: Case) -> Case | Untestable:  # noqa: ARG002 - each commit has its own
        try:
            return self.models.at(self.timeline.commits[self.indices[index]].sha)
        except BadInput as error:
            return Untestable(Cause.RECIPE, str(error))

    def revision(self, index: int) -> Revision:
        return commit_revision(self.timeline.commits[self.indices[index]])

    def notes(self, indices: Sequence[int], clues: Clues) -> Mapping[str, Suspect]:  # noqa: ARG002 - no prior here
        commits = self.timeline.with_files(self.indices[index] for index in indices if index > 0)
        return {commit.sha: commit_note(commit, self.timeline.links) for commit in commits}


class ChangedSide(StrEnum):
    """Which repository brought the change. `EITHER`: each alone is enough; `BOTH`: only both together are."""

    COMPILER = "compiler"
    MODEL = "model"
    EITHER = "either"
    BOTH = "both"


_CHANGED = {  # by whether the new compiler with the old model has the new state, and the old compiler with the new model
    (True, True): ChangedSide.EITHER,
    (True, False): ChangedSide.COMPILER,
    (False, True): ChangedSide.MODEL,
    (False, False): ChangedSide.BOTH,
}


@dataclass(frozen=True, slots=True)
class TwoRepositories:
    """The answer: a bisect for each repository that changed it; without an answer `undecided` has the reason."""

    changed: ChangedSide | None
    combinations: tuple[Combination, ...]
    compiler: Bisection | None = None
    model: Bisection | None = None
    undecided: Bisection | None = None

    JSON_PROPERTIES: ClassVar = ("status",)

    @property
    def status(self) -> Answer:
        """The least precise of the bisects."""
        return max((bisection.status for bisection in self.bisections), key=list(Answer).index)

    @property
    def bisections(self) -> tuple[Bisection, ...]:
        """The bisects that exist, the compiler's first."""
        return tuple(bisection for bisection in (self.compiler, self.model, self.undecided) if bisection)


@dataclass
class _Combinations:
    """The old and the new compiler, each with the old and the new model, and what became of each that was probed."""

    request: BisectRequest
    compilers: dict[Side, ToolchainRef]
    shas: dict[Side, str]
    cases: dict[Side, Case]
    outcomes: dict[tuple[Side, Side], Outcome] = field(default_factory=dict)
    """By the side of the compiler and of the model."""

    def ask(self, compiler: Side, model: Side, *, fresh: bool = False) -> Outcome:
        job = ProbeJob(self.cases[model], self.compilers[compiler], fresh)
        [probe] = self.request.runner.probe_all([job], "combinations")
        self.outcomes[compiler, model] = probe.outcome
        return probe.outcome

    def name(self, compiler: Side, model: Side) -> str:
        return f"{self.compilers[compiler].revision.name} with the model of {self.shas[model][:10]}"

    def changed(self) -> ChangedSide | str:
        """Which repository brought the change, or why that is undecided. The mixed combinations are probed twice."""
        kind = self.request.kind
        for side in Side:
            if why := wrong_end(self.name(side, side), self.ask(side, side), side, kind):
                return why
        failing = self.outcomes[kind.failing, kind.failing]
        assert isinstance(failing, Failed)
        match, is_new = self.request.match(failing.failure), []
        for key in ((Side.NEW, Side.OLD), (Side.OLD, Side.NEW)):
            sides = [kind.side(verdict_of(self.ask(*key, fresh=fresh), match)) for fresh in (False, True)]
            if sides[0] is None or sides[0] is not sides[1]:
                return f"{self.name(*key)} {_undecided(self.outcomes[key])}"
            is_new.append(sides[0] is Side.NEW)
        return _CHANGED[is_new[0], is_new[1]]

    def described(self) -> tuple[Combination, ...]:
        return tuple(
            Combination(
                self.request.runner.registry.revision(self.compilers[compiler]),
                Revision(self.shas[model][:10], self.shas[model]),
                plain_status(outcome),
                outcome.failure,
                outcome.reason,
            )
            for (compiler, model), outcome in self.outcomes.items()
        )


def bisect_two(
    request: BisectRequest, models: ModelHistory, before: tuple[str, str], after: tuple[str, str]
) -> TwoRepositories:
    """Name the repository that changed the outcome, and the commit or release in it.

    before, after: a compiler's revision and the full sha of a commit of the model repository. The request's case is replaced.
    """
    shas = {Side.OLD: before[1], Side.NEW: after[1]}
    compilers = dict(zip(Side, compilers_at(request, before[0], after[0]), strict=True))
    found = _Combinations(request, compilers, shas, {side: models.at(sha) for side, sha in shas.items()})
    changed = found.changed()
    if not isinstance(changed, ChangedSide):
        cause = next((outcome.cause for outcome in found.outcomes.values() if isinstance(outcome, Untestable)), None)
        undecided = Bisection(found.cases[Side.NEW].name, request.kind, Answer.INCONCLUSIVE, reason=changed, cause=cause)
        return TwoRepositories(None, found.described(), undecided=undecided)
    request.runner.progress.note(f"changed: {changed}")
    # While one repository is bisected, the other one must not bring the change by itself.
    other = Side.OLD if changed is ChangedSide.EITHER else Side.NEW
    compiler = model = None
    if changed is not ChangedSide.MODEL:
        own = replace(request, case=found.cases[other])
        if request.repo is not None or all(ref.is_release for ref in compilers.values()):
            compiler = bisect_between(own, before[0], after[0])
        else:
            ends = ReleaseCandidates(tuple(compilers.values()), request.runner.registry)
            compiler = run_search(search_on(own, ends), report_progress)
    if changed is not ChangedSide.COMPILER:
        commits = _changed_models(models, shas, compilers[other])
        model = run_search(search_on(replace(request, case=found.cases[Side.NEW]), commits), report_progress)
    return TwoRepositories(changed, found.described(), compiler, model)


def _changed_models(models: ModelHistory, shas: Mapping[Side, str], compiler: ToolchainRef) -> ModelCandidates:
    timeline = line_to(models.repository, shas[Side.NEW])
    span = timeline.between(shas[Side.OLD], shas[Side.NEW])
    places = range(span.good.index, span.bad.index + 1)
    trees = models.trees([timeline.commits[index].sha for index in places])
    changed = [index for index, (old, new) in zip(places[1:], pairwise(trees), strict=True) if old != new]
    return ModelCandidates(timeline, models, (span.good.index, *changed), compiler)


def _undecided(outcome: Outcome) -> str:
    if isinstance(outcome, Untestable):
        return f"cannot be tested: {outcome.reason}"
    if isinstance(outcome, Failed) and not outcome.flaky:
        return f"has another failure: {outcome.failure.failure_class}: {outcome.failure.headline}"
    return "is flaky: repeated probes disagree"
