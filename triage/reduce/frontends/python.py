"""Passes over Python programs, and over kernels together with their specialisation."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from triage.compilers.base import kernel_of
from triage.model.case import Case
from triage.reduce.engine import Frontend, Pass, drop_flags, drop_options, greedily, minimise
from triage.reduce.frontends.syntax_tree import (
    Edits,
    PythonProgram,
    bound_below,
    children,
    edited,
    kernel_function,
    names_read,
    parameters,
    parse_program,
    statements,
    tree_of,
    undefined_reads,
    with_edits,
)
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import ReducedCase

_DEEPEST = 8  # levels of nested statements
_LARGE = 3  # the smallest number that is halved
_VALUES = (ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Subscript, ast.Call, ast.Name, ast.Constant)


def python_frontend(case: Case) -> Frontend:
    """Return the frontend for a program that Python can parse."""
    if kernel_of(case):  # small sizes compile faster
        passes: tuple[Pass, ...] = (shrink_constexprs, *_PROGRAM_PASSES, drop_parameters, drop_options)
        return Frontend(_open, passes, (inline_constexprs, shrink_numbers))
    return Frontend(_open, _PROGRAM_PASSES, (shrink_numbers, drop_flags))


def _open(path: Path) -> Sequence[PythonProgram]:
    tree = parse_program(path.read_bytes())
    return () if tree is None else (PythonProgram(tree),)


def drop_statements(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Drop statements, the outermost first, halves of a level before single ones, with the statements that need them."""
    for depth in range(_DEEPEST):
        kernel = kernel_function(candidate)
        level = list(children(tree_of(candidate)))
        for _ in range(depth):
            level = [inner for statement in level for inner in children(statement)]
        items = [statement for statement in level if statement is not kernel]
        build = partial(_with_statements, candidate, items)
        candidate = minimise(candidate, items, build, test, whole=depth == 0 and kernel is None) if items else candidate
    return candidate


def _with_statements(candidate: ReducedCase, items: Sequence[ast.stmt], kept: Sequence[ast.stmt]) -> ReducedCase | None:
    """Drop the items that are not kept and the statements that need them. Returns None when that drops the kernel."""
    tree: ast.Module = edited(tree_of(candidate), dict.fromkeys(set(items) - set(kept)))
    while broken := undefined_reads(tree):
        tree = edited(tree, dict.fromkeys(broken))
    smaller = ReducedCase(PythonProgram(tree), candidate.case)
    return smaller if kernel_function(candidate) is None or kernel_function(smaller) is not None else None


@greedily
def open_blocks(candidate: ReducedCase) -> Iterator[ReducedCase]:
    """Replace a loop, branch or `with` by its body; a loop's variable gets its first value."""
    for statement in statements(tree_of(candidate)):
        match statement:
            case ast.For(target=target, iter=source, body=body):
                yield with_edits(candidate, {statement: [ast.Assign([target], _first(source), lineno=0), *body]})
            case ast.While(body=body) | ast.With(body=body) | ast.Try(body=body):
                yield with_edits(candidate, {statement: body})
            case ast.If(body=body, orelse=rest):
                yield with_edits(candidate, {statement: body})
                if rest:
                    yield with_edits(candidate, {statement: rest})


def _first(source: ast.expr) -> ast.expr:
    """Return the first value that a loop takes from `source`."""
    match source:
        case ast.Call(func=ast.Name(id="range") | ast.Attribute(attr="range" | "static_range"), args=[start, *more]):
            return start if more else ast.Constant(0)
    return ast.Call(ast.Name("next", ast.Load()), [ast.Call(ast.Name("iter", ast.Load()), [source], [])], [])


@greedily
def inline_names(candidate: ReducedCase) -> Iterator[ReducedCase]:
    """Replace a name that is bound once by its constant or name, or by the first result of the same function."""
    for function in tree_of(candidate).body:
        if not isinstance(function, ast.FunctionDef):
            continue
        bound = Counter(parameters(function))
        bound.update(node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        first: dict[str, str] = {}  # the first name that is bound to a call of a function
        for statement in statements(function):
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if bound[name] == 1:
                    if isinstance(value, ast.Call) and first.setdefault(ast.dump(value.func), name) != name:
                        value = ast.Name(first[ast.dump(value.func)], ast.Load())
                    if isinstance(value, (ast.Constant, ast.Name)):
                        yield with_edits(candidate, {statement: None, **_renamed(function, name, value)})


def _renamed(function: ast.AST, name: str, value: ast.expr) -> Edits:
    """Return the edits that replace a name by a value wherever a function reads it."""
    return {
        node: value
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    }


@greedily
def take_parts(candidate: ReducedCase) -> Iterator[ReducedCase]:
    """Replace an expression by a part of it, the largest first."""
    tree = tree_of(candidate)
    modules = {name for statement in tree.body if isinstance(statement, ast.Import) for name in bound_below(statement)}
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store):
            for part in _values_in(node, modules):
                yield with_edits(candidate, {node: part})


