"""The names that Python statements bind and read, also below conditions and in kernels that a function defines."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

Compound = ast.If | ast.Try | ast.With
Import = ast.Import | ast.ImportFrom


def leaves(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The simple statements of a module, also those below conditions, and the kernels and imports inside of functions that
    define kernels.
    """
    return (statement for statement, _ in with_parents(body, ()))


def with_parents(body: Sequence[ast.stmt], parents: tuple[Compound, ...]) -> Iterator[tuple[ast.stmt, tuple[Compound, ...]]]:
    """The same statements, each with the compound statements around it. parents: those around the body."""
    for node in body:
        match node:
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                pass
            case ast.If() | ast.Try() | ast.With():
                handlers = [handler.body for handler in node.handlers] if isinstance(node, ast.Try) else []
                for inner in (node.body, *handlers, getattr(node, "orelse", [])):
                    yield from with_parents(inner, (*parents, node))
            case _:
                yield node, parents
                yield from ((inner, parents) for inner in kernels_inside(node))


def kernels_inside(statement: ast.stmt) -> list[ast.stmt]:
    """The kernels that a function defines, and its imports; empty for a function without kernels."""
    if not isinstance(statement, ast.FunctionDef):
        return []
    inner = [node for node in ast.walk(statement) if isinstance(node, (ast.FunctionDef, ast.Import, ast.ImportFrom))]
    kernels = {node for node in inner if isinstance(node, ast.FunctionDef) and node is not statement and kept_decorators(node)}
    wanted = [node for node in inner if node in kernels or not isinstance(node, ast.FunctionDef)]
    return sorted(wanted, key=lambda node: node.lineno) if kernels else []


def header_of(statement: Compound) -> list[ast.AST]:
    """The expressions of a compound statement itself, without its body."""
    match statement:
        case ast.If(test=test):
            return [test]
        case ast.Try(handlers=handlers):
            return [handler.type for handler in handlers if handler.type]
        case ast.With(items=items):
            return [item.context_expr for item in items]


def names_bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a simple statement binds."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (bound_name(node) for node in names if node.name != "*")
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.For():
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id


def bound_name(alias: ast.alias) -> str:
    """The name that one part of an import binds."""
    return alias.asname or alias.name.partition(".")[0]


def import_of(statement: Import, name: str, called: str | None = None) -> str:
    """The import of one name of several. called: the name to bind instead."""
    aliases = [node for node in statement.names if bound_name(node) == name]
    if called not in (None, name):
        aliases = [ast.alias(node.name, called) for node in aliases]
    return ast.unparse(type(statement)(**{**dict(ast.iter_fields(statement)), "names": aliases}))


def kept_decorators(statement: ast.stmt) -> list[ast.expr]:
    """Of functions only the decorator that marks a kernel, because others tune or register it."""
    if isinstance(statement, ast.ClassDef):
        return statement.decorator_list
    decorators = statement.decorator_list if isinstance(statement, ast.FunctionDef) else []
    return [node for node in decorators if ast.unparse(node).partition("(")[0].rpartition(".")[2] == "jit"]


def parts_read(statement: ast.stmt) -> list[ast.AST]:
    """The parts of a statement that a copy of it needs: of a function all but the decorators that tune or register it."""
    if isinstance(statement, ast.FunctionDef):
        returns = [statement.returns] if statement.returns else []
        return [statement.args, *returns, *statement.body, *kept_decorators(statement)]
    return [statement]


def own_names(node: ast.AST) -> frozenset[str]:
    """The names that a function binds itself."""
    if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        bound = [inner for inner in ast.walk(node) if isinstance(inner, ast.comprehension)]
        names = {name.id for inner in bound for name in ast.walk(inner.target) if isinstance(name, ast.Name)}
        lambdas = [inner.args for inner in ast.walk(node) if isinstance(inner, ast.Lambda)]
        return frozenset(names | {inner.arg for each in lambdas for inner in ast.walk(each) if isinstance(inner, ast.arg)})
    own = {inner.arg for inner in ast.walk(node) if isinstance(inner, ast.arg)}
    own |= {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)}
    own |= {inner.name for inner in ast.walk(node) if isinstance(inner, (ast.FunctionDef, ast.ClassDef)) and inner is not node}
    own |= {inner.name for inner in ast.walk(node) if isinstance(inner, ast.ExceptHandler) and inner.name}
    imports = [inner for inner in ast.walk(node) if isinstance(inner, Import)]
    own |= {name for inner in imports for name in names_bound(inner)}
    shared = {name for inner in ast.walk(node) if isinstance(inner, ast.Global) for name in inner.names}
    return frozenset(own - shared)


def references(parts: Sequence[ast.AST], *, stores: bool = False) -> Iterator[ast.expr]:
    """Names and attributes of names, each chain of attributes as a whole."""
    waiting = list(parts)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Attribute) and first_name(node) is not None:
            yield node
        elif isinstance(node, ast.Name):
            if stores or isinstance(node.ctx, (ast.Load, ast.Del)):
                yield node
        else:
            waiting += ast.iter_child_nodes(node)


def first_name(node: ast.expr) -> str | None:
    """The name that a chain of attributes starts with; None for another expression."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
