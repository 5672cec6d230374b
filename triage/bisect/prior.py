"""How suspicious each commit of a range is before any probe: the prior of a bisect over commits.

A commit's suspicion is two to the sum of its features' bits, scaled to sum to 1 over the range and mixed with a floor, so that
a wrong guess costs little and no commit is ever excluded. `prior_weights.yaml` has the weight of each feature,
`prior_projects.yaml` the meaning of a project's paths and words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files

import numpy as np
import yaml

from triage.attribute.excerpt import function_files, source_files
from triage.bisect.belief import Floats
from triage.bisect.project_tables import BUILT, NEVER, PathMeaning, ProjectTable, letters, project_table, same_name, topics
from triage.bisect.result import RankedChange, commit_revision
from triage.git_history import CommitRange, Repository, Timeline, pull_request, title
from triage.git_history.refs import links_of
from triage.mlir.ir_reader import PassName
from triage.model.outcome import Failure
from triage.model.revision import ChangedFile, Commit

_NEARLY_ALL, _FEW = 0.8, 5  # share of the commits that have a reason in common; ranges too short to tell
FLOOR = 0.1  # part of the probability that is spread evenly
DOUBT = 0.5  # chance that what the passes of two compilers show is about another commit
_NUMBER = re.compile(r"\(#(\d+)\)")
_AGAIN = re.compile(
    r'\W*(?:\[[\w ]+\]\s*)*(?:revert|reland|re-land|reapply)\b[:\s]*"?(.*?)"?(?:\s*\d+(?:st|nd|rd|th) attempt)?\s*$', re.I
)
_MANY_FILES = 25  # beyond it, the names of a commit's files do not show its topic
_FRAMES = 3  # of a stack whose files are searched


@dataclass(frozen=True, slots=True)
class Clues:
    """What is known about a failure before its commit is searched; everything may be missing.

    failure_class: a rule's name, or `numerics` or `performance` for failures that only show when the program runs.
    backend: as in a recipe's target. phase: as in a failure.
    failing_pass: class name or argument of the pass that failed. text: the diagnostics, flags included.
    passes, files: suspected by other evidence, such as the first pass after which a good and a bad compiler differ; paths are
    relative to the repository. chooses, one_sided, pipeline: as in `PassEvidence`.
    frames: functions on the stack of a crash, innermost first. submodules: paths of dependencies that have a suspected pass.
    noticed: the bad end is where somebody noticed the failure, so that late commits are more likely than early ones. False
    where the end was chosen, such as a release or the last nightly.
    """

    failure_class: str = "unknown"
    backend: str | None = None
    phase: str | None = None
    failing_pass: str | None = None
    text: str = ""
    passes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    noticed: bool = False
    chooses: bool = False
    one_sided: tuple[str, ...] = ()
    pipeline: frozenset[str] = frozenset()
    frames: tuple[str, ...] = ()
    submodules: frozenset[str] = frozenset()

    @classmethod
    def of(cls, failure: Failure, backend: str | None = None, text: str = "") -> Clues:
        """Take the clues from a diagnosed failure; `text` adds to its headline, such as the command line."""
        words = " ".join([failure.headline, *(str(value) for value in failure.details.values()), text])
        return cls(
            failure.failure_class,
            backend,
            failure.phase,
            failure.failing_pass,
            words,
            frames=tuple(str(failure.details["frames"]).split(" < ")) if "frames" in failure.details else (),
        )


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a commit is more suspicious (`bits` above 0) or less so; one bit is a factor of two."""

    feature: str
    text: str
    bits: float


