"""How suspicious each commit of a range is before any probe.

A commit is as suspicious as two to the sum of its features' bits, scaled to sum to 1
over the range and mixed with a floor, so that a wrong guess costs little and no commit
is ever excluded. `prior.yaml` has the features with their weights, and the words of any
project; `commits.yaml` of a compiler family has the code that decides in its projects.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import yaml

from triage.bisect.result import Suspect
from triage.git_history.repository import Links, pull_request, without_pull_request
from triage.model.outcome import Failure
from triage.model.revision import Commit

if TYPE_CHECKING:
    from triage.toolchains.project import Project

FLOOR = 0.1  # part of the probability that is spread evenly
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]+")
_NUMBER = re.compile(r"\(#(\d+)\)")
_AGAIN = re.compile(
    (
        r'\W*(?:\[[\w ]+\]\s*)*(?:revert|reland|re-land|reapply)\b[:\s]*"?(.*?)"?'
        r"(?:\s*\d+(?:st|nd|rd|th) attempt)?\s*$"
    ),
    re.I,
)


def suspects_of(
    commits: Sequence[Commit],
    failures: Sequence[Failure],
    project: Project | None,
    links: Links | None = None,
) -> list[Suspect]:
    """Return how suspicious the failures of one run make each commit of a range, oldest
    first. The first failure is the most important; there may be none.

    The commits are read with their files. Probabilities are positive and sum to 1.
    links: the pages of the repository.
    """
    tables = _tables()
    common = frozenset(tables["common"])
    decides = tables["decides"]
    if project:
        table = tables.get(project.name) or tables.get(project.compiler) or {}
        decides = "|".join(filter(None, [table.get("decides"), decides]))
    diagnostics = [failures[0].failing_pass or ""] if failures else [""]
    suspected = letters(diagnostics[0])
    for failure in failures:
        diagnostics += [failure.headline, *map(str, failure.details.values())]
    wanted = words(" ".join(diagnostics)) - common
    scores = []
    reasons = []
    for commit in commits:
        subject = commit.subject.lower()
        paths = commit.files
        is_deciding = any(re.search(decides, path.lower()) for path in paths)
        strengths = {
            "quiet": bool(re.search(tables["quiet"], subject)),
            "decides": is_deciding + bool(re.search(tables["telling"], subject)),
            "overlap": len(wanted & words(" ".join([commit.subject, *paths]))),
            "named": bool(suspected) and suspected in map(letters, paths),
        }
        active = [entry for entry in tables["features"] if strengths[entry["name"]]]
        bits = [strengths[entry["name"]] * entry["weight"] for entry in active]
        scores.append(sum(bits))
        reasons.append(
            tuple(entry["reason"] for entry in active if entry["weight"] > 0)
        )
    odds = [2.0 ** (score - max(scores)) for score in scores]
    total = sum(odds)
    return [
        _suspect(commit, links, (1 - FLOOR) * ratio / total + FLOOR / len(odds), texts)
        for commit, ratio, texts in zip(commits, odds, reasons, strict=True)
    ]


def letters(name: str) -> str:
    """Reduce a pass or the path of a file to its letters and digits.

    >>> letters("test/gpu_pad_operands.mlir") == letters("GPUPadOperandsPass")
    True
    """
    name = re.sub(r"\.[a-z]{1,4}$", "", name.rsplit("/", 1)[-1])
    return re.sub(r"[^a-z0-9]", "", name.lower()).removesuffix("pass")


def words(text: str) -> set[str]:
    """Return the words in a text, with CamelCase and snake_case split.

    >>> sorted(words("in GPUPadOperands of pad_size"))
    ['gpu', 'operands', 'pad', 'size']
    """
    matches = _WORD.findall(_CAMEL.sub(" ", text).replace("_", " "))
    return {word.lower() for word in matches if len(word) > 2}


@cache
def _tables() -> dict[str, Any]:
    tables: dict[str, Any] = yaml.safe_load(
        files("triage.bisect").joinpath("prior.yaml").read_text("utf-8")
    )
    for folder in files("triage.compilers").iterdir():
        file = folder / "commits.yaml"
        if file.is_file():
            tables |= yaml.safe_load(file.read_text("utf-8"))
    return tables


def _suspect(
    commit: Commit, links: Links | None, probability: float, reasons: tuple[str, ...]
) -> Suspect:
    number = pull_request(commit.subject)
    url = None
    if links and number:
        url = links.pull(number)
    elif links:
        url = links.commit(commit.sha)
    return Suspect(
        **asdict(commit.revision),
        probability=probability,
        pull_request=number,
        url=url,
        files=commit.files,
        reasons=reasons,
    )


def group_by_change(subjects: Sequence[str]) -> list[list[int]]:
    """Group the indices of subjects, oldest first: a group is a pull request with its
    reverts and the commits that land it again.
    """
    groups: dict[str, list[int]] = {}
    group_of: dict[str, str] = {}  # by pull request and title
    for index, subject in enumerate(subjects):
        number = pull_request(subject)
        text = without_pull_request(subject)
        is_relanding = False
        while match := _AGAIN.match(text):
            text = match[1].strip()
            is_relanding = True
        numbers = [
            f"#{digits}" for digits in (number, *_NUMBER.findall(text)) if digits
        ]
        words = _NUMBER.sub("", text).strip().casefold()
        names = [*numbers, words] if is_relanding else numbers
        group = next((group_of[name] for name in names if name in group_of), str(index))
        groups.setdefault(group, []).append(index)
        group_of |= dict.fromkeys((*numbers, words), group)
    return list(groups.values())
