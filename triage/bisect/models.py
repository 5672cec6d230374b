"""A recipe as it stood at each commit of the repository that holds it."""

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

import numpy as np

from triage.bisect.belief import Floats
from triage.bisect.line import note_of, revision_of
from triage.bisect.prior_clues import Clues
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
    """Reads a recipe from commits; the work tree, whatever is checked out there, is not looked at.

    A recipe is taken together with its folder and all below it, or with the whole tree when it needs more than that. What
    is taken out is kept by content, so that commits that change nothing of it give the same case.
    """

    def __init__(
        self, repository: Repository, recipe: Path, home: Path, load: Callable[[Path], Case], ends: Sequence[str]
    ) -> None:
        """`recipe`: its path in the repository, or in the repository's work tree; `load` reads a file's one case, or raises
        BadInput; `ends`: the commits that tell whether the recipe's folder is enough. BadInput when `recipe` lies elsewhere.
        """
        self.repository = repository
        self.ends = tuple(ends)
        self._kept = home / "models"
        self._load = load
        self._recipe = _inside(recipe, repository)
        self._folder = self._recipe.parent
        try:
            for sha in ends:
                self.at(sha)
        except BadInput:
            self._folder = PurePosixPath()

    def at(self, sha: str) -> Case:
        """The case at a commit. BadInput when there is none, or none that can be read; then with the commit's name."""
        try:
            return self._at(sha)
        except BadInput as error:
            where = f"{self._recipe} at {sha[:10]}"
            told = "; ".join(re.sub(rf"{re.escape(str(self._kept))}/[0-9a-f]+/", "", str(error)).splitlines())
            raise BadInput(f"{where}: {told}") from error

    def contents(self, shas: Sequence[str]) -> list[str | None]:
        """For each commit what identifies all that the case is made of; None where it is not there."""
        path = "" if self._folder == PurePosixPath() else str(self._folder)
        told = self.repository.ask("cat-file", "--batch-check", lines=[f"{sha}:{path}" for sha in shas])
        lines = told.decode("utf-8", "replace").splitlines()
        return [line.split()[0] if line.split()[1] == "tree" else None for line in lines]

    def _at(self, sha: str) -> Case:
        [tree] = self.contents([sha])
        if tree is None:
            raise BadInput("the commit has no such folder")
        case = self._load(self._taken_out(tree) / self._recipe.relative_to(self._folder))
        with case.input.path.open("rb") as source:
            if source.read(len(_LFS)) == _LFS:
                raise BadInput(f"{case.input.path.name} is kept in Git LFS, and only its pointer is in the repository")
        return case

    def _taken_out(self, tree: str) -> Path:
        folder = self._kept / tree
        if folder.is_dir():
            return folder
        packed = self.repository.ask("archive", "--format=tar", tree)
        with disk_errors("take a model out of its repository"):
            self._kept.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=self._kept, prefix=".taking-") as scratch:
                draft = Path(scratch) / "tree"
                try:
                    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                        archive.extractall(draft, filter="data")
                except tarfile.TarError as error:  # such as a link that leads out of the repository
                    raise BadInput(f"cannot be taken out: {error}") from error
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
        raise BadInput(f"{recipe} does not lie in the repository {repository.path}")
    return PurePosixPath(recipe)


@dataclass(frozen=True, slots=True)
class ModelLine:
    """`indices`: of the spots' commits on the timeline, the good end's first; `compiler`: compiles at every spot."""

    timeline: Timeline
    models: ModelHistory
    indices: tuple[int, ...]
    compiler: ToolchainRef

    def __len__(self) -> int:
        return len(self.indices)

    def place(self, index: int) -> ToolchainRef:  # noqa: ARG002 - the port's name
        return self.compiler

    def case(self, index: int, case: Case) -> Case | Untestable:  # noqa: ARG002
        try:
            return self.models.at(self.timeline.commits[self.indices[index]].sha)
        except BadInput as error:
            return Untestable(Cause.RECIPE, str(error))

    def revision(self, index: int) -> Revision:
        return revision_of(self.timeline.commits[self.indices[index]])

    def closed(self) -> Mapping[int, str]:
        return {}

    def prices(self) -> Floats:
        return np.zeros(len(self.indices))

    def weights(self, clues: Clues) -> Floats:  # noqa: ARG002
        return np.ones(len(self.indices))

    def notes(self, indices: Sequence[int], clues: Clues) -> Mapping[str, CommitNote]:  # noqa: ARG002
        commits = self.timeline.with_files(self.indices[index] for index in indices if index > 0)
        return {commit.sha: note_of(commit, self.timeline.links) for commit in commits}


def model_line(timeline: Timeline, span: CommitRange, models: ModelHistory, compiler: ToolchainRef) -> ModelLine:
    """The span's good end, and those of its commits that changed anything the case is made of: no other can have changed
    the outcome. Where the bad end changed nothing, the last one that did stands for it.
    """
    places = range(span.good.index, span.bad.index + 1)
    contents = models.contents([timeline.commits[index].sha for index in places])
    changed = [index for index, (old, new) in zip(places[1:], pairwise(contents), strict=True) if old != new]
    return ModelLine(timeline, models, (span.good.index, *changed), compiler)
