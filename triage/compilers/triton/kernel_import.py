"""A new recipe for a kernel, and the kernel as its own file: the function with all that it uses from its package."""

from __future__ import annotations

import ast
import builtins
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from triage.compilers.triton.kernel_guess import guess_kernel, guess_keys
from triage.model.case import Target
from triage.model.errors import BadInput
from triage.recipes.family import RecipeStart

_ALWAYS = frozenset(dir(builtins))
_JIT = "jit"


@dataclass(eq=False)
class _Source:
    """A file of the package. When several branches bind a name, the last one counts: `else` before `if`, and `try` before
    its handlers.
    """

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError) as error:
            raise BadInput(f"{self.path} is not a Python program: {error}") from error

    @cached_property
    def bound(self) -> dict[str, ast.stmt]:
        return {name: statement for statement in _leaves(self.tree.body) for name in _names_of(statement)}

    def words(self, statement: ast.stmt) -> str:
        """The statement's source without indentation, and without decorators other than the one that marks a kernel."""
        lines = self.text.splitlines()[statement.lineno - 1 : statement.end_lineno]
        text = textwrap.dedent("\n".join(lines))
        return "".join(f"@{ast.unparse(node)}\n" for node in _kept_decorators(statement)) + text


def start_from_kernel(
    recipe: Path, source: Path, backend: str | None, chip: str | None, kernel: str | None
) -> RecipeStart | None:
    """A recipe for a kernel. One that imports from its own package is copied beside the recipe, with all that it uses.

    Raises:
        BadInput: the file has several kernels or not this node, or the place of the copy is taken.
    """
    text = source.read_text("utf-8", "replace")
    guess = guess_kernel(text, kernel)
    if guess is None:
        return None
    target = Target(backend or "cuda", chip or ("gfx942" if backend == "hip" else "sm_90"))
    if is_standalone(source, text):
        return RecipeStart("triton", source, target, keys=guess_keys(guess))
    beside = recipe.with_suffix(".py")
    if beside.exists():
        raise BadInput(f"{beside} exists already; the kernel would be copied there. Nothing was changed")
    copied = standalone_kernel(source, text, guess.name)
    again = guess_kernel(copied, guess.name)
    assert again is not None
    guess = replace(guess, several=again.several, signature=again.signature)
    return RecipeStart("triton", beside, target, keys=guess_keys(guess), copied=copied)


def is_standalone(path: Path, text: str) -> bool:
    """Whether the file imports nothing from its own package."""
    source = _Source(path, text)
    imports = [node for node in ast.walk(source.tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    return not any(_file_of(source, node) for node in imports)


def standalone_kernel(path: Path, text: str, kernel: str) -> str:
    """A program with the function `kernel` and all that it reads: functions and constants of its file and its package.
    Imports from other packages stay.

    Raises:
        BadInput: there is no such function, or it uses two different definitions with the same name.
    """
    source = _Source(path, text)
    if not isinstance(source.bound.get(kernel), ast.FunctionDef):
        raise BadInput(f"{path} has no top-level function {kernel!r}")
    gathering = _Gathering({path.resolve(): source})
    gathering.take(source, kernel)
    return "\n".join(sorted(gathering.imports)) + "\n\n\n" + "\n\n\n".join(gathering.parts) + "\n"


@dataclass(eq=False)
class _Gathering:
    """The definitions taken so far; each comes before its uses."""

    sources: dict[Path, _Source]
    imports: set[str] = field(default_factory=set)
    parts: list[str] = field(default_factory=list)
    _called: dict[str, ast.stmt] = field(default_factory=dict)
    _seen: set[object] = field(default_factory=set)

    def take(self, source: _Source, name: str, called: str | None = None) -> None:
        """Take the definition of a name in a file. called: its name in the importing file."""
        statement = source.bound.get(name)
        if statement is None:
            return
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            self._take_import(source, statement, name)
            return
        called = called or name
        if self._called.setdefault(name, statement) is not statement:
            raise BadInput(f"two different definitions are named {name!r}; copy the kernel into its own file by hand")
        if self._is_new(statement):
            for read in sorted(_reads(statement)):
                self.take(source, read)
            self.parts.append(source.words(statement))
        if called != name and self._is_new((called, statement)):
            self.parts.append(f"{called} = {name}")

    def _take_import(self, source: _Source, statement: ast.Import | ast.ImportFrom, name: str) -> None:
        alias = next(node for node in statement.names if (node.asname or node.name.partition(".")[0]) == name)
        file = _file_of(source, statement)
        if file is None or isinstance(statement, ast.Import):
            words = ast.unparse(type(statement)(**{**dict(ast.iter_fields(statement)), "names": [alias]}))
            self.imports.add(words)
            return
        other = self.sources.setdefault(file, _Source(file, file.read_text("utf-8", "replace")))
        self.take(other, alias.name, name)

    def _is_new(self, key: object) -> bool:
        if key in self._seen:
            return False
        self._seen.add(key)
        return True


def _leaves(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        match node:
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
                yield node


def _names_of(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (node.asname or node.name.partition(".")[0] for node in names)
        case ast.Assign() | ast.AnnAssign():
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id


def _kept_decorators(statement: ast.stmt) -> list[ast.expr]:
    decorators = statement.decorator_list if isinstance(statement, ast.FunctionDef) else []
    return [node for node in decorators if ast.unparse(node).partition("(")[0].rpartition(".")[2] == _JIT]


def _reads(statement: ast.stmt) -> set[str]:
    """The names that a statement reads from its file."""
    parts: list[ast.AST] = [statement]
    own: set[str] = set()
    if isinstance(statement, ast.FunctionDef):
        parts = [statement.args, *statement.body, *_kept_decorators(statement)]
        own = {node.arg for node in ast.walk(statement.args) if isinstance(node, ast.arg)}
        own |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    read = {
        node.id for part in parts for node in ast.walk(part) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    return read - own - _ALWAYS


def _file_of(source: _Source, statement: ast.Import | ast.ImportFrom) -> Path | None:
    """The file of the package that an import reads; None for another package."""
    if isinstance(statement, ast.Import):
        names, level = [node.name for node in statement.names], 0
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
