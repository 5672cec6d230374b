"""Start a recipe for a kernel: guess the types and constants to compile it for, and
correct them with the help of the compiler's errors.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from triage.classify.log import decoded
from triage.compilers.base import Constant
from triage.compilers.pasted_text import chip_in, read_kernels
from triage.compilers.recipe_input import PastedText, RecipeRequest, RecipeStarter
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
# Messages that say what is wrong, and so what to correct.
_MISSING_FEATURE = re.compile(
    r"module 'triton|(?:have|has) been removed|^error: this Triton has no|No module "
    r"named|cannot import name"
)
_UNBOUND = re.compile(r"NameError\(['\"]+(\w+)")
_NEEDS_INTEGERS = re.compile(
    r"invalid operands of type (\S*f\S*) and \1'|atomic_\w+ does not support|must all "
    r"be ints|bitcast|is_int"
)
_NEEDS_TYPE = re.compile(
    r"'(?:int|float|bool|str|NoneType)' object|(?:int|float|bool) object|expected "
    r"`dtype`|constexpr\[\d"
)
_WRONG_SIZE = re.compile(
    r"(?i)arange|power of 2|shape|broadcast|numel|rank|dimension|resource|too "
    r"large|timeout"
)
_COMMENT = (
    "`*` is a pointer, :16 means divisible by 16. Check what is marked as guessed."
)

_DEFAULT_CHIP = "sm_90"
_CORRECTIONS = 2  # attempts after the first
Compile = Callable[[RecipeStart], Execution | None]
"""Compiles a recipe with the newest release; None if nothing can be compiled."""


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

    def improve(self, start: RecipeStart, compile_: Compile) -> RecipeStart:
        """Compile with the guessed values, and correct them at most twice. If the
        kernel still does not compile, write `?` for the constants that may be wrong.
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
        fails_before_kernel = best.progress == (0, 0)
        if best.passed or fails_before_kernel or best.lacks_a_feature:
            return improved
        constants = guess.guessed.keys() & guess.constexprs.keys()
        refused = constants & computed_from(best.names, kernel)
        return replace(improved, unknown=tuple(sorted(refused or constants)))


def _kernel_of(start: KernelStart) -> ast.FunctionDef:
    if start.copied is not None:
        source = start.copied
    else:
        source = decoded(start.input.read_bytes())
    return next(
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name == start.guess.name
    )


def _best_attempt(
    kernel: ast.FunctionDef, first: _Attempt, compile_: Compile
) -> _Attempt:
    """Correct the guess of the first attempt at most twice. Return the attempt that
    gets furthest.
    """
    best = first
    tried = [first.start.guess]
    for _ in range(_CORRECTIONS):
        if best.passed or best.lacks_a_feature:
            break
        corrections = _corrections(kernel, best)
        guess = next((each for each in corrections if each not in tried), None)
        if guess is None:
            break
        tried.append(guess)
        attempt = _attempt(_with(best.start, guess), compile_)
        if attempt and attempt.is_better_than(best):
            best = attempt
    return best


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


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A compile with guessed values."""

    start: KernelStart
    passed: bool
    progress: tuple[int, int]
    """The number of stages that began, and the line of the kernel that the compiler
    refused (0 if it names none).
    """
    names: tuple[str, ...]
    """The names in that line."""
    message: str

    @property
    def lacks_a_feature(self) -> bool:
        """Whether the release lacks a feature of the kernel, so that no value helps."""
        return _MISSING_FEATURE.search(self.message) is not None

    def is_better_than(self, other: _Attempt) -> bool:
        if self.passed:
            return True
        is_same = (self.progress, self.message) == (other.progress, other.message)
        return self.progress >= other.progress and not is_same


def _attempt(start: KernelStart, compile_: Compile) -> _Attempt | None:
    execution = compile_(start)
    if execution is None:
        return None
    printed = execution.stdout.text
    line, names = 0, list[str]()
    refused = _REFUSED.search(printed)
    if refused:
        place = json.loads(refused[1])["refused"]
        line, names = place["line"], place["names"]
    return _Attempt(
        start,
        execution.ok,
        (printed.count('triage: {"stage"'), line),
        tuple(names),
        execution.stderr.last_line or "timeout",
    )


def _corrections(kernel: ast.FunctionDef, attempt: _Attempt) -> Iterator[KernelGuess]:
    """Yield other guesses, first those that fit the compiler's message. Only guessed
    values are changed.
    """
    guess, message = attempt.start.guess, attempt.message
    in_line = guess.guessed.keys() & set(attempt.names)
    names = (*attempt.names, *_UNBOUND.findall(message))
    near_line = guess.guessed.keys() & computed_from(names, kernel)
    float_pointers: dict[str, Constant] = {}
    integer_pointers: dict[str, Constant] = {}
    scalars: dict[str, Constant] = {}
    for name, kind in guess.signature.items():
        if kind in ("*fp16:16", "*bf16:16") and name in guess.guessed:
            float_pointers[name] = "*fp32:16"
        if kind.startswith("*") and name in near_line:
            integer_pointers[name] = "*i32:16"
        elif not kind.startswith("*") and name in in_line:
            scalars[name] = "i32" if kind == "fp32" else "*fp16:16"
    sizes: dict[str, Constant] = {}
    switches: dict[str, Constant] = {}
    for name, value in guess.constexprs.items():
        if isinstance(value, bool):
            if name in near_line:
                switches[name] = not value
        elif isinstance(value, int) and value > 2 and name in guess.guessed:
            sizes[name] = 16
    types = dict.fromkeys(in_line & guess.constexprs.keys(), "tl.float32")
    # After the first stage, a smaller program is more likely to compile.
    if attempt.progress[0] > 1:
        smaller = _changed(guess, sizes)
        if "num_stages" in guess.guessed:
            smaller = replace(smaller, options={**guess.options, "num_stages": 1})
        yield smaller
    for pattern, values in (
        (_UNBOUND, switches),
        (_NEEDS_INTEGERS, integer_pointers),
        (_NEEDS_TYPE, types),
        (_WRONG_SIZE, sizes),
    ):
        if pattern.search(message):
            yield _changed(guess, values)
    for values in (scalars, float_pointers, switches, integer_pointers):
        yield _changed(guess, values)


def _changes(before: KernelGuess, after: KernelGuess) -> Iterator[str]:
    """Yield a sentence for each guessed value that was changed."""
    for name in sorted(after.guessed):
        old, new = _value_in(before, name), _value_in(after, name)
        if new != old:
            yield f"Guessed {name}: {old} does not compile; {new} is used."


def _value_in(guess: KernelGuess, name: str) -> Constant:
    for values in (guess.options, guess.constexprs, guess.signature):
        if name in values:
            return values[name]
    return "the default"


def _changed(guess: KernelGuess, values: Mapping[str, Constant]) -> KernelGuess:
    """Return the guess with other types and constants."""
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
