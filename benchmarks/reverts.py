"""Search the culprits that a clone of IREE names itself: the commits that it reverted.

Run: `python -m benchmarks.reverts CLONE [--without CASES]`.

A case is each revert since 2022 of a commit that changes the compiler and whose message says why. That text is used
without what names the culprit: its subject, pull request and hash. The range begins at the last nightly tag a week
before the culprit and ends before the revert. Nothing is compiled; each test tells the truth. CASES, as
`benchmarks.culprits` reads them, are regressions that people had seen who chose the features. Cases with an even last
digit of the culprit's hash may be used to choose features, the others not.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from git import Repo

from benchmarks.culprits import Known, known_case, search_known
from triage.model.revision import ChangedFile, Commit

SINCE = "2022-01-01"
WEEK = timedelta(days=7)
LONGEST = 600  # commits of a range
SHORTEST_REASON = 25  # characters
NIGHTLY = re.compile(r"(candidate-|snapshot-|iree-[\d.]+rc)\d{8}")
PULL = re.compile(r"(?:#|pull/)(\d{4,5})\b")
NOISE = re.compile(r"Signed-off-by:.*|https?://\S+|\(?(?:\w+/\w+)?#\d+\)?|\b[0-9a-f]{8,40}\b|^.*\bci-extra.*", re.MULTILINE)
REVERTS = re.compile(r"^.*\breverts?\b[^\n]*(?:#\d+|\b[0-9a-f]{8,}).*$", re.IGNORECASE | re.MULTILINE)
BACKENDS = {
    "rocm": r"rocm|gfx|\bmi\d{3}|sdxl",
    "cuda": "cuda",
    "vulkan-spirv": "vulkan|spirv",
    "llvm-cpu": r"llvm-?cpu|arm64|\bsve\b|\bcpu\b",
}


@dataclass(frozen=True)
class Line:
    """The first-parent line of a clone, newest first, with the messages of its commits."""

    commits: Sequence[Commit]
    bodies: Sequence[str]
    row: Mapping[str, int]
    """Of each hash."""


def read_line(clone: Path) -> Line:
    """Read the line and the files that each commit changes."""
    form = "--format=%x01%H%x00%P%x00%cI%x00%s%x00%b%x02"
    commits, bodies = [], []
    for entry in Repo(clone).git.log("--first-parent", f"--since={SINCE}", "--numstat", form).split("\x01")[1:]:
        head, _, changes = entry.partition("\x02")
        sha, parents, date, subject, body = head.split("\0")
        rows = [row.split("\t") for row in changes.split("\n") if row.count("\t") == 2]
        files = tuple(
            ChangedFile(path, *(int(n) if n != "-" else 0 for n in (added, removed))) for added, removed, path in rows
        )
        commits.append(Commit(sha, parents.partition(" ")[0], date, subject, files))
        bodies.append(body)
    return Line(commits, bodies, {commit.sha: index for index, commit in enumerate(commits)})


def nightlies(clone: Path, line: Line) -> list[int]:
    """Return the rows of the line that have the tag of a nightly, the newest first."""
    shas = (tag.commit.hexsha for tag in Repo(clone).tags if NIGHTLY.match(tag.name))
    return sorted({line.row[sha] for sha in shas if sha in line.row})


def reverted(line: Line, index: int) -> int | None:
    """Return the row of the commit that the commit at `index` reverts."""
    subject, body = line.commits[index].subject, line.bodies[index]
    if not re.match(r"(\[\w+\] *)*revert", subject, re.IGNORECASE) or re.search(
        r"revert \"revert|reland", subject, re.IGNORECASE
    ):
        return None
    if named := re.search(r"[Rr]everts commit ([0-9a-f]{7,40})", body):
        return next((row for sha, row in line.row.items() if sha.startswith(named[1]) and row > index), None)
    pulls = PULL.findall(REVERTS.findall(body)[0] if REVERTS.search(body) else "") + PULL.findall(subject.rsplit("(#", 1)[0])
    rows = (
        row for row in range(index + 1, len(line.commits)) if any(f"(#{pull})" in line.commits[row].subject for pull in pulls)
    )
    return next(rows, None)


def reason(line: Line, index: int, culprit: int) -> str:
    """Return why the commit at `index` reverts the culprit, without what names it."""
    subject = line.commits[culprit].subject
    text = REVERTS.sub("", line.bodies[index]).replace(subject, "").replace(re.sub(r" \(#\d+\)$", "", subject), "")
    return " ".join(NOISE.sub("", text).split()).strip(" .,-:")


def known_reverts(clone: Path, seen: set[str]) -> Iterator[Known]:
    """Yield the cases of a clone, the newest first. seen: culprits to leave out."""
    line = read_line(clone)
    marks = nightlies(clone, line)
    for index in range(len(line.commits)):
        culprit = reverted(line, index)
        if culprit is None or line.commits[culprit].sha in seen:
            continue
        seen.add(line.commits[culprit].sha)
        if not any(file.path.startswith("compiler/") for file in line.commits[culprit].files):
            continue
        text = reason(line, index, culprit)
        date = datetime.fromisoformat(line.commits[culprit].date)
        good = next((row for row in marks if row > culprit and _date(line, row) <= date - WEEK), None)
        if len(text) < SHORTEST_REASON or good is None or good - index > LONGEST:
            continue
        backend = next((name for name, words in BACKENDS.items() if re.search(words, text, re.IGNORECASE)), "unknown")
        span = tuple(reversed(line.commits[index + 1 : good]))
        yield known_case(line.commits[culprit].sha, span, backend, text)


def _date(line: Line, row: int) -> datetime:
    return datetime.fromisoformat(line.commits[row].date)


def main() -> None:
    """Print the rows of both halves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path)
    parser.add_argument("--without", type=Path)
    options = parser.parse_args()
    lines = options.without.read_text("utf-8").splitlines() if options.without else []
    known = list(known_reverts(options.clone, {json.loads(line)["culprit"] for line in lines}))
    for title, odd in (("for choosing features", False), ("kept aside", True)):
        print(f"\n{title}")
        search_known([case for case in known if (int(case.name[-1], 16) % 2 == 1) is odd])


if __name__ == "__main__":
    main()
