"""A kernel as a file of its own: the function with all that it uses from its package."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from triage.compilers.triton.package_names import (
    Definition,
    PackageFile,
    PackageNames,
    file_imported,
    is_relative,
    missing_packages,
    star_imports,
)
from triage.compilers.triton.statement_names import (
    Import,
    header_of,
    import_of,
    kept_decorators,
    kernels_inside,
    names_bound,
    own_names,
    parts_read,
)
from triage.model.errors import BadInput


@dataclass(frozen=True, slots=True)
class KernelCopy:
    """The text of the copy, and a sentence with file and line for each name or import that the copy cannot resolve."""

    text: str
    problems: tuple[str, ...]


def is_standalone(path: Path, text: str, kernel: str | None = None) -> bool:
    """Whether the file imports only modules that a toolchain's own environment has, and has the kernel outside of functions."""
    source = PackageFile(path, text)
    if any(getattr(node, "name", None) == kernel for outer in source.tree.body for node in kernels_inside(outer)):
        return False
    imports = [node for node in ast.walk(source.tree) if isinstance(node, Import)]
    return not any(is_relative(node) or missing_packages(node) or file_imported(source, node) for node in imports)


def copy_kernel(path: Path, text: str, kernel: str) -> KernelCopy:
    """A program with the function `kernel` and all that it reads: functions and constants of its file and its package, with
    the conditions around them. Imports from other packages stay.

    Raises:
        BadInput: there is no such function.
    """
    source = PackageFile(path, text)
    if not any(isinstance(statement, ast.FunctionDef) for statement in source.bound.get(kernel, ())):
        raise BadInput(f"{path} has no top-level function {kernel!r}")
    gathering = _Gathering(PackageNames(source))
    gathering.take(Definition(source, kernel), source, None)
    return gathering.copy()