def _values_in(node: ast.expr, modules: set[str]) -> Iterator[ast.expr]:
    """Yield the parts that are values themselves and not types, tuples, strings or modules."""
    parts: Iterable[ast.AST | None] = ast.iter_child_nodes(node) if isinstance(node, _VALUES) else ()
    for child in parts:
        if isinstance(node, ast.Call) and child is node.func:
            child = child.value if isinstance(child, ast.Attribute) else None  # the object of a method
        if isinstance(child, ast.Name) and child.id in modules:
            continue
        if isinstance(child, _VALUES) and not isinstance(getattr(child, "value", None), str):
            yield child


def drop_parameters(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Drop the parameters that nothing reads, and replace others by the first one of their type."""
    function, kernel = kernel_function(candidate), kernel_of(candidate.case)
    if function is None or kernel is None:
        return candidate
    read = {name for statement in statements(function) for name in names_read(statement)}
    firsts: dict[str, str] = {}
    values: dict[str, ast.expr | None] = {}
    for name in parameters(function):
        if name not in read:
            values[name] = None
        elif name in kernel.signature:
            first = firsts.setdefault(kernel.signature[name], name)
            values |= {name: ast.Name(first, ast.Load())} if first != name else {}
    return _replace_parameters(candidate, test, values)


def inline_constexprs(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Replace constexprs by their numbers."""
    known = kernel.constexprs.items() if (kernel := kernel_of(candidate.case)) else ()
    return _replace_parameters(
        candidate, test, {name: ast.Constant(value) for name, value in known if not isinstance(value, str)}
    )


def _replace_parameters(
    candidate: ReducedCase, test: InterestingnessTest, values: Mapping[str, ast.expr | None]
) -> ReducedCase:
    """Drop as many parameters as possible. A parameter's value, if it has one, replaces it where it is read."""
    function, kernel = kernel_function(candidate), kernel_of(candidate.case)
    if function is None or kernel is None:
        return candidate

    def build(kept: Sequence[str]) -> ReducedCase:
        dropped = values.keys() - set(kept)
        edits: dict[ast.AST, Any] = {function.args: _without_arguments(function.args, dropped)}
        for name in dropped:
            if value := values[name]:
                edits |= _renamed(function, name, value)
        left: dict[str, Any] = {
            field: {name: value for name, value in getattr(kernel, field).items() if name not in dropped}
            for field in ("signature", "constexprs", "hints")
        }
        return with_edits(candidate, edits).with_case(spec=replace(kernel, **left))

    return minimise(candidate, list(values), build, test)


def _without_arguments(arguments: ast.arguments, dropped: set[str]) -> ast.arguments:
    """Return the parameters that are left. Defaults go, because a specialised kernel gets a value for each parameter."""
    first, plain, keyword = (
        [argument for argument in some if argument.arg not in dropped]
        for some in (arguments.posonlyargs, arguments.args, arguments.kwonlyargs)
    )
    return ast.arguments(first, plain, arguments.vararg, keyword, [None] * len(keyword), arguments.kwarg, [])


@greedily
def shrink_constexprs(candidate: ReducedCase) -> Iterator[ReducedCase]:
    """Halve constexprs as often as possible: all, those with the same value, then single ones."""
    kernel = kernel_of(candidate.case)
    if kernel is None:
        return
    numbers = {name: value for name, value in kernel.constexprs.items() if isinstance(value, int) and value >= _LARGE}
    groups = [list(numbers)] if numbers else []
    groups += [[name for name in numbers if numbers[name] == value] for value in dict.fromkeys(numbers.values())]
    groups += [[name] for name in numbers]
    for names in groups:
        halved = {**kernel.constexprs, **{name: numbers[name] // 2 for name in names}}
        yield candidate.with_case(spec=replace(kernel, constexprs=halved))


@greedily
def shrink_numbers(candidate: ReducedCase) -> Iterator[ReducedCase]:
    """Halve the integers of the program, equal ones together."""
    constants: dict[int, list[ast.Constant]] = {}
    for node in ast.walk(tree_of(candidate)):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value >= _LARGE:
            constants.setdefault(node.value, []).append(node)
    for value, nodes in sorted(constants.items(), reverse=True):
        yield with_edits(candidate, {node: ast.Constant(value // 2) for node in nodes})


_PROGRAM_PASSES: tuple[Pass, ...] = (drop_statements, open_blocks, inline_names, take_parts)