def rank(
    timeline: Timeline,
    span: CommitRange,
    clues: Clues,
    project: str | None,
    top: int | None = None,
    web: str | None = None,
    undone: Sequence[Commit] = (),
) -> tuple[RankedChange, ...]:
    """Rank the span's changes, the most suspicious first; `top` limits them. web: see `links_of`.

    undone: commits with their files that only the good end has.

    Commits of one pull request are one change, together with reverts of it and with what lands it again.
    """
    commits = (*undone, *timeline.with_files(span.indices))
    clues = located(clues, timeline.repository, commits[-1].sha, project)
    chances = commit_prior(commits, clues, project)
    groups = sorted(same_changes([commit.subject for commit in commits]), key=lambda group: (-chances[group].sum(), group))
    reasons = explain(commits, clues, project)
    links = timeline.links or links_of(web)
    ranked = []
    for group in groups[:top]:
        index = max(group, key=lambda member: (chances[member], -member))
        commit, number = commits[index], pull_request(commits[index].subject)
        change = RankedChange(
            **asdict(commit_revision(commit)),
            probability=round(float(chances[group].sum()), 5),
            pull_request=number,
            url=(links.pull(number) if number else links.commit(commit.sha)) if links else None,
            files=tuple(file.path for file in commit.files),
            reasons=tuple(reason.text for reason in reasons[index]),
            with_commits=tuple(commits[member].sha for member in group if member != index),
        )
        ranked.append(change)
    return tuple(ranked)


def same_changes(subjects: Sequence[str]) -> list[list[int]]:
    """Group the indices of subjects, oldest first: those of one pull request, its reverts, and what lands it again."""
    groups: dict[str, list[int]] = {}
    group_of: dict[str, str] = {}  # by pull request and title
    for index, subject in enumerate(subjects):
        number, text, again = pull_request(subject), title(subject), False
        while match := _AGAIN.match(text):
            text, again = match[1].strip(), True
        numbers = [f"#{each}" for each in (number, *_NUMBER.findall(text)) if each]
        words = _NUMBER.sub("", text).strip().casefold()
        known = [group_of[name] for name in (*numbers, *([words] if again else [])) if name in group_of]
        group = known[0] if known else str(index)
        groups.setdefault(group, []).append(index)
        group_of |= dict.fromkeys((*numbers, words), group)
    return list(groups.values())


@lru_cache(maxsize=4)
def located(clues: Clues, repository: Repository, commit: str, project: str | None) -> Clues:
    """Add the files of a commit that define functions on the stack, and the dependencies of passes without a file."""
    if repository.is_partial:  # without their contents, no file seems to define anything
        return clues
    passes = [name for name in (clues.failing_pass, *clues.passes) if name and name.isidentifier()]  # no arguments
    # A pass that a commit of the range puts into a pipeline differs because of that commit.
    foreign = (
        ()
        if clues.files or clues.pipeline
        else [name for name in passes if not source_files(PassName(name), repository, commit, {})]
    )
    submodules = (project_table(project).submodule_of(name) for name in foreign)
    defining = (file for frame in clues.frames[:_FRAMES] for file in function_files(frame, repository, commit))
    return replace(
        clues, files=(*clues.files, *dict.fromkeys(defining)), submodules=frozenset(path for path in submodules if path)
    )


def commit_prior(commits: Sequence[Commit], clues: Clues, project: str | None) -> Floats:
    """Compute for each commit, oldest first, the chance to be the first bad one: shape (C,), positive, sums to 1.

    Args:
        commits: A range, oldest first.
        clues: What is known about the failure.
        project: Whose tables are used, one of `project_names()`; any other repository gets those that hold for all.

    Raises:
        ValueError: There are no commits.
    """
    if not commits:
        raise ValueError("a range without commits has no prior")
    weights = np.array([feature.weight for feature in features()])
    return suspicion(feature_matrix(tuple(commits), clues, project), weights)


def suspicion(matrix: Floats, weights: Floats, floor: float = FLOOR, doubt: float = DOUBT) -> Floats:
    """Turn features, shape (C, F), and their bits, shape (F,), into probabilities, shape (C,).

    They are a mixture: with all features, without those of the place, which may be wrong, and with none.
    """
    placeless = np.where([feature.place for feature in features()], 0.0, weights)
    believed = (1 - doubt) * _shares(matrix @ weights) + doubt * _shares(matrix @ placeless)
    mixed: Floats = (1 - floor) * believed + floor / len(believed)
    return mixed


def _shares(bits: Floats) -> Floats:
    odds = np.exp2(bits - bits.max())
    shares: Floats = odds / odds.sum()
    return shares


