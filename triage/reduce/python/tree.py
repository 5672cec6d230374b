"""Syntax trees with edits: a tree is never changed, an edited copy shares what stays as it was."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

Node = TypeVar("Node", bound=ast.AST)
# What stands in a node's place: another node, several statements, or nothing where it is one of a list.
Edits = Mapping[ast.AST, ast.AST | Sequence[ast.stmt] | None]
FunctionNode = (ast.FunctionDef, ast.AsyncFunctionDef)
_OPENED = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith)


def edited(node: Node, edits: Edits) -> Node:
    """The tree with `edits` made everywhere below `node`, inside of what is put in as well. A loop or a branch goes with
    the last statement of its body; any other body that must not be empty is `pass`.
    """
    fields: dict[str, Any] = {}
    changed = False
    for name, value in ast.iter_fields(node):
        fields[name] = _edited_field(value, edits)
        changed = changed or fields[name] is not value
    if not changed:
        return node
    if fields.get("body") == [] and isinstance(node, (ast.stmt, ast.excepthandler)):
        fields["body"] = [ast.Pass()]
    made: Node = type(node)(**fields)
    return ast.copy_location(made, node)


def _edited_field(value: Any, edits: Edits) -> Any:
    if isinstance(value, ast.AST):
        return next(iter(_replaced(value, edits)), None)
    if not isinstance(value, list):
        return value
    made = [new for one in value for new in (_replaced(one, edits) if isinstance(one, ast.AST) else [one])]
    return value if len(made) == len(value) and all(map(_same, made, value)) else made


def _same(new: object, old: object) -> bool:
    return new is old


def _replaced(node: ast.AST, edits: Edits) -> list[ast.AST]:
    if node not in edits:
        made = edited(node, edits)
        return [] if made is not node and isinstance(made, _OPENED) and _is_empty(made) else [made]
    put = edits[node]
    rest = {one: what for one, what in edits.items() if one is not node}
    if put is None:
        return []
    return [new for one in ([put] if isinstance(put, ast.AST) else put) for new in _replaced(one, rest)]


def _is_empty(node: ast.AST) -> bool:
    body, rest = getattr(node, "body", []), getattr(node, "orelse", [])
    return not rest and all(isinstance(one, ast.Pass) for one in body)


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of the file's top level."""
    return [one for one in tree.body if isinstance(one, FunctionNode)]


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """All statements below a node, in the order they stand in."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.stmt):
            yield child
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from statements(child)


def depth_first(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, in the order they stand in."""
    yield node
    for child in ast.iter_child_nodes(node):
        yield from depth_first(child)


def bodies(tree: ast.AST, depth: int) -> list[ast.stmt]:
    """The statements that stand `depth` statements deep, counted from 0."""
    level: list[ast.AST] = [tree]
    for _ in range(depth + 1):
        level = [inner for one in level for inner in _directly(one)]
    return [one for one in level if isinstance(one, ast.stmt)]


def _directly(node: ast.AST) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, (ast.excepthandler, ast.match_case)):
            yield from _directly(child)
