"""A new recipe for a kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from triage.compilers.triton.kernel_copy import copy_kernel, is_standalone
from triage.compilers.triton.kernel_guess import KernelGuess, guess_kernel, guess_keys
from triage.model.case import Target
from triage.model.errors import BadInput
from triage.recipes.family import RecipeStart

_VAGUE = (64, 2)  # values that say only that nothing was known


@dataclass(frozen=True, slots=True)
class KernelStart(RecipeStart):
    """A new recipe with what was guessed of its kernel. alternative: the same with the kernel as its own file."""

    guess: KernelGuess | None = None
    alternative: KernelStart | None = None

    def with_guess(self, guess: KernelGuess) -> KernelStart:
        """The same recipe with another guess."""
        return replace(self, guess=guess, keys=guess_keys(guess), guessed=bool(guess.guessed))


def start_from_kernel(
    recipe: Path, source: Path, backend: str | None, chip: str | None, kernel: str | None
) -> RecipeStart | None:
    """A recipe for a kernel. One that imports from its own package is copied beside the recipe, with all that it uses.

    Raises:
        BadInput: the file has several kernels or not this node, or the place of the copy is taken.
    """
    text = source.read_text("utf-8", "replace")
    guess = guess_kernel(text, kernel)
    if guess is None:
        return None
    target = Target(backend or "cuda", chip or ("gfx942" if backend == "hip" else "sm_90"))
    copy = recipe.with_suffix(".py")
    if is_standalone(source, text, guess.name):
        alternative = None if copy.exists() else _start_from_copy(copy, source, text, guess, target)
        return KernelStart("triton", source, target, alternative=alternative).with_guess(guess)
    if copy.exists():
        raise BadInput(f"{copy} exists already; the kernel would be copied there. Nothing was changed")
    return _start_from_copy(copy, source, text, guess, target)


def _start_from_copy(beside: Path, source: Path, text: str, guess: KernelGuess, target: Target) -> KernelStart:
    copied = copy_kernel(source, text, guess.name)
    again = guess_kernel(copied.text, guess.name)
    assert again is not None
    # The copy has functions of other files, the original has launches and configurations.
    kinds = {name: kind if kind != "fp32" else again.signature[name] for name, kind in guess.signature.items()}
    kinds |= {name: kind for name, kind in again.signature.items() if kind.startswith("*") and not kinds[name].startswith("*")}
    constants = {
        name: again.constexprs[name] if name in guess.guessed and guess.constexprs[name] in _VAGUE else value
        for name, value in guess.constexprs.items()
    }
    guess = replace(guess, several=again.several, signature=kinds, constexprs=constants)
    start = KernelStart("triton", beside, target, copied=copied.text, notes=copied.problems)
    return start.with_guess(guess)
