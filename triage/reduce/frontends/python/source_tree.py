"""Python programs as syntax trees: edits that share what they keep, statements, and names that are undefined."""

from __future__ import annotations

import ast
import builtins
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from triage.compilers.base import KernelSpec
from triage.compilers.registry import family_of
from triage.model.case import Case, InputKind
from triage.reduce.draft import Draft

Node = TypeVar("Node", bound=ast.AST)
# Replaces a node by another node, by several statements or, in a list, by nothing.
Edits = Mapping[ast.AST, ast.AST | Sequence[ast.stmt] | None]
FunctionNode = (ast.FunctionDef, ast.AsyncFunctionDef)
_OPENED = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith)
_DEEPEST = 150  # nodes inside each other, so that functions that follow them recursively stay below Python's limit
_ALWAYS = frozenset((*dir(builtins), "__name__", "__file__", "__doc__", "__builtins__"))


class PythonDocument:
    """A syntax tree without comments and formatting. It is shared: passes build new ones and never change it."""

    kind = InputKind.OTHER
    suffix = "py"
    unit = "statement"

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree

    @cached_property
    def content(self) -> bytes:
        """The program as `ast.unparse` writes it, with two empty lines around functions and classes."""
        parts, before = [], None
        for statement in self.tree.body:
            text = ast.unparse(statement).strip("\n")
            wide = isinstance(statement, (*FunctionNode, ast.ClassDef))
            if before is not None:
                parts.append("\n\n" if wide or before else "")
            parts.append(f"{text}\n")
            before = wide
        return "".join(parts).encode("utf-8", "surrogateescape")

    @cached_property
    def size(self) -> int:
        return sum(1 for _ in statements(self.tree))


def parse_program(content: bytes) -> ast.Module | None:
    """Return the tree of a program; None when Python does not compile it, or nests expressions too deeply."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the program's warnings are of no interest
        try:
            tree = ast.parse(content)
            compile(tree, "input.py", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError):
            return None
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        if not level:
            return tree
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return None


def tree_of(draft: Draft) -> ast.Module:
    """Return the tree of a draft whose document is Python."""
    assert isinstance(draft.document, PythonDocument)
    return draft.document.tree


def with_edits(draft: Draft, edits: Edits, case: Case | None = None) -> Draft:
    """Return the draft with edits, and with another case if one is passed."""
    return Draft(PythonDocument(edited(tree_of(draft), edits)), case or draft.case)


def kernel_of(draft: Draft) -> KernelSpec | None:
    """Return how the draft's kernel is specialised; None for a program that is not a kernel."""
    return family_of(draft.case).kernel(draft.case)


def kernel_function(draft: Draft) -> ast.FunctionDef | None:
    """Return the compiled function: the named one, or the only one with the arguments that the case names."""
    kernel = kernel_of(draft)
    if kernel is None:
        return None
    arguments = {*kernel.signature, *kernel.constexprs}
    fitting = [
        function
        for function in functions(tree_of(draft))
        if isinstance(function, ast.FunctionDef)
        and (function.name == kernel.name if kernel.name else set(parameters(function)) == arguments)
    ]
    return fitting[0] if len(fitting) == 1 else None


def parameters(function: ast.FunctionDef) -> list[str]:
    """Return the names of a function's parameters."""
    arguments = function.args
    return [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def edited(node: Node, edits: Edits) -> Node:
    """Return the tree with `edits` applied below `node`, and inside of replacements.

    A loop or branch is dropped with the last statement of its body. Any other body that must not be empty becomes `pass`.
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
    copy: Node = type(node)(**fields)
    return ast.copy_location(copy, node)


def _edited_field(value: Any, edits: Edits) -> Any:
    if isinstance(value, ast.AST):
        return next(iter(_replaced(value, edits)), None)
    if not isinstance(value, list):
        return value
    items = [new for item in value for new in (_replaced(item, edits) if isinstance(item, ast.AST) else [item])]
    return value if len(items) == len(value) and all(new is old for new, old in zip(items, value, strict=True)) else items


def _replaced(node: ast.AST, edits: Edits) -> list[ast.AST]:
    if node not in edits:
        copy = edited(node, edits)
        empty = isinstance(copy, _OPENED) and all(isinstance(inner, ast.Pass) for inner in copy.body)
        return [] if copy is not node and empty and not getattr(copy, "orelse", []) else [copy]
    replacement = edits[node]
    rest = {other: by for other, by in edits.items() if other is not node}
    if replacement is None:
        return []
    nodes = [replacement] if isinstance(replacement, ast.AST) else replacement
    return [new for inner in nodes for new in _replaced(inner, rest)]


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions of the file's top level."""
    return [statement for statement in tree.body if isinstance(statement, FunctionNode)]


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield all statements below a node, in the order of the text."""
    for child in _children(tree):
        yield child
        yield from statements(child)


def depth_first(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all nodes below it, in the order of the text."""
    yield node
    for child in ast.iter_child_nodes(node):
        yield from depth_first(child)


def statements_at(tree: ast.AST, depth: int) -> list[ast.stmt]:
    """Return the statements inside of `depth` other statements."""
    level = list(_children(tree))
    for _ in range(depth):
        level = [inner for statement in level for inner in _children(statement)]
    return level


def _children(node: ast.AST) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, (ast.excepthandler, ast.match_case)):
            yield from _children(child)


