"""The files of a Python package, and the definitions that names in them refer to."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from triage.compilers.triton.statement_names import (
    Compound,
    Import,
    bound_name,
    first_name,
    leaves,
    names_bound,
    references,
    with_parents,
)
from triage.model.errors import BadInput

_ALWAYS = frozenset((*dir(builtins), "__file__"))
_PRESENT = frozenset((*sys.stdlib_module_names, "triton", "torch", "numpy", "setuptools", "filelock", "packaging"))
_INSTALLED = ("site-packages", "dist-packages")
_MOST_FILES = 400
_DEEPEST = 20  # imports of imports that are followed


@dataclass(eq=False)
class PackageFile:
    """A file of the package."""

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError) as error:
            raise BadInput(f"{self.path} is not a Python program: {error}") from error

    @cached_property
    def lines(self) -> list[bytes]:
        return self.text.encode().split(b"\n")

    @cached_property
    def bound(self) -> dict[str, list[ast.stmt]]:
        """Name -> the simple statements that bind it, in every branch."""
        bound: dict[str, list[ast.stmt]] = {}
        for statement in leaves(self.tree.body):
            for name in names_bound(statement):
                bound.setdefault(name, []).append(statement)
        return bound

    @cached_property
    def around(self) -> dict[ast.stmt, tuple[Compound, ...]]:
        """Simple statement -> the compound statements around it."""
        return dict(with_parents(self.tree.body, ()))


@dataclass(frozen=True, slots=True)
class Definition:
    """A name that a file binds; name is None for the file itself as a module."""

    source: PackageFile
    name: str | None


class PackageNames:
    """Finds the definitions that names refer to, by the imports of the package's files."""

    def __init__(self, source: PackageFile) -> None:
        self._files = {source.path.resolve(): source}

    def references(
        self, source: PackageFile, parts: Sequence[ast.AST], own: frozenset[str], *, stores: bool = False
    ) -> Iterator[tuple[ast.expr, Definition]]:
        """The longest part of each `a.b.c` that refers to a definition. own: names that the parts bind themselves."""
        local = self._local_imports(source, parts)
        for node in references(parts, stores=stores):
            if first_name(node) in own and first_name(node) not in local:
                continue
            while (target := self._target(source, node, local)) is None and isinstance(node, ast.Attribute):
                node = node.value
            if target is not None:
                yield node, target

    def _local_imports(self, source: PackageFile, parts: Sequence[ast.AST]) -> dict[str, Definition]:
        """The names that imports inside of a function take from the package."""
        imports = [node for part in parts for node in ast.walk(part) if isinstance(node, Import)]
        targets = [(name, self.imported(source, node, name)) for node in imports for name in names_bound(node)]
        return {name: target for name, target in targets if target is not None}

    def _target(self, source: PackageFile, node: ast.expr, local: dict[str, Definition]) -> Definition | None:
        """What a name or an attribute of a module of the package refers to; None for anything else."""
        if isinstance(node, ast.Name):
            if node.id in local:
                return local[node.id]
            if node.id in _ALWAYS and node.id not in source.bound:
                return None
            return self.resolved(Definition(source, node.id))
        if not isinstance(node, ast.Attribute):
            return None
        base = self._target(source, node.value, local)
        if base is None or base.name is not None:
            return None
        below = self._file(base.source.path.parent / node.attr) if base.source.path.name == "__init__.py" else None
        if node.attr not in base.source.bound and below is not None:
            return Definition(below, None)
        return self.resolved(Definition(base.source, node.attr))

    def imported(self, source: PackageFile, statement: Import, name: str) -> Definition | None:
        """What an import takes from the package; None when it is from elsewhere."""
        alias = next(node for node in statement.names if bound_name(node) == name)
        file = file_imported(source, statement, alias.name if alias.asname else name)
        other = self._file(file) if file else None
        if file is None or other is None:
            return None
        if isinstance(statement, ast.Import):
            return Definition(other, None)
        if alias.name not in other.bound and file.name == "__init__.py" and (below := self._file(file.parent / alias.name)):
            return Definition(below, None)
        return Definition(other, alias.name)

    def resolved(self, definition: Definition, depth: int = 0) -> Definition:
        """Follow plain imports within the package."""
        source, name = definition.source, definition.name
        if name is None or depth > _DEEPEST:
            return definition
        statements = source.bound.get(name, [])
        if not statements:
            for star in star_imports(source):
                file = file_imported(source, star)
                other = self._file(file) if file else None
                if other is not None:
                    of_star = self.resolved(Definition(other, name), depth + 1)
                    if of_star.name is None or of_star.source.bound.get(of_star.name):
                        return of_star
        if len(statements) == 1 and isinstance(statement := statements[0], Import):
            target = self.imported(source, statement, name)
            return self.resolved(target, depth + 1) if target and target != definition else definition
        return definition

    def _file(self, place: Path) -> PackageFile | None:
        """The source of a file, or of a module without its suffix."""
        file = next((file for file in (place, *_module_files(place)) if file.is_file()), None)
        if file is None or len(self._files) >= _MOST_FILES:
            return None
        key = file.resolve()
        if key not in self._files:
            self._files[key] = PackageFile(file, file.read_text("utf-8", "replace"))
        return self._files[key]


def star_imports(source: PackageFile) -> list[ast.ImportFrom]:
    """The imports `from module import *` of a file."""
    return [node for node in leaves(source.tree.body) if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"]


def is_relative(statement: Import) -> bool:
    """Whether an import starts with a dot."""
    return isinstance(statement, ast.ImportFrom) and statement.level > 0


def missing_packages(statement: Import) -> set[str]:
    """The top-level packages that an absolute import reads and a toolchain's environment does not have."""
    if is_relative(statement):
        return set()
    return {name.partition(".")[0] for name in _modules(statement)} - _PRESENT


def file_imported(source: PackageFile, statement: Import, module: str | None = None) -> Path | None:
    """The file of the package that an import reads; None for another package."""
    here = source.path.resolve()
    level = statement.level if isinstance(statement, ast.ImportFrom) else 0
    names = [module] if module and isinstance(statement, ast.Import) else _modules(statement)
    for name in names:
        top = name.partition(".")[0]
        if not level and top in _PRESENT:
            continue
        for root in here.parents[level - 1 : level] if level else here.parents:
            if not level and root.name in _INSTALLED and root / top not in here.parents:
                break  # another package installed beside this one
            for file in _module_files(root.joinpath(*name.split("."))) if name else (root / "__init__.py",):
                if file.is_file() and (file.resolve() != here or is_relative(statement)):
                    return file
    return None


def _modules(statement: Import) -> list[str]:
    return [node.name for node in statement.names] if isinstance(statement, ast.Import) else [statement.module or ""]


def _module_files(place: Path) -> tuple[Path, Path]:
    """The files that a module may be, whether they exist or not."""
    return place.with_name(f"{place.name}.py"), place / "__init__.py"
