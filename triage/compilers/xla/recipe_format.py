"""The recipe keys of XLA, and recipes that are made from programs and texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from triage.compilers.parts import PastedProgram, RecipeRequest, RecipeStarter
from triage.compilers.pasted_text import blocks_in, python_in
from triage.model.case import Case, InputKind, Target
from triage.recipes.recipe import RecipeStart
from triage.recipes.run_keys import RunnableRecipe

_JAX = re.compile(r"^[ \t]*(?:>>> )?(?:import jax\b|from jax\b)", re.MULTILINE)
_BACKEND_NAMES = ("xla", "cpu", "host", "llvm-cpu", "local")


@dataclass(frozen=True, kw_only=True)
class XlaRecipe(RunnableRecipe):
    """A program for XLA."""

    def mistakes(self, kind: InputKind) -> Iterator[tuple[str, str]]:
        yield from super().mistakes(kind)
        if self.phase is not None:
            yield "phase", "XLA compiles in one step; remove `phase`."

    def complete(self, case: Case, folder: Path) -> Case:
        """Return the case with its run. A .py file without arguments runs as it is."""
        case = super().complete(case, folder)
        takes_values = self.run and (self.run.inputs or self.run.function)
        if case.input.kind is not InputKind.GENERATOR or self.args or takes_values:
            return case
        return replace(case, input=replace(case.input, kind=InputKind.OTHER))


class XlaRecipes(RecipeStarter):
    """Makes recipes for HLO, for scripts that use JAX, and for other programs if the
    user names the backend `xla`.
    """

    def programs_in(self, text: str) -> Sequence[PastedProgram]:
        """Return the Python programs that import JAX; if there are none, HLO."""
        return [PastedProgram(code, ".py") for code in python_in(text, _JAX)] or [
            PastedProgram(block, ".hlo")
            for block in blocks_in(text)
            if block.lstrip().startswith("HloModule")
        ]

    def from_program(
        self, request: RecipeRequest, path: Path, text: str
    ) -> RecipeStart | None:
        is_ours = path.suffix == ".hlo" or request.backend == "xla"
        if request.backend in (None, "", *_BACKEND_NAMES) and not request.kernel:
            is_ours = is_ours or _JAX.search(text) is not None
        if is_ours:
            return RecipeStart("xla", path, Target("cpu"))
        return None
