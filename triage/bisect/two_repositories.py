"""Bisect over a compiler and a repository of models: which of the two brought a change,
and the commit in it.

Old and new compiler are probed with the old and the new model. The repository whose
change alone is enough is then bisected, while the other one stays new.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath

from triage.bisect.candidates import BisectRange, Candidate, line_to
from triage.bisect.changes import answer, find_changes, passing_search
from triage.bisect.plan import bisect_between, compilers_at, whole_search
from triage.bisect.request import BisectRequest
from triage.bisect.result import Bisection, BisectKind, Side
from triage.git_history.git_program import GitRefused
from triage.git_history.repository import Repository, links_of
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.exit_codes import Exit
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import Commit, Revision
from triage.toolchains.home import disk_errors, temporary_folder
from triage.toolchains.registry import ToolchainRef

_LINK = "120000"  # git's mode of a symbolic link


@dataclass(frozen=True)
class ModelHistory:
    """Reads a recipe or a program from commits, with its folder but without links; the
    work tree is not read.
    """

    repository: Repository
    path: PurePosixPath
    """The file, relative to the repository."""
    ends: tuple[str, str]
    """The old and the new commit."""
    scratch: Path
    """A folder for the files."""
    load: Callable[[Path], Case]
    """Reads the only case of a file."""

    def newest_case(self) -> Case:
        """Load the case at the new end. Raises BadInput if there is none."""
        case = self.case_of(self.ends[1])
        if isinstance(case, NoAnswer):
            raise BadInput(case.reason)
        return case

    def case_of(self, sha: str) -> Case | NoAnswer:
        """Load the case at a commit, or return why there is none."""
        root = self.scratch / sha / (self.path.parent.name or "model")
        try:
            if not root.exists():
                self._extract(f"{sha}:{self._folder}", root)
            return self.load(root / self.path.name)
        except (BadInput, GitRefused) as error:
            problems = "; ".join(str(error).splitlines())
            return NoAnswer(Cause.RECIPE, f"{self.path} at {sha[:10]}: {problems}")

    @property
    def _folder(self) -> str:
        return str(self.path.parent).removeprefix(".")

    def _extract(self, tree: str, root: Path) -> None:
        for mode, path, content in self.repository.files_of(tree):
            file = root / path
            if not file.resolve().is_relative_to(root.resolve()):
                raise BadInput(f"{path} leads out of the folder")
            if mode != _LINK:
                with disk_errors("extract a model from its repository"):
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(content)

    def candidate(self, commit: Commit, compiler: ToolchainRef) -> Candidate:
        case_of = partial(self.case_of, commit.sha)
        revision = commit.revision
        return Candidate(revision, compiler, commits=(commit,), case_of=case_of)

    def commits_with(self, compiler: ToolchainRef) -> BisectRange:
        """Return the old end and the commits that changed the folder, with one
        compiler.
        """
        timeline = line_to(self.repository, self.ends[1])
        span = timeline.between(*self.ends)
        first, *commits = timeline.with_files(range(span.start - 1, span.stop))
        inside = [
            commit
            for commit in commits
            if any(path.startswith(self._folder) for path in commit.files)
        ]
        candidates = [self.candidate(commit, compiler) for commit in (first, *inside)]
        return BisectRange(tuple(candidates), links_of(self.repository.remote))


@contextmanager
def models_between(
    text: str, recipe: Path | None, kind: BisectKind, load: Callable[[Path], Case]
) -> Iterator[ModelHistory]:
    """Yield the models of a recipe that DIR@GOOD..BAD names. load: reads a recipe."""
    match = re.fullmatch(r"(.+)@(.+?)\.\.(.+)", text)
    if match is None:
        raise BadInput(f"--model {text}: write DIR@GOOD..BAD, such as ~/models@v1..v2")
    if recipe is None:
        raise BadInput("--model needs a recipe")
    repository = Repository(Path(match[1]).expanduser())
    good, bad = repository.resolve(match[2]), repository.resolve(match[3])
    path, shas = path_inside(recipe, repository), kind.in_order(good, bad)
    with temporary_folder() as scratch:
        yield ModelHistory(repository, path, shas, scratch, load)


def path_inside(path: Path, repository: Repository) -> PurePosixPath:
    """Return a path relative to a repository. One of no file here is one in it."""
    tree = repository.work_tree
    if tree and path.resolve().is_relative_to(tree):
        return PurePosixPath(path.resolve().relative_to(tree))
    return PurePosixPath(path)


@dataclass(frozen=True, slots=True)
class TwoRepositories:
    """The repository that brought a change, and its bisect."""

    changed: str | None
    """`compiler` or `model`; None if neither change alone is what decides."""
    bisection: Bisection

    @property
    def exit(self) -> Exit:
        return self.bisection.exit


def bisect_two(
    request: BisectRequest, models: ModelHistory, before: str, after: str
) -> TwoRepositories:
    """Bisect the repository whose change alone brought the change of the case, between
    two revisions of the compiler.
    """
    compilers = compilers_at(request, before, after)
    combinations = []
    for sha in models.ends:
        for ref in compilers:
            name = f"{ref.revision.name} with the model of {sha[:10]}"
            case_of = partial(models.case_of, sha)
            combinations.append(Candidate(Revision(name, sha), ref, case_of=case_of))
    whole = whole_search(request, BisectRange(tuple(combinations)))
    search = passing_search(whole).verified()
    if isinstance(search, NoAnswer):
        return TwoRepositories(None, answer(whole, search))
    sides = [search.side(search.line.outcome(index)) for index in (1, 2)]
    if sides == [Side.NEW, Side.OLD]:
        case = models.case_of(models.ends[1])
        assert isinstance(case, Case)
        bisection = bisect_between(replace(request, case=case), before, after)
        return TwoRepositories("compiler", bisection)
    if sides == [Side.OLD, Side.NEW]:
        commits = models.commits_with(compilers[1])
        return TwoRepositories("model", find_changes(whole_search(request, commits)))
    why = "undecided: each change alone is enough, only both are, or one cannot be "
    why += "tested; bisect one repository with one commit of the other"
    return TwoRepositories(None, answer(search, NoAnswer(Cause.NOT_FOUND, why)))
