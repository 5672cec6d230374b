"""Read the commits that only a release branch has, and find the commits of the main
line that they are cherry-picks of.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from triage.git_history.repository import GitRefused, Repository, pull_request, title
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
_LOG_OF_MESSAGES = shlex.split(
    "log -z --no-walk=unsorted --stdin --encoding=UTF-8 --format=%H%x00%aI%x00%B"
)
_PULL = re.compile(r"(?:#|/pull/)(\d+)\b")


class MatchedBy(StrEnum):
    """How a cherry-pick was recognised."""

    LINE = "line"
    """A line of its message names the commit."""
    SUBJECT = "subject"
    """It has the same subject and author date."""
    PULL_REQUEST = "pull_request"
    """Its message names the pull request."""


_HOW = {
    MatchedBy.LINE: "its message names the commit",
    MatchedBy.SUBJECT: "same subject and author date",
    MatchedBy.PULL_REQUEST: "its message names the pull request",
}


@dataclass(frozen=True)
class BranchCommit(Revision):
    """A commit of a branch."""

    picked_from: tuple[Revision, ...] = ()
    """The commits of the main line that it is a cherry-pick of."""
    matched_by: MatchedBy | None = None

    @property
    def origin(self) -> str:
        """A clause that says what it is a cherry-pick of, and how that is known."""
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
    """The name of the release."""
    start: Revision
    """The last commit that is also on the main line."""
    commits: tuple[BranchCommit, ...]
    """Oldest first."""


def place_of(sha: str, branches: Iterable[Branch]) -> str | None:
    """Say that a commit is on one of the branches, or was cherry-picked to one."""
    for branch in branches:
        for own in branch.commits:
            if own.commit == sha:
                return f"on the branch of {branch.name}, {own.origin}"
            originals = {original.commit for original in own.picked_from}
            if own.matched_by and sha in originals:
                return (
                    f"cherry-picked to the branch of {branch.name} as {own.name} "
                    f"({_HOW[own.matched_by]})"
                )
    return None


def same_change(sha: str, branches: Iterable[Branch]) -> frozenset[str]:
    """Return the shas of a commit and of the commits that it is a cherry-pick of."""
    originals = {
        original.commit or ""
        for branch in branches
        for own in branch.commits
        if own.commit == sha
        for original in own.picked_from
    }
    return frozenset({sha} | originals)


def read_branches(
    timeline: Timeline, ends: Iterable[tuple[str, str]]
) -> tuple[Branch, ...]:
    """Return the branches of releases, given the name and the commit of each. A release
    on the main line has no branch.
    """
    lines = [
        Timeline(timeline.repository, ref, timeline.since)
        for ref in main_refs(timeline.repository) or ["HEAD"]
    ]
    read = (_read_branch(lines, name, sha) for name, sha in ends)
    return tuple(branch for branch in read if branch)


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
        found = repository.text("merge-base", "--octopus", *tips, *shas).strip()
    except GitRefused:
        return None
    return found or None


def _read_branch(lines: Sequence[Timeline], name: str, sha: str) -> Branch | None:
    """Return the branch of a release at a commit. Returns None if the commit is on one
    of the main lines, or shares no history with them.
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
    """Return the commits of a branch with their originals. `later` are the commits of
    the main line that may be originals.
    """
    by_title: dict[str, list[Commit]] = defaultdict(list)
    by_pull_request: dict[int | None, Commit] = {}
    for commit in later:
        by_title[title(commit.subject)].append(commit)
        by_pull_request[pull_request(commit.subject)] = commit
    others = [other for commit in own for other in by_title[title(commit.subject)]]
    messages = _messages(main.repository, (*own, *others))
    found = []
    for commit in own:
        date, text = messages[commit.sha]
        named = _named_commits(main, text)
        same = [
            other
            for other in by_title[title(commit.subject)]
            if messages[other.sha][0] == date
        ]
        numbers: dict[int, None] = {}
        if _NAMES_ANOTHER.search(text):
            numbers = dict.fromkeys(map(int, _PULL.findall(text)))
        pulled = [
            by_pull_request[number]
            for number in numbers
            if number in by_pull_request and number != pull_request(commit.subject)
        ]
        matched_by, originals = None, list[Commit]()
        for way, commits in zip(MatchedBy, (named, same, pulled), strict=True):
            if commits:
                matched_by, originals = way, commits
                break
        picked = tuple(original.revision for original in originals)
        found.append(
            BranchCommit(
                **asdict(commit.revision), picked_from=picked, matched_by=matched_by
            )
        )
    return tuple(found)


def _messages(
    repository: Repository, commits: Iterable[Commit]
) -> dict[str, tuple[str, str]]:
    """Return author date and message of commits, by sha."""
    shas = [commit.sha for commit in commits]
    fields = repository.text(*_LOG_OF_MESSAGES, lines=shas).split("\0")
    rows = zip(fields[:-1:3], fields[1::3], fields[2::3], strict=False)
    return {sha.strip(): (date, message) for sha, date, message in rows}


def _named_commits(main: Timeline, text: str) -> list[Commit]:
    """Return the first commit of the main line that a message names as the original, as
    a list of at most one.
    """
    for name in _PICKED.findall(text):
        with suppress(BadInput):  # the clone may lack it
            position = main.place(name)
            if position.exact:
                return [main.commits[position.index]]
    return []
