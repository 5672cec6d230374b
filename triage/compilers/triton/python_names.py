"""Find the definitions that names in a Python package refer to."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from triage.model.errors import BadInput

Import = ast.Import | ast.ImportFrom
BUILTINS = frozenset((*dir(builtins), "__file__"))
# What a toolchain's environment has or its worker replaces.
_PRESENT = frozenset((*sys.stdlib_module_names, "triton", "torch", "numpy", "setuptools", "filelock", "packaging"))
_INSTALLED = ("site-packages", "dist-packages")


class PythonFile:
    """A file of the package."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path.resolve(), text
        try:
            self.tree = ast.parse(text)
        except (SyntaxError, ValueError) as error:
            raise BadInput(f"{path} is not a Python program: {error}") from error

    @cached_property
    def bound(self) -> dict[str, list[ast.stmt]]:
        """Name -> the top-level statements, conditions included, in which something binds it."""
        bound: dict[str, list[ast.stmt]] = {}
        for statement in self.tree.body:
            for name in {name for leaf in leaves([statement]) for name in names_bound(leaf)}:
                bound.setdefault(name, []).append(statement)
        return bound

    @cached_property
    def stars(self) -> list[ast.ImportFrom]:
        """The imports `from module import *`."""
        return [node for node in leaves(self.tree.body) if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"]

    def imported(self, statement: Import, name: str) -> tuple[Path, str | None] | None:
        """The file of the package and the name in it that an import binds to `name`; the name is None for a module."""
        alias = next((node for node in statement.names if bound_name(node) == name), statement.names[0])
        if isinstance(statement, ast.Import):
            file = self._file(alias.name if alias.asname else name, 0)
            return (file, None) if file else None
        file = self._file(statement.module or "", statement.level)
        if file is None:
            return None
        below = module_file(file.parent / alias.name) if file.name == "__init__.py" else None
        return (below, None) if below else (file, alias.name)

    def _file(self, module: str, level: int) -> Path | None:
        top = module.partition(".")[0]
        if not level and top in _PRESENT:
            return None
        for root in self.path.parents[level - 1 : level] if level else self.path.parents:
            if not level and root.name in _INSTALLED and root / top not in self.path.parents:
                return None  # another package installed beside this one
            file = module_file(root.joinpath(*module.split("."))) if module else root / "__init__.py"
            if file and file.is_file() and (level or file != self.path):
                return file
        return None

    def missing(self, statement: Import) -> str | None:
        """Why a toolchain's environment cannot import this; None when it can."""
        if isinstance(statement, ast.ImportFrom) and statement.level:
            return f"{ast.unparse(statement)}: the package has no such file"
        modules = [statement.module or ""] if isinstance(statement, ast.ImportFrom) else [node.name for node in statement.names]
        lacking = sorted({module.partition(".")[0] for module in modules} - _PRESENT)
        return f"imports {', '.join(lacking)}, which a toolchain's environment does not have" if lacking else None


def module_file(place: Path) -> Path | None:
    """The file of a module, from its path without a suffix."""
    return next((file for file in (place.with_name(f"{place.name}.py"), place / "__init__.py") if file.is_file()), None)


def leaves(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The simple statements of a module, also those below conditions."""
    for node in body:
        match node:
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                pass
            case ast.If() | ast.Try() | ast.With():
                handlers = [handler.body for handler in node.handlers] if isinstance(node, ast.Try) else []
                for inner in (node.body, *handlers, getattr(node, "orelse", [])):
                    yield from leaves(inner)
            case _:
                yield node


def is_jit(decorator: ast.expr, marks: Collection[str] = ()) -> bool:
    """Whether a decorator marks a kernel. marks: its exact names, any `jit` without."""
    name = ast.unparse(decorator).partition("(")[0]
    return name in marks if marks else name.rpartition(".")[2] == "jit"


def names_bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a simple statement binds."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (bound_name(node) for node in names if node.name != "*")
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.For():
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id


def bound_name(alias: ast.alias) -> str:
    """The name that one part of an import binds."""
    return alias.asname or alias.name.partition(".")[0]


def import_of(statement: Import, name: str) -> str:
    """The import of one name of several."""
    aliases = [node for node in statement.names if bound_name(node) == name]
    return ast.unparse(type(statement)(**{**dict(ast.iter_fields(statement)), "names": aliases}))


def own_names(statement: ast.stmt) -> set[str]:
    """The names that a function or a comprehension binds itself."""
    own = {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}
    for node in ast.walk(statement):
        match node:
            case ast.comprehension(target=target):
                own |= {inner.id for inner in ast.walk(target) if isinstance(inner, ast.Name)}
            case ast.Name(id=name, ctx=ast.Store()) if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                own.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.ExceptHandler(name=str() as name):
                own.add(name)
            case ast.Import() | ast.ImportFrom():
                own |= set(names_bound(node))
    return own
