"""Rank the culprits of issue texts through the code of `triage suspects`.

Run: `python -m benchmarks.culprit_texts CLONE`, with a clone of iree-org/iree. The texts
are in culprit_texts.yaml. Each one is written to a file and given to the command, with
nothing but the two revisions around the culprit. Nothing is compiled.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import yaml
from git import Repo

from benchmarks.common import TRIAGE, cost_of

TEXTS = Path(__file__).with_suffix(".yaml")
TOP = 20


def rank_of(text: str, clone: Path, good: str, bad: str, culprit: int) -> int:
    """Return the rank of a pull request among the changes between two revisions."""
    with TemporaryDirectory() as scratch:
        issue = Path(scratch, "issue.md")
        issue.write_text(text, "utf-8")
        words = ["--repo", str(clone), "--good", good, "--bad", bad]
        done = cost_of(
            [*TRIAGE, "suspects", str(issue), *words, "--format", "json"],
            env={**os.environ, "TRIAGE_HOME": scratch},
        )
    sha = Repo(clone).git.log("-1", "--format=%H", f"--grep=(#{culprit})$", bad)
    changes = json.loads(done.stdout)["suspects"]
    for rank, change in enumerate(changes, 1):
        # a revert that is the culprit is one change with what it reverts
        if sha in (change["commit"], *change["with_commits"]):
            return rank
    message = f"#{culprit} is not between {good} and {bad}"
    raise ValueError(message)


def main() -> None:
    """Print the rank of each culprit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clone", type=Path)
    options = parser.parse_args()
    ranks = []
    for case in yaml.safe_load(TEXTS.read_text("utf-8")):
        ends = case["good"], case["bad"]
        ranks.append(rank_of(case["text"], options.clone, *ends, case["culprit"]))
        print(f"issue {case['issue']}: rank {ranks[-1]}", flush=True)
    found = sum(rank <= TOP for rank in ranks)
    print(f"top {TOP}: {found} of {len(ranks)}; median rank {median(ranks):.0f}")


if __name__ == "__main__":
    main()
