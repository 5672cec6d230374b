"""The commits that a release branch has beside the main line, and the commits of the main line that they are picks of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from triage.git_history.refs import pull_request, title
from triage.git_history.repository import (
    LINE,
    MESSAGES,
    GitRefused,
    Repository,
    UnknownCommit,
    read_line,
)
from triage.git_history.timeline import Fork, Timeline, newest_at
from triage.model.errors import BadInput
from triage.model.revision import Commit

_MAIN_LINES = tuple(f"refs/{place}/{name}" for place in ("heads", "remotes/*") for name in ("main", "master", "HEAD"))
_SHORT = 10  # digits of a sha in texts
_LATER = timedelta(days=60)  # a commit may reach a release branch before it reaches the main line
_PICKED = re.compile(r"^\(cherry[ -]picked from commit ([0-9a-f]{7,64})\)", re.MULTILINE | re.IGNORECASE)
_NAMES_ANOTHER = re.compile(r"cherry[- ]?pick|backport", re.IGNORECASE)
_PULL = re.compile(r"(?:#|/pull/)(\d+)\b")


class MatchedBy(StrEnum):
    """How a cherry-pick was recognised. The words are those of reports."""

    LINE = "its message names the commit"
    SUBJECT = "same subject and author date"
    PULL_REQUEST = "its message names the pull request"
    MERGE = "merged to the main line"


@dataclass(frozen=True, slots=True)
class BranchCommit:
    """A commit of a branch. originals: the commits of the main line that it picks, or the one that merged it there;
    matched_by: None for a commit of the branch only.
    """

    commit: Commit
    originals: tuple[Commit, ...] = ()
    matched_by: MatchedBy | None = None

    @property
    def origin(self) -> str:
        """What it is a cherry-pick of, and how that is known."""
        return origin_text([original.sha[:_SHORT] for original in self.originals], self.matched_by)


def origin_text(originals: Sequence[str], matched_by: MatchedBy | None) -> str:
    """What a commit of a branch is a cherry-pick of, and how that is known."""
    if not originals:
        return "not on the main line"
    if matched_by is MatchedBy.MERGE:
        return f"{matched_by} by {', '.join(originals)}"
    return f"a cherry-pick of {', '.join(originals)} ({matched_by})"


@dataclass(frozen=True, slots=True)
class Branch:
    """What the history of a release has beside the main line. name: of the release; start: the last common commit;
    commits: oldest first.
    """

    name: str
    start: Commit
    commits: tuple[BranchCommit, ...]

    def find(self, sha: str) -> BranchCommit | None:
        """The commit of the branch with this sha."""
        return next((own for own in self.commits if own.commit.sha == sha), None)

    def pick_of(self, sha: str) -> BranchCommit | None:
        """The commit of the branch that is a cherry-pick of this one, or that this one merged."""
        return next((own for own in self.commits if any(original.sha == sha for original in own.originals)), None)


def place_of(sha: str, branches: Iterable[Branch]) -> str | None:
    """How a commit stands to some branches: it is a cherry-pick on one, exists on one only, or was picked to one."""
    for branch in branches:
        if own := branch.find(sha):
            return f"on the branch of {branch.name}, {own.origin}"
        if pick := branch.pick_of(sha):
            if pick.matched_by is MatchedBy.MERGE:
                return f"merges commits of the branch of {branch.name}"
            return f"cherry-picked to the branch of {branch.name} as {pick.commit.sha[:_SHORT]} ({pick.matched_by})"
    return None


def same_change(sha: str, branches: Iterable[Branch]) -> frozenset[str]:
    """A commit with those that it picks, or that merged it."""
    known = (own for branch in branches if (own := branch.find(sha)))
    return frozenset([sha, *(original.sha for own in known for original in own.originals)])


def read_branches(timeline: Timeline, ends: Iterable[tuple[str, str]]) -> tuple[Branch, ...]:
    """The branches that releases lie on, by their names and commits; those on the main line have none."""
    refs = main_refs(timeline.repository) or ["HEAD"]
    lines = [Timeline(timeline.repository, ref) for ref in refs]
    read = (_read_branch(lines, name, sha) for name, sha in ends)
    return tuple(branch for branch in read if branch)


def main_refs(repository: Repository) -> list[str]:
    """The names of the main line that a clone has, without those of one commit. Some may be old copies of it."""
    listed = repository.ask("for-each-ref", "--format=%(objectname) %(refname:lstrip=1)", *_MAIN_LINES).decode().split()
    return list(dict(zip(listed[::2], listed[1::2], strict=True)).values())


def _read_branch(lines: Sequence[Timeline], name: str, sha: str) -> Branch | None:
    """The branch that a commit is on; None where it is on a main line, or shares no history with one."""
    forks: list[Fork] = []
    for line in lines:
        with suppress(BadInput):
            forks.append(line.fork(sha))
    fork = min(forks, key=lambda fork: len(fork.own), default=None)
    if fork is None or not fork.own:
        return None
    own, main = [fork.line.commits[index] for index in fork.own], fork.base
    until = datetime.fromisoformat(own[-1].date) + _LATER
    last = newest_at((commit.date for commit in main.commits), until)
    picks = _Originals(main.repository, main, main.commits[fork.index + 1 : last + 1])
    return Branch(name, main.commits[fork.index], tuple(picks.match(own)))


@dataclass(frozen=True, slots=True)
class _Message:
    """`date`: of the author; `text`: subject and body."""

    date: str
    text: str


@dataclass(frozen=True, slots=True)
class _Originals:
    """Finds the commits that others are picks of. main: the main line; later: its commits after the branch left it."""

    repository: Repository
    main: Timeline
    later: Sequence[Commit]

    def match(self, own: Sequence[Commit]) -> Iterator[BranchCommit]:
        messages = _messages(self.repository, [commit.sha for commit in own])
        named = {sha: self._named(message.text) for sha, message in messages.items()}
        subjects: dict[str, list[Commit]] = {}
        for commit in self.later:
            subjects.setdefault(title(commit.subject), []).append(commit)
        alike = [other.sha for commit in own for other in subjects.get(title(commit.subject), ())]
        dates = {sha: message.date for sha, message in _messages(self.repository, alike).items()}
        numbers = {number: commit for commit in self.later if (number := pull_request(commit.subject))}
        merges = self._merges(own)
        for commit in own:
            message = messages.get(commit.sha, _Message("", commit.subject))
            same = [other for other in subjects.get(title(commit.subject), ()) if dates.get(other.sha) == message.date]
            pulls = _pulls(message.text, pull_request(commit.subject))
            ways: Mapping[MatchedBy, Sequence[Commit]] = {
                MatchedBy.MERGE: merges.get(commit.sha, ()),
                MatchedBy.LINE: named.get(commit.sha, ()),
                MatchedBy.SUBJECT: same,
                MatchedBy.PULL_REQUEST: [numbers[number] for number in pulls if number in numbers],
            }
            known = (BranchCommit(commit, tuple(originals), way) for way, originals in ways.items() if originals)
            yield next(known, BranchCommit(commit))

    def _merges(self, own: Sequence[Commit]) -> dict[str, Sequence[Commit]]:
        """The first commit of the main line that contains each commit of a branch which was merged back."""
        main, merges = self.main.commits, dict[str, Sequence[Commit]]()
        missing = self._listed("--first-parent", own[-1].sha, f"^{self.main.head}")
        left = [commit.sha for commit in own if commit.sha not in missing]
        while left:
            later = self._listed("--ancestry-path", self.main.head, f"^{left[-1]}")
            index = next(index for index, commit in enumerate(main) if commit.sha in later)
            merged = self._listed("--first-parent", left[-1], *(f"^{commit.sha}" for commit in main[index - 1 : index]))
            merges |= {sha: [main[index]] for sha in left if sha in merged}
            left = [sha for sha in left if sha not in merged]
        return merges

    def _listed(self, *words: str) -> set[str]:
        """The commits that `git rev-list` prints."""
        return set(self.repository.ask("rev-list", *words, "--").decode().split())

    def _named(self, text: str) -> tuple[Commit, ...]:
        """The original that a message names: of a pick of a pick the one on the main line; empty without such a line."""
        shas = []
        for name in _PICKED.findall(text):
            try:
                shas.append(self.repository.resolve(name))
            except UnknownCommit:  # of another clone, or removed
                shas.append(name)
        for sha in shas:
            with suppress(BadInput):
                if (position := self.main.place(sha)).exact:
                    return (self.main.commits[position.index],)
        return tuple(_commit(self.repository, sha) for sha in shas[:1])


def _pulls(text: str, own: int | None) -> list[int]:
    """The pull requests that a message names as those that it picks, without its own one."""
    if not _NAMES_ANOTHER.search(text):
        return []
    return [number for number in dict.fromkeys(map(int, _PULL.findall(text))) if number != own]


def _commit(repository: Repository, sha: str) -> Commit:
    """Any commit; one that the clone lacks has only a sha."""
    try:
        return read_line(repository.ask(*LINE, "--no-walk", sha, "--").decode("utf-8", "replace"))[0]
    except GitRefused:
        return Commit(sha, None, "", "")


def _messages(repository: Repository, shas: Sequence[str]) -> dict[str, _Message]:
    if not shas:
        return {}
    fields = repository.ask(*MESSAGES, lines=shas).decode("utf-8", "replace").split("\0")
    return {
        sha.strip(): _Message(date, text) for sha, date, text in zip(fields[:-1:3], fields[1::3], fields[2::3], strict=False)
    }
