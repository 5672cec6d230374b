"""Copy a kernel into a file of its own, with the functions and constants of its package
that it uses.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from pathlib import Path
from symtable import SymbolTable, symtable
from typing import NamedTuple

from triage.compilers.triton.kernel_source import is_jit
from triage.model.errors import BadInput

Import = ast.Import | ast.ImportFrom
_BUILTINS = frozenset((*dir(builtins), "__file__"))
# Modules that a toolchain's environment has, or that its worker replaces.
_AVAILABLE = sys.stdlib_module_names | {
    "triton",
    "torch",
    "numpy",
    "setuptools",
    "filelock",
    "packaging",
}


def is_standalone(path: Path | None, text: str) -> bool:
    """Return whether a toolchain can import a kernel's file as it is. The text of a
    pasted program has no path.
    """
    source = _PythonFile(path, text)
    for statement in source.tree.body:
        is_call = isinstance(statement, ast.Expr) and isinstance(
            statement.value, ast.Call
        )
        if is_call or isinstance(statement, ast.For):
            return False  # a program that launches the kernel
    for node in ast.walk(source.tree):
        if isinstance(node, Import):
            if not _is_available(node):
                return False
            if source.imported(node, _bound_name(node.names[0])):
                return False
    return True


def copy_kernel(
    path: Path | None, text: str, kernel: str
) -> tuple[str, tuple[str, ...]]:
    """Copy the function `kernel`, and the functions and constants of its package that
    it uses, with the conditions around them.

    A pasted program has no path, and no file that it imports is read.

    Returns:
        The text of the copy, and a sentence with file and line for each name or import
        that cannot be found.

    Raises:
        BadInput: There is no such function.
    """
    source = _PythonFile(path, text)
    if kernel not in source.bound:
        raise BadInput(f"{source.path} has no top-level function {kernel!r}")
    copy = _Copy(source)
    copy.add_definitions(source, kernel, 1)
    imports = sorted(
        copy.imports, key=lambda line: (not line.startswith("from __future__"), line)
    )
    copied = "\n\n\n".join(["\n".join(imports), *copy.parts])
    return f"{copied}\n", tuple(copy.problems)


class _Imported(NamedTuple):
    """What an import of the kernel's package refers to."""

    file: Path
    name: str | None
    """A name in that file; None if the file itself is imported."""


class _PythonFile:
    def __init__(self, path: Path | None, text: str) -> None:
        self.is_pasted = path is None
        self.path, self.text = path.resolve() if path else Path("text"), text
        self.bound: dict[str, list[ast.stmt]] = {}
        """Name -> the top-level statements that define it, conditions included."""
        try:
            self.tree = ast.parse(text)
            for statement in self.tree.body:
                for name in _names_bound(symtable(ast.unparse(statement), "", "exec")):
                    self.bound.setdefault(name, []).append(statement)
        # the last two for deep nesting
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise BadInput(f"{self.path} is not a Python program: {error}") from error

    def imported(self, statement: Import, name: str) -> _Imported | None:
        """Return what an import statement binds to `name`, if that is a part of the
        kernel's package.
        """
        alias = next(
            (node for node in statement.names if _bound_name(node) == name),
            statement.names[0],
        )
        if isinstance(statement, ast.Import):
            file = self._module_file(alias.name if alias.asname else name, 0)
            return _Imported(file, None) if file else None
        file = self._module_file(statement.module or "", statement.level)
        if file is None:
            return None
        if file.name == "__init__.py":
            for submodule in _module_files(file.parent / alias.name):
                if submodule.is_file():
                    return _Imported(submodule, None)
        return _Imported(file, alias.name)

    def _module_file(self, module: str, level: int) -> Path | None:
        """Return the file of a module of the package. `level` is the number of dots
        before its name in an import.
        """
        top = module.partition(".")[0]
        parents = self.path.parents
        if self.is_pasted:
            return None
        if level:
            roots = list(parents[level - 1 : level])
        elif top in _AVAILABLE:
            return None
        else:
            # A package that is installed next to this one is not part of it.
            roots = [
                root
                for root in parents
                if not root.name.endswith("-packages") or root / top in parents
            ]
        for root in roots:
            for file in _module_files(root.joinpath(*filter(None, module.split(".")))):
                if file.is_file() and (level or file != self.path):
                    return file
        return None


def _module_files(place: Path) -> tuple[Path, Path]:
    return place.with_name(f"{place.name}.py"), place / "__init__.py"


def _bound_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _is_available(statement: Import) -> bool:
    if isinstance(statement, ast.ImportFrom):
        if statement.level:
            return False
        modules = [statement.module or ""]
    else:
        modules = [node.name for node in statement.names]
    return all(module.partition(".")[0] in _AVAILABLE for module in modules)


