"""Read the commits that only a release branch has, and find the commits of the main
line that they are cherry-picks of: the only one with the same subject, or that of the
pull request which their subject names.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from triage.git_history.repository import Repository, pull_request, title
from triage.git_history.timeline import first_parents
from triage.model.revision import Commit, Revision

_MAIN_LINES = tuple(
    f"refs/{place}/{name}"
    for place in ("heads", "remotes/*")
    for name in ("main", "master", "HEAD")
)
_PULL = re.compile(r"(?:#|/pull/)(\d+)\b")
_NAMES_ANOTHER = re.compile(r"cherry[- ]?pick|backport", re.IGNORECASE)


@dataclass(frozen=True)
class BranchCommit(Revision):
    """A commit of a branch."""

    picked_from: Revision | None = None
    """The commit of the main line that it is a cherry-pick of."""

    @property
    def origin(self) -> str:
        """A clause that says what it is a cherry-pick of."""
        if self.picked_from is None:
            return "not on the main line"
        return f"a cherry-pick of {self.picked_from.name}"


@dataclass(frozen=True)
class Branch:
    """The part of a release's history that is not on the main line."""

    name: str
    """The name of the release."""
    start: Revision
    """The last commit that is also on the main line."""
    commits: tuple[BranchCommit, ...]
    """Oldest first."""


def place_of(sha: str, branches: Iterable[Branch]) -> str | None:
    """Say that a commit is on one of the branches, or was cherry-picked to one."""
    for branch in branches:
        for commit in branch.commits:
            if commit.commit == sha:
                return f"on the branch of {branch.name}, {commit.origin}"
            if commit.picked_from and commit.picked_from.commit == sha:
                return f"cherry-picked to the branch of {branch.name} as {commit.name}"
    return None


def same_change(sha: str, branches: Iterable[Branch]) -> frozenset[str]:
    """Return the shas of a commit and of the commits that it is a cherry-pick of."""
    originals = {
        commit.picked_from.commit or ""
        for branch in branches
        for commit in branch.commits
        if commit.commit == sha and commit.picked_from
    }
    return frozenset({sha} | originals)


def read_branches(
    repository: Repository, ends: Iterable[tuple[str, str]]
) -> tuple[Branch, ...]:
    """Return the branches of releases, given the name and the commit of each. A release
    on the main line has no branch, nor has one that shares no history with it.
    """
    mains = main_refs(repository) or ["HEAD"]
    branches = []
    for name, sha in ends:
        own = first_parents(repository, sha, "--not", *mains)
        if own and own[0].parent:
            (start,) = first_parents(repository, "-1", own[0].parent)
            by_name: dict[str | int | None, list[Commit]] = defaultdict(list)
            for commit in first_parents(repository, *mains, f"^{start.sha}"):
                by_name[pull_request(commit.subject)].append(commit)
                by_name[title(commit.subject)].append(commit)
            commits = []
            for commit in own:
                names = _names_of_original(commit.subject)
                originals = (by_name[name] for name in names if name in by_name)
                original = next(originals, [])
                picked_from = original[0].revision if len(original) == 1 else None
                fields = asdict(commit.revision)
                commits.append(BranchCommit(**fields, picked_from=picked_from))
            branches.append(Branch(name, start.revision, tuple(commits)))
    return tuple(branches)


def _names_of_original(subject: str) -> Iterator[str | int]:
    """Yield the pull request and the title that the original of a cherry-pick may
    have.
    """
    if _NAMES_ANOTHER.search(subject):
        yield from map(int, _PULL.findall(subject))
    yield title(subject)


def main_refs(repository: Repository) -> list[str]:
    """Return the refs of the main line in a clone, one for each commit. Some may be old
    copies of it.
    """
    listed = repository.text(
        "for-each-ref", "--format=%(objectname) %(refname:lstrip=1)", *_MAIN_LINES
    ).split()
    return list(dict(zip(listed[::2], listed[1::2], strict=True)).values())
