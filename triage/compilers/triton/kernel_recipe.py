"""Start a recipe for a kernel: guess its arguments, and correct the guess by what the
compiler says.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from triage.compilers.base import Constant
from triage.compilers.pasted_text import chip_in, read_kernels
from triage.compilers.recipe_input import PastedText, RecipeStarter
from triage.compilers.triton.kernel_copy import copy_kernel, is_standalone
from triage.compilers.triton.kernel_source import (
    KernelGuess,
    computed_from,
    guess_kernel,
)
from triage.model.case import Target
from triage.model.errors import BadInput
from triage.model.execution import Execution
from triage.recipes.family import RecipeStart

_REFUSED = re.compile(r'^triage: (\{"refused".*)$', re.MULTILINE)
_LACKING = re.compile(
    r"module 'triton|(?:have|has) been removed|^error: this Triton has no|No module "
    r"named|cannot import name"
)
_UNBOUND = re.compile(r"NameError\(['\"]+(\w+)")
_BITS = re.compile(
    r"invalid operands of type (\S*f\S*) and \1'|atomic_\w+ does not support|must all "
    r"be ints|bitcast|is_int"
)
_TYPE = re.compile(
    r"'(?:int|float|bool|str|NoneType)' object|(?:int|float|bool) object|expected "
    r"`dtype`|constexpr\[\d"
)
_SIZES = re.compile(
    r"(?i)arange|power of 2|shape|broadcast|numel|rank|dimension|resource|too "
    r"large|timeout"
)
_COMMENT = (
    "`*` is a pointer, :16 means divisible by 16. Check what is marked as guessed."
)

_DEFAULT_CHIP = "sm_90"
_CORRECTIONS = 2  # attempts after the first
Try = Callable[[RecipeStart], Execution | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelStart(RecipeStart):
    """A new recipe with what was guessed of its kernel."""

    guess: KernelGuess


class TritonRecipes(RecipeStarter):
    """Recipes for kernels. One that imports from its own package is copied next to the
    recipe, with all that it uses.
    """

    def from_source(
        self,
        recipe: Path,
        source: Path,
        backend: str | None,
        chip: str | None,
        kernel: str | None,
    ) -> RecipeStart | None:
        if source.suffix == ".py":
            text = source.read_text("utf-8", "replace")
        else:
            text = ""
        start = _start(source, text, backend, chip, kernel)
        if start is None or is_standalone(source, text):
            return start
        return _copied(start, recipe, copy_kernel(source, text, start.guess.name), text)

    def from_pasted(
        self,
        recipe: Path,
        program: str,
        backend: str | None,
        chip: str | None,
        kernel: str | None,
    ) -> RecipeStart | None:
        if "tt.func" in program:
            is_lowered = "#ttg." in program or "#triton_gpu." in program
            place = recipe.with_suffix(".ttgir" if is_lowered else ".ttir")
            target = Target(backend or "cuda", chip or _DEFAULT_CHIP)
            return RecipeStart("triton", place, target, copied=program)
        place = recipe.with_suffix(".py")
        start = _start(place, program, backend, chip, kernel)
        if start is None or is_standalone(None, program):
            return start and replace(start, copied=program)
        return _copied(
            start, recipe, copy_kernel(None, program, start.guess.name), program
        )

    def read_text(self, text: str) -> PastedText:
        return read_kernels(text)

    def target_in(self, text: str) -> Target:
        chip = chip_in(text) or _DEFAULT_CHIP
        return Target("hip" if chip.startswith("gfx") else "cuda", chip)

    def improve(self, start: RecipeStart, compile_: Try) -> RecipeStart:
        """Compile with the guessed values and correct them at most twice. If the kernel
        still does not compile, the constants that may be wrong become `?`.
        """
        if not isinstance(start, KernelStart):
            return start
        first = _attempt(start, compile_)
        if first is None:
            return start
        kernel = _kernel_of(start)
        best = _best_attempt(kernel, first, compile_)
        guess = best.start.guess
        changes = _changes(start.guess, guess)
        improved = replace(best.start, notes=(*best.start.notes, *changes))
        # it compiles, it fails before the kernel is read, or no other value helps
        if best.passed or best.progress == (0, 0) or best.lacks_a_feature:
            return improved
        constants = guess.guessed.keys() & guess.constexprs.keys()
        refused = constants & computed_from(best.names, kernel)
        return replace(improved, unknown=tuple(sorted(refused or constants)))


def _kernel_of(start: KernelStart) -> ast.FunctionDef:
    if start.copied is not None:
        source = start.copied
    else:
        source = start.input.read_text("utf-8", "replace")
    return next(
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name == start.guess.name
    )


def _best_attempt(kernel: ast.FunctionDef, first: _Attempt, compile_: Try) -> _Attempt:
    """Correct the guess of the first attempt at most twice; return the attempt that
    gets furthest.
    """
    best = first
    seen = [first.start.guess]
    for _ in range(_CORRECTIONS):
        if best.passed or best.lacks_a_feature:
            break
        corrections = _corrections(kernel, best)
        guess = next((each for each in corrections if each not in seen), None)
        if guess is None:
            break
        seen.append(guess)
        attempt = _attempt(_with(best.start, guess), compile_)
        if attempt and attempt.is_better_than(best):
            best = attempt
    return best


def _start(
    source: Path, text: str, backend: str | None, chip: str | None, kernel: str | None
) -> KernelStart | None:
    try:
        guess = guess_kernel(text, kernel)
    except RecursionError as error:
        raise BadInput(
            f"an expression in {source.name} is nested too deeply"
        ) from error
    if guess is None:
        return None
    default_chip = "gfx942" if backend == "hip" else _DEFAULT_CHIP
    target = Target(backend or "cuda", chip or default_chip)
    assumed = [] if backend else ["cuda"]
    if chip is None:
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


def _copied(
    start: KernelStart, recipe: Path, copy: tuple[str, tuple[str, ...]], host: str
) -> KernelStart:
    """Return the recipe of a copied kernel: the copy has functions of other files, the
    original has launches.
    """
    text, problems = copy
    start = replace(start, input=recipe.with_suffix(".py"), copied=text, notes=problems)
    return _with(start, guess_kernel(text, start.guess.name, host=host) or start.guess)


@dataclass(frozen=True, slots=True)
class _Attempt:
    start: KernelStart
    passed: bool
    progress: tuple[int, int]
    """How many stages began, and the number of the refused line of the kernel."""
    names: tuple[str, ...]
    """Names in that line."""
    message: str

    @property
    def lacks_a_feature(self) -> bool:
        """Whether the release lacks what the kernel uses, so that no value helps."""
        return _LACKING.search(self.message) is not None

    def is_better_than(self, other: _Attempt) -> bool:
        if self.passed:
            return True
        is_same = (self.progress, self.message) == (other.progress, other.message)
        return self.progress >= other.progress and not is_same


def _attempt(start: KernelStart, compile_: Try) -> _Attempt | None:
    execution = compile_(start)
    if execution is None:
        return None
    printed = execution.stdout.text
    refused = _REFUSED.search(printed)
    place: dict[str, Any]
    if refused:
        place = json.loads(refused[1])["refused"]
    else:
        place = {"line": 0, "names": []}
    progress = printed.count('triage: {"stage"'), place["line"]
    return _Attempt(
        start,
        execution.ok,
        progress,
        tuple(place["names"]),
        execution.stderr.last_line or "timeout",
    )


def _corrections(kernel: ast.FunctionDef, attempt: _Attempt) -> Iterator[KernelGuess]:
    """Yield other guesses, those that the message suggests first."""
    guess, message = attempt.start.guess, attempt.message
    names = (*attempt.names, *_UNBOUND.findall(message))
    near = computed_from(names, kernel) & guess.guessed.keys()
    refused = guess.guessed.keys() & set(attempt.names)
    arguments, constants = guess.signature.items(), guess.constexprs.items()
    halves = [name for name, kind in arguments if kind in ("*fp16:16", "*bf16:16")]
    floats = {name: "*fp32:16" for name in halves if name in guess.guessed}
    integers = {
        name: "*i32:16" for name, kind in arguments if kind[0] == "*" and name in near
    }
    scalars = {
        name: "i32" if kind == "fp32" else "*fp16:16"
        for name, kind in arguments
        if kind[0] != "*" and name in refused
    }
    sizes = {
        name: 16
        for name, value in constants
        if type(value) is int and value > 2 and name in guess.guessed
    }
    switches = {
        name: not value
        for name, value in constants
        if isinstance(value, bool) and name in near
    }
    types = dict.fromkeys(refused & guess.constexprs.keys(), "tl.float32")
    # beyond the kernel's language, a smaller program is more likely to compile
    if attempt.progress[0] > 1:
        stages: dict[str, Constant]
        if "num_stages" in guess.guessed:
            stages = {"num_stages": 1}
        else:
            stages = {}
        yield replace(_changed(guess, sizes), options={**guess.options, **stages})
    for pattern, values in (
        (_UNBOUND, switches),
        (_BITS, integers),
        (_TYPE, types),
        (_SIZES, sizes),
    ):
        if pattern.search(message):
            yield _changed(guess, values)
    for values in (scalars, floats, switches, integers):
        yield _changed(guess, values)


def _changes(before: KernelGuess, after: KernelGuess) -> Iterator[str]:
    """Yield a sentence for each guessed value that was changed."""
    for name in sorted(after.guessed):
        old, new = (_value_in(guess, name) for guess in (before, after))
        if new != old:
            yield f"Guessed {name}: {old} does not compile; {new} is used."


def _value_in(guess: KernelGuess, name: str) -> Constant:
    values: Mapping[str, Constant] = {
        **guess.signature,
        **guess.constexprs,
        **guess.options,
    }
    return values.get(name, "the default")


def _changed(guess: KernelGuess, values: Mapping[str, Constant]) -> KernelGuess:
    signature = {
        name: str(values.get(name, kind)) for name, kind in guess.signature.items()
    }
    constexprs = {
        name: values.get(name, value) for name, value in guess.constexprs.items()
    }
    found = replace(guess, signature=signature, constexprs=constexprs)
    corrected = {
        name: "another value did not compile"
        for name in guess.guessed
        if _value_in(found, name) != _value_in(guess, name)
    }
    return replace(found, guessed={**guess.guessed, **corrected})


def _with(start: KernelStart, guess: KernelGuess) -> KernelStart:
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
