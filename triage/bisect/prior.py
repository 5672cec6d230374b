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
from collections.abc import Callable, Mapping, Sequence
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


def commit_prior(
    commits: Sequence[Commit], clues: Clues, table: str | None
) -> list[float]:
    """Return for each commit of a range, oldest first, the chance to be the first bad
    one: positive, sums to 1.

    table: the name of the project's; see `table_of`.
    """
    return suspicion(feature_rows(commits, clues, table))


def suspicion(rows: Sequence[Mapping[str, float]]) -> list[float]:
    """Turn the features of commits into probabilities."""
    bits = [
        sum(feature.weight * row[feature.name] for feature in features())
        for row in rows
    ]
    odds = [2.0 ** (one - max(bits)) for one in bits]
    total = sum(odds)
    return [(1 - FLOOR) * one / total + FLOOR / len(odds) for one in odds]


def explain(
    commits: Sequence[Commit], clues: Clues, table: str | None
) -> list[tuple[str, ...]]:
    """Return for each commit the strongest reasons to suspect it. Less than one unit of
    a feature is not a reason.
    """
    reasons = []
    for row in feature_rows(commits, clues, table):
        bits = {
            feature.reason: row[feature.name] * feature.weight
            for feature in features()
            if feature.weight > 0 and row[feature.name] >= 1
        }
        ranked = sorted(bits, key=bits.__getitem__, reverse=True)
        reasons.append(tuple(ranked[:_MOST_REASONS]))
    return reasons


def feature_rows(
    commits: Sequence[Commit], clues: Clues, project: str | None
) -> Sequence[Mapping[str, float]]:
    """Return how strongly each commit shows each feature of `prior.yaml`; 0 where it
    does not.
    """
    table = project_table(project)
    kind_of = cache(table.kind)
    relevant = {"compiler", "runtime"} if clues.compiled else {"compiler"}
    wanted = topics(f"{clues.text} {clues.failing_pass or ''}", table.synonyms)
    topics_of = [_topics_of(commit, kind_of, table.synonyms) for commit in commits]
    shared = _shared_bits(topics_of, wanted)
    rows = []
    for index, commit in enumerate(commits):
        kinds = {kind_of(path) for path in commit.files}
        sources = [path for path in commit.files if kind_of(path) == "compiler"]
        recency = math.log2(len(commits) / (len(commits) - index))
        rows.append(
            {
                "irrelevant": bool(kinds) and not kinds & relevant,
                "quiet": bool(table.quiet.search(commit.subject.lower())),
                "decides": any(table.decides.search(path.lower()) for path in sources),
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


def _topics_of(
    commit: Commit, kind_of: Callable[[str], str], synonyms: Mapping[str, str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the topics of a commit's subject, and those of the names of its files."""
    names = []
    if len(commit.files) <= _MANY_FILES:
        paths = [path for path in commit.files if kind_of(path) != "other"]
        names = [path.rsplit("/", 1)[-1].split(".")[0] for path in paths]
    of_subject = topics(_NUMBER.sub("", commit.subject), synonyms)
    return of_subject, topics(" ".join(names), synonyms)


def _shared_bits(
    commits: Sequence[tuple[frozenset[str], frozenset[str]]], wanted: frozenset[str]
) -> list[float]:
    """Return for each commit the bits of the words that it shares with a text: a rare
    word of the range has more, and one that is only in names of files has half.
    """
    spread = Counter(
        word for subject, names in commits for word in (subject | names) & wanted
    )
    bits = {
        word: max(0.0, math.log2((len(commits) + 2) / (count + 1)))
        for word, count in spread.items()
    }
    shared = []
    for subject, names in commits:
        words = (subject | names) & wanted
        shared.append(
            min(
                _MOST_SHARED,
                sum(
                    bits[word] * (1 if word in subject else 0.5)
                    for word in sorted(words)
                ),
            )
        )
    return shared


# The meaning of paths and words

_ENDING = re.compile(r"(ations?|ings?|ions?|ies|ed|es|s|e|y)$")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]+")


def letters(name: str) -> str:
    """Reduce a pass or the path of a file to its letters and digits.

    `GPUPadOperandsPass`, `test/gpu_pad_operands.mlir` and `gpu-pad-operands` become
    `gpupadoperands`.
    """
    name = re.sub(r"\.[a-z]{1,4}$", "", name.rsplit("/", 1)[-1])
    return re.sub(r"[^a-z0-9]", "", name.lower()).removesuffix("pass")


def stem(word: str) -> str:
    """Remove the ending that inflects a lower case word, so that `distributed` equals
    `distribution`.
    """
    if len(word) > 4:
        return _ENDING.sub("", word)
    return word


def topics(text: str, synonyms: Mapping[str, str]) -> frozenset[str]:
    """Return the stems in a text, with CamelCase and snake_case split, and the topics
    that they stand for.
    """
    stems = {
        stem(word.lower())
        for word in _WORD.findall(_CAMEL.sub(" ", text).replace("_", " "))
    }
    rare = {word for word in stems if len(word) > 2 and word not in _common_stems()}
    return frozenset(rare | {synonyms[word] for word in stems if word in synonyms})


@dataclass(frozen=True, slots=True)
class ProjectTable:
    """What the paths and words of a project's commits mean."""

    kinds: tuple[tuple[str, re.Pattern[str]], ...]
    decides: re.Pattern[str]
    """Code that chooses pipelines, configurations, or what is fused."""
    quiet: re.Pattern[str]
    """Subjects of commits that change no behaviour."""
    synonyms: Mapping[str, str]

    def kind(self, path: str) -> str:
        """Return what a path is for: `compiler` if no pattern names another kind."""
        return next(
            (kind for kind, pattern in self.kinds if pattern.search(path.lower())),
            "compiler",
        )


def table_of(project: Project) -> str | None:
    """Return the name of the table for a project: its own, or that of its compiler
    family; None if neither has one.
    """
    return next(
        (name for name in (project.name, project.compiler) if name in _tables()), None
    )


@cache
def project_table(name: str | None) -> ProjectTable:
    """Return the table of a project; for a project without one, what holds for all."""
    shared, own = _tables()["any"], _tables().get(name or "", {})
    synonyms = [*shared["synonyms"], *own.get("synonyms", [])]
    return ProjectTable(
        kinds=tuple(
            (kind, re.compile(text))
            for kind, text in [*own.get("kinds", []), *shared["kinds"]]
        ),
        decides=re.compile(
            "|".join(filter(None, [own.get("decides"), shared["decides"]]))
        ),
        quiet=re.compile(shared["quiet"]),
        synonyms={stem(word): f"~{group[0]}" for group in synonyms for word in group},
    )


@cache
def features() -> tuple[Feature, ...]:
    """Return the features in the order of their columns."""
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


@cache
def _common_stems() -> frozenset[str]:
    return frozenset(stem(word) for word in _tables()["any"]["common"])
