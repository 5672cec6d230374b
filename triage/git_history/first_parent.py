"""A timeline: the first-parent line of a repository, and what lies where on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from functools import cached_property
from pathlib import Path

from triage.git_history.line_cache import line_of
from triage.git_history.refs import Links, PinMove, Tag, links_of, matching, read_moves, read_pin, read_tags
from triage.git_history.repository import NAMES, SIZES, GitRefused, Repository, UnknownCommit, read_names, read_sizes
from triage.model.errors import BadInput
from triage.model.revision import ChangedFile, Commit


class Timeline:
    """The line that ends in one commit. Only reads the repository; what it learns holds as long as the object lives."""

    def __init__(self, repository: Path | Repository, cache: Path | None = None, ref: str = "HEAD") -> None:
        """`repository`: a folder in a work tree, or a git directory. `cache`: the folder that keeps lines between runs.
        `ref`: the commit that ends the line; of a range its bad end serves, whatever is checked out.

        BadInput: no repository, an empty one, no such `ref` (UnknownCommit). EnvironmentFailure: git does not run.
        """
        self.repository = repository if isinstance(repository, Repository) else Repository(repository)
        self.ref = ref
        self.head = self.repository.resolve(ref)
        #: Oldest first, without their files.
        self.commits: Sequence[Commit] = tuple(line_of(self.repository, cache, self.head))
        self._files: dict[str, tuple[ChangedFile, ...]] = {}

    def __len__(self) -> int:
        return len(self.commits)

    @cached_property
    def _at(self) -> dict[str, int]:
        return {commit.sha: index for index, commit in enumerate(self.commits)}

    def index_of(self, name: str) -> int:
        """The index of a commit of the line, by sha (whole or not), branch or tag.

        UnknownCommit when the repository has none of that name, BadInput when it does not lie on the line.
        """
        placement = self.place(name)
        if not placement.exact:
            near = self.commits[placement.index]
            raise BadInput(
                f"{name} is no commit of the first-parent line of {self.ref}; the last one it contains is "
                f"{near.sha[:10]} {near.subject}"
            )
        return placement.index

    def place(self, name: str) -> CommitPosition:
        """Where a commit lies, or where its branch left the line. name: a sha (whole or not), branch or tag.

        UnknownCommit when the repository has none of that name, BadInput when it shares no history with the line.
        """
        if name in self._at:
            return CommitPosition(self._at[name], name)
        sha = self.repository.resolve(name)
        if sha in self._at:
            return CommitPosition(self._at[sha], sha)
        # The commits of the line that a commit contains are the line's beginning, so that counting the others is enough.
        beyond = int(self.repository.ask("rev-list", "--count", "--first-parent", self.head, f"^{sha}", "--"))
        if beyond >= len(self):
            advice = f" ({self.repository.fetch_advice})" if self.repository.is_shallow else ""
            raise BadInput(f"{name} has no history in common with {self.ref}{advice}")
        return CommitPosition(len(self) - beyond - 1, sha, exact=False)

    def between(self, good: str, bad: str) -> CommitRange:
        """The commits that may have changed something between two: good excluded, bad included.

        An end that comes from a branch is placed where the branch left the line, and its placement says so. BadInput
        when good is not older than bad; otherwise the errors of `place`.
        """
        span = CommitRange(self.place(good), self.place(bad))
        if span.indices:
            return span
        if span.good.index > span.bad.index:
            raise BadInput(
                f"the good commit {good} ({self._brief(span.good)}) is newer than the bad commit {bad} "
                f"({self._brief(span.bad)}): exchange them, or look for the fix instead of the regression"
            )
        if span.good.exact and span.bad.exact:
            raise BadInput(f"{good} and {bad} are the same commit: {self._brief(span.good)}")
        raise BadInput(
            f"between {good} and {bad} lie commits of a branch only: both have {self._brief(span.good)} as their last "
            f"commit of the first-parent line of {self.ref}"
        )

    def _brief(self, placement: CommitPosition) -> str:
        commit = self.commits[placement.index]
        return f"{commit.sha[:10]} of {commit.date[:10]}"

    def with_files(self, indices: Iterable[int]) -> tuple[Commit, ...]:
        """These commits with the files they changed against their first parent; one call of git for all of them.

        In a clone without file contents the sizes are 0: asking for them would fetch each file.
        """
        wanted = [self.commits[index] for index in indices]
        missing = [commit.sha for commit in wanted if commit.sha not in self._files]
        if missing:
            self._files |= dict.fromkeys(missing, ()) | self._changed(missing)
        return tuple(replace(commit, files=self._files[commit.sha]) for commit in wanted)

    def _changed(self, shas: Sequence[str]) -> dict[str, tuple[ChangedFile, ...]]:
        if not self.repository.is_partial:
            try:
                return read_sizes(self.repository.ask(*SIZES, lines=shas).decode("utf-8", "replace"))
            except GitRefused:  # a file's content is missing here; the names need none
                pass
        return read_names(self.repository.ask(*NAMES, lines=shas).decode("utf-8", "replace"))

    @cached_property
    def _tags(self) -> dict[str, Tag]:
        return read_tags(self.repository)

    def tags(self, pattern: str = "*") -> tuple[Tag, ...]:
        """The tags whose name fits a shell pattern such as `iree-*rc*`, whether they lie on the line or not."""
        return matching(self._tags, pattern)

    def tag(self, name: str) -> Tag | None:
        """The tag of exactly this name."""
        return self._tags.get(name)

    def newest_at(self, when: str | date) -> int:
        """The index of the newest commit at or before a date (to its end, UTC) or time. BadInput: all are later."""
        until = moment(when)
        index = newest_at((commit.date for commit in self.commits), until)
        if index < 0:
            raise BadInput(f"no commit is as old as {when}: the first is of {self.commits[0].date[:10]}")
        return index

    def pin(self, index: int, path: str) -> str | None:
        """The sha that a commit pins at `path`, a submodule or a file that holds one; None when there is nothing."""
        return read_pin(self.repository, self.commits[index].sha, path)

    def pin_moves(self, indices: Iterable[int], path: str) -> Mapping[int, PinMove]:
        """Which of these commits moved the pin at `path` (a submodule, or a file that holds a sha), from where to where."""
        moves = read_moves(self.repository, (self.commits[index].sha for index in indices), path)
        return {self._at[sha]: move for sha, move in moves.items()}

    @cached_property
    def links(self) -> Links | None:
        """The repository's pages on the web; None without a remote on the network."""
        return links_of(self.repository.remote)


