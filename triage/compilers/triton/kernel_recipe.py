"""Start a recipe for a kernel, with guesses of what to compile it for. A kernel that
needs its package is copied with the functions and constants that it uses.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from triage.compilers.pasted_text import (
    PastedProgram,
    RecipeRequest,
    RecipeStarter,
    chip_in,
    mlir_in,
    python_in,
)
from triage.compilers.triton.kernel_source import guess_kernel, is_jit
from triage.compilers.triton.worker import REPLACED
from triage.model.case import Target
from triage.model.errors import BadInput
from triage.recipes.recipe import RecipeStart

_COMMENT = (
    "`*` is a pointer, :16 means divisible by 16. Check what is marked as guessed."
)
_DEFAULT_CHIPS = {"cuda": "sm_90", "hip": "gfx942"}
_TTGIR = re.compile(r"#(?:ttg|triton_gpu)\.")
_KERNEL = re.compile(r"^[ \t]*@(?:triton\.)?jit\b", re.MULTILINE)
# Modules that a toolchain's environment has, or that its worker replaces.
_AVAILABLE = sys.stdlib_module_names | {"triton", *REPLACED}


class TritonRecipes(RecipeStarter):
    """Makes recipes for kernels. A kernel that imports from its own package is copied
    next to the recipe, with all that it uses.
    """

    def programs_in(self, text: str) -> Sequence[PastedProgram]:
        """Return the Python programs with a kernel; if there are none, Triton's IR."""
        programs = [PastedProgram(code, ".py") for code in python_in(text, _KERNEL)]
        return programs or [
            PastedProgram(code, ".ttgir" if _TTGIR.search(code) else ".ttir")
            for code in mlir_in(text)
            if "tt.func" in code
        ]

    def from_program(
        self, request: RecipeRequest, path: Path, program: str
    ) -> RecipeStart | None:
        backend = request.backend
        chip = request.chip
        if backend is None:
            chip = chip or chip_in(request.text) or _DEFAULT_CHIPS["cuda"]
            backend = "hip" if chip.startswith("gfx") else "cuda"
        target = Target(backend, chip or _DEFAULT_CHIPS.get(backend))
        assumed = request.assumed(target)
        start = RecipeStart("triton", path, target, assumed=assumed)
        if path.suffix in (".ttir", ".ttgir"):
            return start
        try:
            guess = guess_kernel(program, request.kernel, path)
            if guess is None or guess.kernel is None:
                return None
            if not is_standalone(program):
                copied = copy_kernel(request.source and path, program, guess.kernel)
                copy = request.path.with_suffix(".py")
                start = replace(start, input=copy, copied=copied)
        except RecursionError as error:
            name = path.name if request.source else "the text"
            raise BadInput(f"an expression in {name} is nested too deeply") from error
        keys = asdict(guess)
        guessed = keys.pop("guessed")
        return replace(start, guessed=guessed, keys=keys, comment=_COMMENT)


def is_standalone(text: str) -> bool:
    """Return whether a toolchain can import a kernel's file as it is: it launches no
    kernel, and imports nothing of its package.
    """
    tree = ast.parse(text)
    for statement in tree.body:
        match statement:
            case ast.For() | ast.Expr(value=ast.Call()):
                return False
    modules: list[str | None] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                modules += [alias.name for alias in aliases]
            case ast.ImportFrom(module=module, level=level):
                modules.append(None if level else module)
    return all(module and module.split(".")[0] in _AVAILABLE for module in modules)


def copy_kernel(path: Path | None, text: str, kernel: str) -> str:
    """Copy the function `kernel`, and the functions and constants of its package that
    it uses, with the conditions around them.

    A pasted program has no path, and no file that it imports is read.

    Raises:
        BadInput: There is no such function, or the copy would have two functions of one
            name.
    """
    module = _Module(path, text)
    if kernel not in module.definitions:
        raise BadInput(f"{module.name} has no top-level function {kernel!r}")
    copy = _Copy()
    copy.add(module, kernel)
    imports = sorted(copy.imports, key=lambda line: ("__future__" not in line, line))
    return "\n\n\n".join(["\n".join(imports), *copy.parts]) + "\n"


class _Module:
    """A file of the kernel's package, or a pasted program."""

    def __init__(self, path: Path | None, text: str) -> None:
        self.path = path
        self.name = str(path or "text")
        self.definitions: dict[str, list[ast.stmt]] = {}
        """Name -> the top-level statements that define it, conditions included."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError) as error:
            raise BadInput(f"{self.name} is not a Python program: {error}") from error
        for statement in tree.body:
            for name in _defined_names(statement):
                self.definitions.setdefault(name, []).append(statement)

    def imported_file(self, statement: ast.Import | ast.ImportFrom) -> Path | None:
        """Return the file of the kernel's package that a statement imports from."""
        if self.path is None or isinstance(statement, ast.Import):
            return None
        level = statement.level
        parts = (statement.module or "").split(".")
        if not level and parts[0] in _AVAILABLE:
            return None
        roots = self.path.resolve().parents
        for root in roots[level - 1 : level] if level else roots:
            stem = root.joinpath(*parts)
            for file in (stem.with_suffix(".py"), stem / "__init__.py"):
                if file.is_file() and (level or file != self.path.resolve()):
                    return file
        return None


class _Copy:
    """Collects definitions, each after those that it uses, under their own names."""

    def __init__(self) -> None:
        self.imports: set[str] = set()
        self.parts: dict[str, None] = {}  # an ordered set
        self._added: set[tuple[str, str]] = set()
        self._owners: dict[str, str] = {}  # function -> the file that defines it

    def add(self, module: _Module, name: str) -> None:
        """Add the definitions of a name, and of all names that they use."""
        if (module.name, name) in self._added:
            return
        self._added.add((module.name, name))
        for statement in module.definitions.get(name, []):
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                self._add_import(module, statement, name)
                continue
            if isinstance(statement, ast.FunctionDef):
                owner = self._owners.setdefault(name, module.name)
                if owner != module.name:
                    raise BadInput(f"{owner} and {module.name} both define {name!r}")
                # those that tune a kernel are left out
                statement.decorator_list[:] = filter(is_jit, statement.decorator_list)
            for used in _global_names_read(statement):
                self.add(module, used)
            self.parts[ast.unparse(statement)] = None

    def _add_import(
        self, module: _Module, statement: ast.Import | ast.ImportFrom, name: str
    ) -> None:
        """Add the import of a name, or the definitions that it imports if they belong
        to the package.
        """
        aliases = [alias for alias in statement.names if _name_of_alias(alias) == name]
        file = module.imported_file(statement)
        if file is None:
            only = type(statement)(**{**vars(statement), "names": aliases})
            self.imports.add(ast.unparse(only))
            return
        original = aliases[0].name
        self.add(_Module(file, file.read_text("utf-8", "replace")), original)
        if original != name:
            self.parts[f"{name} = {original}"] = None


def _name_of_alias(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _defined_names(statement: ast.stmt) -> set[str]:
    """Return the names that a top-level statement defines."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    names = set()
    for node in ast.walk(statement):
        match node:
            case ast.alias():
                names.add(_name_of_alias(node))
            case ast.FunctionDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
    return names


def _global_names_read(statement: ast.stmt) -> list[str]:
    """Return the global names that a statement reads, in their order."""
    names: dict[str, None] = {}  # an ordered set
    local_names = set()
    for node in ast.walk(statement):
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                local_names.add(name)
            case ast.Name(id=name):
                names[name] = None
    return [name for name in names if name not in local_names]
