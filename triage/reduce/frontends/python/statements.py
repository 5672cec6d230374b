"""Passes over statements: dropped with what needs them, loops and branches opened, what nobody reads left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from triage.reduce.draft import Draft
from triage.reduce.frontends.python.document import PythonDocument, kernel_function, tree_of, with_edits
from triage.reduce.frontends.python.source_tree import Edits, bodies, bound_by, edited, statements, strangers
from triage.reduce.search import InterestingnessTest, greedily, minimise

_DEEPEST = 8  # statements inside of one another


def drop_statements(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Drop statements, the outermost first, halves of a level before single ones. What reads a name that is then no longer
    bound goes as well.
    """
    for depth in range(_DEEPEST):
        base = draft
        kernel = kernel_function(base)
        items = [one for one in bodies(tree_of(base), depth) if one is not kernel]

        def build(kept: Sequence[ast.stmt], base: Draft = base, items: Sequence[ast.stmt] = items) -> Draft | None:
            return without(base, set(items) - set(kept))

        if items:
            _, found = minimise(items, build, hunt, whole=depth == 0 and kernel is None)
            draft = found or draft
    return draft


def without(draft: Draft, gone: set[ast.stmt]) -> Draft | None:
    """The draft without statements, and without those that cannot be without them; None where a kernel would go."""
    whole = tree_of(draft)
    tree: ast.Module = edited(whole, dict.fromkeys(gone))
    while (lost := strangers(tree)) and not strangers(whole):
        tree = edited(tree, dict.fromkeys(lost))
    made = Draft(PythonDocument(tree), draft.case)
    return made if kernel_function(draft) is None or kernel_function(made) is not None else None


def drop_unread(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Leave out what gives values to names that nothing reads: all of it, else as much as can be."""
    items: list[ast.stmt] = []
    tree = tree_of(draft)
    while unread := _unread(tree):
        items += unread
        tree = edited(tree, dict.fromkeys(unread))
    _, found = minimise(items, lambda kept: without(draft, set(items) - set(kept)), hunt) if items else ([], None)
    return found or draft


def _unread(tree: ast.Module) -> list[ast.stmt]:
    """Assignments and imports whose names nothing reads."""
    read = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
    read |= {one.target.id for one in ast.walk(tree) if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name)}
    found: list[ast.stmt] = []
    for one in statements(tree):
        if isinstance(one, (ast.Assign, ast.Import, ast.ImportFrom)) and not read & set(bound_by(one)):
            simple = not isinstance(one, ast.Assign) or all(isinstance(target, (ast.Name, ast.Tuple)) for target in one.targets)
            found += [one] if simple else []
    return found


def open_blocks(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Put the body of a loop, a branch or a `with` in its place: a loop's once, with the first value of its variable."""
    return greedily(draft, hunt, lambda base: (with_edits(base, edits) for edits in _openings(tree_of(base))))


def _openings(tree: ast.Module) -> Iterator[Edits]:
    for one in statements(tree):
        match one:
            case ast.For(target=target, iter=source, body=body) | ast.AsyncFor(target=target, iter=source, body=body):
                yield {one: [ast.Assign([target], _first(source), lineno=0), *body]}
            case ast.While(body=body) | ast.With(body=body) | ast.AsyncWith(body=body):
                yield {one: body}
            case ast.If(body=body, orelse=rest):
                yield {one: body}
                if rest:
                    yield {one: rest}
            case ast.Try(body=body):
                yield {one: body}


def _first(source: ast.expr) -> ast.expr:
    """The first value that a loop takes from `source`."""
    match source:
        case ast.Call(func=ast.Name(id="range") | ast.Attribute(attr="range" | "static_range"), args=[_]):
            return ast.Constant(0)
        case ast.Call(func=ast.Name(id="range") | ast.Attribute(attr="range" | "static_range"), args=[start, *_]):
            return start
        case ast.List(elts=[one, *_]) | ast.Tuple(elts=[one, *_]):
            return one
    return ast.Call(ast.Name("next", ast.Load()), [ast.Call(ast.Name("iter", ast.Load()), [source], [])], [])
