"""The form of Python programs: trees that passes edit, kernels together with their
specialisation, and the names that a program does not bind.
"""

from __future__ import annotations

import ast
import builtins
import symtable
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import Any

from triage.compilers.base import kernel_of
from triage.model.case import Case
from triage.reduce.problem import (
    Form,
    Pass,
    Program,
    ReductionProblem,
    UnreadableError,
    drop_settings,
    without_keys,
)

# Replaces a node by another node, by several statements or, in a list, by nothing.
Edits = Mapping[ast.AST, ast.AST | Sequence[ast.stmt] | None]
_OPENED = (ast.For, ast.While, ast.If, ast.With)
_ALWAYS = frozenset(dir(builtins)) | {"__class__", "__file__", "__path__"}
_LARGE = 3  # the smallest number that is halved
_BOUND = 16  # a loop's bound instead of a value; it is halved later
_VALUES = (
    ast.BinOp,
    ast.BoolOp,
    ast.UnaryOp,
    ast.IfExp,
    ast.Compare,
    ast.Subscript,
    ast.Call,
    ast.Name,
    ast.Constant,
)


@dataclass(frozen=True, eq=False)
class PythonProgram(Program):
    """A syntax tree without comments and formatting. It is shared: passes build new
    ones and never change it.
    """

    tree: ast.Module
    unbound: Set[str] = frozenset()
    """The names that the original reads and does not bind."""
    suffix = "py"
    unit = "statement"

    @cached_property
    def content(self) -> bytes:
        return f"{ast.unparse(self.tree)}\n".encode("utf-8", "surrogateescape")

    @cached_property
    def size(self) -> int:
        return len(self.statements)

    @property
    def statements(self) -> list[ast.stmt]:
        """All statements, inner ones after outer ones."""
        return statements_in(self.tree)

    @property
    def functions(self) -> list[ast.FunctionDef]:
        """The functions of the program, without those inside others."""
        return [node for node in self.tree.body if isinstance(node, ast.FunctionDef)]

    @cached_property
    def canonical(self) -> bytes | None:
        """The content; None if Python does not compile it or it reads further unbound
        names. Starts no process.
        """
        try:
            parse_program(self.content)
        except UnreadableError:
            return None
        if unbound_names(self.content) <= self.unbound:
            return self.content
        return None

    @property
    def kernel(self) -> ast.FunctionDef | None:
        """The compiled function: the named one, or the only one with the arguments that
        the case names; None if there is not exactly one.
        """
        kernel = kernel_of(self.case)
        if kernel is None:
            return None
        arguments = {*kernel.signature, *kernel.constexprs}
        fitting = [
            function
            for function in self.functions
            if function.name == kernel.kernel
            or (not kernel.kernel and set(parameter_names(function)) == arguments)
        ]
        if len(fitting) == 1:
            return fitting[0]
        return None

    def with_edits(self, edits: Edits) -> PythonProgram:
        """Edit the tree.

        A loop or branch is dropped with the last statement of its body. Any other body
        that must not be empty becomes `pass`.
        """
        return replace(self, tree=_Editor(edits).visit(self.tree))


def parse_program(content: bytes) -> ast.Module:
    """Parse a program. Raises UnreadableError if Python does not compile it, or if it
    nests too deeply.
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
    r"""Find the names that a program reads and binds nowhere. A program with `import *`
    has none.

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
    bound = set(_ALWAYS)
    read = set[str]()
    for scope in scopes:
        scopes += scope.get_children()
        for symbol in scope.get_symbols():
            if scope is scopes[0] or symbol.is_global():
                if symbol.is_assigned() or symbol.is_imported():
                    bound.add(symbol.get_name())
                if symbol.is_referenced():
                    read.add(symbol.get_name())
    return read - bound


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


