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
from collections import Counter
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
_MANY_FILES = 25  # beyond it, the names of a commit's files do not show its topic
_MOST_SHARED = 8.0  # bits of the words that a commit shares with a text
_NUMBER = re.compile(r"\(#(\d+)\)")


@dataclass(frozen=True, slots=True)
class Clues:
    """What is known about a failure before its commit is searched; everything may be
    missing.
    """

    text: str = ""
    """The diagnostics."""
    failing_pass: str | None = None
    """Its class name or argument."""
    suspected_files: frozenset[str] = frozenset()
    """Paths in the repository, of passes after which a good and a bad compiler
    differ.
    """
    noticed: bool = False
    """The bad end is a commit or a nightly, where somebody noticed the failure: late
    commits are likelier than early ones.
    """
    compiled: bool = False
    """The failure is one of the compiled program, so that the runtime may have caused
    it.
    """

    @classmethod
    def of(
        cls,
        failures: Sequence[Failure],
        suspected_files: frozenset[str] = frozenset(),
        *,
        noticed: bool,
    ) -> Clues:
        """Return the clues of the failures of one run, the most important first; there
        may be none.
        """
        if not failures:
            return cls(suspected_files=suspected_files)
        first = failures[0]
        texts = [
            text
            for failure in failures
            for text in (failure.headline, *map(str, failure.details.values()))
        ]
        return cls(
            " ".join(texts),
            first.failing_pass,
            suspected_files,
            noticed=noticed,
            compiled=first.stage not in (Stage.IMPORT, Stage.COMPILE),
        )


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that makes a commit more or less suspicious."""

    name: str
    weight: float
    """Bits for each unit: 1 makes a commit twice as suspicious."""
    reason: str


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
    chances = chances_of(rows)
    return [
        Suspicion(chance, _reasons(row))
        for row, chance in zip(rows, chances, strict=True)
    ]


def chances_of(rows: Sequence[Mapping[str, float]]) -> list[float]:
    """Turn the features of commits into probabilities."""
    bits = [
        sum(feature.weight * row[feature.name] for feature in features())
        for row in rows
    ]
    odds = [2.0 ** (one - max(bits)) for one in bits]
    total = sum(odds)
    return [(1 - FLOOR) * one / total + FLOOR / len(odds) for one in odds]


def _reasons(row: Mapping[str, float]) -> tuple[str, ...]:
    """Return the strongest reasons. Less than one unit of a feature is not one."""
    bits = {
        feature.reason: row[feature.name] * feature.weight
        for feature in features()
        if feature.weight > 0 and row[feature.name] >= 1
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
    shared = _shared_bits([_topics_of(commit, words) for commit in commits], wanted)
    rows = []
    for index, commit in enumerate(commits):
        kinds = set(map(words.kind, commit.files))
        sources = [path for path in commit.files if words.kind(path) == "compiler"]
        recency = math.log2(len(commits) / (len(commits) - index))
        rows.append(
            {
                "irrelevant": bool(kinds) and not kinds & relevant,
                "quiet": bool(words.quiet.search(commit.subject.lower())),
                "decides": any(words.decides.search(path.lower()) for path in sources)
                + bool(words.telling.search(commit.subject.lower())),
                "overlap": shared[index],
                "recent": recency if clues.noticed else 0.0,
                "named": len(sources) <= _MANY_FILES
                and any(_is_suspected(path, clues) for path in sources),
            }
        )
    return rows


def _is_suspected(path: str, clues: Clues) -> bool:
    """Return whether a file is one of a suspected pass."""
    of_pass = clues.failing_pass and letters(path) == letters(clues.failing_pass)
    return bool(of_pass) or path in clues.suspected_files


def _topics_of(commit: Commit, words: Words) -> dict[str, float]:
    """Return the topics of a commit; those that are only in names of files count
    half.
    """
    names: list[str] = []
    if len(commit.files) <= _MANY_FILES:
        paths = [path for path in commit.files if words.kind(path) != "other"]
        names = [path.rsplit("/", 1)[-1].split(".")[0] for path in paths]
    topics = dict.fromkeys(words.topics(" ".join(names)), 0.5)
    subject = _NUMBER.sub("", commit.subject)
    return topics | dict.fromkeys(words.topics(subject), 1.0)


def _shared_bits(
    commits: Sequence[Mapping[str, float]], wanted: frozenset[str]
) -> list[float]:
    """Return for each commit the bits of the words that it shares with a text: a rare
    word of the range has more.
    """
    spread = Counter(word for topics in commits for word in topics.keys() & wanted)
    bits = {
        word: max(0.0, math.log2((len(commits) + 2) / (count + 1)))
        for word, count in spread.items()
    }
    return [
        min(
            _MOST_SHARED,
            sum(topics[word] * bits[word] for word in sorted(topics.keys() & wanted)),
        )
        for topics in commits
    ]


# The meaning of paths and words

_ENDING = re.compile(r"(ations?|ings?|ions?|ies|ed|es|s|e|y)$")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]+")


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
        own: Mapping[str, Any] = {}
        if project:
            own = tables.get(project.name) or tables.get(project.compiler) or {}
        shared = tables["any"]
        groups = [*shared["synonyms"], *own.get("synonyms", [])]
        decides = filter(None, [own.get("decides"), shared["decides"]])
        return cls(
            (*own.get("kinds", []), *shared["kinds"]),
            re.compile("|".join(decides)),
            re.compile(shared["quiet"]),
            re.compile(shared["telling"]),
            frozenset(map(stem, shared["common"])),
            {stem(word): f"~{group[0]}" for group in groups for word in group},
        )

    def kind(self, path: str) -> str:
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
        return frozenset(rare | {self.synonyms.get(word, "") for word in stems}) - {""}


def stem(word: str) -> str:
    """Remove the ending that inflects a lower case word, so that `distributed` equals
    `distribution`.
    """
    if len(word) > 4:
        return _ENDING.sub("", word)
    return word


@cache
def features() -> tuple[Feature, ...]:
    """Return the features with their weights."""
    return tuple(Feature(**entry) for entry in _tables()["features"])


@cache
def _tables() -> dict[str, Any]:
    tables: dict[str, Any] = yaml.safe_load(
        files("triage.bisect").joinpath("prior.yaml").read_text("utf-8")
    )
    for folder in files("triage.compilers").iterdir():
        own = folder / "commits.yaml"
        if own.is_file():
            tables |= yaml.safe_load(own.read_text("utf-8"))
    return tables
