"""What a compiler family contributes to recipes: its backends, phases, kinds of input and keys, and new recipes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from triage.model.case import InputKind, Target

if TYPE_CHECKING:
    from triage.recipes.schema import RecipeFormat


@dataclass(frozen=True, slots=True)
class RecipeFamily:
    """What a recipe for one compiler family may contain.

    Args:
        name: the value of `compiler`; nicknames: words that people write instead.
        backends, phases: in the order to show; without backends any word is accepted, without phases the compiler cannot
            stop early.
        aliases: words that people write for a backend -> the backend.
        inputs: suffix -> kind; any_input: files with other suffixes are accepted too.
        sections: keys of the family's own in which a matrix replaces placeholders.
        flags: whether the compiler has flags.
        flag: an example of a flag, for a new recipe.
        axis: a matrix key with two values, for a new recipe.
        keys: `module:Class` of the model of a recipe's keys, imported on first use because pydantic models are slow to import.
    """

    name: str
    nicknames: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    phases: tuple[str, ...] = ()
    inputs: Mapping[str, InputKind] = field(default_factory=lambda: {".mlir": InputKind.MLIR, ".mlirbc": InputKind.BYTECODE})
    any_input: bool = False
    sections: tuple[str, ...] = ()
    flags: bool = True
    axis: tuple[str, str] = ("dtype", "f16, f32")
    flag: str = "-O3"
    keys: str = "triage.recipes.schema:RecipeFormat"

    def kind_of(self, suffix: str) -> InputKind | None:
        """The kind of an input with that suffix (with its dot); None when the family does not accept it."""
        return self.inputs.get(suffix, InputKind.OTHER if self.any_input else None)

    def model(self) -> type[RecipeFormat]:
        """The model of a recipe's keys."""
        model: type[RecipeFormat] = resolve_name(self.keys)
        return model


RecipeFamilies = Mapping[str, RecipeFamily]  # by name; the first is the one of recipes without `compiler`


@dataclass(frozen=True, slots=True)
class RecipeStart:
    """The contents of a new recipe. family: of its compiler; target: None for a family that needs none; keys: YAML lines of
    the keys that only this family has; left_out: words of a command line that a recipe does not need; copied: the text to
    write to `input`, None when it exists; notes: sentences for the user, which the recipe holds as comments; env: variables
    that a command line sets; guessed: whether a compile can correct some of the values; expect: the class of
    the failure that was reported; toolchain: what to run it with, None for the newest release;
    unknown: keys whose values the user has to write.
    """

    family: str
    input: Path
    target: Target | None
    flags: Sequence[str] = ()
    phase: str | None = None
    keys: Sequence[str] = ()
    left_out: Sequence[str] = ()
    copied: str | None = None
    notes: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    guessed: bool = False
    expect: Sequence[str] = ()
    toolchain: str | None = None
    unknown: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class TextExcerpt:
    """A part of a text. line: the number of its first line, from 1; lacks: what a program that was cut lacks."""

    line: int
    text: str
    lacks: str | None = None


@dataclass(frozen=True, slots=True)
class PastedText:
    """What an issue, a gist or a log holds of use for a recipe. runs: command lines that run a compiled program."""

    programs: tuple[TextExcerpt, ...] = ()
    commands: tuple[TextExcerpt, ...] = ()
    runs: tuple[str, ...] = ()
