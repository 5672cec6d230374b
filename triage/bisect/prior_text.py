"""Words of diagnostics, subjects and file names, made comparable."""

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
    """A lower case word without the ending that inflects it, so that `distributed` and `distribution` meet."""
    return _ENDING.sub("", word) if len(word) > 4 else word


# Too common in compiler diagnostics, or in the subjects of a compiler's commits, to connect the two.
_COMMON = frozenset(
    stem(word)
    for word in [
        "the",
        "and",
        "for",
        "with",
        "from",
        "that",
        "this",
        "not",
        "into",
        "all",
        "some",
        "via",
        "when",
        "after",
        "before",
        "due",
        "only",
        "more",
        "one",
        "use",
        "using",
        "used",
        "new",
        "old",
        "add",
        "adds",
        "added",
        "make",
        "made",
        "support",
        "error",
        "errors",
        "failed",
        "failure",
        "fail",
        "fails",
        "failing",
        "compile",
        "compiler",
        "compilation",
        "compiling",
        "module",
        "function",
        "func",
        "main",
        "program",
        "input",
        "output",
        "value",
        "values",
        "type",
        "types",
        "tensor",
        "op",
        "ops",
        "operation",
        "operations",
        "pass",
        "passes",
        "target",
        "backend",
        "backends",
        "model",
        "models",
        "test",
        "tests",
        "regression",
        "regressions",
        "iree",
        "mlir",
        "llvm",
        "triton",
        "cpp",
        "lib",
        "src",
        "hal",
        "torch",
        "onnx",
        "aten",
        "dispatch",
        "codegen",
        "gpu",
        "cpu",
        "llvmgpu",
        "llvmcpu",
        "utils",
        "util",
        "config",
        "large",
        "small",
        "size",
        "run",
        "device",
        "host",
    ]
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]+")


def topics(text: str, synonyms: Mapping[str, str]) -> frozenset[str]:
    """The stems in text, CamelCase and snake_case taken apart, and the topics they stand for."""
    stems = {stem(word.lower()) for word in _WORD.findall(_CAMEL.sub(" ", text).replace("_", " "))}
    some = {one for one in stems if len(one) > 2 and one not in _COMMON}
    return frozenset(some | {synonyms[one] for one in stems if one in synonyms})


def letters(name: str) -> str:
    """A pass or file name with all that spellings differ in taken away: `GPUPadOperandsPass`, `gpu_pad_operands.mlir` and
    `gpu-pad-operands` become `gpupadoperands`.
    """
    name = name.rsplit("/", 1)[-1]
    name = re.sub(r"\.[a-z]{1,4}$", "", name)
    flat = re.sub(r"[^a-z0-9]", "", name.lower())
    return flat.removesuffix("pass")


def same_name(one: str, other: str) -> bool:
    """Whether two names as `letters` makes them are one pass's: equal, or one with a prefix (a dialect, a tool)."""
    shorter = min(len(one), len(other))
    return one == other or (shorter >= 8 and (one.endswith(other) or other.endswith(one)))


NEVER = re.compile(r"(?!)")
BUILT = frozenset({"compiler", "runtime", "dependency", "tool"})


@dataclass(frozen=True, slots=True)
class Sense:
    """What one path is: its kind, the backends whose own it is, and whether the tables speak of it."""

    kind: str
    backends: frozenset[str]
    fusion: bool
    codegen: bool
    plumbing: bool
    decides: bool


@dataclass(frozen=True, eq=False)
class Project:
    """The compiled table of a project. `groups`: for each backend, the pattern of the code it shares with its like."""

    kinds: tuple[tuple[str, re.Pattern[str]], ...]
    upstream: re.Pattern[str]
    backends: Mapping[str, re.Pattern[str]]
    groups: Mapping[str, re.Pattern[str]]
    fusion: re.Pattern[str]
    codegen: re.Pattern[str]
    plumbing: re.Pattern[str]
    decides: re.Pattern[str]
    phases: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = ()
    optional: tuple[re.Pattern[str], ...] = ()
    synonyms: Mapping[str, str] = field(default_factory=dict)

    def sense(self, path: str) -> Sense:
        """What the path is; remembered, because a file is changed by many commits."""
        return _sense(self, path)

    def backends_in(self, text: str) -> frozenset[str]:
        """The backends that lower case text names."""
        return frozenset(name for name, pattern in self.backends.items() if pattern.search(text))

    def of_phase(self, phase: str | None) -> tuple[re.Pattern[str], ...]:
        """The code of a phase; nothing where it is not known."""
        return tuple(code for name, code in self.phases if phase and name.search(phase))

    def shared(self, backend: str) -> re.Pattern[str]:
        """Code of the backend's group."""
        return self.groups.get(backend, NEVER)


@lru_cache(maxsize=100_000)
def _sense(project: Project, path: str) -> Sense:
    low = path.lower()
    kind = next((kind for kind, pattern in project.kinds if pattern.search(low)), "compiler")
    return Sense(
        kind,
        project.backends_in(low),
        bool(project.fusion.search(low)),
        bool(project.codegen.search(low)),
        bool(project.plumbing.search(low)),
        bool(project.decides.search(low)),
    )


def project_names() -> tuple[str, ...]:
    """The projects that have a table."""
    return tuple(sorted(set(_tables()) - {"any"}))


@cache
def project_table(name: str | None) -> Project:
    """The table of a project; what holds for every project where it has none."""
    shared, own = _tables()["any"], _tables().get(name or "any", {})
    if own is shared:
        own = {}
    backends = {key: _either([own.get("backends", {}).get(key), text]) for key, text in shared["backends"].items()}
    groups = {backend: re.compile(text) for members, text in [*shared["groups"], *own.get("groups", [])] for backend in members}
    return Project(
        kinds=tuple((kind, re.compile(text)) for kind, text in [*own.get("kinds", []), *shared["kinds"]]),
        upstream=_either([own.get("upstream"), shared["upstream"]]),
        backends=backends,
        groups=groups,
        fusion=_either([own.get("fusion")]),
        codegen=_either([own.get("codegen")]),
        plumbing=_either([own.get("plumbing")]),
        decides=_either([own.get("decides"), shared["decides"]]),
        phases=tuple((re.compile(phase), re.compile(text)) for phase, text in own.get("phases", [])),
        optional=tuple(re.compile(text) for text in own.get("optional", [])),
        synonyms=_topics([*shared["synonyms"], *own.get("synonyms", [])]),
    )


@cache
def _tables() -> dict[str, dict[str, Any]]:
    text = files("triage.bisect").joinpath("prior_projects.yaml").read_text("utf-8")
    tables: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return tables


def _either(patterns: Iterable[str | None]) -> re.Pattern[str]:
    some = [f"(?:{text})" for text in patterns if text]
    return re.compile("|".join(some)) if some else NEVER


def _topics(groups: Sequence[Sequence[str]]) -> dict[str, str]:
    return {stem(word): f"~{group[0]}" for group in groups for word in group}
