"""Read the commits that only a release branch has, and find the commits of the main
line that they are cherry-picks of: the only one with the same subject, or that of the
pull request which their subject names.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from triage.git_history.repository import Repository, pull_request, title
from triage.git_history.timeline import first_parents

_MAIN_LINES = tuple(
    f"refs/{place}/{name}"
    for place in ("heads", "remotes/*")
    for name in ("main", "master", "HEAD")
)
_PULL = re.compile(r"(?:#|/pull/)(\d+)\b")
_NAMES_ANOTHER = re.compile(r"cherry[- ]?pick|backport", re.IGNORECASE)


@dataclass(frozen=True)
class Branch:
    """The part of a release's history that is not on the main line."""

    name: str
    """The name of the release."""
    originals: Mapping[str, str | None]
    """The commits, oldest first, each with the one of the main line that it is a
    cherry-pick of.
    """


def place_of(sha: str, branches: Iterable[Branch]) -> str | None:
    """Say that a commit is on one of the branches, or was cherry-picked to one."""
    for branch in branches:
        for own, original in branch.originals.items():
            if own == sha and original:
                return (
                    f"on the branch of {branch.name}, a cherry-pick of {original[:10]}"
                )
            if own == sha:
                return f"on the branch of {branch.name}, not on the main line"
            if original == sha:
                return f"cherry-picked to the branch of {branch.name} as {own[:10]}"
    return None


def same_change(sha: str, branches: Iterable[Branch]) -> frozenset[str]:
    """Return the shas of a commit and of the commits that it is a cherry-pick of."""
    originals = [branch.originals.get(sha) for branch in branches]
    return frozenset(filter(None, [sha, *originals]))


def read_branches(
    repository: Repository, ends: Iterable[tuple[str, str]]
) -> tuple[Branch, ...]:
    """Return the branches of releases, given the name and the commit of each. A release
    on the main line has no branch, nor has one that shares no history with it.
    """
    mains = main_refs(repository) or ["HEAD"]
    branches = []
    for release, sha in ends:
        own = first_parents(repository, sha, "--not", *mains)
        if not own or not own[0].parent:
            continue
        by_name: dict[str | int | None, list[str]] = defaultdict(list)
        for commit in first_parents(repository, *mains, f"^{own[0].parent}"):
            by_name[pull_request(commit.subject)].append(commit.sha)
            by_name[title(commit.subject)].append(commit.sha)
        originals: dict[str, str | None] = {}
        for commit in own:
            names: list[str | int] = [title(commit.subject)]
            if _NAMES_ANOTHER.search(commit.subject):
                names = [*map(int, _PULL.findall(commit.subject)), *names]
            shas = next((by_name[name] for name in names if name in by_name), [])
            originals[commit.sha] = None
            if len(shas) == 1:
                originals[commit.sha] = shas[0]
        branches.append(Branch(release, originals))
    return tuple(branches)


def main_refs(repository: Repository) -> list[str]:
    """Return the refs of the main line in a clone, one for each commit. Some may be old
    copies of it.
    """
    listed = repository.text(
        "for-each-ref", "--format=%(objectname) %(refname:lstrip=1)", *_MAIN_LINES
    ).split()
    return list(dict(zip(listed[::2], listed[1::2], strict=True)).values())
