"""A Python program as a tree that passes edit, and the names that it does not bind."""

from __future__ import annotations

import ast
import builtins
import symtable
import sys
import warnings
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from typing import Any

from triage.compilers.base import kernel_of
from triage.model.case import Case, InputKind
from triage.reduce.program import ReducedCase, Reducible, UnreadableError

# Replaces a node by another node, by several statements or, in a list, by nothing.
Edits = Mapping[ast.AST, ast.AST | Sequence[ast.stmt] | None]
_OPENED = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith)
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
        return f"{ast.unparse(self.tree)}\n".encode("utf-8", "surrogateescape")

    @cached_property
    def size(self) -> int:
        return len(statements(self.tree))

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


def parse_program(content: bytes) -> ast.Module:
    """Return the tree of a program. Raises UnreadableError if Python does not compile
    it, or if it nests too deeply.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the program's warnings are of no interest
        try:
            tree = ast.parse(content)
            compile(tree, "input.py", "exec", dont_inherit=True)
            ast.unparse(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            version = ".".join(map(str, sys.version_info[:2]))
            why = f"Python {version} cannot parse it ({error})"
            raise UnreadableError(why) from error
    return tree


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
            if scope is module or symbol.is_global():
                if symbol.is_assigned() or symbol.is_imported():
                    bound.add(symbol.get_name())
                if symbol.is_referenced():
                    read.add(symbol.get_name())
    return read - bound


def python_program_of(candidate: ReducedCase) -> PythonProgram:
    """Return the program of a candidate that is Python."""
    assert isinstance(candidate.program, PythonProgram)
    return candidate.program


def with_edits(candidate: ReducedCase, edits: Edits) -> ReducedCase:
    """Return the candidate with edits of its tree.

    A loop or branch is dropped with the last statement of its body. Any other body that
    must not be empty becomes `pass`.
    """
    program = python_program_of(candidate)
    tree: ast.Module = _Editor(edits).visit(program.tree)
    return candidate.with_program(PythonProgram(tree, program.unbound))


class _Editor(ast.NodeTransformer):
    """Copies a tree with edits."""

    def __init__(self, edits: Edits) -> None:
        self.edits = edits

    def visit(self, node: ast.AST) -> Any:
        if node in self.edits:
            return self.edits[node]
        fields = {
            name: list(value) if isinstance(value, list) else value
            for name, value in ast.iter_fields(node)
        }
        copy = ast.copy_location(type(node)(**fields), node)
        self.generic_visit(copy)
        if getattr(copy, "body", None) == [] and not isinstance(copy, ast.Module):
            if isinstance(copy, _OPENED) and not getattr(copy, "orelse", []):
                return None
            copy.body = [ast.Pass()]  # type: ignore[attr-defined]
        return copy


def kernel_in(tree: ast.Module, case: Case) -> ast.FunctionDef | None:
    """Return the compiled function: the named one, or the only one with the arguments
    that the case names; None if there is not exactly one.
    """
    kernel = kernel_of(case)
    if kernel is None:
        return None
    arguments = {*kernel.signature, *kernel.constexprs}
    fitting = []
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            has_arguments = set(parameter_names(statement)) == arguments
            if statement.name == kernel.name or (not kernel.name and has_arguments):
                fitting.append(statement)
    if len(fitting) == 1:
        return fitting[0]
    return None


def parameters(function: ast.FunctionDef) -> list[ast.arg]:
    """Return a function's parameters, without `*` and `**` ones."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def parameter_names(function: ast.FunctionDef) -> list[str]:
    """Return the names of those parameters."""
    return [argument.arg for argument in parameters(function)]


def statements(tree: ast.AST) -> list[ast.stmt]:
    """Return all statements below a node, inner ones after outer ones."""
    nodes = (node for node in ast.walk(tree) if node is not tree)
    below = [node for node in nodes if isinstance(node, ast.stmt)]
    return sorted(below, key=lambda statement: getattr(statement, "lineno", 0))
