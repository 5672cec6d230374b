"""Python programs as syntax trees: the passes over them, and over kernels together with
their specialisation.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

from triage.compilers.base import KernelSpec, kernel_of
from triage.model.case import Case
from triage.reduce.engine import (
    Frontend,
    Pass,
    drop_flags,
    drop_options,
    greedily,
    minimise,
)
from triage.reduce.frontends.python_program import (
    Edits,
    PythonProgram,
    children,
    edit_tree,
    kernel_function,
    names_bound_below,
    names_read,
    open_program,
    parameter_names,
    parameters,
    python_program_of,
    statements,
    undefined_reads,
    with_edits,
    with_tree,
)
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import ReducedCase

_DEEPEST = 8  # levels of nested statements
_LARGE = 3  # the smallest number that is halved
_VALUES = (
    ast.BinOp,
    ast.BoolOp,
    ast.UnaryOp,
    ast.IfExp,
    ast.Compare,
    ast.Subscript,
    ast.Call,
    ast.Name,
    ast.Constant,
)


def python_frontend(case: Case) -> Frontend:
    """Return the frontend for a program that Python can parse."""
    if kernel_of(case):  # small sizes compile faster
        passes: tuple[Pass, ...] = (
            shrink_constexprs,
            *_PROGRAM_PASSES,
            drop_parameters,
            drop_options,
        )
        final = (inline_constexprs, shrink_numbers)
    else:
        passes, final = _PROGRAM_PASSES, (shrink_numbers, drop_flags)
    return Frontend(_open, passes, final, form="its form without comments")


def _open(path: Path) -> Iterator[PythonProgram]:
    yield open_program(path)


def drop_statements(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
    """Drop statements, the outermost first, halves of a level before single ones, with
    the statements that need them.
    """
    for depth in range(_DEEPEST):
        kernel = kernel_function(candidate)
        level = list(children(python_program_of(candidate).tree))
        for _ in range(depth):
            level = [inner for statement in level for inner in children(statement)]
        items = [statement for statement in level if statement is not kernel]
        build = partial(_with_statements, candidate, items)
        if items:
            candidate = minimise(
                candidate, items, build, test, whole=depth == 0 and kernel is None
            )
    return candidate


def _with_statements(
    candidate: ReducedCase, items: Sequence[ast.stmt], kept: Sequence[ast.stmt]
) -> ReducedCase | None:
    """Drop the items that are not kept and the statements that need them, unless that
    drops the kernel.
    """
    program = python_program_of(candidate)
    tree: ast.Module = edit_tree(program.tree, dict.fromkeys(set(items) - set(kept)))
    while broken := undefined_reads(tree, program.undefined):
        tree = edit_tree(tree, dict.fromkeys(broken))
    smaller = with_tree(candidate, tree)
    if kernel_function(candidate) is None or kernel_function(smaller) is not None:
        return smaller
    return None


@greedily
def open_blocks(candidate: ReducedCase) -> Iterator[ReducedCase]:
    """Replace a loop, branch or `with` by its body; a loop's variable gets its first
    value.
    """
    for statement in statements(python_program_of(candidate).tree):
        match statement:
            case ast.For(target=target, iter=source, body=body):
                yield with_edits(
                    candidate,
                    {
                        statement: [
                            ast.Assign([target], _first_value_of(source), lineno=0),
                            *body,
                        ]
                    },
                )
            case (
                ast.While(body=body)
                | ast.With(body=body)
                | ast.AsyncWith(body=body)
                | ast.Try(body=body)
            ):
                yield with_edits(candidate, {statement: body})
            case ast.If(body=body, orelse=rest):
                yield with_edits(candidate, {statement: body})
                if rest:
                    yield with_edits(candidate, {statement: rest})


def _first_value_of(source: ast.expr) -> ast.expr:
    """Return the first value that a loop takes from `source`."""
    match source:
        case ast.Call(
            func=ast.Name(id="range") | ast.Attribute(attr="range" | "static_range"),
            args=[start, *more],
        ):
            if more:
                return start
            return ast.Constant(0)
    return ast.Call(
        ast.Name("next", ast.Load()),
        [ast.Call(ast.Name("iter", ast.Load()), [source], [])],
        [],
    )


@greedily
def inline_names(candidate: ReducedCase) -> Iterator[ReducedCase]:
    """Replace a name that is bound once by its constant or name, or by the first result
    of the same function.
    """
    for function in python_program_of(candidate).tree.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        bound = Counter(parameter_names(function))
        bound.update(
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )
        # the first name that is bound to a call of a function
        first: dict[str, str] = {}
        for statement in statements(function):
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                    bound[name] == 1
                ):
                    if (
                        isinstance(value, ast.Call)
                        and first.setdefault(ast.dump(value.func), name) != name
                    ):
                        value = ast.Name(first[ast.dump(value.func)], ast.Load())
                    if isinstance(value, (ast.Constant, ast.Name)):
                        yield with_edits(
                            candidate,
                            {statement: None, **_replace_reads(function, name, value)},
                        )


def _replace_reads(function: ast.AST, name: str, value: ast.expr) -> Edits:
    """Return the edits that replace a name by a value wherever a function reads it."""
    return {
        node: value
        for node in ast.walk(function)
        if isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Load)
    }


@greedily
def open_calls(candidate: ReducedCase) -> Iterator[ReducedCase]:
    """Replace all calls of a function by its body, where that makes the program
    smaller.
    """
    tree = python_program_of(candidate).tree
    for callee in tree.body:
        if not isinstance(callee, ast.FunctionDef) or not getattr(
            callee.body[-1], "value", None
        ):
            continue
        edits: dict[ast.AST, Any] = {callee: None}
        for statement in statements(tree):
            if hasattr(statement, "body"):
                continue
            for node in ast.walk(statement):
                match node:
                    case ast.Call(
                        func=ast.Name(id=callee.name), args=arguments, keywords=words
                    ):
                        passed = dict(
                            zip(parameter_names(callee), arguments, strict=False)
                        )
                        passed |= {word.arg: word.value for word in words if word.arg}
                        reads = [
                            pair
                            for name, value in passed.items()
                            for pair in _replace_reads(callee, name, value).items()
                        ]
                        *body, end = edit_tree(callee, dict(reads)).body
                        edits[statement] = [
                            *body,
                            edit_tree(statement, {node: getattr(end, "value", None)}),
                        ]
        opened = with_edits(candidate, edits)
        if len(edits) > 1 and opened.program.size < candidate.program.size:
            yield opened


@greedily
def take_parts(candidate: ReducedCase) -> Iterator[ReducedCase]:
    """Replace an expression by a part of it, the largest first."""
    tree = python_program_of(candidate).tree
    modules = {
        name
        for statement in tree.body
        if isinstance(statement, ast.Import)
        for name in names_bound_below(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and not isinstance(
            getattr(node, "ctx", None), ast.Store
        ):
            for part in _values_in(node, modules):
                yield with_edits(candidate, {node: part})


def _values_in(node: ast.expr, modules: set[str]) -> Iterator[ast.expr]:
    """Yield the parts of an expression that can replace it: no types, tuples, strings
    or modules.
    """
    parts: Iterable[ast.AST | None]
    if isinstance(node, _VALUES):
        parts = ast.iter_child_nodes(node)
    else:
        parts = ()
    for child in parts:
        if isinstance(node, ast.Call) and child is node.func:
            if not isinstance(child, ast.Attribute):
                continue
            child = child.value  # the object of a method
        if isinstance(child, ast.Name) and child.id in modules:
            continue
        if isinstance(child, _VALUES) and not isinstance(
            getattr(child, "value", None), str
        ):
            yield child


def _parameter_pass(
    values_of: Callable[[ast.FunctionDef, KernelSpec], Mapping[str, ast.expr | None]],
) -> Pass:
    """Make a pass that drops as many as possible of the parameters that `values_of`
    names. A parameter's value, if that is not None, replaces its reads.
    """

    @wraps(values_of)
    def run(candidate: ReducedCase, test: InterestingnessTest) -> ReducedCase:
        function, kernel = kernel_function(candidate), kernel_of(candidate.case)
        if function is None or kernel is None:
            return candidate
        values = values_of(function, kernel)

        def build(kept: Sequence[str]) -> ReducedCase:
            dropped = values.keys() - set(kept)
            # Without defaults, because a specialised kernel gets a value for each
            # parameter.
            arguments = [
                argument
                for argument in parameters(function)
                if argument.arg not in dropped
            ]
            edits: dict[ast.AST, Any] = {
                function.args: ast.arguments([], arguments, None, [], [], None, [])
            }
            for name in dropped:
                value = values[name]
                if value:
                    edits |= _replace_reads(function, name, value)
            left: dict[str, Any] = {
                field: {
                    name: value
                    for name, value in getattr(kernel, field).items()
                    if name not in dropped
                }
                for field in ("signature", "constexprs", "hints")
            }
            return with_edits(candidate, edits).with_case(spec=replace(kernel, **left))

        return minimise(candidate, list(values), build, test)

    return run


@_parameter_pass
def drop_parameters(
    function: ast.FunctionDef, kernel: KernelSpec
) -> Mapping[str, ast.expr | None]:
    """Drop the parameters that nothing reads, and replace others by the first one of
    their type.
    """
    read = {
        name for statement in statements(function) for name in names_read(statement)
    }
    firsts: dict[str, str] = {}
    values: dict[str, ast.expr | None] = {}
    for name in parameter_names(function):
        if name not in read:
            values[name] = None
        elif name in kernel.signature:
            first = firsts.setdefault(kernel.signature[name], name)
            if first != name:
                values[name] = ast.Name(first, ast.Load())
    return values


@_parameter_pass
def inline_constexprs(
    _: ast.FunctionDef, kernel: KernelSpec
) -> Mapping[str, ast.expr | None]:
    """Replace constexprs by their numbers."""
    return {
        name: ast.Constant(value)
        for name, value in kernel.constexprs.items()
        if not isinstance(value, str)
    }


@greedily
def shrink_constexprs(candidate: ReducedCase) -> Iterator[ReducedCase]:
    """Halve constexprs as often as possible: all, those with the same value, then
    single ones.
    """
    kernel = kernel_of(candidate.case)
    if kernel is None:
        return
    numbers = {
        name: value
        for name, value in kernel.constexprs.items()
        if isinstance(value, int) and value >= _LARGE
    }
    if numbers:
        groups = [list(numbers)]
    else:
        groups = []
    groups += [
        [name for name in numbers if numbers[name] == value]
        for value in dict.fromkeys(numbers.values())
    ]
    groups += [[name] for name in numbers]
    for names in groups:
        halved = {**kernel.constexprs, **{name: numbers[name] // 2 for name in names}}
        yield candidate.with_case(spec=replace(kernel, constexprs=halved))


@greedily
def shrink_numbers(candidate: ReducedCase) -> Iterator[ReducedCase]:
    """Halve the integers of the program, equal ones together."""
    constants: dict[int, list[ast.Constant]] = {}
    for node in ast.walk(python_program_of(candidate).tree):
        if (
            isinstance(node, ast.Constant)
            and type(node.value) is int
            and node.value >= _LARGE
        ):
            constants.setdefault(node.value, []).append(node)
    for value, nodes in sorted(constants.items(), reverse=True):
        yield with_edits(candidate, {node: ast.Constant(value // 2) for node in nodes})


_PROGRAM_PASSES: tuple[Pass, ...] = (
    drop_statements,
    open_blocks,
    open_calls,
    inline_names,
    take_parts,
)
