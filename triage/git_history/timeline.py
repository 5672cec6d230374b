"""The first-parent history of a repository, and positions on it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from functools import cached_property

from triage.git_history.repository import FETCH_ADVICE, Repository, read_tags
from triage.model.errors import BadInput
from triage.model.revision import Commit

_LOG = shlex.split(
    "log -z --reverse --first-parent --encoding=UTF-8 --format=%H%x00%P%x00%cI%x00%s"
)


_MAIN_LINES = tuple(
    f"refs/{place}/{name}"
    for place in ("heads", "remotes/*")
    for name in ("main", "master", "HEAD")
)


def first_parent_log(repository: Repository, *words: str) -> tuple[Commit, ...]:
    """Return the commits that `git log --first-parent WORDS` lists, oldest first,
    without their files.
    """
    fields = repository.text(*_LOG, *words, "--").split("\0")
    columns = (fields[first:-1:4] for first in range(4))
    return tuple(
        Commit(sha, parents.partition(" ")[0] or None, date, subject)
        for sha, parents, date, subject in zip(*columns, strict=True)
    )


@dataclass(frozen=True)
class CommitPosition:
    """The position of a commit on a timeline."""

    index: int
    """The index of the commit, from 0 for the oldest. A commit of a branch has the
    index of the newest commit of the timeline that it contains.
    """
    sha: str
    exact: bool = True
    """Whether the commit itself is on the timeline."""


@dataclass(frozen=True)
class Fork:
    """A first-parent history that leaves a timeline."""

    index: int
    """The index of the last common commit on the timeline."""
    history: Timeline
    """The history."""
    branch: range
    """The indices on `history` of the commits that are not on the timeline."""


class Timeline:
    """The first-parent history that ends in one commit. It is read once."""

    def __init__(self, repository: Repository, ref: str = "HEAD") -> None:
        """Read the commits up to `ref`, a commit, branch or tag.

        Raises:
            UnknownCommit: The repository has no `ref`.
            BadInput: The repository is empty.
        """
        self.repository = repository
        self.ref = ref
        self.head = repository.resolve(ref)
        #: Oldest first, without their files.
        self.commits: Sequence[Commit] = first_parent_log(repository, self.head)
        self._index_of = {
            commit.sha: index for index, commit in enumerate(self.commits)
        }

    def __len__(self) -> int:
        return len(self.commits)

    def position_of(self, name: str) -> CommitPosition:
        """Return the position of a commit. `name` is a sha, a branch or a tag.

        Raises:
            UnknownCommit: The repository has no such commit.
            BadInput: The commit shares no history with the timeline.
        """
        sha = name
        if name not in self._index_of:
            sha = self.repository.resolve(name)
        if sha in self._index_of:
            return CommitPosition(self._index_of[sha], sha)
        # The commits of the timeline that a commit contains are its oldest ones, so
        # that counting the others is enough.
        beyond = int(
            self.repository.ask(
                "rev-list", "--count", "--first-parent", self.head, f"^{sha}", "--"
            )
        )
        if beyond >= len(self):
            raise self._no_common_history(name)
        return CommitPosition(len(self) - beyond - 1, sha, exact=False)

    def fork(self, name: str) -> Fork:
        """Return where the first-parent history of a commit leaves the timeline. For a
        commit on the timeline, `branch` is empty.

        Raises:
            UnknownCommit: The repository has no such commit.
            BadInput: The first-parent histories share no commit.
        """
        position = self.position_of(name)
        if position.exact:
            return Fork(position.index, self, range(0))
        history = Timeline(self.repository, position.sha)
        for last in reversed(range(len(history))):
            if history.commits[last].sha in self._index_of:
                index = self._index_of[history.commits[last].sha]
                return Fork(index, history, range(last + 1, len(history)))
        raise self._no_common_history(name)

    def _no_common_history(self, name: str) -> BadInput:
        return BadInput(
            f"{name} has no first-parent history in common with {self.ref}; "
            f"{FETCH_ADVICE}"
        )

    def between(self, good: str, bad: str) -> range:
        """Return the indices of the commits after `good`, up to and with `bad`. A
        commit of a branch counts as the commit where its branch starts.

        Raises BadInput if `good` is not older than `bad`, and the errors of
        `position_of`.
        """
        old = self.position_of(good).index
        new = self.position_of(bad).index
        if old < new:
            return range(old + 1, new + 1)
        raise BadInput(
            f"{good} is not older than {bad} on the first-parent history of {self.ref}"
        )

    def with_files(self, indices: Iterable[int]) -> tuple[Commit, ...]:
        """Return the commits at these indices, with the files that each changed against
        its first parent. Git is called once.
        """
        commits = [self.commits[index] for index in indices]
        files = self.repository.changed_files([commit.sha for commit in commits])
        return tuple(
            replace(commit, files=files.get(commit.sha, ())) for commit in commits
        )

    @cached_property
    def tags(self) -> dict[str, str]:
        """The commit of each tag in the repository, on the timeline or not."""
        return read_tags(self.repository)

    def newest_at(self, day: str) -> int:
        """Return the index of the newest commit that is not later than a day in UTC.
        Raises BadInput if all are later, or if it is not a day.
        """
        try:
            end = datetime.combine(date.fromisoformat(day), time.max, UTC)
        except ValueError as error:
            raise BadInput(f"{day!r} is not a date: write 2025-06-04") from error
        for index in reversed(range(len(self))):
            if datetime.fromisoformat(self.commits[index].date) <= end:
                return index
        raise BadInput(
            f"no commit is as old as {day}: the oldest is of "
            f"{self.commits[0].date[:10]}"
        )


def main_refs(repository: Repository) -> list[str]:
    """Return the refs of the main line in a clone, one for each commit. Some may be old
    copies of it.
    """
    listed = repository.text(
        "for-each-ref", "--format=%(objectname) %(refname:lstrip=1)", *_MAIN_LINES
    ).split()
    return list(dict(zip(listed[::2], listed[1::2], strict=True)).values())
