"""Passes over names: one name in the place of another, a value in the place of its name."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from triage.reduce.draft import Draft
from triage.reduce.frontends.python.document import kernel_function, kernel_of, tree_of, with_edits
from triage.reduce.frontends.python.shapes import Kind, Shapes
from triage.reduce.frontends.python.source_tree import Edits, bound_by, functions, statements
from triage.reduce.search import InterestingnessTest, greedily


def merge_names(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Let an earlier name of the same kind stand for a name that is bound once, and drop what bound it: an earlier result
    of the same function, or a name that its own value is made of.
    """
    return greedily(draft, hunt, lambda base: (with_edits(base, edits) for edits in _mergers(base)))


def _mergers(draft: Draft) -> Iterator[Edits]:
    how, kernel = kernel_of(draft), kernel_function(draft)
    shapes = Shapes(kernel, how) if how and kernel else None
    for function in functions(tree_of(draft)):
        assigned = list(_assigned_once(function))
        for at in range(len(assigned) - 1, -1, -1):
            statement, name = assigned[at]
            value = statement.value
            known = shapes.of(value) if shapes else None
            others = [other for made, other in assigned[:at] if _alike(made.value, value) and _fits(made.value, known, shapes)]
            inside = [one.id for one in ast.walk(value) if isinstance(one, ast.Name) and _fits(one, known, shapes)]
            made_before = {other for _, other in assigned[:at]}
            for other in dict.fromkeys([*others, *(one for one in inside if one in made_before)]):
                yield {statement: None, **renamed(function, name, ast.Name(other, ast.Load()))}


def _assigned_once(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[ast.Assign, str]]:
    inside = list(statements(function))
    given = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
    counted = Counter(name for one in function.body for name in bound_by(one))
    for one in inside:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)]) if counted[name] == 1 and name not in given:
                yield one, name


def _alike(one: ast.expr, other: ast.expr) -> bool:
    if isinstance(one, ast.Call) and isinstance(other, ast.Call):
        return ast.dump(one.func) == ast.dump(other.func)
    return type(one) is type(other)


def _fits(expression: ast.expr, known: Kind | None, shapes: Shapes | None) -> bool:
    kind = shapes.of(expression) if shapes else None
    return kind is None or known is None or kind == known


def renamed(function: ast.AST, name: str, value: ast.expr) -> Edits:
    """Edits that put a value wherever a function reads a name."""
    return {
        one: value
        for one in ast.walk(function)
        if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load)
    }


def inline_names(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Put numbers and names in the place of the names that are bound to nothing else: all at once, else one by one."""

    def all_at_once() -> Draft:
        made, left = draft, True
        while left:
            edits = next(_inlinings(made), None)
            made, left = (with_edits(made, edits), True) if edits else (made, False)
        return made

    if next(_inlinings(draft), None) is None:
        return draft
    found = hunt.first([all_at_once()])
    return found or greedily(draft, hunt, lambda base: (with_edits(base, edits) for edits in _inlinings(base)))


def _inlinings(draft: Draft) -> Iterator[Edits]:
    for function in functions(tree_of(draft)):
        for statement, name in _assigned_once(function):
            match statement.value:
                case ast.Constant() as value:
                    yield {statement: None, **renamed(function, name, value)}
                case ast.Name(id=other) as value if other != name:  # it may change in between: the compiler is asked
                    yield {statement: None, **renamed(function, name, value)}
