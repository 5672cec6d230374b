"""Bisect over a compiler and a repository of models: which of the two brought a change,
and the commit in it.

Four combinations are probed: the old and the new compiler, each with the old and the
new model. The commits of the repository that changed are then one more range of
candidates, while the other repository stays the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from triage.bisect.candidates import BisectRange, Candidate, suspect_of
from triage.bisect.changes import answer, find_changes, passing_search
from triage.bisect.line import Line
from triage.bisect.plan import (
    bisect_between,
    compilers_at,
    line_to,
    search_versions,
    whole_search,
)
from triage.bisect.request import BisectRequest
from triage.bisect.result import Answer, Bisection, Combination, NoSearch, Side
from triage.bisect.search import Search
from triage.execution.judge import result_of
from triage.git_history.repository import Repository, links_of
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.json_form import in_json
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import Revision
from triage.toolchains.home import Home, KeptKind, disk_errors, remove_tree
from triage.toolchains.registry import ToolchainRef

_SHORT_SHA = 10


class ModelHistory:
    """Reads a recipe or a program from commits; the work tree is not read.

    The file is extracted with its folder, or with the whole tree if it needs more.
    Extracted trees are cached by content, so that commits that change nothing of it
    give the same case.
    """

    def __init__(
        self,
        repository: Repository,
        path: Path,
        home: Home,
        load: Callable[[Path], Case],
        ends: tuple[str, str],
    ) -> None:
        """Find out whether the file's folder is enough. BadInput if the file is outside
        the repository.

        Extracted trees are cached in `home`; `load` reads a file's only case; `ends`
        are shas of the old and the new end.
        """
        self.repository, self.ends = repository, ends
        self._cache, self._load = home.kept(KeptKind.MODELS), load
        inside = path_inside(path, repository)
        if inside is None:
            raise BadInput(f"{path} is not in the repository {repository.path}")
        self._path, self._folder = inside, inside.parent
        if any(isinstance(self.case_of(sha), NoAnswer) for sha in ends):
            self._folder = PurePosixPath()

    def at(self, sha: str) -> Case:
        """Load the case at a commit. Raises BadInput if there is none."""
        case = self.case_of(sha)
        if isinstance(case, NoAnswer):
            raise BadInput(case.reason)
        return case

    def case_of(self, sha: str) -> Case | NoAnswer:
        """Load the case at a commit, or return why there is none."""
        try:
            folder = self._extracted(*self.trees([sha]))
            return self._load(folder / self._path.relative_to(self._folder))
        except BadInput as error:
            where = f"{self._path} at {sha[:_SHORT_SHA]}"
            problems = "; ".join(str(error).splitlines())
            return NoAnswer(Cause.RECIPE, f"{where}: {problems}")

    def trees(self, shas: Sequence[str]) -> list[str]:
        """Return for each commit the sha of the folder with all that the case is made
        of; empty if the commit has no such folder.
        """
        path = "" if self._folder == PurePosixPath() else str(self._folder)
        lines = [f"{sha}:{path}" for sha in shas]
        output = self.repository.ask("cat-file", "--batch-check", lines=lines)
        text = output.decode("utf-8", "replace")
        words = [line.split() for line in text.splitlines()]
        return [sha if kind == "tree" else "" for sha, kind, *_ in words]

    def _extracted(self, tree: str) -> Path:
        """Return the folder of a tree. Raises BadInput if there is none."""
        if not tree:
            raise BadInput("the commit has no such folder")
        # a compiler may read the name of the folder, such as that of a package
        name = self._folder.name or self.repository.path.name
        place = self._cache / tree[:16]
        mark = place / f"{tree}.tree"
        with disk_errors("extract a model from its repository"):
            if mark.is_file() and (place / name).is_dir():
                with suppress(OSError):  # the home cannot be written
                    # `triage toolchains prune` removes what nobody uses
                    os.utime(place)
                return place / name
            self._cache.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=self._cache, prefix=".taking-") as scratch:
                new = Path(scratch, "new")
                (new / name).mkdir(parents=True)
                for mode, path, content in self.repository.files_of(tree):
                    _write(new / name, path, mode, content)
                (new / mark.name).touch()
                if not mark.is_file():  # no other process was faster
                    remove_tree(place)  # of another tree, if there is one
                    new.rename(place)
        return place / name

    def commits_with(self, compiler: ToolchainRef) -> BisectRange:
        """Return the old end and the commits that changed anything the case is made of,
        all with one compiler.

        If the new end changed nothing, the last commit that did stands for it.
        """
        timeline = line_to(self.repository, self.ends[1])
        span = timeline.between(*self.ends)
        places = range(span.start - 1, span.stop)
        trees = self.trees([timeline.commits[index].sha for index in places])
        pairs = zip(places[1:], pairwise(trees), strict=True)
        changed = [index for index, (old, new) in pairs if old != new]
        links = links_of(self.repository.remote)
        return BisectRange(
            tuple(
                Candidate(
                    commit.revision,
                    compiler,
                    change=suspect_of(commit, links),
                    shas=(commit.sha,),
                    case_of=partial(self.case_of, commit.sha),
                )
                for commit in timeline.with_files([places[0], *changed])
            )
        )


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


def path_inside(path: Path, repository: Repository) -> PurePosixPath | None:
    """Return a path relative to a repository, or None if it is outside. A relative path
    of no file is one in the repository.
    """
    tree = repository.work_tree
    for one in (path.absolute(), path.resolve()):
        if tree and one.is_relative_to(tree):
            return PurePosixPath(one.relative_to(tree))
    if path.is_absolute() or ".." in path.parts or path.exists():
        return None
    return PurePosixPath(path)


class ChangedSide(StrEnum):
    """Which repository brought the change. `EITHER`: each alone is enough; `BOTH`: only
    both together are.
    """

    COMPILER = "compiler"
    MODEL = "model"
    EITHER = "either"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class TwoRepositories:
    """The answer: a bisect for each repository that changed it."""

    changed: ChangedSide | None
    combinations: tuple[Combination, ...]
    compiler: Bisection | None = None
    model: Bisection | None = None
    undecided: Bisection | None = None
    """The reason, if there is no answer."""

    @in_json
    def status(self) -> Answer:
        """The least precise of the bisects."""
        return max(
            (bisection.status for bisection in self.bisections), key=list(Answer).index
        )

    @property
    def bisections(self) -> tuple[Bisection, ...]:
        """The bisects that exist, the compiler's first."""
        return tuple(
            bisection
            for bisection in (self.compiler, self.model, self.undecided)
            if bisection
        )


