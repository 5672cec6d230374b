"""A Python program as a tree that passes edit, and the names that it reads."""

from __future__ import annotations

import ast
import builtins
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from triage.compilers.base import kernel_of
from triage.model.case import Case, InputKind
from triage.reduce.program import ReducedCase, Reducible, UnreadableError

Node = TypeVar("Node", bound=ast.AST)
# Replaces a node by another node, by several statements or, in a list, by nothing.
Edits = Mapping[ast.AST, ast.AST | Sequence[ast.stmt] | None]
_OPENED = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# nodes inside each other, so that functions that follow them recursively stay below
# Python's limit
_DEEPEST_TREE = 150
_ALWAYS = frozenset(dir(builtins))


class PythonProgram(Reducible):
    """A syntax tree without comments and formatting. It is shared: passes build new
    ones and never change it.
    """

    kind = InputKind.OTHER
    suffix = "py"
    unit = "statement"

    def __init__(self, tree: ast.Module, undefined: Set[str] = frozenset()) -> None:
        """`undefined`: the names that the original reads and does not bind."""
        self.tree, self.undefined = tree, undefined

    @cached_property
    def content(self) -> bytes:
        """The program as `ast.unparse` writes it, with two empty lines around functions
        and classes.
        """
        text, after_block = "", False
        for statement in self.tree.body:
            is_block = isinstance(statement, (*_FUNCTIONS, ast.ClassDef))
            if text and (is_block or after_block):
                text += "\n\n"
            text += ast.unparse(statement).strip("\n") + "\n"
            after_block = is_block
        return text.encode("utf-8", "surrogateescape")

    @cached_property
    def size(self) -> int:
        return len(list(statements(self.tree)))

    def content_if_valid(self) -> bytes | None:
        """Return the content; None if Python does not compile it or it reads further
        undefined names. Starts no process.
        """
        try:
            tree = parse_program(self.content)
        except UnreadableError:
            return None
        return None if undefined_reads(tree, self.undefined) else self.content


def open_program(path: Path) -> PythonProgram:
    """Read the program to start from, which may read names that it does not bind.
    Raises UnreadableError.
    """
    tree = parse_program(path.read_bytes())
    undefined: set[str] = set()
    while reads := undefined_reads(tree, undefined):
        undefined.update(*reads.values())
    return PythonProgram(tree, undefined)


def parse_program(content: bytes) -> ast.Module:
    """Return the tree of a program. Raises UnreadableError if Python does not compile
    it, or if it nests too deeply.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the program's warnings are of no interest
        try:
            tree = ast.parse(content)
            compile(tree, "input.py", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            version = ".".join(map(str, sys.version_info[:2]))
            raise UnreadableError(
                f"Python {version} cannot parse it ({error})"
            ) from error
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST_TREE):
        if not level:
            return tree
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    raise UnreadableError(f"it nests deeper than {_DEEPEST_TREE} levels")


def python_program_of(candidate: ReducedCase) -> PythonProgram:
    """Return the program of a candidate that is Python."""
    assert isinstance(candidate.program, PythonProgram)
    return candidate.program


def with_tree(candidate: ReducedCase, tree: ast.Module) -> ReducedCase:
    """Return the candidate with another tree."""
    undefined = python_program_of(candidate).undefined
    return ReducedCase(PythonProgram(tree, undefined), candidate.case)


def with_edits(candidate: ReducedCase, edits: Edits) -> ReducedCase:
    """Return the candidate with edits."""
    return with_tree(candidate, edit_tree(python_program_of(candidate).tree, edits))


def kernel_function(candidate: ReducedCase) -> ast.FunctionDef | None:
    """Return the function that is compiled; None if the candidate is not a kernel."""
    return kernel_in(python_program_of(candidate).tree, candidate.case)


def kernel_in(tree: ast.Module, case: Case) -> ast.FunctionDef | None:
    """Return the compiled function: the named one, or the only one with the arguments
    that the case names; None if there is not exactly one.
    """
    kernel = kernel_of(case)
    if kernel is None:
        return None
    arguments = {*kernel.signature, *kernel.constexprs}
    fitting = [each for each in tree.body if isinstance(each, ast.FunctionDef)]
    if kernel.name:
        fitting = [each for each in fitting if each.name == kernel.name]
    else:
        fitting = [each for each in fitting if set(parameter_names(each)) == arguments]
    if len(fitting) == 1:
        return fitting[0]
    return None


def parameters(function: ast.FunctionDef) -> list[ast.arg]:
    """Return a function's parameters, without `*` and `**` ones."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def parameter_names(function: ast.FunctionDef) -> list[str]:
    """Return the names of those parameters."""
    return [argument.arg for argument in parameters(function)]


