"""Copy a kernel into a file of its own, with all that it uses from its package."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path

from triage.compilers.triton.python_names import (
    BUILTINS,
    Import,
    PythonFile,
    bound_name,
    import_of,
    is_jit,
    names_bound,
    own_names,
)
from triage.model.errors import BadInput


def is_standalone(path: Path, text: str) -> bool:
    """Whether a toolchain can import the file."""
    source = PythonFile(path, text)
    for statement in source.tree.body:
        if isinstance(statement, ast.For) or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
            return False  # a program that launches the kernel
    imports = [node for node in ast.walk(source.tree) if isinstance(node, Import)]
    return not any(source.missing(node) or source.imported(node, bound_name(node.names[0])) for node in imports)


def copy_kernel(path: Path, text: str, kernel: str) -> tuple[str, tuple[str, ...]]:
    """Copy the function `kernel` and what it reads: functions and constants of its package, with the conditions around them.

    Returns the text, and a sentence with file and line for each name or import that it cannot resolve.

    Raises:
        BadInput: There is no such function.
    """
    source = PythonFile(path, text)
    if kernel not in source.bound:
        raise BadInput(f"{path} has no top-level function {kernel!r}")
    copier = _Copier(source)
    copier.take(source, kernel, source.tree.body[0])
    imports = sorted(copier.imports, key=lambda line: (not line.startswith("from __future__"), line))
    return "\n".join(imports) + "\n\n\n" + "\n\n\n".join(copier.parts) + "\n", tuple(copier.problems)


class _Copier:
    """Takes definitions one by one, each after those that it uses. Names stay as they are."""

    def __init__(self, source: PythonFile) -> None:
        self.imports: dict[str, None] = {}
        self.parts: list[str] = []
        self.problems: dict[str, None] = {}
        self._files = {source.path: source}
        self._taken: set[tuple[Path, str]] = set()
        self._written: set[ast.stmt] = set()
        self._owners: dict[str, Path] = {}

    def take(self, source: PythonFile, name: str, place: ast.AST) -> None:
        """Take what a name of a file refers to. place: what reads it."""
        if (source.path, name) in self._taken:
            return
        self._taken.add((source.path, name))
        statements = source.bound.get(name, [])
        if not statements:
            self._take_unbound(source, name, place)
        for statement in statements:
            if isinstance(statement, Import):
                self._take_import(source, statement, name)
            elif statement not in self._written:
                self._written.add(statement)
                is_plain = not isinstance(statement, (ast.If, ast.Try, ast.With))
                if is_plain and self._owners.setdefault(name, source.path) != source.path:
                    self._report(source, statement, f"{self._owners[name].name} defines another {name!r}, which the copy has")
                self.parts.append(self._text(source, statement))

    def _take_unbound(self, source: PythonFile, name: str, place: ast.AST) -> None:
        for star in source.stars:
            target = source.imported(star, "*")
            other = self._open(target[0]) if target else None
            if other is None:
                self.imports[ast.unparse(star)] = None
            elif name in other.bound or other.stars:
                return self.take(other, name, place)
        if name not in BUILTINS and not source.stars:
            self._report(source, place, f"nothing defines {name!r} in {source.path.name}")
        return None

    def _take_import(self, source: PythonFile, statement: Import, name: str) -> None:
        target = source.imported(statement, name)
        if target is None:
            if reason := source.missing(statement):
                self._report(source, statement, reason)
            self.imports[import_of(statement, name)] = None
        elif target[1] is not None:
            self.take(self._open(target[0]), target[1], statement)
            if target[1] != name:
                self.parts.append(f"{name} = {target[1]}")

    def _open(self, path: Path) -> PythonFile:
        if path not in self._files:
            self._files[path] = PythonFile(path, path.read_text("utf-8", "replace"))
        return self._files[path]

    def _report(self, source: PythonFile, node: ast.AST, message: str) -> None:
        self.problems.setdefault(f"{source.path}:{getattr(node, 'lineno', 1)}: {message}")

    def _text(self, source: PythonFile, statement: ast.stmt) -> str:
        """The text of a statement without imports from the package and decorators that tune a kernel; what it uses is taken."""
        decorators = [node for node in getattr(statement, "decorator_list", []) if is_jit(node)]
        gone = [node for node in getattr(statement, "decorator_list", []) if not is_jit(node)]
        left_out = {inner for node in gone for inner in ast.walk(node)}
        lines = source.text.encode().split(b"\n")[: statement.end_lineno]
        for node, text in sorted(
            self._edits(source, statement, left_out), key=lambda edit: -edit[0].lineno * 1000 - edit[0].col_offset
        ):
            first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
            tail = lines[last][node.end_col_offset :]
            lines[first : last + 1] = [lines[first][: node.col_offset] + text.encode() + tail]
        text = textwrap.dedent(b"\n".join(lines[statement.lineno - 1 :]).decode().expandtabs(8))
        return "\n".join([*(f"@{ast.unparse(node)}" for node in decorators), text])

    def _edits(
        self, source: PythonFile, statement: ast.stmt, left_out: set[ast.AST]
    ) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
        own = own_names(statement)
        modules: dict[str, PythonFile] = {}
        for node in ast.walk(statement):
            if isinstance(node, Import) and any(source.imported(node, name) for name in names_bound(node)):
                for name in names_bound(node):
                    self._take_import(source, node, name)
                yield node, "pass"
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node not in left_out and node.id not in own:
                if module := self._module(source, node.id):
                    modules[node.id] = module
                elif node.id in source.bound or node.id not in BUILTINS:
                    self.take(source, node.id, node)
        for node in ast.walk(statement):
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in modules and name not in own:
                    self.take(modules[name], attribute, node)
                    yield node, attribute

    def _module(self, source: PythonFile, name: str) -> PythonFile | None:
        """The file of the package that a name stands for."""
        statements = source.bound.get(name, [])
        target = source.imported(statements[0], name) if statements and isinstance(statements[0], Import) else None
        return self._open(target[0]) if target and target[1] is None else None