def bisect_two(
    request: BisectRequest, models: ModelHistory, before: str, after: str
) -> TwoRepositories:
    """Name the repository that changed the outcome, and the commit or release in it,
    between two revisions of the compiler.
    """
    cases = [models.at(sha) for sha in models.ends]
    compilers = compilers_at(request, before, after)
    old_case, new_case = cases
    old_compiler, new_compiler = compilers
    corners = tuple(
        _candidate_with(compiler, sha, case)
        for sha, case in zip(models.ends, cases, strict=True)
        for compiler in compilers
    )
    search = whole_search(request, BisectRange(corners))
    changed = _changed_side(search)
    combinations = tuple(_combinations(search.line))
    if isinstance(changed, NoSearch):
        undecided = answer(search, changed)
        return TwoRepositories(None, combinations, undecided=undecided)
    request.engine.progress.note(f"changed: {changed}")
    # While one repository is bisected, the other one must not bring the change by
    # itself.
    case, compiler = new_case, new_compiler
    if changed is ChangedSide.EITHER:
        case, compiler = old_case, old_compiler
    by_compiler = by_model = None
    if changed is not ChangedSide.MODEL:
        own = replace(request, case=case)
        if request.repo is not None or all(ref.is_release for ref in compilers):
            by_compiler = bisect_between(own, before, after)
        else:
            by_compiler = find_changes(search_versions(own, compilers))
    if changed is not ChangedSide.COMPILER:
        own = replace(request, case=new_case)
        by_model = find_changes(whole_search(own, models.commits_with(compiler)))
    return TwoRepositories(changed, combinations, by_compiler, by_model)


def _candidate_with(compiler: ToolchainRef, model: str, case: Case) -> Candidate:
    """Return the candidate that compiles the model of a commit with a compiler."""
    name = f"{compiler.revision.name} with the model of {model[:_SHORT_SHA]}"
    return Candidate(Revision(name, model), compiler, case_of=lambda: case)


def _combinations(line: Line) -> Iterator[Combination]:
    """Yield the last results, each with the commit of its model."""
    for index in range(len(line)):
        model = line.range.candidates[index].revision.commit
        for probe in line.probes[index][-1:]:
            assert model is not None
            revision = Revision(model[:_SHORT_SHA], model)
            yield Combination(**vars(result_of(probe)), model=revision)


def _changed_side(search: Search) -> ChangedSide | NoSearch:
    """Probe the four combinations, old and new first. Return which repository brought
    the change, or why that is undecided.
    """
    verified = passing_search(search).verified()
    if isinstance(verified, NoSearch):
        return verified
    assert verified.failure is not None
    match = search.line.request.match(verified.failure)
    verified = replace(verified, match=match, judge=search.judge)
    is_new = []
    for index in (1, 2):
        search.line.probe({index: 2})
        outcomes = search.line.outcomes(index)
        sides = {verified.side(outcome) for outcome in outcomes}
        if len(sides) > 1 or None in sides:
            name, last = search.line.name(index), outcomes[-1]
            why = f"{name} is flaky, or has another failure"
            if isinstance(last, NoAnswer):
                why = f"{name} cannot be tested: {last.reason}"
            return NoSearch(NoAnswer(last.cause or Cause.NOISE, why))
        is_new.append(sides == {Side.NEW})
    by_compiler, by_model = is_new
    if by_compiler and by_model:
        return ChangedSide.EITHER
    if by_compiler:
        return ChangedSide.COMPILER
    if by_model:
        return ChangedSide.MODEL
    return ChangedSide.BOTH
