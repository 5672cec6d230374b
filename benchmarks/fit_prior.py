"""Fit the weights of the prior over commits, and print how well each choice predicts culprits that it was not fitted to.

Run: `python benchmarks/fit_prior.py CASES COMMITS [--history GIT_DIR] [--write]`. CASES and COMMITS are those of
`culprit_search.py`. With `--history`, a clone of the same repository, its reverts are used as well: a reverted commit is a
culprit, the commits around it are its range; culprits of CASES are left out. Figures are mean bits (-log2 of the culprit's
prior probability): one bit less is one probe less.

People who had seen CASES chose the features and their start weights. So few cases cannot improve on the start, hence the large
default strength.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from culprit_cases import Known, cross_validated, fitted, read_cases, start_weights

from triage.bisect import prior
from triage.bisect.prior import Clues, feature_matrix, features, suspicion
from triage.bisect.project_tables import project_table
from triage.model.revision import ChangedFile, Commit

REACH = 300  # a revert that comes more commits later undoes something else
LOG = ("--first-parent", "-m", "--reverse", "--no-renames", "--numstat", "--format=%x01%H%x02%P%x02%cI%x02%s%x02%b%x03")
BEFORE = (30, 100)  # commits of a range before its culprit


def history_of(git_dir: Path) -> Iterator[tuple[Commit, str]]:
    """Yield the commits of the first-parent line with their messages, oldest first."""
    output = subprocess.run(
        ["git", f"--git-dir={git_dir}", "log", *LOG],
        check=True,
        capture_output=True,
    ).stdout.decode("utf-8", "replace")
    for record in output.split("\x01")[1:]:
        head, _, changes = record.partition("\x03")
        sha, parents, date, subject, body = head.split("\x02")[:5]
        rows = [line.split("\t", 2) for line in changes.splitlines() if line.count("\t") >= 2]
        files = tuple(
            ChangedFile(path, *(0 if n == "-" else int(n) for n in (added, removed))) for added, removed, path in rows
        )
        yield Commit(sha, (parents.split() or [None])[0], date, subject, files), body


def reverts(git_dir: Path, left_out: frozenset[str]) -> list[Known]:
    """Return commits that were reverted soon, as culprits of ranges that end before the revert."""
    line = list(history_of(git_dir))
    at_sha = {commit.sha: index for index, (commit, _) in enumerate(line)}
    at_number = {int(n[-1]): i for i, (commit, _) in enumerate(line) if (n := re.findall(r"\(#(\d+)\)", commit.subject))}
    table, random = project_table("iree"), np.random.default_rng(0)
    found: dict[int, Known] = {}
    for index, (commit, body) in enumerate(line):
        if not re.match(r"\W*(\[\w+\] ?)*revert\b", commit.subject, re.IGNORECASE):
            continue
        named = re.search(r"reverts commit ([0-9a-f]{40})", body)
        number = re.search(r"everts \S*#(\d+)", body) or re.search(r"#(\d+)\)\"", commit.subject)
        culprit = at_sha.get(named[1]) if named else at_number.get(int(number[1])) if number else None
        if culprit is None or not 0 < index - culprit <= REACH or culprit in found or line[culprit][0].sha in left_out:
            continue
        if not {table.meaning(file.path).kind for file in line[culprit][0].files} & {"compiler", "dependency"}:
            continue
        first = max(0, culprit - int(random.integers(*BEFORE)))
        span = [one for one, _ in line[first:index]]
        found[culprit] = Known(commit.sha, commit.sha, "revert", feature_matrix(tuple(span), Clues(), "iree"), culprit - first)
    return list(found.values())


def bits(known: Sequence[Known], weights: np.ndarray | dict[str, np.ndarray]) -> float:
    own = [weights[one.name] if isinstance(weights, dict) else weights for one in known]
    return float(np.mean([-np.log2(suspicion(one.matrix, w)[one.culprit]) for one, w in zip(known, own, strict=True)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=Path)
    parser.add_argument("commits", type=Path)
    parser.add_argument("--history", type=Path, help="git directory of a clone")
    parser.add_argument("--strength", type=float, default=80.0, help="of the weights that --write writes")
    parser.add_argument("--write", action="store_true", help="into prior_weights.yaml")
    options = parser.parse_args()
    known = read_cases(options.cases, options.commits)
    culprits = frozenset(json.loads(line)["culprit"] for line in options.cases.read_text(encoding="utf-8").splitlines())
    also = reverts(options.history, culprits) if options.history else []
    print(f"{len(known)} cases, {len(also)} reverts; mean bits of the culprits")
    print(f"  no prior           {np.mean([np.log2(len(one.matrix)) for one in known]):.3f}")
    print(f"  set by hand        {bits(known, start_weights()):.3f}")
    if also:
        # A check: of the features, only `waited` was chosen with reverts in view. They have no diagnostics.
        flat = np.mean([np.log2(len(one.matrix)) for one in also])
        print(f"  on the reverts     {bits(also, start_weights()):.3f} of {flat:.3f}")
    for strength in (5.0, 10.0, 20.0, 40.0, 80.0, 160.0):
        line = f"  strength {strength:5.0f}     cases alone {bits(known, cross_validated(known, strength)):.3f}"
        if also:
            line += f", reverts alone {bits(known, fitted(also, strength)):.3f}"
            line += f", both {bits(known, cross_validated(known, strength, also)):.3f}"
        print(line)
    weights = fitted([*known, *also], options.strength)
    if options.write:
        path = Path(prior.__file__).with_name("prior_weights.yaml")
        text = path.read_text(encoding="utf-8")
        for feature, weight in zip(features(), weights, strict=True):
            if feature.place:  # these cases have no IR; known_changes.py fits it
                continue
            entry = rf"(name: {feature.name}\b(?:(?!name:).)*?weight: )-?[\d.]+"
            text, count = re.subn(entry, rf"\g<1>{weight:.2f}", text, flags=re.DOTALL)
            assert count == 1, feature.name
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