def undefined_reads(tree: ast.Module) -> list[ast.stmt]:
    """Return the outermost statements that read a name which no earlier statement binds.

    Both sides of branches and the bodies of loops count as executed. A function may read the names that the file binds
    anywhere. A program with `import *` has none.
    """
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree)):
        return []
    found: list[ast.stmt] = []
    outside = _ALWAYS | {name for statement in tree.body for name in bound_by(statement)}
    _follow(tree.body, set(_ALWAYS), outside, found)
    return found


def _follow(body: Iterable[ast.stmt], known: set[str], outside: frozenset[str] | set[str], found: list[ast.stmt]) -> None:
    """Go along statements and add the names they bind to `known`. outside: the names that a function defined here may read."""
    for statement in body:
        if not _reads(statement) <= known:
            found.append(statement)
            known |= set(bound_by(statement))  # reported once: later reads of these names are no further finding
            continue
        known |= set(_bound_first(statement))
        if isinstance(statement, FunctionNode):
            arguments = {argument.arg for argument in _arguments(statement.args)}
            nonlocals = (inner.names for inner in ast.walk(statement) if isinstance(inner, (ast.Global, ast.Nonlocal)))
            own = {name for inner in statement.body for name in bound_by(inner)} - {name for some in nonlocals for name in some}
            _follow(statement.body, (set(outside) - own) | arguments, set(outside) | own | arguments, found)
        else:
            _follow(_children(statement), known, outside, found)


def _reads(statement: ast.stmt) -> frozenset[str]:
    """The names that a statement reads before its blocks run, without those that its own expressions bind."""
    read: set[str] = set()
    inside: set[str] = set()
    for node in (node for part in _expressions(statement) for node in ast.walk(part)):
        match node:
            case ast.Name(id=name, ctx=ast.Load() | ast.Del()):
                read.add(name)
            case ast.comprehension(target=target):
                inside |= {name.id for name in ast.walk(target) if isinstance(name, ast.Name)}
            case ast.Lambda(args=arguments):
                inside |= {argument.arg for argument in _arguments(arguments)}
            case ast.NamedExpr(target=ast.Name(id=name)):
                inside.add(name)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        read.add(statement.target.id)
    return frozenset(read - inside)


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield child
        elif isinstance(child, ast.ExceptHandler) and child.type:
            yield child.type


def bound_by(statement: ast.stmt) -> list[str]:
    """Return the names that a statement and its blocks bind, one entry for each binding; not those inside functions."""
    names = list(_bound_first(statement))
    if not isinstance(statement, (*FunctionNode, ast.ClassDef)):
        names += [name for inner in _children(statement) for name in bound_by(inner)]
    return names


def _bound_first(statement: ast.stmt) -> Iterator[str]:
    """The names that are bound before a statement's blocks run."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
            return
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            for alias in names:
                yield alias.asname or alias.name.partition(".")[0]
            return
        case ast.Try(handlers=handlers):
            yield from (handler.name for handler in handlers if handler.name)
        case ast.Match(cases=cases):
            parts = [part for case in cases for part in ast.walk(case.pattern)]
            captured = [getattr(part, "name", None) or getattr(part, "rest", None) for part in parts]
            yield from (name for name in captured if isinstance(name, str))
    for part in _expressions(statement):
        for node in ast.walk(part):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    more = [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]