class _Copy:
    """Collects definitions, each after those that it uses, under their own names. The
    dictionaries serve as ordered sets.
    """

    def __init__(self, source: _PythonFile) -> None:
        self.imports: dict[str, None] = {}
        self.parts: dict[str, None] = {}
        self.problems: dict[str, None] = {}
        self._files = {source.path: source}
        self._added: set[tuple[Path, str]] = set()
        self._owners: dict[str, Path] = {}  # name -> the file that defines it

    def add_definitions(self, source: _PythonFile, name: str, line: int) -> None:
        """Add the definitions of a name, and of all names that they use. `line` is the
        line of the file that uses the name.
        """
        if (source.path, name) in self._added:
            return
        self._added.add((source.path, name))
        if name not in source.bound and name not in _BUILTINS:
            self._report(
                source, line, f"nothing defines {name!r} in {source.path.name}"
            )
        for statement in source.bound.get(name, []):
            if isinstance(statement, Import):
                self._add_import(source, statement, name)
                continue
            is_plain = not isinstance(statement, (ast.If, ast.Try, ast.With))
            if is_plain and self._owners.setdefault(name, source.path) != source.path:
                self._report(
                    source,
                    statement.lineno,
                    f"{self._owners[name].name} defines another {name!r}, which the "
                    "copy has",
                )
            self.parts[self._copied(source, statement)] = None

    def _report(self, source: _PythonFile, line: int, message: str) -> None:
        self.problems[f"{source.path}:{line}: {message}"] = None

    def _add_import(self, source: _PythonFile, statement: Import, name: str) -> None:
        """Add the import of a name, or the definitions that it imports if they belong
        to the package.
        """
        imported = source.imported(statement, name)
        if imported is None:
            if not _is_available(statement):
                self._report(
                    source,
                    statement.lineno,
                    f"a toolchain has no module for `{ast.unparse(statement)}`",
                )
            names = [node for node in statement.names if _bound_name(node) == name]
            only = type(statement)(**{**vars(statement), "names": names})
            self.imports[ast.unparse(only)] = None
        elif imported.name is not None:
            file = self._open(imported.file)
            self.add_definitions(file, imported.name, statement.lineno)
            if imported.name != name:
                self.parts[f"{name} = {imported.name}"] = None

    def _open(self, path: Path) -> _PythonFile:
        if path not in self._files:
            self._files[path] = _PythonFile(path, path.read_text("utf-8", "replace"))
        return self._files[path]

    def _copied(self, source: _PythonFile, statement: ast.stmt) -> str:
        """Add all that a statement uses, and return its text without imports from the
        package and without decorators that tune a kernel.
        """
        decorators = [
            f"@{ast.unparse(node)}"
            for node in getattr(statement, "decorator_list", [])
            if is_jit(node)
        ]
        # the text of a function begins after its decorators
        body = ast.get_source_segment(source.text, statement) or ""
        text = "\n".join([*decorators, body])
        names_read = _names_read(text)
        for node in ast.walk(statement):
            if not isinstance(node, Import):
                continue
            names = [_bound_name(alias) for alias in node.names]
            if any(source.imported(node, name) for name in names):
                for name in names:
                    self._add_import(source, node, name)
                segment = ast.get_source_segment(source.text, node) or ""
                text = text.replace(segment, "pass", 1)
        for name in names_read:
            text = self._add_used_name(source, statement, name, text)
        return text

    def _add_used_name(
        self, source: _PythonFile, statement: ast.stmt, name: str, text: str
    ) -> str:
        """Add the definitions of a name that a statement reads. Return the statement's
        text; `module.function` becomes `function` for a module of the package.
        """
        line = 1
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == name:
                line = node.lineno
                break
        definition = source.bound.get(name, [statement])[0]
        imported = None
        if isinstance(definition, Import):
            imported = source.imported(definition, name)
        if imported is None or imported.name is not None:
            self.add_definitions(source, name, line)
            return text
        qualified = re.compile(rf"(?<![\w.]){name}\.(\w+)")
        for attribute in qualified.findall(text):
            self.add_definitions(self._open(imported.file), attribute, line)
        return qualified.sub(r"\1", text)


def _names_bound(table: SymbolTable) -> list[str]:
    return [
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_assigned() or symbol.is_imported()
    ]


def _names_read(text: str) -> list[str]:
    """Return the global names that a statement reads and does not define itself."""
    top = symtable(text, "", "exec")
    tables = [top]
    read: dict[str, None] = {}
    for table in tables:
        tables += table.get_children()  # visited by this loop, too
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (table is top or symbol.is_global()):
                read[symbol.get_name()] = None
    own = _names_bound(top)
    return [name for name in read if name not in own]
