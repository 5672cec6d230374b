"""How suspicious each commit of a range is before any probe.

A commit's suspicion is two to the sum of its features' bits, scaled to sum to 1 over
the range and mixed with a floor, so that a wrong guess costs little and no commit is
ever excluded. `prior.yaml` has the features with their weights, and what the paths and
words of any project mean; `commits.yaml` in the folder of a compiler family adds those
of its projects.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import yaml

from triage.model.execution import Stage
from triage.model.outcome import Failure
from triage.model.revision import Commit

if TYPE_CHECKING:
    from triage.toolchains.sources.project import Project

FLOOR = 0.1  # part of the probability that is spread evenly
_MOST_REASONS = 2  # of a commit
_MOST_NAMES = 25  # files of a commit whose names show its topic
_SHARED, _MOST_SHARED = 3, 8  # bits for a word that it shares, and for all of them
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]+")
_ENDING = re.compile(r"(?<=...)(ations?|ings?|ions?|ies|ed|es|s|e|y)$")


@dataclass(frozen=True, slots=True)
class Clues:
    """What is known about a failure before its commit is searched; everything may be
    missing.
    """

    text: str = ""
    """The diagnostics."""
    failing_pass: str | None = None
    """Its class name or argument."""
    noticed: bool = False
    """The bad end is a commit or a nightly, where somebody noticed the failure: late
    commits are likelier than early ones.
    """
    compiled: bool = False
    """The failure is one of the compiled program, so that the runtime may have caused
    it.
    """

    @classmethod
    def of(cls, failures: Sequence[Failure], *, noticed: bool) -> Clues:
        """Return the clues of the failures of one run, the most important first; there
        may be none.
        """
        if not failures:
            return cls()
        texts = []
        for failure in failures:
            texts += [failure.headline, *map(str, failure.details.values())]
        stage = failures[0].stage
        return cls(
            " ".join(texts),
            failures[0].failing_pass,
            noticed,
            stage not in (Stage.IMPORT, Stage.COMPILE),
        )


@dataclass(frozen=True, slots=True)
class Suspicion:
    """How likely a commit is the culprit, and why."""

    chance: float
    """Positive; those of a range sum to 1."""
    reasons: tuple[str, ...]


def suspicions(
    commits: Sequence[Commit], clues: Clues, project: Project | None
) -> list[Suspicion]:
    """Return how suspicious each commit of a range is, oldest first."""
    rows = feature_rows(commits, clues, project)
    weights = {entry["name"]: entry["weight"] for entry in _tables()["features"]}
    scores = [sum(weights[name] * row[name] for name in weights) for row in rows]
    odds = [2.0 ** (score - max(scores)) for score in scores]
    total = sum(odds)
    return [
        Suspicion((1 - FLOOR) * ratio / total + FLOOR / len(odds), _reasons(row))
        for row, ratio in zip(rows, odds, strict=True)
    ]


def _reasons(row: Mapping[str, float]) -> tuple[str, ...]:
    """Return the strongest reasons. Less than one unit of a feature is not one."""
    bits = {
        entry["reason"]: row[entry["name"]] * entry["weight"]
        for entry in _tables()["features"]
        if entry["weight"] > 0 and row[entry["name"]] >= 1
    }
    ranked = sorted(bits, key=bits.__getitem__, reverse=True)
    return tuple(ranked[:_MOST_REASONS])


def feature_rows(
    commits: Sequence[Commit], clues: Clues, project: Project | None
) -> list[dict[str, float]]:
    """Return how strongly each commit shows each feature of `prior.yaml`; 0 where it
    does not.
    """
    words = Words.of(project)
    relevant = {"compiler", "runtime"} if clues.compiled else {"compiler"}
    wanted = words.topics(f"{clues.text} {clues.failing_pass or ''}")
    suspected = letters(clues.failing_pass or "")
    rows = []
    for index, commit in enumerate(commits):
        subject = commit.subject.lower()
        paths = commit.files
        kinds = [words.kind_of(path) for path in paths]
        sources = [path for path in paths if words.kind_of(path) == "compiler"]
        named = suspected and suspected in map(letters, sources)
        decides = any(words.decides.search(path.lower()) for path in sources)
        text = " ".join([commit.subject, *paths[:_MOST_NAMES]])
        shared = len(words.topics(text) & wanted)
        recency = math.log2(len(commits) / (len(commits) - index))
        rows.append(
            {
                "irrelevant": bool(paths) and relevant.isdisjoint(kinds),
                "quiet": bool(words.quiet.search(subject)),
                "decides": decides + bool(words.telling.search(subject)),
                "overlap": min(_MOST_SHARED, _SHARED * shared),
                "recent": recency if clues.noticed else 0.0,
                "named": bool(named) and len(sources) <= _MOST_NAMES,
            }
        )
    return rows


# The meaning of paths and words


def letters(name: str) -> str:
    """Reduce a pass or the path of a file to its letters and digits.

    >>> letters("test/gpu_pad_operands.mlir") == letters("GPUPadOperandsPass")
    True
    """
    name = re.sub(r"\.[a-z]{1,4}$", "", name.rsplit("/", 1)[-1])
    return re.sub(r"[^a-z0-9]", "", name.lower()).removesuffix("pass")


@dataclass(frozen=True)
class Words:
    """What the paths and words of a project's commits mean."""

    kinds: Sequence[tuple[str, str]]
    """Regexes of paths, in order."""
    decides: re.Pattern[str]
    """Code that chooses pipelines, configurations, or what is fused."""
    quiet: re.Pattern[str]
    """Subjects of commits that change no behaviour."""
    telling: re.Pattern[str]
    """Subjects of commits that decide more than others."""
    common: frozenset[str]
    synonyms: Mapping[str, str]

    @classmethod
    def of(cls, project: Project | None) -> Words:
        """Return those of a project or its compiler family, and what holds for all."""
        tables = _tables()
        table: Mapping[str, Any] = {}
        if project:
            table = tables.get(project.name) or tables.get(project.compiler) or {}
        shared = tables["any"]
        groups = [*shared["synonyms"], *table.get("synonyms", [])]
        decides = filter(None, [table.get("decides"), shared["decides"]])
        return cls(
            (*table.get("kinds", []), *shared["kinds"]),
            re.compile("|".join(decides)),
            re.compile(shared["quiet"]),
            re.compile(shared["telling"]),
            frozenset(map(stem, shared["common"])),
            {stem(word): f"~{group[0]}" for group in groups for word in group},
        )

    def kind_of(self, path: str) -> str:
        """Return what a path is for: `compiler` if no pattern names another kind."""
        for kind, pattern in self.kinds:
            if re.search(pattern, path.lower()):
                return kind
        return "compiler"

    def topics(self, text: str) -> frozenset[str]:
        """Return the stems in a text, with CamelCase and snake_case split, and the
        topics that they stand for.
        """
        words = _WORD.findall(_CAMEL.sub(" ", text).replace("_", " "))
        stems = {stem(word.lower()) for word in words}
        rare = {word for word in stems if len(word) > 2 and word not in self.common}
        synonyms = {self.synonyms[word] for word in stems & self.synonyms.keys()}
        return frozenset(rare | synonyms)


def stem(word: str) -> str:
    """Remove the ending that inflects a lower case word, so that `distributed` equals
    `distribution`.
    """
    return _ENDING.sub("", word)


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
