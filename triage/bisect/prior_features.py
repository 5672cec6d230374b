"""The features of a range of commits that a failure's prior is made of."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import yaml

from triage.bisect.belief import Floats
from triage.bisect.prior_clues import Clues
from triage.bisect.prior_text import BUILT, Project, Sense, letters, same_name, topics
from triage.model.revision import ChangedFile, Commit

_NUMBER = re.compile(r"\(#(\d+)\)")
_OWN_NUMBER = re.compile(r"\s*\(#\d+\)\s*$")
_REVERT = re.compile(r"^\W*(?:\[\w+\]\s*)*revert\b\W*(.*)")
_MANY_FILES = 25  # beyond it the names of a commit's files say nothing of its subject
_SWEEP_FILES, _SWEEP_LINES = 9, 12  # at least so many files, fewer than so many lines each
_WAITED = 150  # pull requests opened since, by number
_RUNS = frozenset({"runtime-error", "numerics", "performance", "test-expectation"})


@dataclass(frozen=True, slots=True)
class Feature:
    """A column of the features: `weight` bits for each unit. `start`: before it was fitted. `words`: of the subject."""

    name: str
    weight: float
    start: float
    says: str
    words: re.Pattern[str] | None = None


@cache
def features() -> tuple[Feature, ...]:
    """The features in the order of their columns."""
    text = files("triage.bisect").joinpath("prior_weights.yaml").read_text("utf-8")
    return tuple(
        Feature(
            str(one["name"]),
            float(one["weight"]),
            float(one["start"]),
            str(one["says"]),
            re.compile(one["words"]) if "words" in one else None,
        )
        for one in yaml.safe_load(text)["features"]
    )


def feature_matrix(commits: Sequence[Commit], clues: Clues, project: Project) -> Floats:
    """Shape (len(commits), len(features())): what each commit has of each feature, 0 for nothing."""
    seen = _Range(commits, clues, project)
    columns = []
    for feature in features():
        if feature.words is not None:
            pattern = feature.words
            columns.append([float(bool(pattern.search(subject))) for subject in seen.subjects])
        else:
            columns.append(_COMPUTED[feature.name](seen))
    return np.array(columns, dtype=np.float64).T.reshape(len(commits), len(features()))


class _Range:
    """What several features look at: the commits with the kinds of their files, taken apart once."""

    def __init__(self, commits: Sequence[Commit], clues: Clues, project: Project) -> None:
        self.commits, self.clues, self.project = commits, clues, project
        self.subjects = [commit.subject.lower() for commit in commits]
        self.files: list[list[tuple[ChangedFile, Sense]]] = [
            [(file, project.sense(file.path)) for file in commit.files] for commit in commits
        ]
        self.kinds = [{sense.kind for _, sense in changed} for changed in self.files]
        self.source = [[(file, sense) for file, sense in changed if sense.kind == "compiler"] for changed in self.files]
        self.numbers = [int(found[-1]) if (found := _NUMBER.findall(commit.subject)) else None for commit in commits]
        self.integrates = [
            bool(project.upstream.search(subject)) and ("dependency" in kinds or "llvm" in subject)
            for subject, kinds in zip(self.subjects, self.kinds, strict=True)
        ]
        known = clues.backend is not None and clues.backend in project.backends
        self.backend = clues.backend if known else None

    def each(self, says: Callable[[int], float]) -> list[float]:
        return [float(says(index)) for index in range(len(self.commits))]


def _not_built(seen: _Range) -> list[float]:
    return seen.each(lambda i: bool(seen.kinds[i]) and not seen.kinds[i] & BUILT)


def _runtime_only(seen: _Range) -> list[float]:
    if seen.clues.failure_class in _RUNS:
        return [0.0] * len(seen.commits)
    return seen.each(lambda i: bool(seen.kinds[i] & BUILT) and not seen.kinds[i] & {"compiler", "dependency"})


def _other_dependency(seen: _Range) -> list[float]:
    return seen.each(lambda i: "dependency" in seen.kinds[i] and not seen.integrates[i])


def _integrate(seen: _Range) -> list[float]:
    return [float(one) for one in seen.integrates]


def _own_backend(seen: _Range) -> list[float]:
    own = seen.backend
    if own is None:
        return [0.0] * len(seen.commits)
    shared = seen.project.shared(own)
    return seen.each(
        lambda i: any(
            own in sense.backends or (not sense.backends and shared.search(file.path.lower())) for file, sense in seen.source[i]
        )
    )


def _other_backend(seen: _Range) -> list[float]:
    own = seen.backend
    if own is None:
        return [0.0] * len(seen.commits)
    shared = seen.project.shared(own)
    foreign = [pattern for name, pattern in seen.project.groups.items() if pattern.pattern != shared.pattern and name != own]

    def is_other(file: ChangedFile, sense: Sense) -> bool:
        path = file.path.lower()
        if own in sense.backends or shared.search(path):
            return False if own in sense.backends else bool(sense.backends)
        return bool(sense.backends) or any(pattern.search(path) for pattern in foreign)

    return seen.each(lambda i: bool(seen.source[i]) and all(is_other(*one) for one in seen.source[i]))


def _other_named(seen: _Range) -> list[float]:
    own = seen.backend
    if own is None:
        return [0.0] * len(seen.commits)
    shared = seen.project.shared(own)

    def names_other(subject: str) -> bool:
        named = seen.project.backends_in(subject)
        if own in named or shared.search(subject):
            return False
        foreign = any(pattern.search(subject) for pattern in seen.project.groups.values())
        return bool(named) or foreign

    return [float(names_other(subject)) for subject in seen.subjects]


def _fusion(seen: _Range) -> list[float]:
    return seen.each(lambda i: any(sense.fusion for _, sense in seen.source[i]))


def _codegen(seen: _Range) -> list[float]:
    return seen.each(lambda i: any(sense.codegen for _, sense in seen.source[i]))


def _plumbing(seen: _Range) -> list[float]:
    return seen.each(lambda i: bool(seen.source[i]) and all(s.plumbing and not s.fusion for _, s in seen.source[i]))


def _decides(seen: _Range) -> list[float]:
    return seen.each(lambda i: any(sense.decides for _, sense in seen.source[i]))


def _expectations(seen: _Range) -> list[float]:
    removed = [sum(file.removed for file, sense in changed if sense.kind == "test") for changed in seen.files]
    return seen.each(lambda i: min(math.log2(1 + removed[i]), 8) / 3 if seen.source[i] else 0.0)


def _sweep(seen: _Range) -> list[float]:
    def is_sweep(i: int) -> bool:
        lines = sum(file.added + file.removed for file, _ in seen.source[i])
        return len(seen.source[i]) >= _SWEEP_FILES and lines < _SWEEP_LINES * len(seen.source[i]) and not seen.integrates[i]

    return seen.each(is_sweep)


def _off_topic(seen: _Range) -> list[float]:
    text = f"{seen.clues.text} {seen.clues.failing_pass or ''} {seen.clues.backend or ''}".lower()
    absent = [pattern for pattern in seen.project.optional if not pattern.search(text)]
    return [float(any(pattern.search(subject) for pattern in absent)) for subject in seen.subjects]


def _overlap(seen: _Range) -> list[float]:
    """Bits of surprise that the words shared with the diagnostics have within the range; half for those of file names."""
    synonyms = seen.project.synonyms
    wanted = topics(f"{seen.clues.text} {seen.clues.failing_pass or ''}", synonyms)
    subjects, names = [], []
    for commit, changed in zip(seen.commits, seen.files, strict=True):
        subjects.append(topics(_NUMBER.sub("", commit.subject), synonyms) & wanted)
        told = changed if len(changed) <= _MANY_FILES else []
        stems = " ".join(f.path.rsplit("/", 1)[-1].split(".")[0] for f, s in told if s.kind in {"compiler", "runtime", "test"})
        names.append(topics(stems, synonyms) & wanted)
    count = len(seen.commits)
    spread = Counter(word for one, other in zip(subjects, names, strict=True) for word in one | other)
    bits = {word: max(0.0, math.log2((count + 2) / (spread[word] + 1))) for word in spread}
    return seen.each(lambda i: min(8.0, sum(bits[w] * (1 if w in subjects[i] else 0.5) for w in subjects[i] | names[i])))


def _phase(seen: _Range) -> list[float]:
    patterns = seen.project.of_phase(seen.clues.phase)
    return seen.each(lambda i: any(one.search(file.path.lower()) for file, _ in seen.source[i] for one in patterns))


def _named_pass(seen: _Range) -> list[float]:
    """1 where a file is the pass that failed or a suspected file, half where it is a test of it or its neighbour."""
    passes = [letters(name) for name in (seen.clues.failing_pass, *seen.clues.passes) if name]
    paths = set(seen.clues.files)
    folders = {path.rsplit("/", 1)[0] for path in paths if "/" in path}
    if not passes and not paths:
        return [0.0] * len(seen.commits)

    def score(file: ChangedFile, sense: Sense) -> float:
        named = any(same_name(letters(file.path), one) for one in passes if len(one) > 3)
        if file.path in paths or (named and sense.kind == "compiler"):
            return 1.0
        near = "/" in file.path and file.path.rsplit("/", 1)[0] in folders and sense.kind == "compiler"
        return 0.5 if named or near else 0.0

    return seen.each(lambda i: max((score(*one) for one in seen.files[i]), default=0.0))


def _waited(seen: _Range) -> list[float]:
    """Whether the pull request is much older, by its number, than those that landed around it."""

    def newest(i: int) -> int:
        return max((number for number in seen.numbers[max(0, i - 10) : i + 10] if number is not None), default=0)

    return seen.each(lambda i: (number := seen.numbers[i]) is not None and newest(i) - number > _WAITED)


def _reverted_later(seen: _Range) -> list[float]:
    undone: list[tuple[int, frozenset[int], str]] = []
    for at, subject in enumerate(seen.subjects):
        if found := _REVERT.search(_OWN_NUMBER.sub("", subject)):
            numbers = frozenset(int(number) for number in re.findall(r"#(\d+)", found[1]))
            undone.append((at, numbers, _NUMBER.sub("", found[1]).strip(' "')[:40]))

    def is_undone(i: int) -> bool:
        return any(
            at > i and (seen.numbers[i] in numbers or (len(title) > 15 and seen.subjects[i].startswith(title)))
            for at, numbers, title in undone
        )

    return seen.each(is_undone)


def _recent(seen: _Range) -> list[float]:
    if not seen.clues.noticed:
        return [0.0] * len(seen.commits)
    count = len(seen.commits)
    return seen.each(lambda i: math.log2(count / (count - i)))


_COMPUTED: dict[str, Callable[[_Range], list[float]]] = {
    "not-built": _not_built,
    "runtime-only": _runtime_only,
    "other-dependency": _other_dependency,
    "integrate": _integrate,
    "own-backend": _own_backend,
    "other-backend": _other_backend,
    "other-named": _other_named,
    "fusion": _fusion,
    "codegen": _codegen,
    "plumbing": _plumbing,
    "decides": _decides,
    "expectations": _expectations,
    "sweep": _sweep,
    "off-topic": _off_topic,
    "overlap": _overlap,
    "phase": _phase,
    "named-pass": _named_pass,
    "waited": _waited,
    "reverted-later": _reverted_later,
    "recent": _recent,
}
