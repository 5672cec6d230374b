"""Syntax trees with edits: a tree is never changed, an edited copy shares what stays as it was."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


_ALWAYS = frozenset((*dir(builtins), "__name__", "__file__", "__doc__", "__builtins__"))


def strangers(tree: ast.Module) -> list[ast.stmt]:
    """The statements, outermost first, that read a name before anything binds it: inside of a function in the order of its
    statements, both ways of a branch and a loop's body taken as run; from a function's outside wherever it is bound.
    None are told of a program that imports everything from somewhere.
    """
    if any(isinstance(one, ast.ImportFrom) and one.names[0].name == "*" for one in ast.walk(tree)):
        return []
    found: list[ast.stmt] = []
    outside = _ALWAYS | {name for one in tree.body for name in _bound_anywhere(one)}
    _go(tree.body, set(_ALWAYS), outside, found)
    return found


def _go(body: Iterable[ast.stmt], known: set[str], outside: frozenset[str] | set[str], found: list[ast.stmt]) -> None:
    """Follow statements, adding to `known` what they bind. outside: what a function defined here may read."""
    for one in body:
        if not reads(one) <= known:
            found.append(one)
            known |= set(_bound_anywhere(one))  # told once; what it would have bound is no further stranger
            continue
        known |= set(_bound_at_once(one))
        if isinstance(one, FunctionNode):
            given = {argument.arg for argument in _arguments(one.args)}
            shared = (inside.names for inside in ast.walk(one) if isinstance(inside, (ast.Global, ast.Nonlocal)))
            own = {name for inside in one.body for name in _bound_anywhere(inside)} - {name for some in shared for name in some}
            _go(one.body, (set(outside) - own) | given, set(outside) | own | given, found)
        else:
            for inside in _blocks(one):
                _go(inside, known, outside, found)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        for one in [getattr(statement, name, [])]:
            if one and isinstance(one[0], (ast.excepthandler, ast.match_case)):
                yield from (inner.body for inner in one)
            elif one:
                yield one


def reads(statement: ast.stmt) -> frozenset[str]:
    """The names that a statement itself reads before its blocks are run: what a comprehension or a lambda inside of it
    binds is not counted.
    """
    read: set[str] = set()
    inside: set[str] = set()
    for node in (node for part in _expressions(statement) for node in ast.walk(part)):
        match node:
            case ast.Name(id=name, ctx=ast.Load() | ast.Del()):
                read.add(name)
            case ast.comprehension(target=target):
                inside |= {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}
            case ast.Lambda(args=given):
                inside |= {one.arg for one in _arguments(given)}
            case ast.NamedExpr(target=ast.Name(id=name)):
                inside.add(name)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        read.add(statement.target.id)
    return frozenset(read - inside)


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The parts of a statement that are no statements."""
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield child
        elif isinstance(child, ast.ExceptHandler) and child.type:
            yield child.type


def bound_by(statement: ast.stmt) -> list[str]:
    """The names that a statement binds, its blocks included and functions' insides left out; one for each binding."""
    return list(_bound_anywhere(statement))


def _bound_anywhere(statement: ast.stmt) -> Iterator[str]:
    yield from _bound_at_once(statement)
    if not isinstance(statement, (*FunctionNode, ast.ClassDef)):
        for block in _blocks(statement):
            for one in block:
                yield from _bound_anywhere(one)


def _bound_at_once(statement: ast.stmt) -> Iterator[str]:
    """What is bound before a statement's blocks are run."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
            return
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            for one in names:
                yield one.asname or one.name.partition(".")[0]
            return
        case ast.Try(handlers=handlers):
            yield from (one.name for one in handlers if one.name)
        case ast.Match(cases=cases):
            parts = [part for one in cases for part in ast.walk(one.pattern)]
            captured = [getattr(part, "name", None) or getattr(part, "rest", None) for part in parts]
            yield from (name for name in captured if isinstance(name, str))
    for part in _expressions(statement):
        for node in ast.walk(part):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _arguments(given: ast.arguments) -> list[ast.arg]:
    more = [one for one in (given.vararg, given.kwarg) if one]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *more]