@dataclass(eq=False)
class _Gathering:
    """The definitions taken so far, and the files that they are from, each before the files that import it."""

    _package: PackageNames
    _names: dict[Definition, str] = field(default_factory=dict)  # as the copy calls them
    _taken: set[str] = field(default_factory=set)
    _kept: dict[ast.stmt, set[str]] = field(default_factory=dict)  # simple statement -> the names needed of it
    _order: list[PackageFile] = field(default_factory=list)
    _entered: set[PackageFile] = field(default_factory=set)  # files with definitions that are being taken
    _imports: dict[tuple[str, ...], str] = field(default_factory=dict)  # imports from other packages -> the name they bind
    _stars: dict[PackageFile, list[ast.ImportFrom]] = field(default_factory=dict)
    _problems: dict[str, None] = field(default_factory=dict)

    def take(self, definition: Definition, reader: PackageFile, place: ast.AST | None) -> None:
        """Take a definition. reader, place: the file and the node that read it."""
        source, name = definition.source, definition.name
        if definition in self._names or name is None:
            return
        statements = source.bound.get(name)
        if statements is None:
            if not self._stars_of(source):
                self._report(reader, place, f"nothing defines {name!r} in {source.path.name}")
            self._names[definition] = name
            return
        self._names[definition] = self._shared(source, statements, name) or self._unique(name, source)
        outermost = source not in self._entered
        self._entered.add(source)
        for statement in statements:
            self._kept.setdefault(statement, set()).add(name)
            for parent in source.around[statement]:
                self._read(source, header_of(parent))
            if isinstance(statement, Import):
                self._take_import(source, statement, name)
            else:
                self._read(source, parts_read(statement), own_names(statement))
        if outermost:
            self._entered.discard(source)
            self._order += [source] if source not in self._order else []

    def _read(self, source: PackageFile, parts: Sequence[ast.AST], own: frozenset[str] = frozenset()) -> None:
        for node, target in self._package.references(source, parts, own):
            if target.name is None:
                self._report(source, node, f"the module {ast.unparse(node)!r} of the package is used as a value")
            else:
                self.take(target, source, node)

    def _take_import(self, source: PackageFile, statement: Import, name: str) -> None:
        target = self._package.imported(source, statement, name)
        if target is not None:
            self.take(self._package.resolved(target), source, statement)
            return
        if any(isinstance(parent, ast.Try) for parent in source.around[statement]):
            return  # the source handles its absence
        if is_relative(statement):
            self._report(source, statement, f"{ast.unparse(statement)}: the package has no such file")
        for module in sorted(missing_packages(statement)):
            self._report(source, statement, f"imports {module}, which a toolchain's environment does not have")

    def _stars_of(self, source: PackageFile) -> list[ast.ImportFrom]:
        """Keep the star imports of other packages, which may define a name that nothing else defines."""
        stars = [star for star in star_imports(source) if file_imported(source, star) is None and not star.level]
        if stars:
            self._stars[source] = stars
            if source not in self._order:
                self._order.append(source)
        return stars

    def _shared(self, source: PackageFile, statements: Sequence[ast.stmt], name: str) -> str | None:
        """The name that another file's same imports have in the copy."""
        imports = [node for node in statements if isinstance(node, Import)]
        if len(imports) < len(statements) or any(self._package.imported(source, node, name) for node in imports):
            return None
        lines = tuple(sorted({import_of(node, name) for node in imports}))
        if lines not in self._imports:
            self._imports[lines] = self._unique(name, source)
        return self._imports[lines]

    def _unique(self, name: str, source: PackageFile) -> str:
        unique, number = name, 1
        while unique in self._taken:
            number += 1
            unique = f"{name}_{source.path.stem.strip('_')}" + (f"_{number}" if number > 2 else "")
        self._taken.add(unique)
        return unique

    def _report(self, source: PackageFile, node: ast.AST | None, message: str) -> None:
        self._problems.setdefault(f"{source.path}:{getattr(node, 'lineno', 1)}: {message}")

    def copy(self) -> KernelCopy:
        imports: dict[str, None] = {}
        parts: list[str] = []
        for source in self._order:
            imports |= dict.fromkeys(ast.unparse(star) for star in self._stars.get(source, []))
            for statement in source.tree.body:
                text = "\n".join(self._written(source, statement))
                lines = text.splitlines() if isinstance(statement, Import) else []
                plain = [line for line in lines if line.startswith(("import ", "from "))]
                imports |= dict.fromkeys(plain)
                if text and not plain:
                    parts.append(text)
        first = sorted(imports, key=lambda line: (not line.startswith("from __future__"), line))
        return KernelCopy("\n".join(first) + "\n\n\n" + "\n\n\n".join(parts) + "\n", tuple(self._problems))

    def _written(self, source: PackageFile, statement: ast.stmt) -> list[str]:
        """The lines of a statement in the copy; none when nothing of it is needed."""
        match statement:
            case ast.If(body=body, orelse=orelse, test=test):
                first, last = self._block(source, body), self._block(source, orelse)
                if not first and not last:
                    return []
                return [f"if {self._edited(source, test)}:", *(first or _PASS), *(["else:", *last] if last else [])]
            case ast.Try(body=body, handlers=handlers, orelse=orelse):
                blocks = [self._block(source, block) for block in (body, *(handler.body for handler in handlers), orelse)]
                if not any(blocks):
                    return []
                lines = ["try:", *(blocks[0] or _PASS)]
                for handler, block in zip(handlers, blocks[1:], strict=False):
                    kind = f" {self._edited(source, handler.type)}" if handler.type else ""
                    lines += [f"except{kind}:", *(block or _PASS)]
                return [*lines, *(["else:", *blocks[-1]] if blocks[-1] else [])]
            case ast.With(body=body, items=items):
                inner = self._block(source, body)
                head = ", ".join(self._edited(source, item.context_expr) for item in items)
                return [f"with {head}:", *inner] if inner else []
        names = self._kept.get(statement)
        if not names:
            return [line for inner in kernels_inside(statement) for line in self._written(source, inner)]
        if isinstance(statement, Import):
            return [line for name in sorted(names) for line in self._import_line(source, statement, name)]
        text = self._edited(source, statement)
        decorators = [f"@{self._edited(source, node)}" for node in kept_decorators(statement)]
        return [*decorators, *text.splitlines()]

    def _block(self, source: PackageFile, body: Sequence[ast.stmt]) -> list[str]:
        return [f"    {line}" if line else "" for statement in body for line in self._written(source, statement)]

    def _import_line(self, source: PackageFile, statement: Import, name: str) -> list[str]:
        called = self._names[Definition(source, name)]
        target = self._package.imported(source, statement, name)
        if target is not None:
            original = self._names.get(self._package.resolved(target))
            return [f"{called} = {original}"] if original and original != called else []
        return [import_of(statement, name, called)]

    def _edited(self, source: PackageFile, node: ast.expr | ast.stmt) -> str:
        """The source text of a node, with the names that the copy gives to definitions."""
        edits: list[tuple[ast.expr | ast.stmt, str]] = []
        for inner, target in self._package.references(source, [node], own_names(node), stores=True):
            name = self._names.get(target)
            if name is not None and name != ast.unparse(inner) and inner.lineno >= node.lineno:  # not in a decorator
                edits.append((inner, name))
        for below in ast.walk(node):
            if below is node or not isinstance(below, Import):
                continue
            if any(self._package.imported(source, below, name) for name in names_bound(below)):
                edits.append((below, "pass"))
        return _segment(source, node, edits, self._names.get(Definition(source, getattr(node, "name", None) or "")))


_PASS = ["    pass"]


def _segment(
    source: PackageFile, node: ast.expr | ast.stmt, edits: list[tuple[ast.expr | ast.stmt, str]], called: str | None
) -> str:
    """The text of a node with replacements. called: the new name of a function or class."""
    lines = list(source.lines[node.lineno - 1 : _end(node)[0]])
    lines[-1] = lines[-1][: _end(node)[1]]
    for inner, name in sorted(edits, key=lambda edit: (edit[0].lineno, edit[0].col_offset), reverse=True):
        first, last = inner.lineno - node.lineno, _end(inner)[0] - node.lineno
        tail = lines[last][_end(inner)[1] :]
        lines[first : last + 1] = [lines[first][: inner.col_offset] + name.encode() + tail]
    lines[0] = b" " * node.col_offset + lines[0][node.col_offset :]
    text = textwrap.dedent(b"\n".join(lines).decode().expandtabs(8))
    if called is not None and isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        text = text.replace(f" {node.name}", f" {called}", 1)
    return text.strip("\n") if isinstance(node, ast.stmt) else f"({text.strip()})" if "\n" in text else text.strip()


def _end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
