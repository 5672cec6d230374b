"""Passes over how a kernel is specialised: parameters, hints, options, and the constants that fix its sizes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from triage.model.case import Constant, KernelSpec
from triage.reduce.draft import Draft
from triage.reduce.frontends.python.document import kernel_function, kernel_of, parameters, with_edits, with_kernel
from triage.reduce.frontends.python.names import renamed
from triage.reduce.frontends.python.source_tree import Edits
from triage.reduce.search import InterestingnessTest, greedily, minimise

_PLAIN = ("fp32", "fp16")  # element types, the plainest first
_ELEMENT = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}


def drop_parameters(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Drop the parameters that nothing reads, with all that is said of them."""
    function = kernel_function(draft)
    if function is None:
        return draft
    read = {one.id for statement in function.body for one in ast.walk(statement) if isinstance(one, ast.Name)}
    unread = [name for name in parameters(function) if name not in read]
    _, found = minimise(unread, lambda kept: _without_parameters(draft, set(unread) - set(kept)), hunt)
    return found or draft


def merge_parameters(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Give the first parameter of a type in the place of the others of that type, all of them where that is possible."""
    function, how = kernel_function(draft), kernel_of(draft)
    if function is None or how is None:
        return draft
    firsts: dict[str, str] = {}
    others: dict[str, str] = {}
    for name in parameters(function):
        if name in how.signature:
            first = firsts.setdefault(how.signature[name], name)
            others |= {name: first} if first != name else {}

    def build(kept: Sequence[str]) -> Draft:
        gone = set(others) - set(kept)
        edits: dict[ast.AST, Any] = {}
        for name in gone:
            edits |= renamed(function, name, ast.Name(others[name], ast.Load()))
        return _without_parameters(draft, gone, edits)

    _, found = minimise(list(others), build, hunt)
    return found or draft


def put_values_in(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Put numbers in the place of the constexprs that hold them: all at once, else one by one."""
    function, how = kernel_function(draft), kernel_of(draft)
    if function is None or how is None:
        return draft
    names = [name for name, value in how.constexprs.items() if isinstance(value, bool | int | float) or value is None]

    def build(kept: Sequence[str]) -> Draft:
        gone = set(names) - set(kept)
        edits: dict[ast.AST, Any] = {}
        for name in gone:
            edits |= renamed(function, name, ast.Constant(how.constexprs[name]))
        return _without_parameters(draft, gone, edits)

    _, found = minimise(names, build, hunt)
    return found or draft


def _without_parameters(draft: Draft, gone: set[str], edits: Edits | None = None) -> Draft:
    function, how = kernel_function(draft), kernel_of(draft)
    assert function
    assert how
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    without_default = len(plain) - len(given.defaults)
    defaults = [one for at, one in enumerate(given.defaults) if plain[without_default + at].arg not in gone]
    left = ast.arguments(
        posonlyargs=[one for one in given.posonlyargs if one.arg not in gone],
        args=[one for one in given.args if one.arg not in gone],
        vararg=given.vararg,
        kwonlyargs=[one for one in given.kwonlyargs if one.arg not in gone],
        kw_defaults=[one for name, one in zip(given.kwonlyargs, given.kw_defaults, strict=True) if name.arg not in gone],
        kwarg=given.kwarg,
        defaults=defaults,
    )
    signature, constexprs, hints = (_but(one, gone) for one in (how.signature, how.constexprs, how.hints))
    small = KernelSpec(how.name, signature, constexprs, hints, how.options)
    return with_edits(draft, {given: left, **(edits or {})}, with_kernel(draft.case, small))


def _but(given: Mapping[str, Any], gone: set[str]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in gone}


def drop_hints(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Leave out what is known of arguments where the failure does not need it."""
    how = kernel_of(draft)
    if how is None:
        return draft
    items = [(name, hint) for name, hints in how.hints.items() for hint in hints]

    def build(kept: Sequence[tuple[str, str]]) -> Draft:
        left: dict[str, dict[str, int]] = {}
        for name, hint in kept:
            left.setdefault(name, {})[hint] = how.hints[name][hint]
        return Draft(draft.document, with_kernel(draft.case, replace(how, hints=left)))

    _, found = minimise(items, build, hunt)
    return found or draft


def plain_types(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """One plainer element type in the place of another, everywhere at once."""
    how = kernel_of(draft)
    return greedily(draft, hunt, _plainer) if how else draft


def _plainer(draft: Draft) -> Iterator[Draft]:
    function, how = kernel_function(draft), kernel_of(draft)
    if function is None or how is None:
        return
    for old in ("fp64", "bf16", "fp16"):
        for new in _PLAIN[: _PLAIN.index(old) if old in _PLAIN else None]:
            signature = {name: _other_type(text, old, new) for name, text in how.signature.items()}
            constexprs = {name: _other_constant(value, old, new) for name, value in how.constexprs.items()}
            edits: Edits = {
                one: ast.Attribute(one.value, _ELEMENT[new], one.ctx)
                for one in ast.walk(function)
                if isinstance(one, ast.Attribute) and one.attr == _ELEMENT[old]
            }
            case = with_kernel(draft.case, replace(how, signature=signature, constexprs=constexprs))
            yield with_edits(draft, edits, case)


def _other_type(text: str, old: str, new: str) -> str:
    return f"{text.removesuffix(old)}{new}" if text.strip("*") == old else text


def _other_constant(value: Constant, old: str, new: str) -> Constant:
    return f"tl.{_ELEMENT[new]}" if value == f"tl.{_ELEMENT[old]}" else value
