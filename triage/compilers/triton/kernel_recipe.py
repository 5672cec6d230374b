"""Start a recipe for a kernel, with guesses of what to compile it for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from triage.classify.log import decoded
from triage.compilers.pasted_text import chip_in, read_kernels
from triage.compilers.recipe_input import PastedText, RecipeRequest, RecipeStarter
from triage.compilers.triton.kernel_copy import copy_kernel, is_standalone
from triage.compilers.triton.kernel_source import (
    KernelGuess,
    guess_kernel,
)
from triage.model.case import Target
from triage.model.errors import BadInput
from triage.recipes.family import RecipeStart

_COMMENT = (
    "`*` is a pointer, :16 means divisible by 16. Check what is marked as guessed."
)

_DEFAULT_CHIP = "sm_90"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelStart(RecipeStart):
    """A new recipe for a kernel."""

    guess: KernelGuess


class TritonRecipes(RecipeStarter):
    """Makes recipes for kernels. A kernel that imports from its own package is copied
    next to the recipe, with all that it uses.
    """

    def from_source(self, request: RecipeRequest, source: Path) -> RecipeStart | None:
        if source.suffix != ".py":
            return None
        text = decoded(source.read_bytes())
        start = _start(request, source, text)
        if start is None or is_standalone(source, text):
            return start
        copy = copy_kernel(source, text, start.guess.name)
        return _start_of_copy(start, request.path, copy, text)

    def from_pasted(self, request: RecipeRequest, program: str) -> RecipeStart | None:
        recipe = request.path
        if "tt.func" in program:
            is_lowered = "#ttg." in program or "#triton_gpu." in program
            place = recipe.with_suffix(".ttgir" if is_lowered else ".ttir")
            target = Target(request.backend or "cuda", request.chip or _DEFAULT_CHIP)
            return RecipeStart("triton", place, target, copied=program)
        start = _start(request, recipe.with_suffix(".py"), program)
        if start is None:
            return None
        if is_standalone(None, program):
            return replace(start, copied=program)
        copy = copy_kernel(None, program, start.guess.name)
        return _start_of_copy(start, recipe, copy, program)

    def read_text(self, text: str) -> PastedText:
        return read_kernels(text)

    def target_in(self, text: str) -> Target:
        chip = chip_in(text) or _DEFAULT_CHIP
        return Target("hip" if chip.startswith("gfx") else "cuda", chip)


def _start(request: RecipeRequest, source: Path, text: str) -> KernelStart | None:
    """Return a recipe for the kernel in a text, if it has one. `source` is its file."""
    try:
        guess = guess_kernel(text, request.kernel)
    except RecursionError as error:
        raise BadInput(
            f"an expression in {source.name} is nested too deeply"
        ) from error
    if guess is None:
        return None
    default_chip = "gfx942" if request.backend == "hip" else _DEFAULT_CHIP
    target = Target(request.backend or "cuda", request.chip or default_chip)
    assumed = [] if request.backend else ["cuda"]
    if request.chip is None:
        assumed.append(default_chip)
    start = KernelStart(
        family="triton",
        input=source,
        target=target,
        comment=_COMMENT,
        guess=guess,
        assumed=assumed,
    )
    return _with(start, guess)


def _start_of_copy(
    start: KernelStart, recipe: Path, copy: tuple[str, tuple[str, ...]], host: str
) -> KernelStart:
    """Return the recipe for a copy of the kernel, see `copy_kernel`. `host` is the file
    that was copied; it has the launches.
    """
    text, problems = copy
    start = replace(start, input=recipe.with_suffix(".py"), copied=text, notes=problems)
    return _with(start, guess_kernel(text, start.guess.name, host=host) or start.guess)


def _with(start: KernelStart, guess: KernelGuess) -> KernelStart:
    """Return the recipe with the keys of a guess."""
    keys = {
        "kernel": guess.name,
        "signature": guess.signature,
        "constexprs": guess.constexprs,
        "options": guess.options,
    }
    return replace(
        start,
        guess=guess,
        keys={name: value for name, value in keys.items() if value},
        guessed=guess.guessed,
    )
