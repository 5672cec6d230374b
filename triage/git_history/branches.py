"""Read the commits that only a release branch has, and find the commits of the main
line that they are cherry-picks of: that of the pull request which their message names,
or the only one with the same subject.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from triage.git_history.git_program import GitRefused
from triage.git_history.repository import Repository, pull_request, title
from triage.git_history.timeline import first_parents
from triage.model.errors import BadInput
from triage.model.revision import Commit, Revision

_MAIN_LINES = tuple(
    f"refs/{place}/{name}"
    for place in ("heads", "remotes/*")
    for name in ("main", "master", "HEAD")
)
_LOG_OF_MESSAGES = shlex.split("log -z --no-walk=unsorted --stdin --format=%H%x00%B")
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
            later = first_parents(repository, *mains, f"^{start.sha}")
            commits = _with_originals(repository, own, later)
            branches.append(Branch(name, start.revision, commits))
    return tuple(branches)


def main_refs(repository: Repository) -> list[str]:
    """Return the refs of the main line in a clone, one for each commit. Some may be old
    copies of it.
    """
    listed = repository.text(
        "for-each-ref", "--format=%(objectname) %(refname:lstrip=1)", *_MAIN_LINES
    ).split()
    return list(dict(zip(listed[::2], listed[1::2], strict=True)).values())


def common_commit(repository: Repository, shas: Iterable[str]) -> str | None:
    """Return the newest commit that all these commits, the checked out commit and the
    main lines contain, if there is one.
    """
    tips = []
    for ref in ("HEAD", *main_refs(repository)):
        with suppress(BadInput):  # no commit is checked out
            tips.append(repository.resolve(ref))
    try:
        return repository.text("merge-base", "--octopus", *tips, *shas).strip() or None
    except GitRefused:
        return None


def _with_originals(
    repository: Repository, own: Sequence[Commit], later: Sequence[Commit]
) -> tuple[BranchCommit, ...]:
    """Return the commits of a branch with their originals. `later` are the commits of
    the main line that may be originals.
    """
    by_number = {pull_request(commit.subject): commit for commit in later}
    by_title: dict[str, list[Commit]] = {}
    for commit in later:
        by_title.setdefault(title(commit.subject), []).append(commit)
    shas = [commit.sha for commit in own]
    fields = repository.text(*_LOG_OF_MESSAGES, lines=shas).split("\0")
    messages = dict(zip(fields[::2], fields[1::2], strict=False))
    commits = []
    for commit in own:
        originals: Sequence[Commit] = by_title.get(title(commit.subject), ())
        if _NAMES_ANOTHER.search(messages[commit.sha]):
            numbers = map(int, _PULL.findall(messages[commit.sha]))
            named = [by_number[number] for number in numbers if number in by_number]
            originals = named[:1] or originals
        picked_from = None
        if len(originals) == 1:
            picked_from = originals[0].revision
        commits.append(BranchCommit(**asdict(commit.revision), picked_from=picked_from))
    return tuple(commits)