def parameters(function: ast.FunctionDef) -> list[ast.arg]:
    """List a function's parameters, without `*` and `**` ones."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def parameter_names(function: ast.FunctionDef) -> list[str]:
    """Name those parameters."""
    return [argument.arg for argument in parameters(function)]


def statements_in(tree: ast.AST) -> list[ast.stmt]:
    """List all statements below a node, inner ones after outer ones."""
    below = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    return sorted(below, key=lambda statement: getattr(statement, "lineno", 0))


def python_form(case: Case, source: Path) -> Form:
    """Choose the passes for a program that Python can parse."""
    passes = [
        drop_statements,
        open_blocks,
        inline_calls,
        inline_names,
        take_parts,
    ]
    if kernel_of(case):  # small sizes compile faster
        passes = [drop_parameters, shrink_numbers, *passes, drop_settings]
    return Form(_read_program(case, source), passes, (shrink_numbers, drop_settings))


def _read_program(case: Case, source: Path) -> Iterator[PythonProgram]:
    content = source.read_bytes()
    yield PythonProgram(case, parse_program(content), unbound_names(content))


def drop_statements(problem: ReductionProblem) -> None:
    """Drop statements, those that read a name before those that bind it."""
    start = PythonProgram.of(problem)
    kernel = start.kernel
    items = [statement for statement in start.statements if statement is not kernel]
    problem.delete(
        items[::-1], lambda dropped: start.with_edits(dict.fromkeys(dropped))
    )


def _editing_pass(edits_of: Callable[[PythonProgram], Iterator[Edits]]) -> Pass:
    """Make a pass that makes one of several edits after another."""

    @wraps(edits_of)
    def run(problem: ReductionProblem) -> None:
        def changes() -> Iterator[PythonProgram]:
            start = PythonProgram.of(problem)
            return map(start.with_edits, edits_of(start))

        problem.change(changes)

    return run


@_editing_pass
def open_blocks(program: PythonProgram) -> Iterator[Edits]:
    """Replace a loop, branch or `with` by its body; a loop's variable becomes 0, and `x
    += y` becomes `x = y`. The bounds of a loop that stays become numbers.
    """
    for statement in program.statements:
        match statement:
            case ast.For(target=target, iter=values, body=body):
                first = ast.Assign([target], ast.Constant(0), lineno=0)
                yield {statement: [first, *body]}
                match values:
                    # range or tl.static_range
                    case ast.Call(func, bounds) if ast.unparse(func).endswith("range"):
                        for bound in bounds:
                            if not isinstance(bound, ast.Constant):
                                yield {bound: ast.Constant(_BOUND)}
            case ast.While() | ast.With() | ast.Try():
                yield {statement: statement.body}
            case ast.If(body=body, orelse=rest):
                yield {statement: body}
                if rest:
                    yield {statement: rest}
            case ast.AugAssign(target=target, value=value):
                yield {statement: ast.Assign([target], value, lineno=0)}


@_editing_pass
def inline_calls(program: PythonProgram) -> Iterator[Edits]:
    """Replace the only call of a function that returns at its end by its body, with the
    arguments in place of the parameters.
    """
    functions = {function.name: function for function in program.functions}
    for statement in program.statements:
        if not isinstance(statement, (ast.Assign, ast.Expr, ast.Return)):
            continue
        for call in ast.walk(statement):
            match call:
                case ast.Call(ast.Name(name), values, keywords) if name in functions:
                    function = functions[name]
                    arguments = dict(
                        zip(parameter_names(function), values, strict=False)
                    )
                    arguments |= {word.arg or "": word.value for word in keywords}
                    edits: dict[ast.AST, Any] = {}
                    for name, value in arguments.items():
                        edits |= _inline_edits(function, name, value)
                    *body, end = map(_Editor(edits).visit, function.body)
                    if isinstance(end, ast.Return) and end.value:
                        last = _Editor({call: end.value}).visit(statement)
                        yield {function: None, statement: [*body, last]}


@_editing_pass
def inline_names(program: PythonProgram) -> Iterator[Edits]:
    """Replace a name that is bound once by its constant or name, or by the first result
    of the same function.
    """
    for function in program.functions:
        bound = Counter(parameter_names(function))
        bound.update(
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )
        # the first name that is bound to a call of a function
        firsts: dict[str, str] = {}
        for statement in statements_in(function):
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                    bound[name] == 1
                ):
                    if isinstance(value, ast.Call):
                        first = firsts.setdefault(ast.dump(value.func), name)
                        if first != name:
                            value = ast.Name(first, ast.Load())
                    if isinstance(value, (ast.Constant, ast.Name)):
                        yield {statement: None, **_inline_edits(function, name, value)}


def _inline_edits(
    function: ast.AST, name: str, value: ast.expr
) -> dict[ast.AST, ast.expr]:
    """Return the edits that replace a name by a value wherever a function reads it."""
    return {
        node: value
        for node in ast.walk(function)
        if isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Load)
    }


@_editing_pass
def take_parts(program: PythonProgram) -> Iterator[Edits]:
    """Replace an expression by a part of it, the largest first: no types, tuples,
    strings or functions. Keyword arguments are dropped.
    """
    for node in ast.walk(program.tree):
        is_stored = isinstance(getattr(node, "ctx", None), ast.Store)
        if is_stored or not isinstance(node, _VALUES):
            continue
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.keyword):
                yield {part: None}
            if isinstance(node, ast.Call) and part is node.func:
                # the object of a method, but no module
                part = getattr(part, "value", node)
                if isinstance(part, ast.Name):
                    continue
            is_text = isinstance(getattr(part, "value", None), str)
            if part is not node and isinstance(part, _VALUES) and not is_text:
                yield {node: part}


def drop_parameters(problem: ReductionProblem) -> None:
    """Drop the parameters of a kernel that nothing reads, and replace constexprs by
    their numbers and other parameters by the first one of their type.
    """
    start = PythonProgram.of(problem)
    kernel = kernel_of(start.case)
    function = start.kernel
    if function is None or kernel is None:
        return
    firsts: dict[str, str] = {}
    values: dict[str, ast.expr | None] = dict.fromkeys(parameter_names(function))
    for name in values:
        if name in kernel.constexprs:
            values[name] = ast.Constant(kernel.constexprs[name])
        elif name in kernel.signature:
            first = firsts.setdefault(kernel.signature[name], name)
            values[name] = ast.Name(first, ast.Load())

    def without(dropped: Sequence[str]) -> PythonProgram:
        names = [
            parameter
            for parameter in parameters(function)
            if parameter.arg not in dropped
        ]
        # without defaults: a specialised kernel gets a value for each parameter
        arguments = ast.arguments([], names, None, [], [], None, [])
        edits: dict[ast.AST, Any] = {function.args: arguments}
        for name in dropped:
            value = values[name]
            if value:
                edits |= _inline_edits(function, name, value)
        spec = replace(
            kernel,
            signature=without_keys(kernel.signature, dropped),
            constexprs=without_keys(kernel.constexprs, dropped),
            hints=without_keys(kernel.hints, dropped),
        )
        return start.with_edits(edits).with_case(spec=spec)

    problem.delete(list(values), without)


@_editing_pass
def shrink_numbers(program: PythonProgram) -> Iterator[Edits]:
    """Halve the integers of the program, equal ones together."""
    constants: dict[int, list[ast.AST]] = {}
    for node in ast.walk(program.tree):
        match node:
            case ast.Constant(value=int(value)) if value >= _LARGE:
                constants.setdefault(value, []).append(node)
    for value, nodes in sorted(constants.items(), reverse=True):
        yield dict.fromkeys(nodes, ast.Constant(value // 2))
