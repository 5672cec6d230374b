"""Find a mistake in the program itself, such as an undefined name: no release compiles
it, so that none has to be searched.
"""

from __future__ import annotations

import ast
import re

from triage.model.case import Case
from triage.model.outcome import Outcome
from triage.reduce.frontends.python import unbound_names

_NOT_DEFINED = re.compile(r"\bname '(\w+)' is not defined|'(\w+) is not defined'")
_NOT_IN_MODULE = re.compile(r"cannot import name '(\w+)' from '(\w+)'")
_NO_MODULE = re.compile(r"No module named '(\w+)'")


def own_mistake(case: Case, outcome: Outcome) -> str | None:
    """Return the place and the mistake in a program that does not pass; None if its
    failure may be one of the compiler.
    """
    failure = outcome.failure
    headline = failure.headline if failure else outcome.reason or ""
    try:
        if case.input.path.suffix == ".py":
            return _mistake_in_python(case, headline)
        if failure and headline == "use of undeclared SSA value name":
            return _undeclared_value(case, failure.location or "")
    except SyntaxError as error:
        # a newer Python may know the syntax
        if error.msg in headline:
            return f"{error.filename}:{error.lineno}: {error.msg}"
    # the file is binary, has changed or is nested too deeply, or the position that the
    # compiler gives lies outside of it
    except (OSError, ValueError, LookupError, RecursionError, MemoryError):
        pass
    return None


def _mistake_in_python(case: Case, headline: str) -> str | None:
    """Raises SyntaxError for the program, or a module next to it."""
    program = case.input.path
    imports = _imports(ast.parse(program.read_bytes(), str(program)))
    neighbours = {module: program.parent / f"{module}.py" for module in imports}
    files = [program, *(path for path in neighbours.values() if path.is_file())]
    trees = {path: ast.parse(path.read_bytes(), str(path)) for path in files}
    match = _NOT_DEFINED.search(headline)
    if match:
        name = match[1] or match[2]
        for path, tree in trees.items():
            if name in unbound_names(path.read_bytes()):
                return f"{path}:{_line_of(tree, name)}: {name!r} is not defined"
    match = _NOT_IN_MODULE.search(headline)
    if match and match[2] in imports:
        name, module = match.groups()
        path = neighbours[module]
        if path in files and not re.search(rf"\b{name}\b", path.read_text("utf-8")):
            return f"{program}:{imports[module]}: {path.name} has no {name!r}"
    match = _NO_MODULE.search(headline)
    if match and match[1] in imports and match[1] not in case.compiler.split(":"):
        return (
            f"{program}:{imports[match[1]]}: module {match[1]!r} is neither next to it "
            "nor installed; if it is a package, name it under `package` of a recipe"
        )
    return None


def _imports(tree: ast.Module) -> dict[str, int]:
    """Return the modules that a program imports, each with its line."""
    lines: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                lines[alias.name.partition(".")[0]] = node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            lines[node.module.partition(".")[0]] = node.lineno
    return lines


def _line_of(tree: ast.Module, name: str) -> int:
    """Return the first line that reads a name."""
    return min(
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == name
    )


def _undeclared_value(case: Case, location: str) -> str:
    """Return the place and the name of a value in MLIR that nothing defines."""
    file, line, column = location.rsplit(":", 2)
    text = case.input.path.read_text("utf-8").splitlines()[int(line) - 1]
    name = text[int(column) - 1 :].split(",")[0].split()[0]
    return f"{file}:{line}: {name} is not defined"
