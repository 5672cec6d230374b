"""Copy a kernel into a file of its own, with all that it uses from its package."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from pathlib import Path
from symtable import SymbolTable, symtable

from triage.compilers.triton.kernel_source import is_jit
from triage.model.errors import BadInput

Import = ast.Import | ast.ImportFrom
_BUILTINS = frozenset((*dir(builtins), "__file__"))
# What a toolchain's environment has or its worker replaces.
_PRESENT = frozenset(
    (
        *sys.stdlib_module_names,
        "triton",
        "torch",
        "numpy",
        "setuptools",
        "filelock",
        "packaging",
    )
)


def is_standalone(path: Path | None, text: str) -> bool:
    """Return whether a toolchain can import the file; without a path, a program of a
    pasted text.
    """
    source = _PythonFile(path, text)
    for statement in source.tree.body:
        if isinstance(statement, ast.For) or (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        ):
            return False  # a program that launches the kernel
    imports = [node for node in ast.walk(source.tree) if isinstance(node, Import)]
    return all(
        _is_available(node) and not source.file_of(node, _bound_name(node.names[0]))
        for node in imports
    )


def copy_kernel(
    path: Path | None, text: str, kernel: str
) -> tuple[str, tuple[str, ...]]:
    """Copy the function `kernel` and what it reads: functions and constants of its
    package, with the conditions around them.

    Without a path, the program was pasted: no file that it imports is read.

    Returns the text, and a sentence with file and line for each name or import that it
    cannot resolve.

    Raises:
        BadInput: There is no such function.
    """
    source = _PythonFile(path, text)
    if kernel not in source.bound:
        raise BadInput(f"{source.path} has no top-level function {kernel!r}")
    copy = _Copy(source)
    copy.take(source, kernel, 1)
    imports = sorted(
        copy.imports, key=lambda line: (not line.startswith("from __future__"), line)
    )
    return "\n".join(imports) + "\n\n\n" + "\n\n\n".join(copy.parts) + "\n", tuple(
        copy.problems
    )


class _PythonFile:
    def __init__(self, path: Path | None, text: str) -> None:
        self.is_pasted = path is None
        self.path, self.text = path.resolve() if path else Path("text"), text
        self.bound: dict[str, list[ast.stmt]] = {}
        """Name -> the top-level statements, conditions included, that bind it."""
        try:
            self.tree = ast.parse(text)
            for statement in self.tree.body:
                for name in _names_bound(symtable(ast.unparse(statement), "", "exec")):
                    self.bound.setdefault(name, []).append(statement)
        # the last two for deep nesting
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise BadInput(f"{self.path} is not a Python program: {error}") from error

    def file_of(self, statement: Import, name: str) -> tuple[Path, str | None] | None:
        """Return the file that an import of the package binds to `name`: a module, or
        one with the imported name in it.
        """
        alias = next(
            (node for node in statement.names if _bound_name(node) == name),
            statement.names[0],
        )
        if isinstance(statement, ast.Import):
            file = self._file(alias.name if alias.asname else name, 0)
            if file:
                return (file, None)
            return None
        file = self._file(statement.module or "", statement.level)
        if file is None:
            return None
        below = [
            each
            for each in _module_files(file.parent / alias.name)
            if each.is_file() and file.name == "__init__.py"
        ]
        if below:
            return (below[0], None)
        return (file, alias.name)

    def _file(self, module: str, level: int) -> Path | None:
        if self.is_pasted:
            return None
        top = module.partition(".")[0]
        # A package that is installed next to this one is not part of it.
        roots = [
            root
            for root in self.path.parents
            if root.name[-9:] != "-packages" or root / top in self.path.parents
        ]
        if level or top in _PRESENT:
            if level:
                roots = list(self.path.parents[level - 1 : level])
            else:
                roots = []
        files = [
            file
            for root in roots
            for file in _module_files(root.joinpath(*filter(None, module.split("."))))
        ]
        return next(
            (file for file in files if file.is_file() and (level or file != self.path)),
            None,
        )


def _module_files(place: Path) -> tuple[Path, Path]:
    return place.with_name(f"{place.name}.py"), place / "__init__.py"


def _bound_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _is_available(statement: Import) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return (
            not statement.level
            and (statement.module or "").partition(".")[0] in _PRESENT
        )
    return all(node.name.partition(".")[0] in _PRESENT for node in statement.names)


class _Copy:
    """Definitions, each after those that it uses. Names stay as they are."""

    def __init__(self, source: _PythonFile) -> None:
        self.imports: dict[str, None] = {}
        self.parts: dict[str, None] = {}
        self.problems: dict[str, None] = {}
        self._files = {source.path: source}
        self._taken: set[tuple[Path, str]] = set()
        self._owners: dict[str, Path] = {}

    def take(self, source: _PythonFile, name: str, line: int) -> None:
        """Take the definitions of a name that a line of the file reads."""
        if (source.path, name) in self._taken:
            return
        self._taken.add((source.path, name))
        if name not in source.bound and name not in _BUILTINS:
            self.problems[
                f"{source.path}:{line}: nothing defines {name!r} in {source.path.name}"
            ] = None
        for statement in source.bound.get(name, []):
            if isinstance(statement, Import):
                self._take_import(source, statement, name)
                continue
            is_plain = not isinstance(statement, (ast.If, ast.Try, ast.With))
            if is_plain and self._owners.setdefault(name, source.path) != source.path:
                message = (
                    f"{self._owners[name].name} defines another {name!r}, which the "
                    "copy has"
                )
                self.problems[f"{source.path}:{statement.lineno}: {message}"] = None
            self.parts[self._text_of(source, statement)] = None

    def _take_import(self, source: _PythonFile, statement: Import, name: str) -> None:
        target = source.file_of(statement, name)
        if target is None:
            if not _is_available(statement):
                message = f"a toolchain has no module for `{ast.unparse(statement)}`"
                self.problems[f"{source.path}:{statement.lineno}: {message}"] = None
            names = [node for node in statement.names if _bound_name(node) == name]
            self.imports[
                ast.unparse(type(statement)(**{**vars(statement), "names": names}))
            ] = None
        elif target[1] is not None:
            self.take(self._open(target[0]), target[1], statement.lineno)
            if target[1] != name:
                self.parts[f"{name} = {target[1]}"] = None

    def _open(self, path: Path) -> _PythonFile:
        if path not in self._files:
            self._files[path] = _PythonFile(path, path.read_text("utf-8", "replace"))
        return self._files[path]

    def _text_of(self, source: _PythonFile, statement: ast.stmt) -> str:
        """Return the statement without imports from the package and decorators that
        tune a kernel; what it uses is taken.
        """
        decorators = [
            f"@{ast.unparse(node)}"
            for node in getattr(statement, "decorator_list", [])
            if is_jit(node)
        ]
        # the latter without decorators
        text = "\n".join(
            [*decorators, ast.get_source_segment(source.text, statement) or ""]
        )
        free = _names_read(text)
        for node in ast.walk(statement):
            if isinstance(node, Import) and any(
                source.file_of(node, _bound_name(alias)) for alias in node.names
            ):
                for alias in node.names:
                    self._take_import(source, node, _bound_name(alias))
                text = text.replace(
                    ast.get_source_segment(source.text, node) or "", "pass", 1
                )
        for name in free:
            line = next(
                (
                    node.lineno
                    for node in ast.walk(statement)
                    if isinstance(node, ast.Name) and node.id == name
                ),
                1,
            )
            bound = source.bound.get(name, [statement])[0]
            if isinstance(bound, Import):
                target = source.file_of(bound, name)
            else:
                target = None
            if target is None or target[1] is not None:
                self.take(source, name, line)
            # a module of the package, whose definitions the copy has under their own
            # names
            else:
                qualified = re.compile(rf"(?<![\w.]){name}\.(\w+)")
                for attribute in qualified.findall(text):
                    self.take(self._open(target[0]), attribute, line)
                text = qualified.sub(r"\1", text)
        return text


def _names_bound(table: SymbolTable) -> list[str]:
    return [
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_assigned() or symbol.is_imported()
    ]


def _names_read(text: str) -> list[str]:
    """Return the global names that a statement reads and does not bind itself."""
    top = symtable(text, "", "exec")
    tables = [top]
    for table in tables:
        tables += table.get_children()
    symbols = [
        symbol
        for table in tables
        for symbol in table.get_symbols()
        if table is top or symbol.is_global()
    ]
    read = dict.fromkeys(
        symbol.get_name() for symbol in symbols if symbol.is_referenced()
    )
    return [name for name in read if name not in _names_bound(top)]
