"""Copy a kernel into a file of its own, with the functions and constants of its package
that it uses.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from triage.compilers.triton.kernel_source import is_jit
from triage.model.errors import BadInput

# Modules that a toolchain's environment has, or that its worker replaces.
_AVAILABLE = sys.stdlib_module_names | {
    "triton",
    "torch",
    "numpy",
    "setuptools",
    "filelock",
    "packaging",
}


def is_standalone(text: str) -> bool:
    """Return whether a toolchain can import a kernel's file as it is: it launches no
    kernel, and imports nothing of its package.
    """
    tree = ast.parse(text)
    for statement in tree.body:
        value = getattr(statement, "value", None)
        if isinstance(statement, ast.Expr) and isinstance(value, ast.Call):
            return False
        if isinstance(statement, ast.For):
            return False
    for node in ast.walk(tree):
        modules = []
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or "" if not node.level else ""]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        if any(module.partition(".")[0] not in _AVAILABLE for module in modules):
            return False
    return True


def copy_kernel(path: Path | None, text: str, kernel: str) -> str:
    """Copy the function `kernel`, and the functions and constants of its package that
    it uses, with the conditions around them.

    A pasted program has no path, and no file that it imports is read.

    Raises:
        BadInput: There is no such function, or the copy would have two functions of one
            name.
    """
    source = _PythonFile(path, text)
    if kernel not in source.bound:
        raise BadInput(f"{source.path} has no top-level function {kernel!r}")
    copy = _Copy()
    copy.add(source, kernel)
    first = [line for line in copy.imports if "__future__" in line]
    imports = [*first, *sorted(copy.imports - set(first))]
    return "\n\n\n".join(["\n".join(imports), *copy.parts]) + "\n"


class _PythonFile:
    def __init__(self, path: Path | None, text: str) -> None:
        self.is_pasted = path is None
        self.path, self.text = path.resolve() if path else Path("text"), text
        self.bound: dict[str, list[ast.stmt]] = {}
        """Name -> the top-level statements that define it, conditions included."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError) as error:
            raise BadInput(f"{self.path} is not a Python program: {error}") from error
        for statement in tree.body:
            for name in _names_bound(statement):
                self.bound.setdefault(name, []).append(statement)

    def imported(self, statement: ast.stmt, name: str) -> tuple[Path, str] | None:
        """Return the file of the kernel's package from which a statement imports
        `name`, and its name there.
        """
        if not isinstance(statement, ast.ImportFrom) or self.is_pasted:
            return None
        for alias in statement.names:
            if name != _bound_name(alias):
                continue
            file = self._file_of(statement.module or "", statement.level)
            if file:
                return file, alias.name
        return None

    def _file_of(self, module: str, level: int) -> Path | None:
        """Return the file of a module of the package. `level` is the number of dots
        before its name in an import.
        """
        parts = list(filter(None, module.split(".")))
        roots = self.path.parents[level - 1 : level]
        if not level and parts[0] not in _AVAILABLE:
            roots = self.path.parents
        for root in roots:
            place = root.joinpath(*parts)
            for file in (place.with_suffix(".py"), place / "__init__.py"):
                if file.is_file() and (level or file != self.path):
                    return file
        return None


def _bound_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _names_bound(statement: ast.stmt) -> set[str]:
    """Return the names that a top-level statement defines."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    names = set()
    for node in ast.walk(statement):
        match node:
            case ast.alias():
                names.add(_bound_name(node))
            case ast.FunctionDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
    return names


def _names_read(statement: ast.stmt) -> list[str]:
    """Return the global names that a statement reads, in their order."""
    nodes = list(ast.walk(statement))
    local_names = {node.arg for node in nodes if isinstance(node, ast.arg)}
    names: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                local_names.add(node.id)
            names.append(node.id)
    return [name for name in dict.fromkeys(names) if name not in local_names]


class _Copy:
    """Collects definitions, each after those that it uses, under their own names."""

    def __init__(self) -> None:
        self.imports: set[str] = set()
        self.parts: dict[str, None] = {}  # an ordered set
        self._added: set[tuple[Path, str]] = set()
        self._owners: dict[str, Path] = {}  # function -> the file that defines it

    def add(self, source: _PythonFile, name: str) -> None:
        """Add the definitions of a name, and of all names that they use."""
        if (source.path, name) in self._added:
            return
        self._added.add((source.path, name))
        for statement in source.bound.get(name, []):
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                self._add_import(source, statement, name)
                continue
            if isinstance(statement, ast.FunctionDef):
                owner = self._owners.setdefault(name, source.path)
                if owner != source.path:
                    raise BadInput(f"{owner} and {source.path} both define {name!r}")
            self.parts[self._copied(source, statement)] = None

    def _add_import(
        self, source: _PythonFile, statement: ast.Import | ast.ImportFrom, name: str
    ) -> None:
        """Add the import of a name, or the definitions that it imports if they belong
        to the package.
        """
        imported = source.imported(statement, name)
        if imported is None:
            names = [alias for alias in statement.names if _bound_name(alias) == name]
            only = type(statement)(**{**vars(statement), "names": names})
            self.imports.add(ast.unparse(only))
            return
        file, original = imported
        text = file.read_text("utf-8", "replace")
        self.add(_PythonFile(file, text), original)
        if original != name:
            self.parts[f"{name} = {original}"] = None

    def _copied(self, source: _PythonFile, statement: ast.stmt) -> str:
        """Add all that a statement uses, and return its text without decorators that
        tune a kernel.
        """
        # the text of a function begins after its decorators
        text = ast.get_source_segment(source.text, statement) or ""
        if isinstance(statement, ast.FunctionDef):
            statement.decorator_list = list(filter(is_jit, statement.decorator_list))
            for decorator in statement.decorator_list:
                text = f"@{ast.unparse(decorator)}\n{text}"
        for name in _names_read(statement):
            self.add(source, name)
        return text
