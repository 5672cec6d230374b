"""Rank the culprits that a clone of IREE names itself.

Run: `python -m benchmarks.named_culprits CLONE [--without CASES]`.

A case is each merged revert of a commit that changes the compiler, and each fix whose
message says which commit introduced the fault. Left out are failures of the compiler's
own build, and the culprits of CASES, with a JSON object a line. The
diagnostics are what the message says about the failure, without what names the culprit.
A third have fewer than 25 characters, and most are shorter than what a compiler prints.
A seeded shuffle puts each second case into the half for choosing features. Nothing is
compiled.

The ranks are among the commits of the release range in which the culprit landed,
without its own revert. Before 3.1.0 and after 3.11.0 the first nightly of a month
stands for a release.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import mean, median

import numpy as np
from git import Repo

from triage.bisect.prior import Clues, chances_of, feature_rows
from triage.bisect.suspects import group_by_change
from triage.model.revision import Commit
from triage.toolchains.sources.project import find_project

SINCE = "2021-06-01"
SEED = 29
NIGHTLY = re.compile(r"(?:candidate-|snapshot-|iree-[\d.]+rc)(\d{6})\d\d")
COMMIT = (
    r"(?:\[?(?:(?:iree-org|openxla|google)/iree)?#(\d{3,5})\b"
    r"|https://github\.com/(?:iree-org|openxla|google)/iree/(?:pull|issues)/(\d+)"
    r"|(?:https://github\.com/[\w-]+/iree/commit/)?\b([0-9a-f]{7,40})\b)"
)
FAULT = (
    r"(?:introduc\w+|br[eo]ke\w*|breakages?|caus\w+|regress\w*|expos\w+|trigger\w+|uncover\w*|surfac\w+|bugs?|crash\w*"
    r"|failures?|failing|errors?|issues?|problem|fallout|missed|overlooked|culprit|bisect\w*)"
)
LINK = (
    r"(?:\W+(?:by|in|from|with|of|at|since|after|to|due|because|a|an|the|this|that|pr|pull|request|commit|change|changes"
    r"|landing|merging|previous|recent|was|is|it|were|for|when|down|back|originally|accidentally)\b){1,5}\W*"
)
NAMES = re.compile(
    rf"\b{FAULT}{LINK}{COMMIT}"
    rf"|\bfix(?:es|up|ing)?\s+(?:for|to|of|up)?\s*(?:the\s+|pr\s+|commit\s+)*{COMMIT}"
    rf"|\b(?:since|after)\W+{COMMIT}"
    rf"|\bfollow(?:ing)?[- ]?up\W+(?:\w+\W+)?(?:to|on|for|of|from)\W+(?:pr\W+)?{COMMIT}",
    re.IGNORECASE,
)
FIX = re.compile(
    r"\b(?:fix\w*|bugs?|regress\w*|br[eo]k\w*|crash\w*|fail\w*|errors?|incorrect\w*|wrong\w*|miscompil\w*|hang\w*|assert\w*"
    r"|segfault\w*|invalid|race)\b",
    re.IGNORECASE,
)
FAILURE = re.compile(
    r"\b(?:fail\w*|errors?|crash\w*|assert\w*|hang\w*|segfault\w*|regress\w*|wrong\w*|incorrect\w*|miscompil\w*|invalid\w*|nan"
    r"|numerics?|br[eo]k\w*|exceed\w*|slow\w*|timeout|leak\w*|race|illegal|not (?:legal|support\w*|converg\w*)|unable|cannot"
    r"|bugs?|issues?)\b",
    re.IGNORECASE,
)
BUILD = re.compile(
    r"msvc|windows|bazel|cmake|\bgcc\b|\bnfci?\b|\btypo|python build|linker|unused|compile warnings?",
    re.IGNORECASE,
)
SOURCE = re.compile(
    r"^(compiler/(src|plugins)|iree/compiler|llvm-external-projects)/(?!.*/test/).*\.(cpp|h|td|cc|c)$"
)
REVERT = re.compile(r"(\[\w+\] *)*revert", re.IGNORECASE)
REVERTS = re.compile(
    r"^.*\breverts?\b[^\n]*(?:#\d+|\b[0-9a-f]{8,}).*$", re.IGNORECASE | re.MULTILINE
)
NOT_A_FIX = re.compile(
    r"(\[\w+\] *)*(revert|reland|reapply|integrate|bump)", re.IGNORECASE
)
NOISE = re.compile(
    r"(?:Signed-off-by|Co-authored-by):.*|https?://\S+|\(?(?:\w+/\w+)?#\d+\)?|\b[0-9a-f]{8,40}\b|^.*\bci-extra.*",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True)
class Line:
    """The first-parent line of a clone, newest first, with the messages of its commits."""

    commits: Sequence[Commit]
    bodies: Sequence[str]
    row: Mapping[str, int]
    """By hash."""
    pull: Mapping[str, int]
    """By the number of the pull request."""

    def named(self, name: str, before: int) -> int | None:
        """Return the row of the commit that a number or hash names, if it is older than
        the one at `before`.
        """
        row = self.pull.get(name)
        if row is None and len(name) >= 7:
            row = next(
                (row for sha, row in self.row.items() if sha.startswith(name)), None
            )
        return row if row is not None and row > before else None


@dataclass(frozen=True, slots=True)
class Known:
    """A regression whose culprit is known.

    matrix: the features of each commit of its range. culprit: a row.
    """

    name: str
    matrix: Sequence[Sequence[float]]
    culprit: int


def rank(prior: np.ndarray, culprit: int) -> float:
    """Return 1 for the likeliest commit; among equals the middle."""
    away = prior / prior[culprit] - 1
    return 1 + int((away > 1e-9).sum()) + (int((np.abs(away) <= 1e-9).sum()) - 1) / 2


def read_line(clone: Path) -> Line:
    """Read the line and the files that each commit changes."""
    form = "--format=%x01%H%x00%P%x00%cI%x00%s%x00%b%x02"
    commits, bodies, pull = [], [], {}
    for entry in (
        Repo(clone)
        .git.log("--first-parent", f"--since={SINCE}", "--name-only", form)
        .split("\x01")[1:]
    ):
        head, _, changes = entry.partition("\x02")
        sha, parents, date, subject, body = head.split("\0")
        if number := re.search(r"\(#(\d+)\)\s*$", subject):
            pull[number[1]] = len(commits)
        commits.append(
            Commit(
                sha,
                parents.partition(" ")[0],
                date,
                subject,
                tuple(filter(None, changes.split("\n"))),
            )
        )
        bodies.append(body)
    return Line(
        commits,
        bodies,
        {commit.sha: index for index, commit in enumerate(commits)},
        pull,
    )


def releases(clone: Path, line: Line) -> list[int]:
    """Return the rows of the line where a release, or the first nightly of a month
    without releases, was made.
    """
    repository, found, months = Repo(clone), set(), {}
    for tag in sorted(repository.tags, key=lambda tag: tag.name):
        sha = tag.commit.hexsha
        if re.match(r"v\d", tag.name):
            found.add(line.row[repository.git.merge_base(sha, "HEAD")])
        elif (day := NIGHTLY.match(tag.name)) and sha in line.row:
            months[day[1]] = max(line.row[sha], months.get(day[1], 0))
    return sorted(
        found | {row for row in months.values() if not min(found) <= row <= max(found)}
    )


def culprit_of(line: Line, index: int) -> int | None:
    """Return the row of the commit that the commit at `index` reverts or fixes."""
    subject, body = line.commits[index].subject, line.bodies[index]
    if REVERT.match(subject) and not re.search(
        r"revert \"revert|reland", subject, re.IGNORECASE
    ):
        if named := re.search(r"[Rr]everts commit ([0-9a-f]{7,40})", body):
            return line.named(named[1], index)
        says = [*REVERTS.findall(body)[:1], subject.rsplit("(#", 1)[0]]
        rows = (
            line.named(number, index)
            for text in says
            for number in re.findall(r"(?:#|pull/)(\d{4,5})\b", text)
        )
        return next((row for row in rows if row is not None), None)
    text = subject.rsplit(" (#", 1)[0] + "\n" + body
    if NOT_A_FIX.match(subject) or not FIX.search(text):
        return None
    names = (name for match in NAMES.finditer(text) for name in match.groups() if name)
    return next(
        (row for row in (line.named(name, index) for name in names) if row is not None),
        None,
    )


def diagnostics(line: Line, index: int, culprit: int) -> str:
    """Return what a message says about the failure, without what names the culprit."""
    subject = line.commits[culprit].subject
    text = (
        REVERTS.sub("", line.bodies[index])
        .replace(subject, "")
        .replace(re.sub(r" \(#\d+\)$", "", subject), "")
    )
    text = NOISE.sub("", text)
    if not REVERT.match(line.commits[index].subject):  # a fix also says how it works
        sentences = re.split(r"(?<=[.!?])\s+|\n\s*\n|\n(?=[-*])", text)
        text = " ".join(sentence for sentence in sentences if FAILURE.search(sentence))
    return " ".join(text.split()).strip(" .,-:")


def cases(clone: Path, seen: set[str]) -> Iterator[Known]:
    """Yield each case in its release range, and in the range that ends before its
    revert or fix.

    seen: The culprits to leave out.
    """
    line = read_line(clone)
    marks = releases(clone, line)

    def in_source(row: int) -> bool:
        return any(SOURCE.match(path) for path in line.commits[row].files)

    for index, fix in enumerate(line.commits):
        culprit = culprit_of(line, index)
        if (
            culprit is None
            or line.commits[culprit].sha in seen
            or not (in_source(index) and in_source(culprit))
        ):
            continue
        sha = line.commits[culprit].sha
        seen.add(sha)
        good = next((mark for mark in marks if mark > culprit), None)
        if good is None or BUILD.search(f"{fix.subject}\n{line.bodies[index]}"):
            continue
        text = diagnostics(line, index, culprit)
        bad = max((mark for mark in marks if mark <= culprit), default=0)
        rows = range(good - 1, bad - 1, -1)
        again = next(
            group
            for group in group_by_change([line.commits[row].subject for row in rows])
            if good - 1 - culprit in group
        )
        later = {rows[member] for member in again if rows[member] < culprit} | {index}
        released = tuple(line.commits[row] for row in rows if row not in later)
        matrix = feature_rows(
            released, Clues(text, noticed=False), find_project("iree")
        )
        shas = [commit.sha for commit in released]
        yield Known(sha, matrix, shas.index(sha))


def main() -> None:
    """Print the rows of both halves."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clone", type=Path)
    parser.add_argument("--without", type=Path)
    options = parser.parse_args()
    lines = options.without.read_text("utf-8").splitlines() if options.without else []
    known = sorted(
        cases(options.clone, {json.loads(line)["culprit"] for line in lines}),
        key=lambda case: case.name,
    )
    Random(SEED).shuffle(known)
    for title, half in (
        ("for choosing features", known[::2]),
        ("kept aside", known[1::2]),
    ):
        ranks = [rank(np.array(chances_of(case.matrix)), case.culprit) for case in half]
        tops = ", ".join(
            f"top {top} {mean(each <= top for each in ranks):.0%}" for top in (1, 5, 20)
        )
        middle = median(len(case.matrix) for case in half)
        print(
            f"\n{title}: median rank {median(ranks):.0f} of {middle:.0f} commits of a release range; {tops}"
        )


if __name__ == "__main__":
    main()
