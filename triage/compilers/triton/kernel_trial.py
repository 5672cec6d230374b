"""Correct the guessed values of a kernel's recipe by what the compiler says about them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from triage.compilers.base import Constant
from triage.compilers.triton.kernel_guess import KernelGuess, find_kernel
from triage.compilers.triton.kernel_import import KernelStart
from triage.compilers.triton.kernel_uses import bindings_of
from triage.model.execution import Ending, Execution

Compile = Callable[[KernelStart], Execution | None]

_MOST_COMPILES = 30
_MOST_SIDEWAYS = 4  # changes in a row that lead to another message at the same place
_STAGES = re.compile(r'^triage: \{"stage"', re.MULTILINE)
_REFUSED = re.compile(r'^triage: (\{"refused".*)$', re.MULTILINE)
_OTHER_POINTERS = ("*fp32:16", "*fp16:16", "*bf16:16", "*i32:16", "*i64:16", "*i8:16", "*u8:16", "*i1:16", "*fp8e4nv:16")
_OTHER_TYPES = ("tl.float32", "tl.float16", "tl.bfloat16", "tl.int32", "tl.int64", "tl.int8")
_OTHER_SIZES = (16, 32, 128, 1, 2, 4, 8, 256)
_ABOUT_SIZES = re.compile(
    r"(?i)arange|power of 2|shape|broadcast|numel|at least|rank|dimension|resource|split|reshape|divisible|too large|size|asser"
)
_ABOUT_POINTERS = re.compile(r"(?i)pointer|ptr type|block_type|load|store|atomic|address|is_ptr|element_ty")
_ABOUT_ELEMENTS = re.compile(
    r"(?i)dtype|fp\d|bf16|float|int\d|unsigned|must be same|same type|bitcast|logical|integer|precision"
)
_ABOUT_TEXT = re.compile(r"must be a (?:string|str)\b")
# No other value helps: the release lacks what the kernel uses.
_BITS_OF_FLOATS = re.compile(r"invalid operands of type (\S*f\S*) and \1'|atomic_\w+ does not support|must all be ints")
_LACKING = re.compile(r"module 'triton|(?:have|has) been removed|^error: this Triton has no|No module named|cannot import name")
_PYTHON_VALUE = re.compile(r"'(?:int|float|bool|str|NoneType)' object|(?:int|float|bool) object|constexpr\[\d")


@dataclass(frozen=True, slots=True)
class _Attempt:
    """How a guess compiled. progress: stages begun and the kernel's line that was refused; names: those in that line."""

    start: KernelStart
    compiled: bool
    progress: tuple[int, int]
    names: tuple[str, ...]
    message: str
    in_kernel: bool


def improve_guess(start: KernelStart, compile_: Compile) -> KernelStart:
    """The start with the guessed values that compile, or that come furthest.

    Each change is compiled and kept when the compile comes further. A source that cannot be imported is replaced by a copy
    of the kernel alone.
    """
    trial = _Trial(compile_)
    best = trial.attempt(start)
    source = start.copied if start.copied is not None else start.input.read_text("utf-8", "replace")
    if best is not None and not best.compiled and not best.in_kernel and start.alternative is not None:
        copy = trial.attempt(start.alternative)
        if copy is not None and (copy.compiled or copy.in_kernel):
            best, source = copy, start.alternative.copied or source
    kernel = find_kernel(source, best.start.guess.name) if best and best.start.guess else None
    if best is None or kernel is None:
        return start
    sideways = 0
    while not best.compiled and trial.left > 0 and sideways <= _MOST_SIDEWAYS and not _LACKING.search(best.message):
        following: _Attempt | None = None
        for guess in _changes(kernel, best):
            attempt = trial.attempt(best.start.with_guess(guess))
            if attempt is None:
                continue
            if attempt.compiled or attempt.progress > best.progress:
                following, sideways = attempt, -1
                break
            if following is None and attempt.progress == best.progress and attempt.message != best.message:
                following = attempt
        if following is None:
            break
        best, sideways = following, sideways + 1
    return best.start


class _Trial:
    """Compiles each guess once."""

    def __init__(self, compile_: Compile) -> None:
        self._compile = compile_
        self._seen: set[str] = set()
        self.left = _MOST_COMPILES

    def attempt(self, start: KernelStart) -> _Attempt | None:
        """None for a guess that was tried before, and when nothing can be compiled or enough was."""
        key = f"{start.input} {start.keys}"
        if key in self._seen or self.left == 0:
            return None
        self._seen.add(key)
        self.left -= 1
        execution = self._compile(start)
        return _judged(start, execution) if execution is not None else None


def _judged(start: KernelStart, execution: Execution) -> _Attempt:
    output = execution.stdout.text
    stages = len(_STAGES.findall(output))
    refused = _REFUSED.search(output)
    place: dict[str, Any] = json.loads(refused[1])["refused"] if refused else {"line": 0, "names": []}
    message = "timeout: size" if execution.ending is Ending.TIMED_OUT else execution.stderr.last_line
    progress = (stages, int(place["line"]))
    return _Attempt(start, execution.ok, progress, tuple(place["names"]), message, in_kernel=stages > 0 or refused is not None)


