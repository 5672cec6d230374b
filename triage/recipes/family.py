"""What a compiler family contributes to recipes: its backends, phases, kinds of input and keys, and new recipes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from triage.model.case import InputKind, Target

if TYPE_CHECKING:
    from triage.recipes.schema import RecipeFormat


def _plain_format() -> type[RecipeFormat]:
    from triage.recipes.schema import RecipeFormat  # pydantic models are slow to import

    return RecipeFormat


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
        axis: a matrix key with two values, for a new recipe.
        model: the keys of a recipe.
    """

    name: str
    nicknames: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    phases: tuple[str, ...] = ()
    inputs: Mapping[str, InputKind] = field(default_factory=dict)
    any_input: bool = False
    sections: tuple[str, ...] = ()
    flags: bool = True
    axis: tuple[str, str] = ("dtype", "f16, f32")
    model: Callable[[], type[RecipeFormat]] = _plain_format

    def kind_of(self, suffix: str) -> InputKind | None:
        """The kind of an input with that suffix (with its dot); None when the family does not accept it."""
        return self.inputs.get(suffix, InputKind.OTHER if self.any_input else None)


RecipeFamilies = Mapping[str, RecipeFamily]  # by name; the first is the one of recipes without `compiler`


@dataclass(frozen=True, slots=True)
class RecipeStart:
    """The contents of a new recipe. family: of its compiler; keys: YAML lines of the keys that only this family has;
    left_out: words of a command line that a recipe does not need; copied: the text to write to `input`, None when it exists.
    """

    family: str
    input: Path
    target: Target
    flags: Sequence[str] = ()
    phase: str | None = None
    keys: Sequence[str] = ()
    left_out: Sequence[str] = ()
    copied: str | None = None
