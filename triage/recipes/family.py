"""What a compiler family contributes to recipes: backends, phases, kinds of input and
keys; and the text of a new recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from triage.model.case import Input, InputKind, Target
from triage.recipes.values import name_from, recipe_lines

if TYPE_CHECKING:  # pydantic models are slow to import
    from triage.recipes.recipe import Recipe

SECTIONS = ("input", "args", "flags", "target", "env")
"""Where ${key} is replaced for every family; in flags only the text, not the bounds."""
MODEL_SUFFIX = ".onnx.py"
"""Of the name of a generator that prints an ONNX model."""


@dataclass(frozen=True, slots=True)
class RecipeFamily:
    """What a recipe for one compiler family may contain."""

    name: str
    """The value of `compiler`."""
    nicknames: tuple[str, ...] = ()
    """Words that people write instead of the name."""
    backends: tuple[str, ...] = ()
    """In the order to show them. If there are none, any word is accepted."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Words that people write for a backend."""
    phases: tuple[str, ...] = ()
    """The phases after which the compiler can stop, in order."""
    inputs: Mapping[str, InputKind] = field(
        default_factory=lambda: {".mlir": InputKind.MLIR, ".mlirbc": InputKind.BYTECODE}
    )
    """Suffix -> kind of input."""
    imported: frozenset[InputKind] = frozenset()
    """The kinds that are converted before the compiler reads them."""
    any_input: bool = False
    """Whether files with other suffixes are accepted, too."""
    sections: tuple[str, ...] = ()
    """The family's own keys in which placeholders are replaced."""
    keys: Callable[[], type[Recipe]] | None = None
    """Imports the class of its keys, because pydantic models are slow to import
    (default: the keys that all families have).
    """

    def kind_of(self, suffix: str) -> InputKind | None:
        """Return the kind of an input by its suffix, `.mlir`, or None if the family
        does not accept it.
        """
        return self.inputs.get(suffix, InputKind.OTHER if self.any_input else None)

    def input_at(self, path: Path, args: tuple[tuple[str, str], ...] = ()) -> Input:
        """Return the input in a file. Its suffix decides its kind."""
        kind = self.kind_of(path.suffix) or InputKind.OTHER
        is_model = kind in self.imported or path.name.endswith(MODEL_SUFFIX)
        return Input(path, kind, args, imported=is_model)


RecipeFamilies = Mapping[str, RecipeFamily]
"""Families by name. The first is the family of recipes without the key `compiler`."""


@dataclass(frozen=True, slots=True)
class RecipeStart:
    """The contents of a new recipe."""

    family: str
    """The family of its compiler."""
    input: Path
    target: Target | None
    flags: Sequence[str] = ()
    phase: str | None = None
    keys: Mapping[str, object] = field(default_factory=dict)
    """The keys that only this family has, with their values."""
    comment: str = ""
    """A sentence for the user about these keys."""
    left_out: Sequence[str] = ()
    """Words of a command line that a recipe does not need."""
    refused: Sequence[str] = ()
    """Words of a pasted command line that could start programs or name files."""
    copied: str | None = None
    """The text to write to `input`, unless the file exists."""
    notes: Sequence[str] = ()
    """Sentences for the user, which the recipe holds as comments."""
    guessed: Mapping[str, str] = field(default_factory=dict)
    """Name of an entry of the family's keys whose value is guessed -> why it has this
    value.
    """
    expect: Sequence[str] = ()
    """The class of the failure that was reported."""
    assumed: Sequence[str] = ()
    """Backend, chip and values that nobody named, such as `llvm-cpu`."""


def new_recipe(title: str, input_path: str, start: RecipeStart) -> str:
    """Return the YAML text of a new recipe. Its name is made from the title."""
    name = summary = name_from(title) or start.family
    if start.target:
        summary += f" on {start.target.chip or start.target.backend}"
    values = {
        "name": name,
        "summary": summary,
        "compiler": start.family,
        "input": input_path,
        **start.keys,
        "target": start.target,
        "flags": start.flags,
        "phase": start.phase,
        "limits": {"timeout": "120s", "memory": "8GiB"},
        "expect": [{"failure": failure} for failure in start.expect],
    }
    notes = [*start.notes, start.comment]
    notes += [f"guessed: {name}, {why}" for name, why in start.guessed.items()]
    comments = "\n".join(filter(None, notes))
    lines = [f"# {line}\n" for line in comments.splitlines()]
    lines += [f"{line}\n" for line in recipe_lines(values)]
    return "".join(lines)
