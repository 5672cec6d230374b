"""Read which functions a Python file compiles with JAX, without running it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_JIT = re.compile(r"\bjit\b")
_UNNAMED = "<lambda>"


@dataclass
class JittedFunction:
    """A function under `jax.jit`."""

    parameters: tuple[str, ...] = ()
    """Its parameters without a default."""
    names: set[str] = field(default_factory=set)
    """Its own name, and the variables that hold the compiled function."""
    is_called: bool = False
    """Whether the file calls it. A run of the file shows the types of its arguments.
    """


def imports_jax(text: str) -> bool:
    """Return whether a text is Python that imports JAX."""
    modules: list[str] = []
    for node in ast.walk(_parsed(text)):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules.append(node.module or "")
    return any(module.partition(".")[0] == "jax" for module in modules)


def jitted_functions(text: str) -> dict[str, JittedFunction]:
    """Return the functions under `jax.jit` by name."""
    nodes = list(ast.walk(_parsed(text)))
    parameters = dict(_definitions(nodes))
    found: dict[str, JittedFunction] = {}
    for name in _jitted_names(nodes):
        found.setdefault(name, JittedFunction(parameters.get(name, ()), {name}))
    for node in nodes:
        if isinstance(node, ast.Assign) and _is_jit(node.value):
            function = found.get(_compiled_name(node.value))
            if function is not None:
                function.names |= {_last_name(target) for target in node.targets}
    for node in nodes:
        if isinstance(node, ast.Call):
            called = _called_name(node)
            for function in found.values():
                function.is_called |= called in function.names
    return found


def parameters_of(text: str, name: str) -> tuple[str, ...] | None:
    """Return the parameters of a function that have no default, or None if the text
    does not define the function.
    """
    return dict(_definitions(ast.walk(_parsed(text)))).get(name)


def _definitions(
    nodes: Iterable[ast.AST],
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each function's name and parameters, also of lambdas with a name."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            yield node.name, _required(node.args)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            yield _last_name(node.targets[0]), _required(node.value.args)


def _jitted_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            decorators = map(ast.unparse, node.decorator_list)
            if any(map(_JIT.search, decorators)):
                yield node.name
        elif _is_jit(node):
            yield _compiled_name(node)


def _is_jit(node: ast.AST) -> bool:
    """Return whether a node is a call such as `jax.jit(f)`. The decorator
    `jax.jit(static_argnums=1)` is not.
    """
    return (
        isinstance(node, ast.Call)
        and _last_name(node.func) == "jit"
        and bool(node.args)
    )


def _compiled_name(node: ast.AST) -> str:
    """Return the name of the function that a call of `jit` compiles: `f` for `jit(f)`,
    `jit(self.f)` and `jit(jax.grad(f))`.
    """
    while isinstance(node, ast.Call):
        if node.args:
            node = node.args[0]
        else:
            node = node.func
    if isinstance(node, ast.Lambda):
        return _UNNAMED
    return _last_name(node)


def _called_name(call: ast.Call) -> str:
    """Return the name of the function that a call runs or lowers: `f` for `f(x)`,
    `self.f(x)`, `jax.jit(f)(x)` and `f.lower(x)`.
    """
    inner = call.func
    if isinstance(inner, ast.Attribute) and inner.attr == "lower":
        inner = inner.value
    return _compiled_name(inner) if _is_jit(inner) else _last_name(inner)


def _last_name(node: ast.AST) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _required(arguments: ast.arguments) -> tuple[str, ...]:
    positional = [*arguments.posonlyargs, *arguments.args]
    required = positional[: len(positional) - len(arguments.defaults)]
    return tuple(each.arg for each in required)


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])
