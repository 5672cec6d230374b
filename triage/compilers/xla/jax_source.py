"""Read which functions a Python file compiles with JAX, without running it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_JIT = re.compile(r"\bjit\b")
_UNNAMED = "<lambda>"


@dataclass
class JittedFunction:
    """A function under `jax.jit`."""

    parameters: tuple[str, ...] = ()
    """Those without a default."""
    names: set[str] = field(default_factory=set)
    """Its own, and those that the compiled function is bound to."""
    is_called: bool = False
    """Whether the file calls it, so that the types of its arguments show when it runs.
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
    tree = _parsed(text)
    nodes = list(ast.walk(tree))
    parameters = dict(_definitions(nodes))
    found: dict[str, JittedFunction] = {}
    for name in _jitted(nodes):
        found.setdefault(name, JittedFunction(parameters.get(name, ()), {name}))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    for node in nodes:
        if isinstance(node, ast.Assign) and _is_jit(node.value):
            function = found.get(_target(node.value))
            if function is not None:
                function.names |= {_last_name(target) for target in node.targets}
    for call in calls:
        called = _called(call)
        for function in found.values():
            function.is_called |= called in function.names
    return found


def parameters_of(text: str, name: str) -> tuple[str, ...] | None:
    """Return the parameters without a default of a function, or None if the text does
    not define it.
    """
    return dict(_definitions(ast.walk(_parsed(text)))).get(name)


def _definitions(
    nodes: Iterator[ast.AST] | list[ast.AST],
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield functions with their parameters, also lambdas that get a name."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            yield node.name, _required(node.args)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            yield _last_name(node.targets[0]), _required(node.value.args)


def _jitted(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            if any(
                _JIT.search(ast.unparse(decorator)) for decorator in node.decorator_list
            ):
                yield node.name
        elif _is_jit(node):
            yield _target(node)


def _is_jit(node: ast.AST) -> bool:
    """Return whether this is a call such as `jax.jit(f)`, and not the decorator
    `jax.jit(static_argnums=1)`.
    """
    return (
        isinstance(node, ast.Call)
        and _last_name(node.func) == "jit"
        and bool(node.args)
    )


def _target(node: ast.AST) -> str:
    """Return what a call of `jit` compiles: `f` of `jit(f)`, `jit(self.f)` and
    `jit(jax.grad(f))`.
    """
    while isinstance(node, ast.Call):
        if node.args:
            node = node.args[0]
        else:
            node = node.func
    if isinstance(node, ast.Lambda):
        return _UNNAMED
    return _last_name(node)


def _called(call: ast.Call) -> str:
    """Return the name of what a call runs or lowers: `f` of `f(x)`, `self.f(x)`,
    `jax.jit(f)(x)` and `f.lower(x)`.
    """
    inner = call.func
    if isinstance(inner, ast.Attribute) and inner.attr == "lower":
        inner = inner.value
    if _is_jit(inner):
        return _target(inner)
    return _last_name(inner)


def _last_name(node: ast.AST) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _required(arguments: ast.arguments) -> tuple[str, ...]:
    positional = [*arguments.posonlyargs, *arguments.args]
    return tuple(
        each.arg for each in positional[: len(positional) - len(arguments.defaults)]
    )


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])
