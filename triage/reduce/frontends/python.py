"""The form of Python programs: passes over syntax trees, and over kernels together with
their specialisation.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from triage.compilers.base import kernel_of
from triage.model.case import Case
from triage.reduce.frontends.python_program import (
    Edits,
    PythonProgram,
    kernel_in,
    parameter_names,
    parameters,
    parse_program,
    python_program_of,
    statements,
    unbound_names,
    with_edits,
)
from triage.reduce.problem import Form, Pass, ReductionProblem
from triage.reduce.program import ReducedCase
from triage.reduce.settings import drop_settings, without_names

_LARGE = 3  # the smallest number that is halved
_BOUND = 16  # a loop's bound instead of a value; it is halved later
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


def python_form(case: Case, source: Path) -> Form:
    """Return the form of a program that Python can parse."""

    def read() -> Iterator[PythonProgram]:
        content = source.read_bytes()
        yield PythonProgram(parse_program(content), unbound_names(content))

    passes: list[Pass] = [
        drop_statements,
        open_blocks,
        inline_names,
        take_parts,
    ]
    if kernel_of(case):  # small sizes compile faster
        passes = [drop_parameters, shrink_numbers, *passes, drop_settings]
    return Form(read, passes, (shrink_numbers, drop_settings))


def drop_statements(problem: ReductionProblem) -> None:
    """Drop statements, those that read a name before those that bind it."""
    start = problem.current
    tree = python_program_of(start).tree
    kernel = kernel_in(tree, start.case)
    items = [statement for statement in statements(tree) if statement is not kernel]
    problem.delete(
        items[::-1], lambda dropped: with_edits(start, dict.fromkeys(dropped))
    )


def _changing(changes: Callable[[ReducedCase], Iterator[Edits]]) -> Pass:
    """Make a pass that makes one of several edits after another."""

    @wraps(changes)
    def run(problem: ReductionProblem) -> None:
        problem.change(
            lambda start: (with_edits(start, edits) for edits in changes(start))
        )

    return run


@_changing
def open_blocks(candidate: ReducedCase) -> Iterator[Edits]:
    """Replace a loop, branch or `with` by its body; a loop's variable becomes 0, and `x
    += y` becomes `x = y`. The bounds of a loop that stays become numbers.
    """
    for statement in statements(python_program_of(candidate).tree):
        match statement:
            case ast.For(target=target, iter=values, body=body):
                first = ast.Assign([target], ast.Constant(0), lineno=0)
                yield {statement: [first, *body]}
                match values:
                    # range or tl.static_range
                    case ast.Call(func, bounds) if ast.unparse(func).endswith("range"):
                        for bound in bounds:
                            if not isinstance(bound, ast.Constant):
                                yield {bound: ast.Constant(_BOUND)}
            case ast.While() | ast.With() | ast.AsyncWith() | ast.Try():
                yield {statement: statement.body}
            case ast.If(body=body, orelse=rest):
                yield {statement: body}
                if rest:
                    yield {statement: rest}
            case ast.AugAssign(target=target, value=value):
                yield {statement: ast.Assign([target], value, lineno=0)}


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
        firsts: dict[str, str] = {}
        for statement in statements(function):
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                    bound[name] == 1
                ):
                    if isinstance(value, ast.Call):
                        first = firsts.setdefault(ast.dump(value.func), name)
                        if first != name:
                            value = ast.Name(first, ast.Load())
                    if isinstance(value, (ast.Constant, ast.Name)):
                        yield {statement: None, **_reads_of(function, name, value)}


def _reads_of(function: ast.AST, name: str, value: ast.expr) -> dict[ast.AST, ast.expr]:
    """Return the edits that replace a name by a value wherever a function reads it."""
    return {
        node: value
        for node in ast.walk(function)
        if isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Load)
    }


@_changing
def take_parts(candidate: ReducedCase) -> Iterator[Edits]:
    """Replace an expression by a part of it, the largest first: no types, tuples,
    strings or functions.
    """
    for node in ast.walk(python_program_of(candidate).tree):
        is_stored = isinstance(getattr(node, "ctx", None), ast.Store)
        if is_stored or not isinstance(node, _VALUES):
            continue
        for part in ast.iter_child_nodes(node):
            if isinstance(node, ast.Call) and part is node.func:
                # the object of a method, but no module
                part = getattr(part, "value", node)
                if isinstance(part, ast.Name):
                    continue
            is_text = isinstance(getattr(part, "value", None), str)
            if part is not node and isinstance(part, _VALUES) and not is_text:
                yield {node: part}


def drop_parameters(problem: ReductionProblem) -> None:
    """Drop the parameters of a kernel that nothing reads, and replace constexprs by
    their numbers and other parameters by the first one of their type.
    """
    start, kernel = problem.current, kernel_of(problem.current.case)
    function = kernel_in(python_program_of(start).tree, start.case)
    if function is None or kernel is None:
        return
    firsts: dict[str, str] = {}
    values: dict[str, ast.expr | None] = dict.fromkeys(parameter_names(function))
    for name in values:
        if name in kernel.constexprs:
            values[name] = ast.Constant(kernel.constexprs[name])
        elif name in kernel.signature:
            first = firsts.setdefault(kernel.signature[name], name)
            values[name] = ast.Name(first, ast.Load())

    def without(dropped: Sequence[str]) -> ReducedCase:
        # Without defaults, because a specialised kernel gets a value for each
        # parameter.
        names = [
            parameter
            for parameter in parameters(function)
            if parameter.arg not in dropped
        ]
        arguments = ast.arguments([], names, None, [], [], None, [])
        edits: dict[ast.AST, Any] = {function.args: arguments}
        for name in dropped:
            value = values[name]
            if value:
                edits |= _reads_of(function, name, value)
        left = without_names(kernel, dropped, "signature", "constexprs", "hints")
        return with_edits(start, edits).with_case(spec=left)

    problem.delete(list(values), without)


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