def _changes(kernel: ast.FunctionDef, attempt: _Attempt) -> Iterator[KernelGuess]:
    """Other guesses, the most likely first: of what the refused line is computed from, then of everything."""
    guess = attempt.start.guess
    assert guess is not None
    unbound = re.findall(r"NameError\(['\"]+(\w+)", attempt.message)
    origins = _origins(kernel, (*attempt.names, *unbound))
    near = [name for name in (*guess.signature, *guess.constexprs) if name in origins and name in guess.guessed]
    far = [name for name in (*guess.signature, *guess.constexprs) if name not in near and name in guess.guessed]
    yield from _joint(guess, attempt)
    choices = [
        (_rank(guess, name, value, attempt.message), index, name, value)
        for name in near
        for index, value in enumerate(_alternatives(kernel, guess, name))
    ]
    for *_, name, value in sorted(choices, key=lambda choice: choice[:2]):
        yield _with(guess, name, value)
    if attempt.progress[0] <= 1:
        for name in far:
            for value in _alternatives(kernel, guess, name)[:2]:
                yield _with(guess, name, value)


def _joint(guess: KernelGuess, attempt: _Attempt) -> Iterator[KernelGuess]:
    """Changes of all guesses of a kind at once."""
    sizes = [name for name, value in guess.constexprs.items() if type(value) is int and value > 2 and name in guess.guessed]
    elements = [name for name, kind in guess.signature.items() if kind in ("*fp16:16", "*bf16:16")]
    in_language = attempt.progress[0] <= 1
    if _ABOUT_TEXT.search(attempt.message):
        named = [name for name in attempt.names if name in guess.constexprs and name in guess.guessed]
        yield replace(guess, constexprs={**guess.constexprs, **dict.fromkeys(named, "")})
    if elements and _ABOUT_ELEMENTS.search(attempt.message):
        yield replace(guess, signature={**guess.signature, **dict.fromkeys(elements, "*fp32:16")})
    if sizes and (not in_language or _ABOUT_SIZES.search(attempt.message)):
        for size in (32, 16, 128):
            yield replace(guess, constexprs={**guess.constexprs, **dict.fromkeys(sizes, size)})
    if not in_language:
        yield replace(guess, options={**guess.options, "num_stages": 1})
        yield replace(guess, signature={**guess.signature, **dict.fromkeys(elements, "*fp32:16")})


def _rank(guess: KernelGuess, name: str, value: Constant, message: str) -> int:
    """Smaller for a change that the message suggests."""
    old: Constant = guess.signature.get(name, guess.constexprs.get(name))
    is_pointer, was_pointer = str(value).startswith("*"), str(old).startswith("*")
    changes_kind = is_pointer != was_pointer
    if _BITS_OF_FLOATS.search(message) and name in guess.signature:
        return 0 if value in ("*i32:16", "i32") and changes_kind is False else 3
    if "NameError" in message:  # none of the branches that bind the name was taken
        return 0 if name in guess.constexprs and not str(value).startswith("tl.") else 3
    if _PYTHON_VALUE.search(message) and name in guess.constexprs:
        return 0 if str(value).startswith("tl.") else 1
    if changes_kind and name in guess.signature and _ABOUT_POINTERS.search(message):
        return 1
    if name in guess.signature and not changes_kind and _ABOUT_ELEMENTS.search(message):
        return 2
    if name in guess.constexprs and type(old) is int and type(value) is int and _ABOUT_SIZES.search(message):
        return 2
    return 3


def _alternatives(kernel: ast.FunctionDef, guess: KernelGuess, name: str) -> list[Constant]:
    """Other values of a name, the most likely first."""
    if name in guess.signature:
        kind = guess.signature[name]
        if kind.startswith("*"):
            return [*(other for other in _OTHER_POINTERS if other != kind), "i32", "fp32"]
        return [
            *(other for other in ("i32", "fp32") if other != kind),
            "*fp16:16",
            "*fp32:16",
            "*i32:16",
            "*i64:16",
            "i64",
            "i1",
        ]
    old = guess.constexprs[name]
    words = _values_compared(kernel, name)
    if isinstance(old, str):
        types = _OTHER_TYPES if old.startswith("tl.") else ()
        return [value for value in (*words, *types, 64, False) if value != old]
    if isinstance(old, bool):
        return [not old, *(word for word in words if word != old), 64, 1, "tl.float32", "tl.float16"]
    return [
        *(word for word in words if word != old),
        *(size for size in _OTHER_SIZES if size != old),
        *_OTHER_TYPES[:3],
        False,
        True,
        0,
    ]


def _with(guess: KernelGuess, name: str, value: Constant) -> KernelGuess:
    if name in guess.signature:
        return replace(guess, signature={**guess.signature, name: str(value)})
    return replace(guess, constexprs={**guess.constexprs, name: value})


def _values_compared(kernel: ast.FunctionDef, name: str) -> list[Constant]:
    """The literals that a name is compared with."""
    comparisons = [node for node in ast.walk(kernel) if isinstance(node, ast.Compare)]
    of_name = [node for node in comparisons if isinstance(node.left, ast.Name) and node.left.id == name]
    constants = [inner.value for node in of_name for inner in ast.walk(node) if isinstance(inner, ast.Constant)]
    return [value for value in dict.fromkeys(constants) if isinstance(value, (bool, int, float, str))]


def _origins(kernel: ast.FunctionDef, names: tuple[str, ...]) -> set[str]:
    """The names that these are computed from, themselves included."""
    bound: dict[str, list[ast.AST]] = {name: [*values] for name, values in bindings_of(kernel).items()}
    for branch in ast.walk(kernel):  # conditions decide which binding counts
        if isinstance(branch, (ast.If, ast.IfExp)):
            for node in ast.walk(branch):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    bound.setdefault(node.id, []).append(branch.test)
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [node.id for value in bound.get(name, ()) for node in ast.walk(value) if isinstance(node, ast.Name)]
    return found
