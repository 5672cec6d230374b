"""Passes over statements and expressions: drop or open them, take a part instead of the whole, fold constants."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from triage.reduce.draft import Draft, InterestingnessTest, greedily, minimise
from triage.reduce.frontends.python.shapes import ValueShape, may_replace, number_of, shapes_of
from triage.reduce.frontends.python.source_tree import (
    PythonDocument,
    bound_by,
    depth_first,
    edited,
    functions,
    kernel_function,
    kernel_of,
    statements,
    statements_at,
    tree_of,
    undefined_reads,
    with_edits,
)

_DEEPEST = 8  # levels of nested statements
_MANY = 3  # arguments, of which the last one is often an option
_VALUES = (ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Subscript, ast.Call, ast.Name, ast.Constant)


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


@greedily
def open_blocks(draft: Draft) -> Iterator[Draft]:
    """Replace a loop, branch or `with` by its body; a loop's variable gets its first value."""
    for statement in statements(tree_of(draft)):
        match statement:
            case ast.For(target=target, iter=source, body=body) | ast.AsyncFor(target=target, iter=source, body=body):
                yield with_edits(draft, {statement: [ast.Assign([target], _first(source), lineno=0), *body]})
            case ast.While(body=body) | ast.With(body=body) | ast.AsyncWith(body=body) | ast.Try(body=body):
                yield with_edits(draft, {statement: body})
            case ast.If(body=body, orelse=rest):
                yield with_edits(draft, {statement: body})
                if rest:
                    yield with_edits(draft, {statement: rest})


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


def drop_keywords(draft: Draft, test: InterestingnessTest) -> Draft:
    """Drop keyword arguments, decorators and docstrings."""
    items: list[ast.AST] = []
    kernel = kernel_function(draft)
    for node in ast.walk(tree_of(draft)):
        match node:
            case ast.Call(keywords=keywords):
                items += keywords
            case ast.FunctionDef(decorator_list=decorators):
                items += decorators if node is not kernel or len(decorators) > 1 else []
            case ast.Expr(value=ast.Constant(value=str())):
                items.append(node)
    return minimise(draft, items, lambda kept: with_edits(draft, dict.fromkeys(set(items) - set(kept))), test)


@greedily
def take_parts(draft: Draft) -> Iterator[Draft]:
    """Replace an expression by a part of it, the largest first, or a scalar by 0; drop the last of many arguments."""
    tree, shapes = tree_of(draft), shapes_of(draft)
    imports = [statement for statement in tree.body if isinstance(statement, ast.Import)]
    modules = {name for statement in imports for name in bound_by(statement)}
    for scope in functions(tree) if kernel_of(draft) else [tree]:
        for statement in statements(scope):
            if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                target = ast.Name(statement.target.id, ast.Store())
                yield with_edits(draft, {statement: ast.Assign([target], statement.value, lineno=0)})
        for node in depth_first(scope):
            if isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store):
                for part in _values_in(node, modules):
                    if may_replace(shapes, part, node):
                        yield with_edits(draft, {node: part})
                if isinstance(node, ast.Call) and len(node.args) >= _MANY:
                    yield with_edits(draft, {node.args[-1]: None})
                scalar = shapes is not None and shapes.of(node) == ValueShape()
                if scalar and isinstance(node, (ast.BinOp, ast.Call)):
                    yield with_edits(draft, {node: ast.Constant(0)})


def _values_in(node: ast.expr, modules: set[str]) -> Sequence[ast.expr]:
    """The parts that are values themselves: no types, tuples or strings."""
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
        case ast.Call(func=ast.Attribute(value=value), args=arguments) if not _named(value, modules):
            parts = (value, *arguments)
        case ast.Call(args=arguments):
            parts = arguments
    return [part for part in parts if isinstance(part, _VALUES) and not isinstance(getattr(part, "value", None), str)]


def _named(node: ast.expr, names: set[str]) -> bool:
    """Whether it is one of the names, or an attribute of one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in names


def fold(draft: Draft, test: InterestingnessTest) -> Draft:
    """Evaluate expressions with constants: `0 * x`, `x + 0`, `2 * 8`; drop the empty call of a decorator."""
    folded = draft
    while edits := dict(_foldings(tree_of(folded))):
        folded = with_edits(folded, edits)
    return draft if folded is draft else test.first([folded]) or draft


def _foldings(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Replacements that do not overlap."""
    taken: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and not taken & set(ast.walk(node)) and (new := _folded(node)) is not None:
            taken.update(ast.walk(node))
            yield node, new
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and not decorator.args and not decorator.keywords:
                    yield decorator, decorator.func


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
