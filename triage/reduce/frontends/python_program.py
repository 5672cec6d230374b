"""A Python program as a tree that passes edit, and the names that it does not bind."""

from __future__ import annotations

import ast
import builtins
import symtable
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
_BLOCKS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# nodes inside each other, so that functions that follow them recursively stay below
_DEEPEST_TREE = 150
_ALWAYS = frozenset(dir(builtins)) | {"__class__", "__file__", "__path__"}


class PythonProgram(Reducible):
    """A syntax tree without comments and formatting. It is shared: passes build new
    ones and never change it.
    """

    kind = InputKind.OTHER
    suffix = "py"
    unit = "statement"

    def __init__(self, tree: ast.Module, unbound: Set[str] = frozenset()) -> None:
        """`unbound`: the names that the original reads and does not bind."""
        self.tree, self.unbound = tree, unbound

    @cached_property
    def content(self) -> bytes:
        """The program as `ast.unparse` writes it, with two empty lines around functions
        and classes.
        """
        text, after_block = "", False
        for statement in self.tree.body:
            is_block = isinstance(statement, _BLOCKS)
            if text and (is_block or after_block):
                text += "\n\n"
            text += ast.unparse(statement).strip("\n") + "\n"
            after_block = is_block
        return text.encode("utf-8", "surrogateescape")

    @cached_property
    def size(self) -> int:
        return len(list(statements(self.tree)))

    @cached_property
    def canonical(self) -> bytes | None:
        """The content; None if Python does not compile it or it reads further unbound
        names. Starts no process.
        """
        try:
            parse_program(self.content)
        except UnreadableError:
            return None
        if unbound_names(self.content) - self.unbound:
            return None
        return self.content


def open_program(path: Path) -> PythonProgram:
    """Read the program to start from, which may read names that it does not bind.
    Raises UnreadableError.
    """
    content = path.read_bytes()
    tree = parse_program(content)
    return PythonProgram(tree, unbound_names(content))


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


def unbound_names(content: bytes) -> set[str]:
    r"""Return the names that a program reads and binds nowhere. A program with `import
    *` has none.

    The order of statements does not matter: the compiler decides about a name that is
    read before it is bound.

    >>> unbound_names(b"def f(x): return x + y + len(z)\nz = 1")
    {'y'}
    """
    if b"import *" in content:
        return set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scopes = [symtable.symtable(content, "input.py", "exec")]  # type: ignore[arg-type]
    bound, read = set(_ALWAYS), set[str]()
    module = scopes[0]
    while scopes:
        scope = scopes.pop()
        scopes += scope.get_children()
        for symbol in scope.get_symbols():
            is_shared = scope is module or symbol.is_global()
            if is_shared and (symbol.is_assigned() or symbol.is_imported()):
                bound.add(symbol.get_name())
            if is_shared and symbol.is_referenced():
                read.add(symbol.get_name())
    return read - bound


def readers(tree: ast.AST, names: Set[str]) -> set[ast.stmt]:
    """Return the innermost statements that read or delete some names."""
    statement_of: dict[ast.AST, ast.stmt] = {}
    for statement in statements(tree):  # inner ones after outer ones
        statement_of |= dict.fromkeys(ast.walk(statement), statement)
    return {
        statement
        for node, statement in statement_of.items()
        if isinstance(node, ast.Name) and node.id in names
    }


def with_tree(candidate: ReducedCase, tree: ast.Module) -> ReducedCase:
    """Return the candidate with another tree."""
    return candidate.with_program(
        PythonProgram(tree, python_program_of(candidate).unbound)
    )


def python_program_of(candidate: ReducedCase) -> PythonProgram:
    """Return the program of a candidate that is Python."""
    assert isinstance(candidate.program, PythonProgram)
    return candidate.program


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
    fields: dict[str, Any] = {}
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            fields[name] = next(iter(_replacements(value, edits)), None)
        elif isinstance(value, list):
            fields[name] = [new for item in value for new in _replacements(item, edits)]
        else:
            fields[name] = value
    if all(new == getattr(node, name) for name, new in fields.items()):
        return node
    if fields.get("body") == [] and isinstance(node, (ast.stmt, ast.excepthandler)):
        fields["body"] = [ast.Pass()]
    copy: Node = type(node)(**fields)
    return ast.copy_location(copy, node)


def _replacements(node: Any, edits: Edits) -> list[Any]:
    """Return what takes the place of a node: itself or a copy, what `edits` says, or
    nothing.
    """
    if not isinstance(node, ast.AST):  # such as a name in `global`
        return [node]
    if node not in edits:
        copy = edit_tree(node, edits)
        is_empty = isinstance(copy, _OPENED) and all(
            isinstance(inner, ast.Pass) for inner in copy.body
        )
        if copy is not node and is_empty and not getattr(copy, "orelse", []):
            return []
        return [copy]
    replacement = edits[node]
    rest = {other: by for other, by in edits.items() if other is not node}
    nodes: Sequence[ast.AST] = ()
    if isinstance(replacement, ast.AST):
        nodes = [replacement]
    elif replacement is not None:
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
