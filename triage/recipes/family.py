"""What a compiler family contributes to recipes: its backends, phases, kinds of input and keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from triage.model.case import InputKind, Target

if TYPE_CHECKING:
    from triage.recipes.recipe import RecipeFormat


@dataclass(frozen=True, slots=True)
class RecipeFamily:
    """What a recipe for one compiler family may contain."""

    name: str  # the value of `compiler`
    nicknames: tuple[str, ...] = ()  # words that people write instead
    backends: tuple[str, ...] = ()  # in the order to show; any word if empty
    aliases: Mapping[str, str] = field(default_factory=dict)  # words that people write for a backend
    phases: tuple[str, ...] = ()  # where the compiler can stop, in order
    inputs: Mapping[str, InputKind] = field(default_factory=lambda: {".mlir": InputKind.MLIR, ".mlirbc": InputKind.BYTECODE})
    """By suffix."""
    any_input: bool = False  # whether files with other suffixes are accepted too
    sections: tuple[str, ...] = ()  # keys of the family's own in which a matrix replaces placeholders
    flags: bool = True  # whether the compiler has flags
    axis: tuple[str, str] = ("dtype", "f16, f32")  # a matrix key with two values, for a new recipe
    flag: str = "-O3"  # an example, for a new recipe
    keys: str = "triage.recipes.recipe:RecipeFormat"
    """`module:Class` of the model, which is imported on first use because pydantic models are slow to import."""

    def kind_of(self, suffix: str) -> InputKind | None:
        """Return the kind of an input with that suffix (with its dot), or None if the family does not accept it."""
        return self.inputs.get(suffix, InputKind.OTHER if self.any_input else None)

    def model(self) -> type[RecipeFormat]:
        """Import the model of a recipe's keys."""
        model: type[RecipeFormat] = resolve_name(self.keys)
        return model


RecipeFamilies = Mapping[str, RecipeFamily]
"""By name; the first is the one of recipes without `compiler`."""


@dataclass(frozen=True, slots=True)
class RecipeStart:
    """The contents of a new recipe."""

    family: str  # of its compiler
    input: Path
    target: Target | None  # none for a family that needs none
    flags: Sequence[str] = ()
    phase: str | None = None
    keys: Sequence[str] = ()  # yAML lines of the keys that only this family has
    left_out: Sequence[str] = ()  # words of a command line that a recipe does not need
    copied: str | None = None  # the text to write to `input`, or None if the file exists
    notes: Sequence[str] = ()  # sentences for the user, which the recipe holds as comments
    env: Mapping[str, str] = field(default_factory=dict)  # variables that a command line sets
    guessed: bool = False  # whether a compile can correct some of the values
    expect: Sequence[str] = ()  # the class of the failure that was reported
    toolchain: str | None = None  # what to run it with (default: the newest release)
    unknown: Sequence[str] = ()  # keys whose values the user has to write
