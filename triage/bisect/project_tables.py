"""What the paths, phases and words of a project mean, and how words of different spellings compare."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import yaml

_ENDING = re.compile(r"(ations?|ings?|ions?|ies|ed|es|s|e|y)$")


def stem(word: str) -> str:
    """Remove the ending that inflects a lower case word, so that `distributed` equals `distribution`."""
    return _ENDING.sub("", word) if len(word) > 4 else word


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]+")


def topics(text: str, synonyms: Mapping[str, str]) -> frozenset[str]:
    """Find the stems in text, with CamelCase and snake_case split, and the topics they stand for."""
    stems = {stem(word.lower()) for word in _WORD.findall(_CAMEL.sub(" ", text).replace("_", " "))}
    rare = {word for word in stems if len(word) > 2 and word not in _common_stems()}
    return frozenset(rare | {synonyms[word] for word in stems if word in synonyms})


def letters(name: str) -> str:
    """Reduce a pass or file name to its letters and digits.

    `GPUPadOperandsPass`, `gpu_pad_operands.mlir` and `gpu-pad-operands` become `gpupadoperands`.
    """
    name = name.rsplit("/", 1)[-1]
    name = re.sub(r"\.[a-z]{1,4}$", "", name)
    flat = re.sub(r"[^a-z0-9]", "", name.lower())
    return flat.removesuffix("pass")


def same_name(name: str, other: str) -> bool:
    """Whether two names made by `letters` name the same pass: equal, or one has a prefix (a dialect, a tool)."""
    shorter = min(len(name), len(other))
    return name == other or (shorter >= 8 and (name.endswith(other) or other.endswith(name)))


NEVER = re.compile(r"(?!)")
BUILT = frozenset({"compiler", "runtime", "dependency", "tool"})


@dataclass(frozen=True, slots=True)
class PathMeaning:
    """What a path is for: its kind, the backends that it belongs to, and which topics of the tables it matches."""

    kind: str
    backends: frozenset[str]
    fusion: bool
    codegen: bool
    decides: bool


@dataclass(frozen=True, eq=False)
class ProjectTable:
    """The compiled table of a project. `groups`: for each backend, the pattern of the code that similar backends share."""

    kinds: tuple[tuple[str, re.Pattern[str]], ...]
    backends: Mapping[str, re.Pattern[str]]
    groups: Mapping[str, re.Pattern[str]]
    fusion: re.Pattern[str]
    codegen: re.Pattern[str]
    decides: re.Pattern[str]
    phases: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = ()
    optional: tuple[re.Pattern[str], ...] = ()
    synonyms: Mapping[str, str] = field(default_factory=dict)
    submodules: tuple[tuple[re.Pattern[str], str], ...] = ()

    def meaning(self, path: str) -> PathMeaning:
        """The meaning of a path; cached, because many commits change the same file."""
        return _meaning(self, path)

    def backends_in(self, text: str) -> frozenset[str]:
        """The backends that are named in lower case text."""
        return frozenset(name for name, pattern in self.backends.items() if pattern.search(text))

    def of_phase(self, phase: str | None) -> tuple[re.Pattern[str], ...]:
        """Patterns of the code of a phase; empty where it is unknown."""
        return tuple(code for name, code in self.phases if phase and name.search(phase))

    def submodule_of(self, name: str) -> str | None:
        """The path that an update of the dependency with this pass changes; None where it is unknown."""
        return next((path for pattern, path in self.submodules if pattern.search(name.lower())), None)


@lru_cache(maxsize=100_000)
def _meaning(project: ProjectTable, path: str) -> PathMeaning:
    low = path.lower()
    kind = next((kind for kind, pattern in project.kinds if pattern.search(low)), "compiler")
    return PathMeaning(
        kind,
        project.backends_in(low),
        bool(project.fusion.search(low)),
        bool(project.codegen.search(low)),
        bool(project.decides.search(low)),
    )


def project_names() -> tuple[str, ...]:
    """The projects that have a table."""
    return tuple(sorted(set(_tables()) - {"any"}))


@cache
def project_table(name: str | None) -> ProjectTable:
    """The table of a project; the one that holds for every project where it has none."""
    shared, own = _tables()["any"], _tables().get(name or "any", {})
    if own is shared:
        own = {}
    backends = {key: _either([own.get("backends", {}).get(key), text]) for key, text in shared["backends"].items()}
    groups = {backend: re.compile(text) for members, text in [*shared["groups"], *own.get("groups", [])] for backend in members}
    return ProjectTable(
        kinds=tuple((kind, re.compile(text)) for kind, text in [*own.get("kinds", []), *shared["kinds"]]),
        backends=backends,
        groups=groups,
        fusion=_either([own.get("fusion")]),
        codegen=_either([own.get("codegen")]),
        decides=_either([own.get("decides"), shared["decides"]]),
        phases=tuple((re.compile(phase), re.compile(text)) for phase, text in own.get("phases", [])),
        optional=tuple(re.compile(text) for text in own.get("optional", [])),
        synonyms=_topics([*shared["synonyms"], *own.get("synonyms", [])]),
        submodules=tuple((re.compile(text), path) for text, path in own.get("submodules", [])),
    )


@cache
def _tables() -> dict[str, dict[str, Any]]:
    places = [files("triage.bisect") / "prior_projects.yaml"]
    places += [folder / "commits.yaml" for folder in files("triage.compilers").iterdir() if folder.is_dir()]
    tables: dict[str, dict[str, Any]] = {}
    for place in places:
        if place.is_file():
            tables |= yaml.safe_load(place.read_text("utf-8"))
    return tables


@cache
def _common_stems() -> frozenset[str]:
    return frozenset(stem(word) for word in _tables()["any"]["common"])


def _either(patterns: Iterable[str | None]) -> re.Pattern[str]:
    known = [f"(?:{text})" for text in patterns if text]
    return re.compile("|".join(known)) if known else NEVER


def _topics(groups: Sequence[Sequence[str]]) -> dict[str, str]:
    return {stem(word): f"~{group[0]}" for group in groups for word in group}
