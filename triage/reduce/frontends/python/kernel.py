"""Passes over a kernel's specialisation: parameters, hints, constexprs and element types; and over numbers of programs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from triage.compilers.base import Constant
from triage.reduce.draft import Draft, InterestingnessTest, greedily, minimise
from triage.reduce.frontends.python.names import renamed
from triage.reduce.frontends.python.source_tree import (
    Edits,
    kernel_function,
    kernel_of,
    parameters,
    tree_of,
    with_edits,
)

Value = TypeVar("Value")
_SIMPLE = ("fp32", "fp16")  # element types, the simplest first
_ELEMENT = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}
_LARGE = 3  # the smallest number that is halved


def drop_parameters(draft: Draft, test: InterestingnessTest) -> Draft:
    """Drop the parameters that nothing reads."""
    function = kernel_function(draft)
    if function is None:
        return draft
    read = {node.id for statement in function.body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return _replace_parameters(draft, test, {name: None for name in parameters(function) if name not in read})


def merge_parameters(draft: Draft, test: InterestingnessTest) -> Draft:
    """Replace parameters by the first one of their type."""
    function, kernel = kernel_function(draft), kernel_of(draft)
    if function is None or kernel is None:
        return draft
    firsts: dict[str, str] = {}
    others: dict[str, ast.expr | None] = {}
    for name in parameters(function):
        if name in kernel.signature:
            first = firsts.setdefault(kernel.signature[name], name)
            others |= {name: ast.Name(first, ast.Load())} if first != name else {}
    return _replace_parameters(draft, test, others)


def inline_constexprs(draft: Draft, test: InterestingnessTest) -> Draft:
    """Replace constexprs by their numbers."""
    kernel = kernel_of(draft)
    known = kernel.constexprs.items() if kernel else ()
    numbers = {name: value for name, value in known if isinstance(value, bool | int | float) or value is None}
    return _replace_parameters(draft, test, {name: ast.Constant(value) for name, value in numbers.items()})


def _replace_parameters(draft: Draft, test: InterestingnessTest, values: Mapping[str, ast.expr | None]) -> Draft:
    """Drop as many parameters as possible. values: what replaces them where they are read, None for nothing."""
    function, kernel = kernel_function(draft), kernel_of(draft)
    if function is None or kernel is None:
        return draft

    def build(kept: Sequence[str]) -> Draft:
        dropped = values.keys() - set(kept)
        edits: Edits = {function.args: _without_arguments(function.args, dropped)}
        for name in dropped:
            value = values[name]
            edits = {**edits, **(renamed(function, name, value) if value else {})}
        signature, constexprs = _without(kernel.signature, dropped), _without(kernel.constexprs, dropped)
        smaller = replace(kernel, signature=signature, constexprs=constexprs, hints=_without(kernel.hints, dropped))
        return with_edits(draft, edits, replace(draft.case, spec=smaller))

    return minimise(draft, list(values), build, test)


def _without_arguments(arguments: ast.arguments, dropped: set[str]) -> ast.arguments:
    plain = [*arguments.posonlyargs, *arguments.args]
    with_default = plain[len(plain) - len(arguments.defaults) :]
    keyword_defaults = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return ast.arguments(
        posonlyargs=[argument for argument in arguments.posonlyargs if argument.arg not in dropped],
        args=[argument for argument in arguments.args if argument.arg not in dropped],
        vararg=arguments.vararg,
        kwonlyargs=[argument for argument in arguments.kwonlyargs if argument.arg not in dropped],
        kw_defaults=[default for argument, default in keyword_defaults if argument.arg not in dropped],
        kwarg=arguments.kwarg,
        defaults=[
            default for argument, default in zip(with_default, arguments.defaults, strict=True) if argument.arg not in dropped
        ],
    )


def _without(values: Mapping[str, Value], dropped: set[str]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if name not in dropped}


def drop_hints(draft: Draft, test: InterestingnessTest) -> Draft:
    """Drop the hints about arguments that the failure does not need."""
    kernel = kernel_of(draft)
    if kernel is None:
        return draft
    items = [(name, hint) for name, hints in kernel.hints.items() for hint in hints]

    def build(kept: Sequence[tuple[str, str]]) -> Draft:
        left: dict[str, dict[str, int]] = {}
        for name, hint in kept:
            left.setdefault(name, {})[hint] = kernel.hints[name][hint]
        return Draft(draft.document, replace(draft.case, spec=replace(kernel, hints=left)))

    return minimise(draft, items, build, test)


@greedily
def simpler_types(draft: Draft) -> Iterator[Draft]:
    """Replace an element type by a simpler one, everywhere at once."""
    function, kernel = kernel_function(draft), kernel_of(draft)
    if function is None or kernel is None:
        return
    for old in ("fp64", "bf16", "fp16"):
        for new in _SIMPLE[: _SIMPLE.index(old) if old in _SIMPLE else None]:
            signature = {
                name: f"{text.removesuffix(old)}{new}" if text.strip("*") == old else text
                for name, text in kernel.signature.items()
            }
            constexprs: dict[str, Constant] = {
                name: f"tl.{_ELEMENT[new]}" if value == f"tl.{_ELEMENT[old]}" else value
                for name, value in kernel.constexprs.items()
            }
            edits: Edits = {
                node: ast.Attribute(node.value, _ELEMENT[new], node.ctx)
                for node in ast.walk(function)
                if isinstance(node, ast.Attribute) and node.attr == _ELEMENT[old]
            }
            case = replace(draft.case, spec=replace(kernel, signature=signature, constexprs=constexprs))
            yield with_edits(draft, edits, case)


@greedily
def shrink_all_constexprs(draft: Draft) -> Iterator[Draft]:
    """Halve all constexprs together as often as possible."""
    if names := list(_large_constexprs(draft)):
        yield _halved(draft, names)


@greedily
def shrink_constexprs(draft: Draft) -> Iterator[Draft]:
    """Halve constexprs as often as possible: all, those with the same value, then single ones."""
    numbers = _large_constexprs(draft)
    by_value = [[name for name, other in numbers.items() if other == value] for value in dict.fromkeys(numbers.values())]
    together = [list(numbers)] if len(by_value) > 1 else []
    alone = [[name] for names in by_value if len(names) > 1 for name in names]
    for names in (*together, *by_value, *alone):
        yield _halved(draft, names)


def _large_constexprs(draft: Draft) -> dict[str, int]:
    kernel = kernel_of(draft)
    constexprs = kernel.constexprs.items() if kernel else ()
    return {name: value for name, value in constexprs if isinstance(value, int) and value >= _LARGE}


def _halved(draft: Draft, names: Sequence[str]) -> Draft:
    kernel = kernel_of(draft)
    assert kernel is not None
    numbers = _large_constexprs(draft)
    halved = {**kernel.constexprs, **{name: numbers[name] // 2 for name in names}}
    return Draft(draft.document, replace(draft.case, spec=replace(kernel, constexprs=halved)))


@greedily
def shrink_numbers(draft: Draft) -> Iterator[Draft]:
    """Halve the integers of the program, equal ones together."""
    constants: dict[int, list[ast.Constant]] = {}
    for node in ast.walk(tree_of(draft)):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value >= _LARGE:
            constants.setdefault(node.value, []).append(node)
    for value, nodes in sorted(constants.items(), reverse=True):
        yield with_edits(draft, {node: ast.Constant(value // 2) for node in nodes})
