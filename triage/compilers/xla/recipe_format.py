"""The recipe keys of XLA: how to run a program, and how to lower a function of JAX."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from triage.compilers.iree.recipe_format import IreeFormat
from triage.compilers.parts import RecipeFromInput
from triage.model.case import Case, InputKind, Target
from triage.model.errors import BadInput
from triage.recipes.family import RecipeStart
from triage.recipes.mapping import AtKey, MappingFormat, Matching, Word

_CPU = Target("cpu")
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
    """Recipes for HLO, for functions of JAX, and for other programs whose backend is named `xla`."""

    def from_source(
        self, recipe: Path, source: Path, backend: str | None, chip: str | None, kernel: str | None
    ) -> RecipeStart | None:
        if source.suffix == ".hlo" or backend == "xla":
            return RecipeStart("xla", source, _CPU)
        functions = _jitted(source.read_text("utf-8", "replace")) if source.suffix == ".py" else {}
        if not functions:
            return None
        if len(functions) > 1 and kernel is None:
            raise BadInput(f"{source} has several functions under jax.jit; name one as {source}:{next(iter(functions))}")
        name = kernel or next(iter(functions))
        if name not in functions:
            raise BadInput(f"{source} has no function {name} under jax.jit; it has: {', '.join(functions)}")
        note = f"Write the types of its arguments ({', '.join(functions[name])}) as `arguments: [4x8xf32, i32]`."
        return RecipeStart("xla", source, _CPU, keys={"lower": {"function": name}}, notes=(note,) if functions[name] else ())


def _jitted(text: str) -> dict[str, list[str]]:
    """Return the functions under `jax.jit` in a file that prints nothing, with their parameters."""
    try:
        tree = ast.parse(text) if "jax" in text and "print(" not in text else ast.Module([], [])
    except (SyntaxError, ValueError, RecursionError):
        return {}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    jitted = [node for node in functions if any("jit" in ast.unparse(each) for each in node.decorator_list)]
    return {node.name: [each.arg for each in node.args.args] for node in jitted if "triton" not in text}
