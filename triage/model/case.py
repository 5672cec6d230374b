"""What is compiled: a recipe with one choice of its matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from triage.model.execution import Limits


class InputKind(StrEnum):
    """How an input becomes what the compiler reads."""

    MLIR = "mlir"
    BYTECODE = "mlirbc"
    ONNX = "onnx"  # imported once, by a toolchain whose importer works
    GENERATOR = "py"  # run with `args`, prints the input
    OTHER = "other"  # given to the compiler as it is


@dataclass(frozen=True, slots=True)
class Input:
    """The file a recipe names, absolute, and the arguments a generator is given (`--name value`)."""

    path: Path
    kind: InputKind
    args: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """What is compiled for. `devices` > 1 asks for that many devices; `options` are adapter-specific settings."""

    backend: str
    chip: str | None = None
    devices: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Flag:
    """A compiler flag, given to versions in [since, until)."""

    text: str
    since: str | None = None
    until: str | None = None


Constant = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Kernel:
    """How a kernel is specialised. name: which of the file's, None for the only one; signature: type of each argument;
    constexprs: values known at compile time, `tl.float16` for a type; hints: what is known of an argument, such as
    `divisibility`; options: what a launch chooses, such as `num_warps`.
    """

    name: str | None
    signature: Mapping[str, str]
    constexprs: Mapping[str, Constant]
    hints: Mapping[str, Mapping[str, int]]
    options: Mapping[str, Constant]


@dataclass(frozen=True, slots=True)
class VersionRule:
    """How a compiler that is no package tells its version: what to run, and a pattern whose group (or whole) is it."""

    run: tuple[str, ...]
    pattern: str


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A compiler behind a command. words: its arguments, program first, with `{input}`, `{output}`, `{toolchain}`,
    `{python}` and `{flags}` for what they stand for; packages: requirements of the package index, the one whose releases
    are the timeline first.
    """

    words: tuple[str, ...]
    packages: tuple[str, ...] = ()
    version: VersionRule | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """A known failure, held for versions in [since, until): class (or family) and the issue that tracks it."""

    failure: str
    since: str | None = None
    until: str | None = None
    issue: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to compile. `name` is `recipe` or `recipe[key=value,...]`; unique among the recipes of one run.
    `compiler`: the family; `how`: what families need beyond target and flags; `rules`: a file of failure rules that take
    precedence over the packaged ones.
    """

    recipe: str
    name: str
    summary: str
    compiler: str
    source: Path
    input: Input
    target: Target
    flags: tuple[Flag, ...] = ()
    phase: str | None = None
    limits: Limits = field(default_factory=Limits)
    expect: tuple[Expectation, ...] = ()
    matrix: tuple[tuple[str, str], ...] = ()
    how: Kernel | CommandLine | None = None
    rules: Path | None = None
