"""A kernel out of a package as a file of its own: the function, and of the package's modules what it uses."""

from __future__ import annotations

import ast
import builtins
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from triage.model.errors import BadInput

_ALWAYS = frozenset(dir(builtins))
_JIT = "jit"


@dataclass(eq=False)
class _Source:
    """A file of the package. Where a name is bound in several branches the last one counts: `else` before `if`, and what is
    tried before what replaces it; which one a machine would take is not asked.
    """

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError) as error:
            raise BadInput(f"{self.path} is no Python program: {error}") from error

    @cached_property
    def bound(self) -> dict[str, ast.stmt]:
        return {name: statement for statement in _leaves(self.tree.body) for name in _names_of(statement)}

    def words(self, statement: ast.stmt) -> str:
        """The statement as it is written, flush left; of what decorates a function only what makes it a kernel."""
        lines = self.text.splitlines()[statement.lineno - 1 : statement.end_lineno]
        text = textwrap.dedent("\n".join(lines))
        return "".join(f"@{ast.unparse(one)}\n" for one in _kept_decorators(statement)) + text


def is_alone(path: Path, text: str) -> bool:
    """Whether the file imports nothing from a package that it is part of."""
    source = _Source(path, text)
    imports = [one for one in ast.walk(source.tree) if isinstance(one, (ast.Import, ast.ImportFrom))]
    return not any(_file_of(source, one) for one in imports)


def kernel_alone(path: Path, text: str, kernel: str) -> str:
    """A program with the function `kernel` of a file, and with all that it reads: functions and constants of the file and of
    the package it is part of. What comes from elsewhere stays imported.

    Raises:
        BadInput: there is no such function, or two different things of one name are used.
    """
    source = _Source(path, text)
    if not isinstance(source.bound.get(kernel), ast.FunctionDef):
        raise BadInput(f"{path} has no function {kernel!r} on its top level")
    gathering = _Gathering({path.resolve(): source})
    gathering.take(source, kernel)
    return "\n".join(sorted(gathering.imports)) + "\n\n\n" + "\n\n\n".join(gathering.parts) + "\n"


@dataclass(eq=False)
class _Gathering:
    """What is taken so far, what is used before what uses it."""

    sources: dict[Path, _Source]
    imports: set[str] = field(default_factory=set)
    parts: list[str] = field(default_factory=list)
    _called: dict[str, ast.stmt] = field(default_factory=dict)
    _seen: set[object] = field(default_factory=set)

    def take(self, source: _Source, name: str, called: str | None = None) -> None:
        """Take what a name is bound to in a file. called: its name where it is imported."""
        statement = source.bound.get(name)
        if statement is None:
            return
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            self._take_import(source, statement, name)
            return
        called = called or name
        if self._called.setdefault(name, statement) is not statement:
            raise BadInput(f"two different things are called {name!r}; copy the kernel into a file of its own by hand")
        if self._is_new(statement):
            for read in sorted(_reads(statement)):
                self.take(source, read)
            self.parts.append(source.words(statement))
        if called != name and self._is_new((called, statement)):
            self.parts.append(f"{called} = {name}")

    def _take_import(self, source: _Source, statement: ast.Import | ast.ImportFrom, name: str) -> None:
        alias = next(one for one in statement.names if (one.asname or one.name.partition(".")[0]) == name)
        file = _file_of(source, statement)
        if file is None or isinstance(statement, ast.Import):
            words = ast.unparse(type(statement)(**{**dict(ast.iter_fields(statement)), "names": [alias]}))
            self.imports.add(words)
            return
        other = self.sources.setdefault(file, _Source(file, file.read_text("utf-8", "replace")))
        self.take(other, alias.name, name)

    def _is_new(self, what: object) -> bool:
        if what in self._seen:
            return False
        self._seen.add(what)
        return True


def _leaves(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for one in body:
        match one:
            case ast.If(body=first, orelse=last):
                yield from _leaves(first)
                yield from _leaves(last)
            case ast.Try(body=first, handlers=handlers, orelse=last):
                for handler in handlers:
                    yield from _leaves(handler.body)
                yield from _leaves([*first, *last])
            case ast.With(body=first):
                yield from _leaves(first)
            case _:
                yield one


def _names_of(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (one.asname or one.name.partition(".")[0] for one in names)
        case ast.Assign() | ast.AnnAssign():
            for one in ast.walk(statement):
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                    yield one.id


def _kept_decorators(statement: ast.stmt) -> list[ast.expr]:
    given = statement.decorator_list if isinstance(statement, ast.FunctionDef) else []
    return [one for one in given if ast.unparse(one).partition("(")[0].rpartition(".")[2] == _JIT]


def _reads(statement: ast.stmt) -> set[str]:
    """The names that a statement takes from its file."""
    parts: list[ast.AST] = [statement]
    own: set[str] = set()
    if isinstance(statement, ast.FunctionDef):
        parts = [statement.args, *statement.body, *_kept_decorators(statement)]
        own = {one.arg for one in ast.walk(statement.args) if isinstance(one, ast.arg)}
        own |= {one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    read = {one.id for part in parts for one in ast.walk(part) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
    return read - own - _ALWAYS


def _file_of(source: _Source, statement: ast.Import | ast.ImportFrom) -> Path | None:
    """The file of the package that an import reads, None where it is none of this package."""
    if isinstance(statement, ast.Import):
        names, level = [one.name for one in statement.names], 0
    else:
        names, level = [statement.module or ""], statement.level
    for name in names:
        if not level and name.partition(".")[0] in {*sys.stdlib_module_names, "triton", "torch", "numpy"}:
            continue
        here = source.path.resolve()
        roots = [here.parents[level - 1]] if level else list(here.parents)
        below = Path(*name.split(".")) if name else Path()
        for root in roots:
            for file in ((root / below).with_suffix(".py") if name else root / "__init__.py", root / below / "__init__.py"):
                if file.is_file() and file != here:
                    return file
    return None
