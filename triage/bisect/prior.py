"""How suspicious each commit of a range is before any probe: the prior of a bisect over
commits.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from triage.bisect.belief import Floats
from triage.model.execution import Stage
from triage.model.outcome import Failure
from triage.model.revision import Commit

if TYPE_CHECKING:
    from triage.toolchains.sources.project import Project

FLOOR = 0.1  # part of the probability that is spread evenly
# chance that what the passes of two compilers show is about another commit
_DOUBT = 0.5
_MOST_REASONS = 2  # of a commit
_MANY_FILES = 25  # beyond it, the names of a commit's files do not show its topic
_MOST_SHARED = 8.0  # bits of the words that a commit shares with a text
_NUMBER = re.compile(r"\(#(\d+)\)")


@dataclass(frozen=True, slots=True)
class PassEvidence:
    """Passes, source files and commits that a difference between two compilers points
    at.
    """

    passes: tuple[str, ...] = ()
    """The class names of the passes after which the compilers first differ."""
    files: tuple[str, ...] = ()
    """Paths relative to the repository."""
    summary: str = ""
    scheduling_commits: tuple[str, ...] = ()
    """Shas of commits that add to a pipeline, or remove from it, a pass that ran with
    one compiler only.
    """


@dataclass(frozen=True, slots=True)
class Clues:
    """What is known about a failure before its commit is searched; everything may be
    missing.
    """

    text: str = ""
    """The diagnostics."""
    backend: str | None = None
    """The one of the case."""
    failing_pass: str | None = None
    """Its class name or argument."""
    place: PassEvidence = PassEvidence()
    """Where a good and a bad compiler first differ."""
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
        backend: str | None,
        evidence: PassEvidence | None,
        *,
        noticed: bool,
    ) -> Clues:
        """Return the clues of the failures of one run, the most important first; there
        may be none.
        """
        place = evidence or PassEvidence()
        if not failures:
            return cls(backend=backend, place=place)
        first = failures[0]
        texts = [
            text
            for failure in failures
            for text in (failure.headline, *map(str, failure.details.values()))
        ]
        return cls(
            " ".join(texts),
            backend,
            first.failing_pass,
            place,
            noticed=noticed,
            compiled=first.stage not in (Stage.IMPORT, Stage.COMPILE),
        )


@dataclass(frozen=True, slots=True)
class Feature:
    """A column of the matrix."""

    name: str
    weight: float
    """Bits for each unit: 1 makes a commit twice as suspicious."""
    reason: str
    words: str | None = None
    """A regex for the subject in lower case."""
    place: bool = False
    """It is about where two compilers diverge."""


def commit_prior(commits: Sequence[Commit], clues: Clues, table: str | None) -> Floats:
    """Return for each commit of a range, oldest first, the chance to be the first bad
    one: positive, sums to 1.

    table: the name of the project's; see `table_of`.
    """
    return suspicion(feature_matrix(tuple(commits), clues, table))


def suspicion(matrix: Floats) -> Floats:
    """Turn features, shape (commits, features), into probabilities.

    The result mixes three guesses: one from all features, one without the features
    about where two compilers diverge, which may be wrong, and an even one.
    """
    weights = np.array([feature.weight for feature in features()])
    placeless = np.where([feature.place for feature in features()], 0.0, weights)
    believed = (1 - _DOUBT) * _shares(matrix @ weights) + _DOUBT * _shares(
        matrix @ placeless
    )
    mixed: Floats = (1 - FLOOR) * believed + FLOOR / len(believed)
    return mixed


def _shares(bits: Floats) -> Floats:
    odds = np.exp2(bits - bits.max())
    shares: Floats = odds / odds.sum()
    return shares


def explain(
    commits: Sequence[Commit], clues: Clues, table: str | None
) -> list[tuple[str, ...]]:
    """Return for each commit the strongest reasons to suspect it, and of those about
    the place only the most specific.

    Less than one unit of a feature is not a reason.
    """
    reasons = []
    for row in feature_matrix(tuple(commits), clues, table):
        present = [
            (one, value)
            for one, value in zip(features(), row, strict=True)
            if one.weight > 0 and value >= 1
        ]
        place = max(
            (one for one, _ in present if one.place),
            key=lambda one: one.weight,
            default=None,
        )
        bits = {
            one.reason: value * one.weight
            for one, value in present
            if one is place or not one.place
        }
        reasons.append(
            tuple(sorted(bits, key=bits.__getitem__, reverse=True)[:_MOST_REASONS])
        )
    return reasons


@lru_cache(maxsize=4)  # a prior and its reasons need the same matrix
def feature_matrix(
    commits: tuple[Commit, ...], clues: Clues, project: str | None
) -> Floats:
    """Return how strongly each commit shows each feature, shape (commits, features);
    0 where it does not.

    `prior.yaml` lists the features: their `reason` says what each means. A feature with
    `words` is a regex for the subject; the others are computed here.
    """
    table = project_table(project)
    kind_of = cache(table.kind)
    kinds = [{kind_of(path) for path in commit.files} for commit in commits]
    sources = [
        [path.lower() for path in commit.files if kind_of(path) == "compiler"]
        for commit in commits
    ]
    subjects = [commit.subject.lower() for commit in commits]
    topics_of = [_topics_of(commit, kind_of, table.synonyms) for commit in commits]
    if clues.compiled:
        relevant = {"compiler", "runtime"}
    else:
        relevant = {"compiler"}
    diagnostics = f"{clues.text} {clues.failing_pass or ''}"
    passes = " ".join(clues.place.passes)
    columns: dict[str, Iterable[float]] = {
        "irrelevant": [bool(each) and not each & relevant for each in kinds],
        "decides": [
            any(table.decides.search(path) for path in paths) for paths in sources
        ],
        "behaviour": [
            table.behaviour is not None and bool(table.behaviour.search(subject))
            for subject in subjects
        ],
        "other-backend": [
            table.is_of_another_backend(paths, clues.backend) for paths in sources
        ],
        "overlap": _shared_bits(topics_of, topics(diagnostics, table.synonyms)),
        "recent": _recency(len(commits)) if clues.noticed else [0.0] * len(commits),
        "named": _changes_suspected_file(sources, clues),
        "pass-words": _shared_bits(topics_of, topics(passes, table.synonyms)),
        "pipeline": [
            commit.sha in clues.place.scheduling_commits for commit in commits
        ],
    }
    for feature in features():
        if feature.words:
            columns[feature.name] = [
                bool(re.search(feature.words, subject)) for subject in subjects
            ]
    return np.array(
        [list(columns[feature.name]) for feature in features()], dtype=np.float64
    ).T


def _recency(count: int) -> list[float]:
    """Return how recent each of `count` commits is, in bits: 0 for the oldest, 1 for
    the one in the middle, 2 for the one after three quarters.
    """
    return [math.log2(count / (count - index)) for index in range(count)]


def _changes_suspected_file(
    sources: Sequence[Sequence[str]], clues: Clues
) -> list[bool]:
    """Return for each commit whether it changes a file of a suspected pass, and not too
    many files.
    """
    passes = {
        letters(name) for name in (clues.failing_pass, *clues.place.passes) if name
    }
    own = {path.lower() for path in clues.place.files}
    return [
        len(paths) <= _MANY_FILES
        and any(path in own or letters(path) in passes for path in paths)
        for paths in sources
    ]


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
    behaviour: re.Pattern[str] | None
    """Words in subjects about what compilers of its kind decide."""
    backends: Mapping[str, re.Pattern[str]]
    """The code of each backend."""
    synonyms: Mapping[str, str]

    def kind(self, path: str) -> str:
        """Return what a path is for: `compiler` if no pattern names another kind."""
        return next(
            (kind for kind, pattern in self.kinds if pattern.search(path.lower())),
            "compiler",
        )

    def is_of_another_backend(self, paths: Sequence[str], backend: str | None) -> bool:
        """Return whether files are of backends, and none of them is of this one."""
        own = self.backends.get(backend or "")
        if own is None or any(own.search(path) for path in paths):
            return False
        return any(
            code.search(path) for path in paths for code in self.backends.values()
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
    behaviour = None
    if "vocabulary" in own:
        behaviour = re.compile(_tables()["vocabularies"][own["vocabulary"]])
    return ProjectTable(
        kinds=tuple(
            (kind, re.compile(text))
            for kind, text in [*own.get("kinds", []), *shared["kinds"]]
        ),
        decides=re.compile(
            "|".join(filter(None, [own.get("decides"), shared["decides"]]))
        ),
        behaviour=behaviour,
        backends={
            backend: re.compile(text)
            for backend, text in own.get("backends", {}).items()
        },
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
