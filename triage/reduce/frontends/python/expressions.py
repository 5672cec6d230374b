"""Passes over expressions: a part in the place of the whole, fewer arguments, constants folded."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from triage.reduce.draft import Draft
from triage.reduce.frontends.python.document import PythonDocument, kernel_function, kernel_of, tree_of, with_edits
from triage.reduce.frontends.python.shapes import Kind, Shapes, number_of
from triage.reduce.frontends.python.source_tree import Edits, depth_first, edited, functions, statements
from triage.reduce.search import InterestingnessTest, greedily, minimise

_MANY = 3  # arguments, of which the last one is often an option
_VALUES = (ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Subscript, ast.Call, ast.Name, ast.Constant)


def drop_words(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Drop keyword arguments of calls, decorators, and what a function says of itself."""
    words: list[ast.AST] = []
    kernel = kernel_function(draft)
    for one in ast.walk(tree_of(draft)):
        match one:
            case ast.Call(keywords=keywords):
                words += keywords
            case ast.FunctionDef(decorator_list=decorators):
                words += decorators if one is not kernel or len(decorators) > 1 else []
            case ast.Expr(value=ast.Constant(value=str())):
                words.append(one)
    _, found = minimise(words, lambda kept: with_edits(draft, dict.fromkeys(set(words) - set(kept))), hunt)
    return found or draft


def take_parts(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Put a part of an expression in its place, the largest expressions first; 0 in the place of a number. Of a call with
    many arguments the last one is left out.
    """
    return greedily(draft, hunt, lambda base: (with_edits(base, edits) for edits in _parts(base)))


def _parts(draft: Draft) -> Iterator[Edits]:
    how, kernel, tree = kernel_of(draft), kernel_function(draft), tree_of(draft)
    shapes = Shapes(kernel, how) if how and kernel else None
    modules = {name for one in tree.body if isinstance(one, ast.Import) for name in _imported(one)}
    for scope in functions(tree) if how else [tree]:
        for statement in statements(scope):
            if isinstance(statement, ast.AugAssign):
                target, value = statement.target, statement.value
                if isinstance(target, ast.Name):
                    yield {statement: ast.Assign([ast.Name(target.id, ast.Store())], value, lineno=0)}
        for node in depth_first(scope):
            if isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store):
                known = shapes.of(node) if shapes else None
                for part in _within(node, modules):
                    if shapes is None or _fits(shapes.of(part), known):
                        yield {node: part}
                if isinstance(node, ast.Call) and len(node.args) >= _MANY:
                    yield {node.args[-1]: None}
                if known == Kind() and isinstance(node, (ast.BinOp, ast.Call)):
                    yield {node: ast.Constant(0)}


def _fits(part: Kind | None, whole: Kind | None) -> bool:
    return part is None or whole is None or part == whole


def _imported(statement: ast.Import) -> list[str]:
    return [one.asname or one.name.partition(".")[0] for one in statement.names]


def _within(node: ast.expr, modules: set[str]) -> Sequence[ast.expr]:
    """The parts that are values as the whole is: no types, no tuples, no texts."""
    parts: Sequence[ast.expr] = ()
    match node:
        case ast.BinOp(left=left, right=right):
            parts = (left, right)
        case ast.BoolOp(values=values):
            parts = values
        case ast.UnaryOp(operand=operand):
            parts = (operand,)
        case ast.IfExp(body=body, orelse=rest):
            parts = (body, rest)
        case ast.Compare(left=left, comparators=others):
            parts = (left, *others)
        case ast.Subscript(value=value):
            parts = (value,)
        case ast.Call(func=ast.Attribute(value=value), args=given) if not _named(value, modules):
            parts = (value, *given)
        case ast.Call(args=given):
            parts = given
    return [one for one in parts if isinstance(one, _VALUES) and not isinstance(getattr(one, "value", None), str)]


def _named(node: ast.expr, names: set[str]) -> bool:
    """Whether it is one of the names, or something in a module of that name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in names


def fold(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Work out what constants leave to be worked out: `0 * x`, `x + 0`, `2 * 8`; of a decorator without arguments its name."""
    made = tree_of(draft)
    while edits := dict(_foldings(made)):
        made = edited(made, edits)
    if made is tree_of(draft):
        return draft
    return hunt.first([Draft(PythonDocument(made), draft.case)]) or draft


def _foldings(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Innermost first, none inside of another."""
    taken: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and not taken & set(ast.walk(node)) and (new := _folded(node)) is not None:
            taken.update(ast.walk(node))
            yield node, new
        if isinstance(node, ast.FunctionDef):
            for one in node.decorator_list:
                if isinstance(one, ast.Call) and not one.args and not one.keywords:
                    yield one, one.func


def _folded(node: ast.BinOp) -> ast.expr | None:
    value = number_of(node, {})
    if isinstance(value, int) and value >= 0:
        return ast.Constant(value)
    low, high = number_of(node.left, {}), number_of(node.right, {})
    match node.op:
        case ast.Add() if low == 0:
            return node.right
        case ast.Add() | ast.Sub() if high == 0:
            return node.left
        case ast.Mult() if low == 0 or high == 0:
            return ast.Constant(0)
        case ast.Mult() if low == 1:
            return node.right
        case ast.Mult() | ast.FloorDiv() if high == 1:
            return node.left
    return None
