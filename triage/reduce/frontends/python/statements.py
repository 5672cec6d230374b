"""Passes that drop statements and open loops and branches."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from triage.reduce.draft import Draft, InterestingnessTest, greedily, minimise
from triage.reduce.frontends.python.source_tree import (
    Edits,
    PythonDocument,
    bound_by,
    edited,
    kernel_function,
    statements,
    statements_at,
    tree_of,
    undefined_reads,
    with_edits,
)

_DEEPEST = 8  # levels of nested statements


def drop_statements(draft: Draft, test: InterestingnessTest) -> Draft:
    """Drop statements, the outermost first, halves of a level before single ones, with the statements that need them."""
    for depth in range(_DEEPEST):
        base, kernel = draft, kernel_function(draft)
        items = [statement for statement in statements_at(tree_of(base), depth) if statement is not kernel]

        def build(kept: Sequence[ast.stmt], base: Draft = base, items: Sequence[ast.stmt] = items) -> Draft | None:
            return _without(base, set(items) - set(kept))

        if items:
            draft = minimise(draft, items, build, test, whole=depth == 0 and kernel is None)
    return draft


def _without(draft: Draft, dropped: set[ast.stmt]) -> Draft | None:
    """The draft without statements and those that need them; None when that drops the kernel."""
    original = tree_of(draft)
    tree: ast.Module = edited(original, dict.fromkeys(dropped))
    while (broken := undefined_reads(tree)) and not undefined_reads(original):
        tree = edited(tree, dict.fromkeys(broken))
    smaller = Draft(PythonDocument(tree), draft.case)
    return smaller if kernel_function(draft) is None or kernel_function(smaller) is not None else None


def drop_unread(draft: Draft, test: InterestingnessTest) -> Draft:
    """Drop assignments and imports whose names nothing reads."""
    items: list[ast.stmt] = []
    tree = tree_of(draft)
    while unread := _unread(tree):
        items += unread
        tree = edited(tree, dict.fromkeys(unread))
    return minimise(draft, items, lambda kept: _without(draft, set(items) - set(kept)), test)


def _unread(tree: ast.Module) -> list[ast.stmt]:
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    targets = (node.target for node in ast.walk(tree) if isinstance(node, ast.AugAssign))
    read |= {target.id for target in targets if isinstance(target, ast.Name)}
    found: list[ast.stmt] = []
    for statement in statements(tree):
        if isinstance(statement, (ast.Assign, ast.Import, ast.ImportFrom)) and not read & set(bound_by(statement)):
            targets_of = statement.targets if isinstance(statement, ast.Assign) else []
            found += [statement] if all(isinstance(target, (ast.Name, ast.Tuple)) for target in targets_of) else []
    return found


def open_blocks(draft: Draft, test: InterestingnessTest) -> Draft:
    """Replace a loop, branch or `with` by its body; a loop's variable gets its first value."""
    return greedily(draft, test, lambda base: (with_edits(base, edits) for edits in _openings(tree_of(base))))


def _openings(tree: ast.Module) -> Iterator[Edits]:
    for statement in statements(tree):
        match statement:
            case ast.For(target=target, iter=source, body=body) | ast.AsyncFor(target=target, iter=source, body=body):
                yield {statement: [ast.Assign([target], _first(source), lineno=0), *body]}
            case ast.While(body=body) | ast.With(body=body) | ast.AsyncWith(body=body) | ast.Try(body=body):
                yield {statement: body}
            case ast.If(body=body, orelse=rest):
                yield {statement: body}
                if rest:
                    yield {statement: rest}


def _first(source: ast.expr) -> ast.expr:
    """The first value that a loop takes from `source`."""
    match source:
        case ast.Call(func=ast.Name(id="range") | ast.Attribute(attr="range" | "static_range"), args=[_]):
            return ast.Constant(0)
        case ast.Call(func=ast.Name(id="range") | ast.Attribute(attr="range" | "static_range"), args=[start, *_]):
            return start
        case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]):
            return first
    return ast.Call(ast.Name("next", ast.Load()), [ast.Call(ast.Name("iter", ast.Load()), [source], [])], [])