__all__ = ["Timeline", "UnknownCommit"]


@dataclass(frozen=True, slots=True)
class CommitPosition:
    """`index` counts from the oldest commit, 0. `exact`: the commit `sha` itself stands there; otherwise it comes from
    a branch, and the index is that of the newest commit of the line that it contains (its merge base).
    """

    index: int
    sha: str
    exact: bool = True


@dataclass(frozen=True, slots=True)
class CommitRange:
    """The commits behind `good`, up to and with `bad`."""

    good: CommitPosition
    bad: CommitPosition

    @property
    def indices(self) -> range:
        """The places of the suspects, oldest first: good excluded, bad included."""
        return range(self.good.index + 1, self.bad.index + 1)

    def __len__(self) -> int:
        return len(self.indices)


def moment(when: str | date) -> datetime:
    """The last moment that is meant: a day ends at midnight UTC, a time without an offset is UTC. BadInput when the
    text is no ISO date.
    """
    if isinstance(when, str):
        try:
            return moment(date.fromisoformat(when))
        except ValueError:
            pass
        try:
            return moment(datetime.fromisoformat(when))
        except ValueError as error:
            raise BadInput(f"{when!r} is no date: write 2025-06-04 or 2025-06-04T12:00:00+00:00") from error
    if isinstance(when, datetime):
        return when if when.tzinfo else when.replace(tzinfo=UTC)
    return datetime.combine(when, time.max, UTC)


def newest_at(dates: Iterable[str], when: datetime) -> int:
    """The index of the newest commit at or before `when`, -1 when all are later. dates: ISO, oldest commit first.

    One committer with a wrong clock must not move the answer far: it is the place that the fewest dates contradict.
    """
    best, best_index, balance = 0, -1, 0
    for index, text in enumerate(dates):
        balance += -1 if datetime.fromisoformat(text) <= when else 1
        if balance <= best:
            best, best_index = balance, index
    return best_index
