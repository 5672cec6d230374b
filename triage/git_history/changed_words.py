"""The words in the lines that commits change."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from triage.git_history.repository import GitRefused, Repository
from triage.model.revision import Commit

_MOST_COMMITS = 800  # about four seconds of git log
_MOST_LINES = 5000  # of a commit; more are generated files
_LONGEST_LINE = 2000  # characters
_LOG = (
    "-c",
    "core.bigFileThreshold=512k",  # larger files count as binary
    "log",
    "--stdin",
    "--no-walk=unsorted",
    "--first-parent",
    "-m",
    "--patch",
    "--unified=0",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--format=%x01%H",
)
# an identifier, or an option such as iree-opt-data-tiling
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{4,}")
_OPTION = re.compile(r"[a-z]\w*(?:-\w+)+")


def words_in(line: str) -> set[str]:
    """Return the identifiers of at least five characters and the names of options.

    >>> sorted(words_in('cl::opt<bool> x("iree-opt-data-tiling", kDefault);'))
    ['iree-opt-data-tiling', 'kDefault', 'tiling']
    """
    found = (*_IDENTIFIER.findall(line), *_OPTION.findall(line))
    return {sys.intern(word) for word in found}


def with_words(repository: Repository, commits: Sequence[Commit]) -> tuple[Commit, ...]:
    """Return the commits with the words in the lines that they change.

    They stay as they are where that would be slow, or where the clone lacks the
    contents of files.
    """
    if len(commits) > _MOST_COMMITS or repository.is_partial:
        return tuple(commits)
    words = _changed_words(repository, tuple(commit.sha for commit in commits))
    return tuple(
        replace(commit, words=words.get(commit.sha, commit.words)) for commit in commits
    )


@lru_cache(maxsize=4)  # a bisect weighs the same range several times
def _changed_words(
    repository: Repository, shas: tuple[str, ...]
) -> dict[str, frozenset[str]]:
    if not shas:
        return {}
    try:
        printed = repository.text(*_LOG, lines=shas)
    except GitRefused:
        return {}
    found = {}
    for entry in printed.split("\x01")[1:]:
        sha, _, patch = entry.partition("\n")
        words: set[str] = set()
        for line in patch.split("\n", _MOST_LINES)[:_MOST_LINES]:
            if line.startswith(("+", "-")) and not line.startswith(("+++", "---")):
                words |= words_in(line[1:_LONGEST_LINE])
        found[sha] = frozenset(words)
    return found
