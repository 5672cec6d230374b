"""The recipe keys of XLA: how to run a program, and how to lower a function of JAX."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from triage.compilers.iree.recipe_format import IreeFormat
from triage.compilers.parts import RecipeFromInput
from triage.model.case import Case, InputKind
from triage.recipes.mapping import AtKey, MappingFormat, Matching, Word

_SHAPE = r"(\d+x)*(i1|[su]?i(8|16|32|64)|bf16|f16|f32|f64|f8E\w+)"
_Shape = Annotated[
    str, Matching(_SHAPE, '"{text}" is not the type of an argument: write dimensions and an element type, 4x8xf32.')
]


class LowerFormat(MappingFormat):
    """How a function of JAX becomes StableHLO. The newest release lowers it, so that all compile the same program."""

    function: Word | None = Field(default=None, description="Function under `jax.jit`; optional when the file has only one.")
    arguments: list[_Shape] = Field(default=[], description="Types of its arguments.", examples=[["4x8xf32", "i32"]])


class XlaFormat(IreeFormat):
    """A program for XLA."""

    lower: LowerFormat | None = Field(
        default=None, description="Lower a function in a .py file.", examples=[{"function": "step", "arguments": ["4xf32"]}]
    )

    @model_validator(mode="after")
    def _lowers_python(self) -> Self:
        if self.lower is not None and not str(self.input).endswith(".py"):
            raise AtKey("lower", "only a function in a .py file is lowered; remove `lower`, or name the file under `input`.")
        if self.phase is not None:
            raise AtKey("phase", "XLA compiles in one step; remove `phase`.")
        return self

    def complete(self, case: Case, folder: Path) -> Case:
        """Return the case with its run, and what lowers its function."""
        case = super().complete(case, folder)
        if case.input.kind is not InputKind.GENERATOR:
            return case
        lower = self.lower or LowerFormat()
        words = [("function", lower.function)] if lower.function else []
        words += [("argument", shape) for shape in lower.arguments]
        return replace(case, input=replace(case.input, args=(*words, *case.input.args)))


class XlaRecipes(RecipeFromInput):
    """Makes recipes from programs of JAX."""
