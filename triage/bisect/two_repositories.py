"""Bisect over a compiler and a repository of models: which of the two brought a change,
and the commit in it.

Four combinations are probed: the old and the new compiler, each with the old and the
new model. The commits of the repository that changed are then one more list of
candidates, while the other repository stays the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path, PurePosixPath

from triage.bisect.candidates import BisectRange, Candidate, line_to
from triage.bisect.changes import answer, find_changes, passing_search
from triage.bisect.plan import bisect_between, compilers_at, whole_search
from triage.bisect.request import BisectRequest
from triage.bisect.result import Answer, Bisection, Combination, Side
from triage.bisect.search import Search
from triage.execution.judge import result_of
from triage.git_history.repository import Repository
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.json_form import in_json
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import Revision
from triage.toolchains.home import disk_errors
from triage.toolchains.registry import ToolchainRef


class ModelHistory:
    """Reads a recipe or a program from commits, with its folder; the work tree is not
    read.
    """

    def __init__(
        self,
        repository: Repository,
        path: Path,
        scratch: Path,
        load: Callable[[Path], Case],
        ends: tuple[str, str],
    ) -> None:
        """Check that the file is in the repository.

        scratch: a folder for the files. load: reads a file's only case. ends: shas of
        the old and the new end.
        """
        self.repository, self.ends = repository, ends
        self._scratch, self._load = scratch, load
        self._path = _path_inside(path, repository)

    def case_of(self, sha: str) -> Case | NoAnswer:
        """Load the case at a commit, or return why there is none."""
        [tree] = self._trees([sha])
        folder = self._scratch / tree / (self._path.parent.name or "model")
        try:
            if not folder.exists():
                with disk_errors("extract a model from its repository"):
                    folder.mkdir(parents=True)
                    for mode, path, content in self.repository.files_of(tree):
                        _write(folder, path, mode, content)
            return self._load(folder / self._path.name)
        except BadInput as error:
            problems = "; ".join(str(error).splitlines())
            return NoAnswer(Cause.RECIPE, f"{self._path} at {sha[:10]}: {problems}")

    def _trees(self, shas: Sequence[str]) -> list[str]:
        """Return for each commit the sha of the file's folder."""
        folder = str(self._path.parent).removeprefix(".")
        lines = [f"{sha}:{folder}" for sha in shas]
        output = self.repository.text("cat-file", "--batch-check", lines=lines)
        words = [line.split() for line in output.splitlines()]
        return [name if kind == "tree" else "missing" for name, kind, *_ in words]

    def commits_with(self, compiler: ToolchainRef) -> BisectRange:
        """Return the old end and the commits that changed anything the case is made of,
        all with one compiler.
        """
        timeline = line_to(self.repository, self.ends[1])
        span = timeline.between(*self.ends)
        commits = timeline.with_files(range(span.start - 1, span.stop))
        trees = self._trees([commit.sha for commit in commits])
        return BisectRange(
            tuple(
                Candidate(
                    commit.revision,
                    compiler,
                    commits=(commit,),
                    case_of=partial(self.case_of, commit.sha),
                )
                for index, commit in enumerate(commits)
                if index == 0 or trees[index] != trees[index - 1]
            ),
            self.repository,
        )


def _path_inside(path: Path, repository: Repository) -> PurePosixPath:
    """Return a path relative to a repository. A relative path of no file is one in the
    repository.
    """
    tree = repository.work_tree
    if tree and path.resolve().is_relative_to(tree):
        return PurePosixPath(path.resolve().relative_to(tree))
    if path.is_absolute() or ".." in path.parts or path.exists():
        raise BadInput(f"{path} is not in the repository {repository.path}")
    return PurePosixPath(path)


