"""The form of Python programs: passes over syntax trees, and over kernels together with
their specialisation.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from triage.compilers.base import KernelSpec, kernel_of
from triage.model.case import Case
from triage.reduce.frontends.python_program import (
    Edits,
    PythonProgram,
    children,
    edit_tree,
    kernel_function,
    open_program,
    parameter_names,
    parameters,
    python_program_of,
    readers,
    statements,
    unbound_names,
    with_edits,
)
from triage.reduce.problem import Form, Pass, ReductionProblem
from triage.reduce.program import ReducedCase
from triage.reduce.settings import drop_flags, drop_options

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


def python_form(case: Case) -> Form:
    """Return the form of a program that Python can parse."""
    passes: list[Pass] = [
        drop_statements,
        open_blocks,
        open_calls,
        inline_names,
        take_parts,
    ]
    final: list[Pass] = [shrink_numbers, drop_flags]
    if kernel_of(case):  # small sizes compile faster
        passes = [shrink_constexprs, *passes, drop_parameters, drop_options]
        final = [inline_constexprs, shrink_numbers]
    return Form(_open, passes, final, name="its form without comments")


def _open(path: Path) -> Iterator[PythonProgram]:
    yield open_program(path)


def drop_statements(problem: ReductionProblem) -> None:
    """Drop statements, the outermost first, halves of a level before single ones, with
    the statements that need them.
    """
    for depth in range(_DEEPEST):
        start = problem.current
        kernel = kernel_function(start)
        level = list(children(python_program_of(start).tree))
        for _ in range(depth):
            level = [inner for statement in level for inner in children(statement)]

        def without(
            dropped: Sequence[ast.stmt], start: ReducedCase = start
        ) -> ReducedCase | None:
            return _without_statements(start, dropped)

        items = [statement for statement in level if statement is not kernel]
        problem.delete(items, without, whole=depth == 0 and kernel is None)


def _without_statements(
    candidate: ReducedCase, dropped: Sequence[ast.stmt]
) -> ReducedCase | None:
    """Drop statements and those that need them, unless that drops the kernel."""
    smaller = with_edits(candidate, dict.fromkeys(dropped))
    while True:
        program = python_program_of(smaller)
        unbound = unbound_names(program.content) - program.unbound
        broken = readers(program.tree, unbound)
        if not broken:
            break
        smaller = with_edits(smaller, dict.fromkeys(broken))
    if kernel_function(candidate) and not kernel_function(smaller):
        return None
    return smaller


def _changing(changes: Callable[[ReducedCase], Iterator[Edits]]) -> Pass:
    """Make a pass that makes one of several edits after another."""

    @wraps(changes)
    def run(problem: ReductionProblem) -> None:
        problem.change(lambda start: (with_edits(start, one) for one in changes(start)))

    return run


@_changing
def open_blocks(candidate: ReducedCase) -> Iterator[Edits]:
    """Replace a loop, branch or `with` by its body; a loop's variable gets its first
    value, and `x += y` becomes `x = y`.
    """
    for statement in statements(python_program_of(candidate).tree):
        match statement:
            case ast.For(target=target, iter=source, body=body):
                first = ast.Assign([target], _first_value_of(source), lineno=0)
                yield {statement: [first, *body]}
            case (
                ast.While(body=body)
                | ast.With(body=body)
                | ast.AsyncWith(body=body)
                | ast.Try(body=body)
            ):
                yield {statement: body}
            case ast.If(body=body, orelse=rest):
                yield {statement: body}
                if rest:
                    yield {statement: rest}
            case ast.AugAssign(target=target, value=value):
                yield {statement: ast.Assign([target], value, lineno=0)}


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
    first: ast.expr = ast.parse("next(iter(_))", mode="eval").body
    [name] = [node for node in ast.walk(first) if getattr(node, "id", "") == "_"]
    return edit_tree(first, {name: source})


@_changing
def inline_names(candidate: ReducedCase) -> Iterator[Edits]:
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
                    if isinstance(value, ast.Call):
                        same = first.setdefault(ast.dump(value.func), name)
                        if same != name:
                            value = ast.Name(same, ast.Load())
                    if isinstance(value, (ast.Constant, ast.Name)):
                        yield {statement: None, **_reads_of(function, name, value)}


def _reads_of(function: ast.AST, name: str, value: ast.expr) -> Edits:
    """Return the edits that replace a name by a value wherever a function reads it."""
    return {
        node: value
        for node in ast.walk(function)
        if isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Load)
    }


@_changing
def open_calls(candidate: ReducedCase) -> Iterator[Edits]:
    """Replace all calls of a function by its body, where that makes the program
    smaller.
    """
    tree = python_program_of(candidate).tree
    for callee in tree.body:
        if not isinstance(callee, ast.FunctionDef):
            continue
        if not getattr(callee.body[-1], "value", None):
            continue
        edits: dict[ast.AST, Any] = {callee: None}
        for statement in statements(tree):
            if hasattr(statement, "body"):
                continue
            for node in ast.walk(statement):
                match node:
                    case ast.Call(func=ast.Name(id=callee.name)):
                        edits[statement] = _opened_call(statement, node, callee)
        opened = with_edits(candidate, edits)
        if len(edits) > 1 and opened.program.size < candidate.program.size:
            yield edits


def _opened_call(
    statement: ast.stmt, call: ast.Call, callee: ast.FunctionDef
) -> list[ast.stmt]:
    """Return the body of a function, and the statement with the value that it returns
    in place of a call.
    """
    passed = dict(zip(parameter_names(callee), call.args, strict=False))
    passed |= {word.arg: word.value for word in call.keywords if word.arg}
    reads: dict[ast.AST, Any] = {}
    for name, value in passed.items():
        reads |= _reads_of(callee, name, value)
    *body, end = edit_tree(callee, reads).body
    return [*body, edit_tree(statement, {call: getattr(end, "value", None)})]


@_changing
def take_parts(candidate: ReducedCase) -> Iterator[Edits]:
    """Replace an expression by a part of it, the largest first: no types, tuples,
    strings or modules.
    """
    tree = python_program_of(candidate).tree
    modules = {
        alias.asname or alias.name.partition(".")[0]
        for statement in tree.body
        if isinstance(statement, ast.Import)
        for alias in statement.names
    }
    for node in ast.walk(tree):
        if not isinstance(node, _VALUES) or isinstance(
            getattr(node, "ctx", None), ast.Store
        ):
            continue
        for part in ast.iter_child_nodes(node):
            if isinstance(node, ast.Call) and part is node.func:
                part = getattr(part, "value", part)  # the object of a method
            if getattr(part, "id", "") in modules or part is getattr(node, "func", 0):
                continue
            is_text = isinstance(getattr(part, "value", None), str)
            if isinstance(part, _VALUES) and not is_text:
                yield {node: part}


def _dropping_parameters(
    values_of: Callable[[ast.FunctionDef, KernelSpec], Mapping[str, ast.expr | None]],
) -> Pass:
    """Make a pass that drops as many as possible of the parameters that `values_of`
    names. A parameter's value, if that is not None, replaces its reads.
    """

    @wraps(values_of)
    def run(problem: ReductionProblem) -> None:
        start = problem.current
        function, kernel = kernel_function(start), kernel_of(start.case)
        if function is None or kernel is None:
            return
        values = values_of(function, kernel)

        def without(dropped: Sequence[str]) -> ReducedCase:
            # Without defaults, because a specialised kernel gets a value for each
            # parameter.
            left = [each for each in parameters(function) if each.arg not in dropped]
            edits: dict[ast.AST, Any] = {
                function.args: ast.arguments([], left, None, [], [], None, [])
            }
            for name in dropped:
                value = values[name]
                if value:
                    edits |= _reads_of(function, name, value)
            left_in: dict[str, Any] = {
                field: {
                    name: value
                    for name, value in getattr(kernel, field).items()
                    if name not in dropped
                }
                for field in ("signature", "constexprs", "hints")
            }
            smaller = with_edits(start, edits)
            return smaller.with_case(spec=replace(kernel, **left_in))

        problem.delete(list(values), without)

    return run


@_dropping_parameters
def drop_parameters(
    function: ast.FunctionDef, kernel: KernelSpec
) -> Mapping[str, ast.expr | None]:
    """Drop the parameters that nothing reads, and replace others by the first one of
    their type.
    """
    read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
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


@_dropping_parameters
def inline_constexprs(
    _: ast.FunctionDef, kernel: KernelSpec
) -> Mapping[str, ast.expr | None]:
    """Replace constexprs by their numbers."""
    return {
        name: ast.Constant(value)
        for name, value in kernel.constexprs.items()
        if not isinstance(value, str)
    }


def shrink_constexprs(problem: ReductionProblem) -> None:
    """Halve constexprs as often as possible: all, those with the same value, then
    single ones.
    """

    def changes(candidate: ReducedCase) -> Iterator[ReducedCase]:
        kernel = kernel_of(candidate.case)
        if kernel is None:
            return
        constants = kernel.constexprs
        numbers = {
            name: value
            for name, value in constants.items()
            if isinstance(value, int) and value >= _LARGE
        }
        groups = [list(numbers)]
        groups += [
            [name for name in numbers if numbers[name] == value]
            for value in dict.fromkeys(numbers.values())
        ]
        groups += [[name] for name in numbers]
        for names in filter(None, groups):
            halved = {name: numbers[name] // 2 for name in names}
            new = replace(kernel, constexprs={**constants, **halved})
            yield candidate.with_case(spec=new)

    problem.change(changes)


@_changing
def shrink_numbers(candidate: ReducedCase) -> Iterator[Edits]:
    """Halve the integers of the program, equal ones together."""
    constants: dict[int, list[ast.AST]] = {}
    for node in ast.walk(python_program_of(candidate).tree):
        match node:
            case ast.Constant(value=int(value)) if value >= _LARGE:
                constants.setdefault(value, []).append(node)
    for value, nodes in sorted(constants.items(), reverse=True):
        yield dict.fromkeys(nodes, ast.Constant(value // 2))
