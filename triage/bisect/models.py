"""A recipe as it stood at each commit of the repository that holds it."""

from __future__ import annotations

import io
import re
import shutil
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from triage.model.case import Case
from triage.model.errors import BadInput
from triage.timeline import Repository
from triage.toolchains.home import disk_errors

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