def edit_tree(node: Node, edits: Edits) -> Node:
    """Return the tree with `edits` applied below `node`, and inside of replacements.

    A loop or branch is dropped with the last statement of its body. Any other body that
    must not be empty becomes `pass`.
    """
    fields: dict[str, Any] = {
        name: _edit_field(value, edits) for name, value in ast.iter_fields(node)
    }
    if all(new is getattr(node, name) for name, new in fields.items()):
        return node
    if fields.get("body") == [] and isinstance(node, (ast.stmt, ast.excepthandler)):
        fields["body"] = [ast.Pass()]
    copy: Node = type(node)(**fields)
    return ast.copy_location(copy, node)


def _edit_field(value: Any, edits: Edits) -> Any:
    if isinstance(value, ast.AST):
        return next(iter(_replacements(value, edits)), None)
    if not isinstance(value, list):
        return value
    items: list[Any] = []
    for item in value:
        items += _replacements(item, edits) if isinstance(item, ast.AST) else [item]
    if len(items) == len(value) and all(
        new is old for new, old in zip(items, value, strict=True)
    ):
        return value
    return items


def _replacements(node: ast.AST, edits: Edits) -> list[ast.AST]:
    """Return what takes the place of a node: itself or a copy, what `edits` says, or
    nothing.
    """
    if node not in edits:
        copy = edit_tree(node, edits)
        empty = isinstance(copy, _OPENED) and all(
            isinstance(inner, ast.Pass) for inner in copy.body
        )
        if copy is not node and empty and not getattr(copy, "orelse", []):
            return []
        return [copy]
    replacement = edits[node]
    if replacement is None:
        return []
    rest = {other: by for other, by in edits.items() if other is not node}
    nodes: Sequence[ast.AST]
    if isinstance(replacement, ast.AST):
        nodes = [replacement]
    else:
        nodes = replacement
    return [new for inner in nodes for new in _replacements(inner, rest)]


def children(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements directly inside a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, (ast.excepthandler, ast.match_case)):
            yield from children(child)


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield all statements below a node, in the order of the text."""
    for child in children(tree):
        yield child
        yield from statements(child)


def undefined_reads(
    tree: ast.Module, undefined: Set[str] = frozenset()
) -> dict[ast.stmt, set[str]]:
    """Return the outermost statements that read names which nothing in their function
    or in the file binds, with those names. Those in `undefined` may be read.

    The order of statements does not matter: the compiler decides about a name that is
    read before it is bound. A program with `import *` has none.
    """
    shared = _ALWAYS | undefined
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            return {}
        if isinstance(node, ast.Global):
            shared |= names_bound_below(tree).intersection(node.names)
    for statement in tree.body:
        if isinstance(statement, _FUNCTIONS):
            shared |= {statement.name}
        else:
            shared |= names_bound_below(statement)
    reads: dict[ast.stmt, set[str]] = {}
    for statement in tree.body:
        bound = set(shared)
        if isinstance(statement, _FUNCTIONS):
            bound |= names_bound_below(statement)
        waiting = [statement]
        while waiting:
            inner = waiting.pop()
            unbound = names_read(inner) - bound
            if unbound:
                reads[inner] = unbound
            else:
                waiting += children(inner)
    return reads


def names_read(statement: ast.stmt) -> set[str]:
    """Return the names that a statement itself reads, without those that only the
    statements inside of it read.
    """
    read: set[str] = set()
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        read.add(statement.target.id)
    waiting: list[ast.AST] = [statement]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Store):
                read.add(child.id)
            if not isinstance(child, ast.stmt):
                waiting.append(child)
    return read


def names_bound_below(tree: ast.AST) -> set[str]:
    """Return all names that a node and the nodes below it bind."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.alias(name=module, asname=name):
                names.add(name or module.partition(".")[0])
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
            case _:
                # of functions, classes, handlers, patterns and parameters of types
                name = getattr(node, "name", None)
                if isinstance(name, str):
                    names.add(name)
    return names