def _write(folder: Path, path: str, mode: str, content: bytes) -> None:
    """Write a file or a link of a commit. Raises BadInput if it leads out of the
    folder.
    """
    file, root = folder / path, folder.resolve()
    is_link = mode == "120000"
    target = file.parent / os.fsdecode(content) if is_link else file
    if not all(one.resolve().is_relative_to(root) for one in (file.parent, target)):
        raise BadInput(f"cannot be extracted: {path} leads out of the folder")
    file.parent.mkdir(parents=True, exist_ok=True)
    if is_link:
        file.symlink_to(os.fsdecode(content))
    else:
        file.write_bytes(content)
        file.chmod(0o755 if mode == "100755" else 0o644)


class ChangedSide(StrEnum):
    """Which repository brought the change. `EITHER`: each alone is enough; `BOTH`: only
    both together are.
    """

    COMPILER = "compiler"
    MODEL = "model"
    EITHER = "either"
    BOTH = "both"


#: By the sides of the new compiler with the old model, and of the old with the new.
_CHANGED = {
    (Side.NEW, Side.NEW): ChangedSide.EITHER,
    (Side.NEW, Side.OLD): ChangedSide.COMPILER,
    (Side.OLD, Side.NEW): ChangedSide.MODEL,
    (Side.OLD, Side.OLD): ChangedSide.BOTH,
}


@dataclass(frozen=True, slots=True)
class TwoRepositories:
    """The answer: a bisect for each repository that changed it."""

    changed: ChangedSide | None
    combinations: tuple[Combination, ...]
    compiler: Bisection | None = None
    """Without an answer, its `unanswered` says why."""
    model: Bisection | None = None

    @in_json
    def status(self) -> Answer:
        """The least precise of the bisects."""
        statuses = [bisection.status for bisection in self.bisections]
        return max(statuses, key=list(Answer).index)

    @property
    def bisections(self) -> list[Bisection]:
        """The bisects that exist, the compiler's first."""
        return [part for part in (self.compiler, self.model) if part]


def bisect_two(
    request: BisectRequest, models: ModelHistory, before: str, after: str
) -> TwoRepositories:
    """Name the repository that changed the outcome, and the commit or release in it,
    between two revisions of the compiler.
    """
    compilers = compilers_at(request, before, after)
    corners = []
    for sha in models.ends:
        for ref in compilers:
            name = f"{ref.revision.name} with the model of {sha[:10]}"
            case_of = partial(models.case_of, sha)
            corners.append(Candidate(Revision(name, sha), ref, case_of=case_of))
    search = passing_search(whole_search(request, BisectRange(tuple(corners))))
    changed = _changed_side(search)
    combinations = []
    for index, probes in sorted(search.line.probes.items()):
        model = Revision(models.ends[index // 2][:10], models.ends[index // 2])
        combinations += [
            Combination(**vars(result_of(probe)), model=model) for probe in probes[-1:]
        ]
    answered = TwoRepositories(None, tuple(combinations))
    if isinstance(changed, NoAnswer):
        return replace(answered, compiler=answer(search, changed))
    # While one repository is bisected, the other one must not bring the change by
    # itself.
    other = 0 if changed is ChangedSide.EITHER else 1
    by_compiler = by_model = None
    if changed is not ChangedSide.MODEL:
        case = models.case_of(models.ends[other])
        assert isinstance(case, Case)
        by_compiler = bisect_between(replace(request, case=case), before, after)
    if changed is not ChangedSide.COMPILER:
        commits = models.commits_with(compilers[other])
        by_model = find_changes(whole_search(request, commits))
    return replace(answered, changed=changed, compiler=by_compiler, model=by_model)


def _changed_side(search: Search) -> ChangedSide | NoAnswer:
    """Probe the four combinations, old and new first. Return which repository brought
    the change, or why that is undecided.
    """
    verified = search.verified()
    if isinstance(verified, NoAnswer):
        return verified
    assert verified.failure is not None
    verified = replace(verified, match=search.line.request.match(verified.failure))
    sides = []
    for index in (1, 2):
        outcome = search.line.outcome(index)
        side = verified.side(outcome)
        if side is None:
            why = outcome.reason or "it has another failure"
            return NoAnswer(Cause.NOISE, f"{search.line.name(index)}: {why}")
        sides.append(side)
    return _CHANGED[sides[0], sides[1]]
