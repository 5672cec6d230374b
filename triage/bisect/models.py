"""The commits of a repository of models as candidates: a recipe as it was at each of them."""

from __future__ import annotations

import io
import re
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from triage.bisect.candidates import BisectRange, commit_note, commit_revision
from triage.bisect.prior import Clues
from triage.bisect.result import CommitNote
from triage.git_history import CommitRange, Repository, Timeline
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import Cause, Untestable
from triage.model.revision import Revision
from triage.toolchains.home import disk_errors
from triage.toolchains.registry import ToolchainRef

_LFS = b"version https://git-lfs.github.com/spec/"


class ModelHistory:
    """Reads a recipe from commits; the work tree is not read.

    A recipe is extracted with its folder and everything below it, or with the whole tree when it needs more. Extracted trees
    are cached by content, so that commits that change nothing of it give the same case.
    """

    def __init__(
        self, repository: Repository, recipe: Path, home: Path, load: Callable[[Path], Case], ends: Sequence[str]
    ) -> None:
        """Find out whether the recipe's folder is enough.

        Args:
            repository: The repository that holds the recipe.
            recipe: The recipe's path in the repository or in its work tree.
            home: Where extracted trees are cached.
            load: Reads a file's only case; raises BadInput.
            ends: Shas of the two ends, which are tried with the folder alone.

        Raises:
            BadInput: `recipe` is outside the repository.
        """
        self.repository = repository
        self.ends = tuple(ends)
        self._cache = home / "models"
        self._load = load
        self._recipe = _inside(recipe, repository)
        self._folder = self._recipe.parent
        try:
            for sha in ends:
                self.at(sha)
        except BadInput:
            self._folder = PurePosixPath()

    def at(self, sha: str) -> Case:
        """Load the case at a commit.

        Raises:
            BadInput: There is none, or it cannot be read; the message names the commit.
        """
        try:
            return self._at(sha)
        except BadInput as error:
            problems = "; ".join(re.sub(rf"{re.escape(str(self._cache))}/[0-9a-f]+/", "", str(error)).splitlines())
            raise BadInput(f"{self._recipe} at {sha[:10]}: {problems}") from error

    def contents(self, shas: Sequence[str]) -> list[str | None]:
        """The git object of all that the case is made of, for each commit; None where it does not exist."""
        path = "" if self._folder == PurePosixPath() else str(self._folder)
        output = self.repository.ask("cat-file", "--batch-check", lines=[f"{sha}:{path}" for sha in shas])
        lines = output.decode("utf-8", "replace").splitlines()
        return [line.split()[0] if line.split()[1] == "tree" else None for line in lines]

    def _at(self, sha: str) -> Case:
        [tree] = self.contents([sha])
        if tree is None:
            raise BadInput("the commit has no such folder")
        case = self._load(self._extract(tree) / self._recipe.relative_to(self._folder))
        with case.input.path.open("rb") as source:
            if source.read(len(_LFS)) == _LFS:
                raise BadInput(f"{case.input.path.name} is in Git LFS; the repository has only its pointer")
        return case

    def _extract(self, tree: str) -> Path:
        folder = self._cache / tree
        if folder.is_dir():
            return folder
        packed = self.repository.ask("archive", "--format=tar", tree)
        with disk_errors("extract a model from its repository"):
            self._cache.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=self._cache, prefix=".taking-") as scratch:
                draft = Path(scratch) / "tree"
                try:
                    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                        archive.extractall(draft, filter="data")
                except tarfile.TarError as error:  # such as a link that leads out of the repository
                    raise BadInput(f"cannot be extracted: {error}") from error
                draft.mkdir(exist_ok=True)
                try:
                    draft.rename(folder)
                except OSError:
                    if not folder.is_dir():  # another process was faster
                        raise
                    shutil.rmtree(draft, ignore_errors=True)
        return folder


def _inside(recipe: Path, repository: Repository) -> PurePosixPath:
    tree = repository.work_tree
    for path in (recipe.absolute(), recipe.resolve()):
        if tree and path.is_relative_to(tree):
            return PurePosixPath(path.relative_to(tree))
    if recipe.is_absolute() or ".." in recipe.parts:
        raise BadInput(f"{recipe} is not in the repository {repository.path}")
    return PurePosixPath(recipe)


@dataclass(frozen=True, slots=True)
class ModelCandidates(BisectRange):
    """Commits of the model repository. `indices`: their places on the timeline; `compiler`: the same for all of them."""

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

    def notes(self, indices: Sequence[int], clues: Clues) -> Mapping[str, CommitNote]:  # noqa: ARG002 - no prior here
        commits = self.timeline.with_files(self.indices[index] for index in indices if index > 0)
        return {commit.sha: commit_note(commit, self.timeline.links) for commit in commits}


def model_candidates(timeline: Timeline, span: CommitRange, models: ModelHistory, compiler: ToolchainRef) -> ModelCandidates:
    """List the span's old end and the commits that changed anything the case is made of.

    No other commit can have changed the outcome. Where the new end changed nothing, the last one that did stands for it.
    """
    places = range(span.good.index, span.bad.index + 1)
    contents = models.contents([timeline.commits[index].sha for index in places])
    changed = [index for index, (old, new) in zip(places[1:], pairwise(contents), strict=True) if old != new]
    return ModelCandidates(timeline, models, (span.good.index, *changed), compiler)
