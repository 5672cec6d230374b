"""Start a recipe for a kernel, with guesses of what to compile it for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from triage.compilers.pasted_text import chip_in, mlir_in, python_in
from triage.compilers.recipe_input import RecipeRequest, RecipeStarter
from triage.compilers.triton.kernel_copy import copy_kernel, is_standalone
from triage.compilers.triton.kernel_source import guess_kernel
from triage.model.case import Target
from triage.model.errors import BadInput
from triage.recipes.family import RecipeStart

_COMMENT = (
    "`*` is a pointer, :16 means divisible by 16. Check what is marked as guessed."
)
_DEFAULT_CHIP = "sm_90"
_KERNEL = re.compile(r"^[ \t]*@(?:triton\.)?jit\b", re.MULTILINE)
# What a script has that needs no GPU: it compiles ahead of time, or interprets kernels.
_NEEDS_NO_GPU = re.compile(r"\btriton\.compile\(|\bTRITON_INTERPRET\b")
_LAUNCHES = re.compile(
    r"^(?:if __name__ ==|\w[\w.]*(?:\[.*\])?\(|.*= *torch\.)", re.MULTILINE
)
_IMPORTS = {"triton": "import triton\n", "tl": "import triton.language as tl\n"}


class TritonRecipes(RecipeStarter):
    """Makes recipes for kernels. A kernel that imports from its own package is copied
    next to the recipe, with all that it uses.
    """

    def programs_in(self, text: str) -> Sequence[str]:
        """Return the Python programs with a kernel; if there are none, Triton's IR."""
        kernels = [_with_imports(kernel) for kernel in python_in(text, _KERNEL)]
        return kernels or [program for program in mlir_in(text) if "tt.func" in program]

    def from_program(
        self, request: RecipeRequest, source: Path | None, text: str
    ) -> RecipeStart | None:
        if source is not None and source.suffix != ".py":
            return None
        default_chip = "gfx942" if request.backend == "hip" else _DEFAULT_CHIP
        start = RecipeStart(
            "triton",
            source or request.path.with_suffix(".py"),
            Target(request.backend or "cuda", request.chip or default_chip),
            copied=None if source else text,
        )
        if source is None and "tt.func" in text:
            is_lowered = "#ttg." in text or "#triton_gpu." in text
            suffix = ".ttgir" if is_lowered else ".ttir"
            return replace(start, input=request.path.with_suffix(suffix))
        if request.kernel is None and _NEEDS_NO_GPU.search(text):
            return start
        try:
            guess = guess_kernel(text, request.kernel)
            if guess is None:
                return None
            if not is_standalone(text):
                copied = copy_kernel(source, text, guess.kernel)
                place = request.path.with_suffix(".py")
                start = replace(start, input=place, copied=copied)
        except RecursionError as error:
            name = source.name if source else "the text"
            raise BadInput(f"an expression in {name} is nested too deeply") from error
        keys = asdict(guess)
        return replace(
            start,
            guessed=keys.pop("guessed"),
            keys=keys,
            comment=_COMMENT,
            notes=[_why_not_run(guess.kernel)] if _LAUNCHES.search(text) else [],
            assumed=_assumed(request, default_chip),
        )

    def target_in(self, text: str) -> Target:
        chip = chip_in(text) or _DEFAULT_CHIP
        return Target("hip" if chip.startswith("gfx") else "cuda", chip)


def _with_imports(kernel: str) -> str:
    """Add the imports of Triton that every kernel has, and that people leave out."""
    missing = [
        line
        for name, line in _IMPORTS.items()
        if re.search(rf"\b{name}\.", kernel)
        and not re.search(rf"\b(?:import|as) {name}\b(?!\.\S+ as )", kernel)
    ]
    return "".join(missing) + kernel


def _assumed(request: RecipeRequest, chip: str) -> list[str]:
    """Return the backend and the chip that the user did not name."""
    assumed = [] if request.backend else ["cuda"]
    return assumed if request.chip else [*assumed, chip]


def _why_not_run(kernel: str) -> str:
    """Return a note on a script that launches kernels."""
    return (
        "The script is not run: it launches kernels on a GPU, and releases of Triton "
        f"are installed without torch. Only {kernel} is compiled."
    )