def explain(commits: Sequence[Commit], clues: Clues, project: str | None) -> tuple[tuple[Reason, ...], ...]:
    """List for each commit the reasons for its place in `commit_prior`, strongest first; empty when there is none.

    What nearly every commit of the range has in the same measure distinguishes none of them and is no reason.
    """
    matrix = feature_matrix(tuple(commits), clues, project)
    telling = [_is_telling(column) for column in matrix.T]
    return tuple(
        tuple(
            sorted(
                (
                    Reason(feature.name, _reason(feature, commit, clues), round(float(value) * feature.weight, 2))
                    for feature, value, tells in zip(features(), row, telling, strict=True)
                    if value and feature.weight and tells
                ),
                key=lambda reason: -abs(reason.bits),
            )
        )
        for commit, row in zip(commits, matrix, strict=True)
    )


def _reason(feature: Feature, commit: Commit, clues: Clues) -> str:
    updated = [file.path for file in commit.files if file.path in clues.submodules]
    return feature.reason.replace("PATH", " and ".join(updated))


def _is_telling(column: Floats) -> bool:
    """Whether a feature differs between commits: no value is that of nearly all."""
    _, counts = np.unique(column[column != 0], return_counts=True)
    return len(column) < _FEW or counts.max(initial=0) <= _NEARLY_ALL * len(column)


@dataclass(frozen=True, slots=True)
class Feature:
    """A column of the matrix."""

    name: str
    weight: float
    """Bits for each unit."""
    reason: str
    words: str | None = None
    """A regex for the subject in lower case."""
    place: bool = False
    """It is about where two compilers diverge."""


@cache
def features() -> tuple[Feature, ...]:
    """The features in the order of their columns."""
    text = files("triage.bisect").joinpath("prior_weights.yaml").read_text("utf-8")
    return tuple(Feature(**entry) for entry in yaml.safe_load(text)["features"])


@lru_cache(maxsize=4)
def feature_matrix(commits: tuple[Commit, ...], clues: Clues, project: str | None) -> Floats:
    """Compute how much of each feature each commit has, shape (len(commits), len(features())), 0 for nothing.

    Cached, because a prior and its reasons need the same matrix.
    """
    span = _FeatureRange(commits, clues, project_table(project))
    columns = []
    for feature in features():
        if feature.words is not None:
            pattern = re.compile(feature.words)
            columns.append([float(bool(pattern.search(subject))) for subject in span.subjects])
        elif feature.name in _OF_RANGE:
            columns.append(_OF_RANGE[feature.name](span))
        else:
            columns.append([float(_OF_COMMIT[feature.name](span, index)) for index in range(len(commits))])
    return np.array(columns, dtype=np.float64).T.reshape(len(commits), len(features()))


class _FeatureRange:
    """The commits of a range with the meaning of their files, prepared once for all features."""

    def __init__(self, commits: Sequence[Commit], clues: Clues, table: ProjectTable) -> None:
        self.commits, self.clues, self.table = commits, clues, table
        self.subjects = [commit.subject.lower() for commit in commits]
        self.files: list[list[tuple[ChangedFile, PathMeaning]]] = [
            [(file, table.meaning(file.path)) for file in commit.files] for commit in commits
        ]
        self.kinds = [{meaning.kind for _, meaning in changed} for changed in self.files]
        self.source = [[(file, meaning) for file, meaning in changed if meaning.kind == "compiler"] for changed in self.files]
        known = clues.backend is not None and clues.backend in table.backends
        self.backend = clues.backend if known else None
        self.shared = table.groups.get(self.backend or "", NEVER)

        text = f"{clues.text} {clues.failing_pass or ''} {clues.backend or ''}".lower()
        self.absent_topics = [pattern for pattern in table.optional if not pattern.search(text)]
        passes = [letters(name) for name in (clues.failing_pass, *clues.passes) if name]
        self.named_passes = [name for name in passes if len(name) > 3]


def _overlap(span: _FeatureRange) -> list[float]:
    return _shared_words(span, f"{span.clues.text} {span.clues.failing_pass or ''}")


