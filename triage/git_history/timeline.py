"""The timeline: the first-parent history of a repository, and positions on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from functools import cached_property
from pathlib import Path

from triage.git_history.refs import read_tags
from triage.git_history.repository import Repository
from triage.model.errors import BadInput
from triage.model.revision import Commit

_LINE = (
    "log",
    "-z",
    "--reverse",
    "--first-parent",
    "--encoding=UTF-8",
    "--format=%H%x00%P%x00%cI%x00%s",
)


@dataclass(frozen=True, slots=True)
class CommitPosition:
    """The position of a commit on a timeline."""

    index: int
    """Counted from 0 for the oldest. A commit of a branch has that of the newest commit
    of the timeline in its history.
    """
    sha: str
    exact: bool = True
    """Whether the commit itself is on the timeline."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Where the first-parent history of a commit leaves a timeline."""

    base: Timeline
    index: int
    """Of the last common commit on `base`."""
    line: Timeline
    """The history that ends in the commit."""
    own: range
    """The positions on `line` of the commits that are not on `base`."""


class Timeline:
    """The first-parent history that ends in one commit. The repository is only read,
    and what was read is kept.
    """

    def __init__(
        self,
        repository: Path | Repository,
        ref: str = "HEAD",
        since: str | None = None,
    ) -> None:
        """Read the commits up to `ref`. BadInput if there is no repository, it is
        empty, or it has no `ref` (UnknownCommit).

        since: a commit in the history of `ref`. The timeline begins with the newest of
        its commits that this one contains: a long history takes seconds to read.
        """
        if isinstance(repository, Repository):
            self.repository = repository
        else:
            self.repository = Repository(repository)
        self.ref = ref
        self.head = self.repository.resolve(ref)
        self.since = since
        #: Oldest first, without their files.
        self.commits: Sequence[Commit] = self._read(since)
        self._at = {commit.sha: index for index, commit in enumerate(self.commits)}
        self._files: dict[str, tuple[str, ...]] = {}

    def _read(self, since: str | None) -> tuple[Commit, ...]:
        if since is None:
            return self._log(self.head)
        later = self._log(self.head, f"^{since}")
        if not later:
            return self._log("-1", self.head)
        if later[0].parent is None:  # `since` is of another history
            return later
        return (*self._log("-1", later[0].parent), *later)

    def _log(self, *words: str) -> tuple[Commit, ...]:
        fields = self.repository.text(*_LINE, *words, "--").split("\0")
        return tuple(
            Commit(sha, parents.partition(" ")[0] or None, date, subject)
            for sha, parents, date, subject in zip(
                *(fields[first:-1:4] for first in range(4)), strict=True
            )
        )

    def __len__(self) -> int:
        return len(self.commits)

    def place(self, name: str) -> CommitPosition:
        """Return the position of a commit, which is named by a sha (full or
        abbreviated), branch or tag.

        BadInput if the repository has none of that name (UnknownCommit), or it shares
        no history with the timeline.
        """
        if name in self._at:
            sha = name
        else:
            sha = self.repository.resolve(name)
        if sha in self._at:
            return CommitPosition(self._at[sha], sha)
        # The commits of the timeline that a commit contains are its oldest ones, so
        # that counting the others is enough.
        beyond = int(
            self.repository.ask(
                "rev-list", "--count", "--first-parent", self.head, f"^{sha}", "--"
            )
        )
        if beyond >= len(self):
            raise BadInput(
                f"{name} has no history in common with {self.ref}; "
                f"{self.repository.fetch_advice}"
            )
        return CommitPosition(len(self) - beyond - 1, sha, exact=False)

    def fork(self, name: str) -> Fork:
        """Return where the history of a commit leaves the timeline. A commit on the
        timeline has none of its own.

        BadInput if the repository has none of that name (UnknownCommit), or the
        first-parent histories share no commit.
        """
        position = self.place(name)
        if position.exact:
            return Fork(self, position.index, self, range(0))
        line = Timeline(self.repository, position.sha, self.since)
        last = next(
            (
                index
                for index in reversed(range(len(line)))
                if line.commits[index].sha in self._at
            ),
            None,
        )
        if last is None and self.since:  # it left before the first commit that was read
            return Timeline(self.repository, self.head).fork(name)
        if last is None:
            advice = self.repository.fetch_advice
            raise BadInput(
                f"{name} has no first-parent history in common with {self.ref}; "
                f"{advice}"
            )
        return Fork(
            self, self._at[line.commits[last].sha], line, range(last + 1, len(line))
        )

    def between(self, good: str, bad: str) -> range:
        """Return the positions of the commits between two: good excluded, bad included.

        A commit of a branch gets the position where its branch starts. BadInput when
        good is not older than bad; otherwise the errors of `place`.
        """
        old, new = self.place(good), self.place(bad)
        if old.index < new.index:
            return range(old.index + 1, new.index + 1)
        if old.index > new.index:
            raise BadInput(
                f"the good commit {good} ({self._brief(old)}) is newer than the bad "
                f"commit {bad} ({self._brief(new)}): exchange them, or search for the "
                "fix with --find fix"
            )
        if old.exact and new.exact:
            raise BadInput(f"{good} and {bad} are the same commit: {self._brief(old)}")
        raise BadInput(
            f"between {good} and {bad} there are only commits of a branch, which "
            f"starts at {self._brief(old)} of the first-parent history of {self.ref}"
        )

    def _brief(self, position: CommitPosition) -> str:
        commit = self.commits[position.index]
        return f"{commit.sha[:10]} of {commit.date[:10]}"

    def with_files(self, indices: Iterable[int]) -> tuple[Commit, ...]:
        """Return these commits with the files they changed against their first parent,
        with one call of git for all of them.
        """
        wanted = [self.commits[index] for index in indices]
        missing = [commit.sha for commit in wanted if commit.sha not in self._files]
        if missing:
            self._files |= {
                sha: tuple(paths)
                for sha, paths in self.repository.changes(missing, "--name-only")
            }
        return tuple(
            replace(commit, files=self._files.get(commit.sha, ())) for commit in wanted
        )

    @cached_property
    def tags(self) -> dict[str, str]:
        """The commits of all tags by name, on the timeline or not."""
        return read_tags(self.repository)

    def newest_at(self, when: str) -> int:
        """Return the index of the newest commit at or before a date (to its end, UTC)
        or time. BadInput: all are later.
        """
        index = newest_at((commit.date for commit in self.commits), _moment(when))
        if index < 0:
            raise BadInput(
                f"no commit is as old as {when}: the oldest is of "
                f"{self.commits[0].date[:10]}"
            )
        return index


def _moment(when: str) -> datetime:
    """Return the end of a day in UTC, or a time, which is UTC unless it has an offset.
    BadInput when it is not an ISO date.
    """
    with suppress(ValueError):
        return datetime.combine(date.fromisoformat(when), time.max, UTC)
    try:
        instant = datetime.fromisoformat(when)
    except ValueError as error:
        raise BadInput(
            f"{when!r} is not a date: write 2025-06-04 or 2025-06-04T12:00:00+00:00"
        ) from error
    if instant.tzinfo:
        return instant
    return instant.replace(tzinfo=UTC)


def newest_at(dates: Iterable[str], when: datetime) -> int:
    """Return the index of the newest commit at or before `when`, or -1 if all are
    later. dates: ISO, oldest commit first.

    A commit with a wrong date must not move the answer far, so that it is the index
    that the fewest dates contradict.
    """
    best, best_index, balance = 0, -1, 0
    for index, text in enumerate(dates):
        if datetime.fromisoformat(text) <= when:
            balance += -1
        else:
            balance += 1
        if balance <= best:
            best, best_index = balance, index
    return best_index
