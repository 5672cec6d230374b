"""The commits that a release branch has next to the main line, and the commits of the
main line that they are picks of.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from triage.git_history.refs import pull_request, title
from triage.git_history.repository import GitRefused, Repository
from triage.git_history.timeline import Fork, Timeline, newest_at
from triage.model.errors import BadInput
from triage.model.revision import Commit, Revision

_MAIN_LINES = tuple(
    f"refs/{place}/{name}"
    for place in ("heads", "remotes/*")
    for name in ("main", "master", "HEAD")
)
# a commit may reach a release branch before it reaches the main line
_LATER = timedelta(days=60)
_PICKED = re.compile(
    r"^\(cherry[ -]picked from commit ([0-9a-f]{7,64})\)", re.MULTILINE | re.IGNORECASE
)
_NAMES_ANOTHER = re.compile(r"cherry[- ]?pick|backport", re.IGNORECASE)
_MESSAGES = (
    "log",
    "-z",
    "--no-walk=unsorted",
    "--stdin",
    "--encoding=UTF-8",
    "--format=%H%x00%aI%x00%B",
)
_PULL = re.compile(r"(?:#|/pull/)(\d+)\b")


class MatchedBy(StrEnum):
    """How a cherry-pick was recognised."""

    LINE = "line"
    SUBJECT = "subject"
    PULL_REQUEST = "pull_request"


_HOW = {
    MatchedBy.LINE: "its message names the commit",
    MatchedBy.SUBJECT: "same subject and author date",
    MatchedBy.PULL_REQUEST: "its message names the pull request",
}


@dataclass(frozen=True)
class BranchCommit(Revision):
    """A commit of a branch."""

    picked_from: tuple[Revision, ...] = ()
    """The commits of the main line that it picks."""
    matched_by: MatchedBy | None = None

    @property
    def origin(self) -> str:
        """What it is a cherry-pick of, and how that is known."""
        if self.matched_by is None:
            return "not on the main line"
        return (
            f"a cherry-pick of {', '.join(one.name for one in self.picked_from)} "
            f"({_HOW[self.matched_by]})"
        )


@dataclass(frozen=True)
class Branch:
    """The part of a release's history that is not on the main line."""

    name: str
    """Of the release."""
    start: Revision
    """The last common commit."""
    commits: tuple[BranchCommit, ...]
    """Oldest first."""


def place_of(sha: str, branches: Iterable[Branch]) -> str | None:
    """Return how a commit stands to some branches: it is a cherry-pick on one, exists
    on one only, or was picked to one.
    """
    for branch in branches:
        for own in branch.commits:
            if own.commit == sha:
                return f"on the branch of {branch.name}, {own.origin}"
            if own.matched_by and any(
                original.commit == sha for original in own.picked_from
            ):
                return (
                    f"cherry-picked to the branch of {branch.name} as {own.name} "
                    f"({_HOW[own.matched_by]})"
                )
    return None


def same_change(sha: str, branches: Iterable[Branch]) -> frozenset[str]:
    """Return a commit with those that it picks."""
    picked = (
        own.picked_from
        for branch in branches
        for own in branch.commits
        if own.commit == sha
    )
    return frozenset(
        [
            sha,
            *(original.commit or "" for originals in picked for original in originals),
        ]
    )


def read_branches(
    timeline: Timeline, ends: Iterable[tuple[str, str]]
) -> tuple[Branch, ...]:
    """Return the branches that releases lie on, by their names and commits. Those on
    the main line have none.
    """
    lines = [
        Timeline(timeline.repository, ref, timeline.since)
        for ref in main_refs(timeline.repository) or ["HEAD"]
    ]
    read = (_read_branch(lines, name, sha) for name, sha in ends)
    return tuple(branch for branch in read if branch)


def main_refs(repository: Repository) -> list[str]:
    """Return the names of the main line that a clone has, one for each commit. Some may
    be old copies of it.
    """
    listed = repository.text(
        "for-each-ref", "--format=%(objectname) %(refname:lstrip=1)", *_MAIN_LINES
    ).split()
    return list(dict(zip(listed[::2], listed[1::2], strict=True)).values())


def common_commit(repository: Repository, shas: Iterable[str]) -> str | None:
    """Return the newest commit that some commits, the checked out one and the main
    lines contain; None where there is none, as in a clone of unrelated histories.
    """
    tips = []
    for ref in ("HEAD", *main_refs(repository)):
        with suppress(BadInput):  # no commit is checked out
            tips.append(repository.resolve(ref))
    try:
        found = repository.text("merge-base", "--octopus", *tips, *shas).strip()
    except GitRefused:
        return None
    return found or None


def _read_branch(lines: Sequence[Timeline], name: str, sha: str) -> Branch | None:
    """Return the branch that a commit is on, unless it is on a main line or shares no
    history with one.
    """
    forks: list[Fork] = []
    for line in lines:
        with suppress(BadInput):
            forks.append(line.fork(sha))
    fork = min(forks, key=lambda fork: len(fork.own), default=None)
    if fork is None or not fork.own:
        return None
    own, main = [fork.line.commits[index] for index in fork.own], fork.base
    last = newest_at(
        (commit.date for commit in main.commits),
        datetime.fromisoformat(own[-1].date) + _LATER,
    )
    return Branch(
        name,
        main.commits[fork.index].revision,
        _with_originals(own, main, main.commits[fork.index + 1 : last + 1]),
    )


def _with_originals(
    own: Sequence[Commit], main: Timeline, later: Sequence[Commit]
) -> tuple[BranchCommit, ...]:
    alike: dict[str, list[Commit]] = defaultdict(list)
    for commit in later:
        alike[title(commit.subject)].append(commit)
    numbers = {
        number: commit for commit in later if (number := pull_request(commit.subject))
    }
    others = [other for commit in own for other in alike[title(commit.subject)]]
    fields = main.repository.text(
        *_MESSAGES, lines=[commit.sha for commit in (*own, *others)]
    ).split("\0")
    messages = {
        sha.strip(): message
        for sha, *message in zip(
            fields[:-1:3], fields[1::3], fields[2::3], strict=False
        )
    }
    found = []
    for commit in own:
        date, text = messages[commit.sha]
        same = [
            other
            for other in alike[title(commit.subject)]
            if messages[other.sha][0] == date
        ]
        if _NAMES_ANOTHER.search(text):
            pulls = dict.fromkeys(map(int, _PULL.findall(text)))
        else:
            pulls = {}
        pulled = [
            numbers[number]
            for number in pulls
            if number in numbers and number != pull_request(commit.subject)
        ]
        ways = zip(MatchedBy, (_named(main, text), same, pulled), strict=True)
        way, originals = next(((way, each) for way, each in ways if each), (None, []))
        picked = tuple(original.revision for original in originals)
        found.append(
            BranchCommit(**asdict(commit.revision), picked_from=picked, matched_by=way)
        )
    return tuple(found)


def _named(main: Timeline, text: str) -> list[Commit]:
    """Return the commit of the main line that a message names, directly or as the
    original of another pick.
    """
    for name in _PICKED.findall(text):
        with suppress(BadInput):  # the clone may lack it
            if (position := main.place(name)).exact:
                return [main.commits[position.index]]
    return []