def _pass_words(span: _FeatureRange) -> list[float]:
    return _shared_words(span, " ".join((*span.clues.passes, *span.clues.one_sided)))


def _shared_words(span: _FeatureRange, text: str) -> list[float]:
    """Information of the words shared with a text, by their rarity in the range; half for words of file names."""
    synonyms = span.table.synonyms
    wanted = topics(text, synonyms)
    subjects, names = [], []
    for commit, changed in zip(span.commits, span.files, strict=True):
        subjects.append(topics(_NUMBER.sub("", commit.subject), synonyms) & wanted)
        few = changed if len(changed) <= _MANY_FILES else []
        stems = " ".join(f.path.rsplit("/", 1)[-1].split(".")[0] for f, m in few if m.kind in {"compiler", "runtime", "test"})
        names.append(topics(stems, synonyms) & wanted)
    count = len(span.commits)
    spread = Counter(word for subject, name in zip(subjects, names, strict=True) for word in subject | name)
    bits = {word: max(0.0, math.log2((count + 2) / (spread[word] + 1))) for word in spread}
    return [
        min(8.0, sum(bits[word] * (1 if word in subject else 0.5) for word in subject | name))
        for subject, name in zip(subjects, names, strict=True)
    ]


def _named_pass(span: _FeatureRange, i: int) -> float:
    """1 where a file has the failing pass or is suspected, half where it is a test of it."""
    best = 0.0
    for file, meaning in span.files[i]:
        named = any(same_name(letters(file.path), name) for name in span.named_passes)
        if file.path in span.clues.files or (named and meaning.kind == "compiler"):
            return 1.0
        best = 0.5 if named else best
    return best


def _named_folder(span: _FeatureRange, i: int) -> bool:
    """Whether a changed file is in the folder of a suspected one."""
    folders = {path.rpartition("/")[0] for path in span.clues.files}
    return any(file.path.rpartition("/")[0] in folders for file, meaning in span.source[i])


def _one_sided(span: _FeatureRange, i: int) -> bool:
    """Whether a changed file has a pass that ran with one of the compilers only."""
    names = [letters(name) for name in span.clues.one_sided if len(name) > 7]
    return any(same_name(letters(file.path), name) for file, _ in span.source[i] for name in names)


def _own_backend(span: _FeatureRange, i: int) -> bool:
    return any(
        span.backend in meaning.backends or (not meaning.backends and bool(span.shared.search(file.path.lower())))
        for file, meaning in span.source[i]
    )


def _recent(span: _FeatureRange, i: int) -> float:
    return math.log2(len(span.commits) / (len(span.commits) - i)) if span.clues.noticed else 0.0


def _of_phase(span: _FeatureRange, i: int) -> bool:
    patterns = span.table.of_phase(span.clues.phase)
    return any(code.search(file.path.lower()) for file, _ in span.source[i] for code in patterns)


# The features that are computed for one commit of a range, by its index.
_OF_COMMIT: dict[str, Callable[[_FeatureRange, int], float]] = {
    "not-built": lambda span, i: bool(span.kinds[i]) and not span.kinds[i] & BUILT,
    "own-backend": _own_backend,
    "fusion": lambda span, i: any(meaning.fusion for _, meaning in span.source[i]),
    "codegen": lambda span, i: any(meaning.codegen for _, meaning in span.source[i]),
    "decides": lambda span, i: any(meaning.decides for _, meaning in span.source[i]),
    "phase": _of_phase,
    "chooses": lambda span, i: span.clues.chooses and any(meaning.decides for _, meaning in span.source[i]),
    "off-topic": lambda span, i: any(pattern.search(span.subjects[i]) for pattern in span.absent_topics),
    "named-pass": _named_pass,
    "named-folder": _named_folder,
    "pipeline": lambda span, i: span.commits[i].sha in span.clues.pipeline,
    "submodule": lambda span, i: any(file.path in span.clues.submodules for file in span.commits[i].files),
    "one-sided-pass": _one_sided,
    "recent": _recent,
}
# The features that need all commits of the range first.
_OF_RANGE: dict[str, Callable[[_FeatureRange], list[float]]] = {"overlap": _overlap, "pass-words": _pass_words}
