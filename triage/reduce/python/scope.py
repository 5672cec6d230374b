"""Which names a program binds and reads: enough to tell, without running it, that a statement reads what nothing gives it."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

from triage.reduce.python.tree import FunctionNode

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
