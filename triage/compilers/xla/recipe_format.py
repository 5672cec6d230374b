"""The recipe keys of XLA: how to run a program, and how to lower a function of JAX.
Also recipes that are made from programs and texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from triage.compilers.pasted_text import blocks_in, python_in
from triage.compilers.recipe_input import RecipeRequest, RecipeStarter
from triage.model.case import Case, InputKind, Target
from triage.model.checks import Text, Word, file_key
from triage.model.errors import BadInput
from triage.recipes.family import RecipeStart
from triage.recipes.run_keys import RunnableRecipe

_CPU = Target("cpu")
_JAX = re.compile(r"^[ \t]*(?:>>> )?(?:import jax\b|from jax\b)", re.MULTILINE)
_BACKEND_NAMES = ("xla", "cpu", "host", "llvm-cpu", "local")
_SHAPE = re.compile(
    r"(\d+x)*(i1|[su]?i(8|16|32|64)|bf16|f16|f32|f64|f8E\w+|complex<f(32|64)>)"
)


def _argument(value: object) -> object:
    """Check the type of an argument: a text such as `4x8xf32`, or a list or a dict of
    types.
    """
    if isinstance(value, dict):
        return {name: _argument(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_argument(item) for item in value]
    if not _SHAPE.fullmatch(str(value)):
        advice = (
            "write dimensions and an element type, 4x8xf32, a list for a tuple, or a "
            "mapping for a dict."
        )
        raise ValueError(f'"{value}" is not the type of an argument: {advice}')
    return value


_Argument = Annotated[
    object,
    AfterValidator(_argument),
    WithJsonSchema({"type": ["string", "array", "object"]}),
]


@dataclass(frozen=True)
class Lowering:
    """How a function of JAX becomes StableHLO."""

    function: Word | None = file_key(
        None, "Function under `jax.jit`; optional when the file has only one."
    )
    arguments: tuple[_Argument, ...] = file_key(
        (),
        "Types of its arguments; a list is a tuple, a mapping a dict (default: those "
        "of the file's first call).",
        ["4x8xf32", "i32"],
        [{"w": "4x8xf32", "b": "8xf32"}, ["f32", "complex<f64>"]],
    )
    maker: Text | None = file_key(
        None,
        "The release of JAX that lowers it (default: the newest).",
        "0.8.0",
        alias="with",
    )


@dataclass(frozen=True, kw_only=True)
class XlaRecipe(RunnableRecipe):
    """A program for XLA."""

    lower: Lowering | None = file_key(
        None,
        "Lower a function in a .py file.",
        {"function": "step", "arguments": ["4xf32"]},
    )

    def mistakes(self, kind: InputKind) -> Iterator[tuple[str, str]]:
        yield from super().mistakes(kind)
        if self.lower is not None and not self.input.endswith(".py"):
            yield (
                "lower",
                "only a function in a .py file is lowered; remove `lower`, or name the "
                "file under `input`.",
            )
        if self.phase is not None:
            yield "phase", "XLA compiles in one step; remove `phase`."

    def complete(self, case: Case, folder: Path) -> Case:
        """Return the case with its run, and what lowers its function. A .py file runs
        as it is if nothing says what to do with a function.
        """
        case = super().complete(case, folder)
        if case.input.kind is not InputKind.GENERATOR:
            return case
        lower = self.lower or Lowering()
        calls_function = self.run and (self.run.inputs or self.run.function)
        if not (self.lower or self.args or calls_function):
            script = replace(case.input, kind=InputKind.OTHER)
            return replace(case, input=script)
        options: list[tuple[str, str]] = []
        if lower.function:
            options.append(("function", lower.function))
        for type_ in lower.arguments:
            text = type_ if isinstance(type_, str) else json.dumps(type_)
            options.append(("argument", text))
        args = (*options, *case.input.args)
        source = replace(case.input, args=args, maker=lower.maker)
        return replace(case, input=source)


class XlaRecipes(RecipeStarter):
    """Makes recipes for HLO, for functions of JAX, and for other programs if the user
    names the backend `xla`.
    """

    def programs_in(self, text: str) -> Sequence[str]:
        """Return the Python programs that import JAX; if there are none, HLO."""
        hlo = [block for block in blocks_in(text) if _is_hlo(block)]
        return python_in(text, _JAX) or hlo

    def from_program(
        self, request: RecipeRequest, source: Path | None, text: str
    ) -> RecipeStart | None:
        if source is None and _is_hlo(text):
            return RecipeStart("xla", request.path.with_suffix(".hlo"), _CPU)
        is_ours = source is None or request.backend in (None, *_BACKEND_NAMES)
        if is_ours and _JAX.search(text):
            path = source or request.path.with_suffix(".py")
            return _from_jax(path, text, request.kernel)
        if source and (source.suffix == ".hlo" or request.backend == "xla"):
            return RecipeStart("xla", source, _CPU)
        return None

    def target_in(self, text: str) -> Target:
        return _CPU


def _is_hlo(text: str) -> bool:
    return text.lstrip().startswith("HloModule")


def _from_jax(source: Path, text: str, function: str | None) -> RecipeStart:
    """Return a recipe for a function of JAX: its own name, or a variable that holds the
    compiled function. None means the first one under `jax.jit` that the file calls.
    """
    if function is None:
        return RecipeStart("xla", source, _CPU)
    if not re.search(rf"\b{re.escape(function)}\b", text):
        raise BadInput(f"{source} has no function {function}")
    return RecipeStart("xla", source, _CPU, keys={"lower": {"function": function}})
