"""A kernel as a file of its own: the function with all that it uses from its package."""

from __future__ import annotations

import ast
import builtins
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from triage.model.errors import BadInput

_ALWAYS = frozenset((*dir(builtins), "__file__"))
_PRESENT = frozenset((*sys.stdlib_module_names, "triton", "torch", "numpy", "setuptools", "filelock", "packaging"))
_INSTALLED = ("site-packages", "dist-packages")
_MOST_FILES = 400
_Compound = ast.If | ast.Try | ast.With


@dataclass(eq=False)
class _Source:
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
            for name in _names_of(statement):
                bound.setdefault(name, []).append(statement)
        return bound

    @cached_property
    def around(self) -> dict[ast.stmt, tuple[_Compound, ...]]:
        """Simple statement -> the compound statements around it."""
        return dict(_with_parents(self.tree.body, ()))


@dataclass(frozen=True, slots=True)
class _Definition:
    """A name that a file binds; name is None for the file itself as a module."""

    source: _Source
    name: str | None


@dataclass(frozen=True, slots=True)
class KernelCopy:
    """The text of the copy, and a sentence with file and line for each name or import that the copy cannot resolve."""

    text: str
    problems: tuple[str, ...]


def is_standalone(path: Path, text: str, kernel: str | None = None) -> bool:
    """Whether the file imports only modules that a toolchain's own environment has, and has the kernel outside of functions."""
    source = _Source(path, text)
    if any(getattr(node, "name", None) == kernel for outer in source.tree.body for node in _nested(outer)):
        return False
    imports = [node for node in ast.walk(source.tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    return not any(_is_relative(node) or _modules(node) - _PRESENT or _file_of(source, node) for node in imports)


def copy_kernel(path: Path, text: str, kernel: str) -> KernelCopy:
    """A program with the function `kernel` and all that it reads: functions and constants of its file and its package, with
    the conditions around them. Imports from other packages stay.

    Raises:
        BadInput: there is no such function.
    """
    source = _Source(path, text)
    if not any(isinstance(statement, ast.FunctionDef) for statement in source.bound.get(kernel, ())):
        raise BadInput(f"{path} has no top-level function {kernel!r}")
    gathering = _Gathering({path.resolve(): source})
    gathering.take(_Definition(source, kernel), source, None)
    return gathering.copy()


@dataclass(eq=False)
class _Gathering:
    """The definitions taken so far, and the files that they are from, each before the files that import it."""

    sources: dict[Path, _Source]
    _names: dict[_Definition, str] = field(default_factory=dict)  # as the copy calls them
    _taken: set[str] = field(default_factory=set)
    _kept: dict[ast.stmt, set[str]] = field(default_factory=dict)  # simple statement -> the names needed of it
    _order: list[_Source] = field(default_factory=list)
    _entered: set[_Source] = field(default_factory=set)  # files with definitions that are being taken
    _imports: dict[tuple[str, ...], str] = field(default_factory=dict)  # imports from other packages -> the name they bind
    _stars: dict[_Source, list[ast.ImportFrom]] = field(default_factory=dict)
    _problems: dict[str, None] = field(default_factory=dict)

    def take(self, definition: _Definition, reader: _Source, place: ast.AST | None) -> None:
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
                self._read(source, _header(parent))
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                self._take_import(source, statement, name)
            else:
                self._read(source, _parts(statement), _own(statement))
        if outermost:
            self._entered.discard(source)
            self._order += [source] if source not in self._order else []

    def _read(self, source: _Source, parts: Sequence[ast.AST], own: frozenset[str] = frozenset()) -> None:
        local = self._local_imports(source, parts)
        for reference in _references(parts):
            if _first(reference) in own and _first(reference) not in local:
                continue
            node, target = self._reference(source, reference, local)
            if target is not None and target.name is None:
                self._report(source, node, f"the module {ast.unparse(node)!r} of the package is used as a value")
            elif target is not None:
                self.take(target, source, node)

    def _reference(self, source: _Source, node: ast.expr, local: dict[str, _Definition]) -> tuple[ast.expr, _Definition | None]:
        """The longest part of `a.b.c` that refers to a definition, and which one."""
        while True:
            target = self.target(source, node, local)
            if target is not None or not isinstance(node, ast.Attribute):
                return node, target
            node = node.value

    def _local_imports(self, source: _Source, parts: Sequence[ast.AST]) -> dict[str, _Definition]:
        """The names that imports inside of a function take from the package."""
        found: dict[str, _Definition] = {}
        for part in parts:
            for node in ast.walk(part):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    for name in _names_of(node):
                        if (target := self._imported(source, node, name)) is not None:
                            found[name] = target
        return found

    def target(self, source: _Source, node: ast.expr, local: dict[str, _Definition]) -> _Definition | None:
        """What a name or an attribute of a module of the package refers to; None for anything else."""
        if isinstance(node, ast.Name):
            if node.id in local:
                return local[node.id]
            if node.id in _ALWAYS and node.id not in source.bound:
                return None
            return self._resolved(_Definition(source, node.id))
        if not isinstance(node, ast.Attribute):
            return None
        base = self.target(source, node.value, local)
        if base is None or base.name is not None:
            return None
        below = self._file(base.source.path.parent / node.attr) if base.source.path.name == "__init__.py" else None
        if node.attr not in base.source.bound and below is not None:
            return _Definition(below, None)
        return self._resolved(_Definition(base.source, node.attr))

    def _resolved(self, definition: _Definition, depth: int = 0) -> _Definition:
        """Follow plain imports within the package."""
        source, name = definition.source, definition.name
        if name is None or depth > 20:
            return definition
        statements = source.bound.get(name, [])
        if not statements:
            for star in _star_imports(source):
                file = _file_of(source, star)
                other = self._file(file) if file else None
                if other is not None:
                    of_star = self._resolved(_Definition(other, name), depth + 1)
                    if of_star.name is None or of_star.source.bound.get(of_star.name):
                        return of_star
        if len(statements) == 1 and isinstance(statement := statements[0], (ast.Import, ast.ImportFrom)):
            target = self._imported(source, statement, name)
            return self._resolved(target, depth + 1) if target and target != definition else definition
        return definition

    def _imported(self, source: _Source, statement: ast.Import | ast.ImportFrom, name: str) -> _Definition | None:
        """What an import takes from the package; None when it is from elsewhere."""
        alias = next(node for node in statement.names if _bound_name(node) == name)
        file = _file_of(source, statement, alias.name if alias.asname else name)
        if file is None:
            return None
        if isinstance(statement, ast.Import):
            other = self._file(file)
            return _Definition(other, None) if other else None
        other = self._file(file)
        if other is None:
            return None
        if alias.name not in other.bound and file.name == "__init__.py" and (below := self._file(file.parent / alias.name)):
            return _Definition(below, None)
        return _Definition(other, alias.name)

    def _file(self, place: Path) -> _Source | None:
        """The source of a file, or of a module without its suffix."""
        file = place if place.is_file() else next(iter(_module_files(place)), None)
        if file is None or len(self.sources) >= _MOST_FILES:
            return None
        key = file.resolve()
        if key not in self.sources:
            self.sources[key] = _Source(file, file.read_text("utf-8", "replace"))
        return self.sources[key]

    def _take_import(self, source: _Source, statement: ast.Import | ast.ImportFrom, name: str) -> None:
        target = self._imported(source, statement, name)
        if target is not None:
            self.take(self._resolved(target), source, statement)
            return
        tried = any(isinstance(parent, ast.Try) for parent in source.around[statement])
        if tried:
            return
        if _is_relative(statement):
            self._report(source, statement, f"{ast.unparse(statement)}: the package has no such file")
        for module in sorted(_modules(statement) - _PRESENT):
            self._report(source, statement, f"imports {module}, which a toolchain's environment does not have")

    def _stars_of(self, source: _Source) -> list[ast.ImportFrom]:
        """Keep the star imports of other packages, which may define a name that nothing else defines."""
        stars = [star for star in _star_imports(source) if _file_of(source, star) is None and not star.level]
        if stars:
            self._stars[source] = stars
            if source not in self._order:
                self._order.append(source)
        return stars

    def _shared(self, source: _Source, statements: Sequence[ast.stmt], name: str) -> str | None:
        """The name that another file's same imports have in the copy."""
        if not all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in statements):
            return None
        imports = [node for node in statements if isinstance(node, (ast.Import, ast.ImportFrom))]
        if any(self._imported(source, node, name) for node in imports):
            return None
        lines = tuple(sorted({_import_of(node, name) for node in imports}))
        if lines not in self._imports:
            self._imports[lines] = self._unique(name, source)
        return self._imports[lines]

    def _unique(self, name: str, source: _Source) -> str:
        unique, number = name, 1
        while unique in self._taken:
            number += 1
            unique = f"{name}_{source.path.stem.strip('_')}" + (f"_{number}" if number > 2 else "")
        self._taken.add(unique)
        return unique

    def _report(self, source: _Source, node: ast.AST | None, message: str) -> None:
        self._problems.setdefault(f"{source.path}:{getattr(node, 'lineno', 1)}: {message}")

    def copy(self) -> KernelCopy:
        imports: dict[str, None] = {}
        parts: list[str] = []
        for source in self._order:
            imports |= dict.fromkeys(ast.unparse(star) for star in self._stars.get(source, []))
            for statement in source.tree.body:
                text = "\n".join(self._written(source, statement))
                lines = text.splitlines() if isinstance(statement, (ast.Import, ast.ImportFrom)) else []
                plain = [line for line in lines if line.startswith(("import ", "from "))]
                imports |= dict.fromkeys(plain)
                if text and not plain:
                    parts.append(text)
        first = sorted(imports, key=lambda line: (not line.startswith("from __future__"), line))
        return KernelCopy("\n".join(first) + "\n\n\n" + "\n\n\n".join(parts) + "\n", tuple(self._problems))

    def _written(self, source: _Source, statement: ast.stmt) -> list[str]:
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
            return [line for inner in _nested(statement) for line in self._written(source, inner)]
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            return [line for name in sorted(names) for line in self._import_line(source, statement, name)]
        text = self._edited(source, statement)
        decorators = [f"@{self._edited(source, node)}" for node in _kept_decorators(statement)]
        return [*decorators, *text.splitlines()]

    def _block(self, source: _Source, body: Sequence[ast.stmt]) -> list[str]:
        return [f"    {line}" if line else "" for statement in body for line in self._written(source, statement)]

    def _import_line(self, source: _Source, statement: ast.Import | ast.ImportFrom, name: str) -> list[str]:
        called = self._names[_Definition(source, name)]
        target = self._imported(source, statement, name)
        if target is not None:
            original = self._names.get(self._resolved(target))
            return [f"{called} = {original}"] if original and original != called else []
        return [_import_of(statement, name, called)]

    def _edited(self, source: _Source, node: ast.expr | ast.stmt) -> str:
        """The source text of a node, with the names that the copy gives to definitions."""
        own = _own(node)
        local = self._local_imports(source, [node]) if isinstance(node, ast.stmt) else {}
        edits: list[tuple[ast.expr | ast.stmt, str]] = []
        for reference in _references([node], stores=True):
            if _first(reference) in own and _first(reference) not in local:
                continue
            inner, target = self._reference(source, reference, local)
            name = self._names.get(target) if target else None
            if name is not None and name != ast.unparse(inner) and inner.lineno >= node.lineno:  # not in a decorator
                edits.append((inner, name))
        for below in ast.walk(node):
            if below is node or not isinstance(below, (ast.Import, ast.ImportFrom)):
                continue
            if any(self._imported(source, below, name) for name in _names_of(below)):
                edits.append((below, "pass"))
        return _segment(source, node, edits, self._names.get(_Definition(source, getattr(node, "name", None) or "")))


_PASS = ["    pass"]


def _segment(
    source: _Source, node: ast.expr | ast.stmt, edits: list[tuple[ast.expr | ast.stmt, str]], called: str | None
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


def leaves(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The simple statements of a module, also those below conditions, and the kernels and imports inside of functions that
    define kernels.
    """
    return (statement for statement, _ in _with_parents(body, ()))


def _with_parents(body: Sequence[ast.stmt], parents: tuple[_Compound, ...]) -> Iterator[tuple[ast.stmt, tuple[_Compound, ...]]]:
    for node in body:
        match node:
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                pass
            case ast.If() | ast.Try() | ast.With():
                handlers = [handler.body for handler in node.handlers] if isinstance(node, ast.Try) else []
                for inner in (node.body, *handlers, getattr(node, "orelse", [])):
                    yield from _with_parents(inner, (*parents, node))
            case _:
                yield node, parents
                yield from ((inner, parents) for inner in _nested(node))


def _nested(statement: ast.stmt) -> list[ast.stmt]:
    """The kernels that a function defines, and its imports; empty for a function without kernels."""
    if not isinstance(statement, ast.FunctionDef):
        return []
    inner = [node for node in ast.walk(statement) if isinstance(node, (ast.FunctionDef, ast.Import, ast.ImportFrom))]
    kernels = {node for node in inner if isinstance(node, ast.FunctionDef) and node is not statement and _kept_decorators(node)}
    wanted = [node for node in inner if node in kernels or not isinstance(node, ast.FunctionDef)]
    return sorted(wanted, key=lambda node: node.lineno) if kernels else []


def _header(statement: _Compound) -> list[ast.AST]:
    match statement:
        case ast.If(test=test):
            return [test]
        case ast.Try(handlers=handlers):
            return [handler.type for handler in handlers if handler.type]
        case ast.With(items=items):
            return [item.context_expr for item in items]


def _bound_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _import_of(statement: ast.Import | ast.ImportFrom, name: str, called: str | None = None) -> str:
    """The import of one name of several. called: the name to bind instead."""
    aliases = [node for node in statement.names if _bound_name(node) == name]
    if called not in (None, name):
        aliases = [ast.alias(node.name, called) for node in aliases]
    return ast.unparse(type(statement)(**{**dict(ast.iter_fields(statement)), "names": aliases}))


def _names_of(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (_bound_name(node) for node in names if node.name != "*")
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.For():
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id


def _kept_decorators(statement: ast.stmt) -> list[ast.expr]:
    """Of functions only the decorator that marks a kernel, because others tune or register it."""
    if isinstance(statement, ast.ClassDef):
        return statement.decorator_list
    decorators = statement.decorator_list if isinstance(statement, ast.FunctionDef) else []
    return [node for node in decorators if ast.unparse(node).partition("(")[0].rpartition(".")[2] == "jit"]


def _parts(statement: ast.stmt) -> list[ast.AST]:
    if isinstance(statement, ast.FunctionDef):
        returns = [statement.returns] if statement.returns else []
        return [statement.args, *returns, *statement.body, *_kept_decorators(statement)]
    return [statement]


def _own(node: ast.AST) -> frozenset[str]:
    """The names that a function binds itself."""
    if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        bound = [inner for inner in ast.walk(node) if isinstance(inner, ast.comprehension)]
        names = {name.id for inner in bound for name in ast.walk(inner.target) if isinstance(name, ast.Name)}
        lambdas = [inner.args for inner in ast.walk(node) if isinstance(inner, ast.Lambda)]
        return frozenset(names | {inner.arg for each in lambdas for inner in ast.walk(each) if isinstance(inner, ast.arg)})
    own = {inner.arg for inner in ast.walk(node) if isinstance(inner, ast.arg)}
    own |= {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)}
    own |= {inner.name for inner in ast.walk(node) if isinstance(inner, (ast.FunctionDef, ast.ClassDef)) and inner is not node}
    own |= {inner.name for inner in ast.walk(node) if isinstance(inner, ast.ExceptHandler) and inner.name}
    imports = [inner for inner in ast.walk(node) if isinstance(inner, (ast.Import, ast.ImportFrom))]
    own |= {name for inner in imports for name in _names_of(inner)}
    shared = {name for inner in ast.walk(node) if isinstance(inner, ast.Global) for name in inner.names}
    return frozenset(own - shared)


def _references(parts: Sequence[ast.AST], *, stores: bool = False) -> Iterator[ast.expr]:
    """Names and attributes of names, each chain of attributes as a whole."""
    waiting = list(parts)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Attribute) and _first(node) is not None:
            yield node
        elif isinstance(node, ast.Name):
            if stores or isinstance(node.ctx, (ast.Load, ast.Del)):
                yield node
        else:
            waiting += ast.iter_child_nodes(node)


def _first(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _star_imports(source: _Source) -> list[ast.ImportFrom]:
    return [node for node in leaves(source.tree.body) if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"]


def _is_relative(statement: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.level > 0


def _modules(statement: ast.Import | ast.ImportFrom) -> set[str]:
    """The top-level packages that an absolute import reads."""
    if isinstance(statement, ast.Import):
        return {node.name.partition(".")[0] for node in statement.names}
    return set() if statement.level else {(statement.module or "").partition(".")[0]}


def _module_files(place: Path) -> Iterator[Path]:
    yield from (file for file in (place.with_name(f"{place.name}.py"), place / "__init__.py") if file.is_file())


def _file_of(source: _Source, statement: ast.Import | ast.ImportFrom, module: str | None = None) -> Path | None:
    """The file of the package that an import reads; None for another package."""
    here = source.path.resolve()
    if isinstance(statement, ast.Import):
        names, level = [module] if module else [node.name for node in statement.names], 0
    else:
        names, level = [statement.module or ""], statement.level
    for name in names:
        top = name.partition(".")[0]
        if not level and top in _PRESENT:
            continue
        for root in [here.parents[level - 1]] if level and level <= len(here.parents) else here.parents if not level else []:
            if not level and root.name in _INSTALLED and root / top not in here.parents:
                break  # another package installed beside this one
            for file in _module_files(root.joinpath(*name.split("."))) if name else _init_of(root):
                if file.resolve() != here or _is_relative(statement):
                    return file
    return None


def _init_of(folder: Path) -> list[Path]:
    return [file for file in [folder / "__init__.py"] if file.is_file()]
