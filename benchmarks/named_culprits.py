"""Rank the culprits that a clone of IREE names itself: those of named_culprits.txt.

Run: `python -m benchmarks.named_culprits CLONE`, with a clone of iree-org/iree.

The diagnostics are what the message of a revert or a fix says about the failure,
without what names the culprit. A third have fewer than 25 characters, and most are
shorter than what a compiler prints. The ranks are among the commits of a release range,
without the culprit's own revert. Nothing is compiled.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, median

from triage.bisect.prior import suspects_of
from triage.git_history.repository import Repository
from triage.git_history.timeline import first_parent_log
from triage.model.outcome import Failure
from triage.model.revision import Commit
from triage.toolchains.project import find_project

CASES = Path(__file__).with_suffix(".txt")
HALVES = {"choose": "for choosing features", "aside": "kept aside"}
FAILURE = re.compile(
    r"\b(?:fail\w*|errors?|crash\w*|assert\w*|hang\w*|segfault\w*|regress\w*|wrong\w*|incorrect\w*|miscompil\w*|invalid\w*|nan"
    r"|numerics?|br[eo]k\w*|exceed\w*|slow\w*|timeout|leak\w*|race|illegal|not (?:legal|support\w*|converg\w*)|unable|cannot"
    r"|bugs?|issues?)\b",
    re.IGNORECASE,
)
REVERT = re.compile(r"(\[\w+\] *)*revert", re.IGNORECASE)
REVERTS = re.compile(
    r"^.*\breverts?\b[^\n]*(?:#\d+|\b[0-9a-f]{8,}).*$", re.IGNORECASE | re.MULTILINE
)
NOISE = re.compile(
    r"(?:Signed-off-by|Co-authored-by):.*|https?://\S+|\(?(?:\w+/\w+)?#\d+\)?|\b[0-9a-f]{8,40}\b|^.*\bci-extra.*",
    re.IGNORECASE | re.MULTILINE,
)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n(?=[-*])")


def diagnostics(clone: Repository, fix: str, culprit: str) -> str:
    """Return what a message says about the failure, without what names the culprit."""
    subject, body = clone.text("log", "-1", "--format=%s%x00%b", fix).split("\0")
    blamed = clone.text("log", "-1", "--format=%s", culprit).strip()
    text = REVERTS.sub("", body).replace(blamed, "")
    text = text.replace(re.sub(r" \(#\d+\)$", "", blamed), "")
    text = NOISE.sub("", text)
    if not REVERT.match(subject):  # a fix also says how it works
        sentences = SENTENCE_END.split(text)
        text = " ".join(sentence for sentence in sentences if FAILURE.search(sentence))
    return " ".join(text.split()).strip(" .,-:")


def rank_of(culprit: str, text: str, commits: Sequence[Commit]) -> float:
    """Return 1 for the likeliest commit of a failure; among equals the middle."""
    failure = Failure("named", "named", "named", text)
    suspects = suspects_of(commits, [failure], find_project("iree"))
    chances = [suspect.probability for suspect in suspects]
    [blamed] = (i for i, one in enumerate(commits) if one.sha.startswith(culprit))
    ratios = [chance / chances[blamed] - 1 for chance in chances]
    likelier = sum(ratio > 1e-9 for ratio in ratios)
    equal = sum(abs(ratio) <= 1e-9 for ratio in ratios)
    return 1 + likelier + (equal - 1) / 2


def main() -> None:
    """Print the rows of both halves."""
    clone = Repository(Path(sys.argv[1]))
    ranks, sizes = defaultdict(list), defaultdict(list)
    for line in CASES.read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        half, culprit, fix, good, bad, *others = line.split()
        left_out = (fix, *others)
        commits = [
            commit
            for commit in first_parent_log(clone, f"{good}..{bad}")
            if not commit.sha.startswith(left_out)
        ]
        files = clone.changed_files([commit.sha for commit in commits])
        commits = [replace(commit, files=files[commit.sha]) for commit in commits]
        text = diagnostics(clone, fix, culprit)
        ranks[half].append(rank_of(culprit, text, commits))
        sizes[half].append(len(commits))
    for half, title in HALVES.items():
        tops = ", ".join(
            f"top {top} {mean(rank <= top for rank in ranks[half]):.0%}"
            for top in (1, 5, 20)
        )
        print(
            f"{title}: {len(ranks[half])} culprits, median rank {median(ranks[half]):.0f} of "
            f"{median(sizes[half]):.0f} commits of a release range; {tops}"
        )


if __name__ == "__main__":
    main()
