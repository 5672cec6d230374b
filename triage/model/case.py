"""A test case: a recipe with one combination of its matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from triage.model.execution import Limits


class InputKind(StrEnum):
    """The form of an input file."""

    MLIR = "mlir"
    BYTECODE = "mlirbc"
    ONNX = "onnx"  # imported first, by a toolchain with a working importer
    GENERATOR = "py"  # a program that prints the input; run with `args`
    OTHER = "other"  # passed to the compiler unchanged


@dataclass(frozen=True, slots=True)
class Input:
    """The absolute path of a recipe's input, and the arguments for a generator (`--name value`)."""

    path: Path
    kind: InputKind
    args: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """What to compile for. devices: how many, None for one."""

    backend: str
    chip: str | None = None
    devices: int | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """A compiler flag for versions in [since, until)."""

    text: str
    since: str | None = None
    until: str | None = None


Constant = bool | int | float | str | None


class CaseSpec:
    """What one compiler family needs of a case beyond target and flags. Only code of that family looks inside."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class KernelSpec(CaseSpec):
    """How a Python function is specialised for a compile.

    name: the function, None for the only one of the file; signature: argument -> type; constexprs: values known at compile
    time, a type as `tl.float16`; hints: facts about an argument, such as `divisibility`; options: launch options, such as
    `num_warps`.
    """

    name: str | None
    signature: Mapping[str, str]
    constexprs: Mapping[str, Constant]
    hints: Mapping[str, Mapping[str, int]]
    options: Mapping[str, Constant]


@dataclass(frozen=True, slots=True)
class VersionRule:
    """How to ask a compiler that is not a package for its version: a command, and a pattern for the version in its output."""

    run: tuple[str, ...]
    pattern: str


@dataclass(frozen=True, slots=True)
class CommandSpec(CaseSpec):
    """A compiler behind a command. words: the command line, program first, with the placeholders `{input}`, `{output}`,
    `{toolchain}`, `{python}` and `{flags}`; packages: requirements of the package index, first the one whose releases are
    the timeline; version: None for a package.
    """

    words: tuple[str, ...]
    packages: tuple[str, ...] = ()
    version: VersionRule | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """A known failure of versions in [since, until): its class or class family, and the issue that tracks it."""

    failure: str
    since: str | None = None
    until: str | None = None
    issue: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One compile: a recipe with one combination of its matrix. name: `recipe` or `recipe[key=value,...]`, unique in a run;
    compiler: the family; rules: the recipe's own file of failure rules, which come before the packaged ones; spec: data
    that only the family reads.
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
    rules: Path | None = None
    spec: CaseSpec | None = None
