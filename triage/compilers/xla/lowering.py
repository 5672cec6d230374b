"""Prints a function of JAX as StableHLO. A release's interpreter starts this script,
which imports nothing of triage.

    lowering.py SCRIPT [--function NAME] [--argument 4x8xf32...] [--NAME VALUE...]

Without --argument, SCRIPT runs until it first calls the function, and that call shows
the types of the arguments. An argument is a type such as `4x8xf32`, or JSON for a tuple
(a list) or a dict of types.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import partial
from importlib import import_module
from pathlib import Path
from runpy import run_path
from typing import Any

_OLDEST_READER = "1.0.0"
_IMPORTED = "<imported>"  # `__name__` of a script that only defines its functions


class Called(BaseException):
    """Raised when the script calls the wanted function, to end the script."""

    def __init__(self, lowered: Any) -> None:
        self.lowered = lowered


class WatchedFunction:
    """Stands for a function under `jax.jit` while the script runs. The first call of
    the wanted function lowers it and ends the script.
    """

    def __init__(self, inner: Any, jitted: Any, wanted: str | None) -> None:
        """`wanted` is the name of the wanted function; None means any."""
        self.inner, self.jitted, self.wanted = inner, jitted, wanted

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.end_if_wanted(arguments, named)
        return self.jitted(*arguments, **named)

    def __get__(self, owner: Any, kind: Any) -> Any:
        if owner is None:
            return self
        return partial(self, owner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.jitted, name)

    def lower(self, *arguments: Any, **named: Any) -> Any:
        """Lower the function for its caller, unless it is the wanted one."""
        self.end_if_wanted(arguments, named)
        return self.jitted.lower(*arguments, **named)

    def end_if_wanted(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        jax = import_module("jax")
        leaves = jax.tree_util.tree_leaves((arguments, named))
        is_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
        if not is_traced and (self.wanted is None or self.wanted in self.names()):
            raise Called(self.jitted.lower(*arguments, **named))

    def names(self) -> Iterator[str]:
        """Yield the function's own name, and the variables that hold it."""
        yield getattr(self.inner, "__name__", "")
        frame = sys._getframe(1)  # noqa: SLF001
        while frame is not None:
            for name, value in {**frame.f_globals, **frame.f_locals}.items():
                if value is self or value is self.inner:
                    yield name
            frame = frame.f_back  # type: ignore[assignment]


def run_script(script: Path, name: str) -> dict[str, Any]:
    """Run a script as the module `name`, and return its global variables. Its output
    goes to stderr.
    """
    sys.argv = [str(script)]
    sys.path.insert(0, str(script.parent))
    with redirect_stdout(sys.stderr):
        return runpy.run_path(str(script), run_name=name)


def run_until_called(script: Path, function: str | None) -> dict[str, Any]:
    """Run a script and return its global variables. Raises Called when it first calls
    the function (None means any), and LookupError if it exits.
    """
    jax: Any = import_module("jax")
    original = jax.jit

    def jit(inner: Any = None, **options: Any) -> Any:
        if inner is None:
            return partial(jit, **options)
        return WatchedFunction(inner, original(inner, **options), function)

    jax.jit = jit
    try:
        return run_script(script, "__main__")
    except SystemExit as ended:
        raise LookupError(
            f"{script.name} ends before it calls "
            f"{function or 'a function under jax.jit'}"
        ) from ended
    finally:
        jax.jit = original


def lowered(
    script: Path, function: str | None, arguments: list[str], settings: dict[str, Any]
) -> Any:
    """Return a function lowered by JAX. Raises LookupError if there is no such
    function, or if the types of its arguments are not known.
    """
    types = []
    for text in arguments:
        is_nested = text[0] in "[{"
        types.append(argument_type(json.loads(text) if is_nested else text))
    if types or settings:
        variables = run_script(script, _IMPORTED)
    else:
        try:
            variables = run_until_called(script, function)
        except Called as call:
            return call.lowered
    jitted = {
        name: value
        for name, value in variables.items()
        if callable(value) and hasattr(value, "lower")
    }
    if function is None and len(jitted) != 1:
        names = ", ".join(jitted) or "none"
        raise LookupError(
            f"{script.name} calls no function under jax.jit; name one as lower: "
            f"{{function: NAME}}; it has: {names}"
        )
    name = function or next(iter(jitted))
    if name in jitted:
        chosen = jitted[name]
    elif callable(variables.get(name)):
        chosen = import_module("jax").jit(variables[name])
    else:
        raise LookupError(
            f"{script.name} has no function {name}; under jax.jit it has: "
            f"{', '.join(jitted) or 'none'}"
        )
    if isinstance(chosen, WatchedFunction):
        chosen = chosen.jitted
    try:
        return chosen.lower(*types, **settings)
    except TypeError as error:
        if types or "missing" not in str(error):
            raise
        advice = "write their types as lower: {arguments: [4x8xf32, i32]}"
        raise LookupError(
            f"{script.name} does not call {name}, so its arguments are not known; "
            f"{advice}"
        ) from error


def argument_type(tree: Any) -> Any:
    """Return a value that JAX can trace for a type such as `4x8xf32`. A list of types
    becomes a tuple, a dict of types a dict.
    """
    if isinstance(tree, dict):
        return {name: argument_type(item) for name, item in tree.items()}
    if isinstance(tree, list):
        return tuple(argument_type(item) for item in tree)
    sizes, place, element = tree.partition("complex")
    if place:
        *dimensions, _ = sizes.split("x")
        element = place + element
    else:
        *dimensions, element = tree.split("x")
    return import_module("jax").ShapeDtypeStruct(
        [int(size) for size in dimensions], _numpy_type(element)
    )


def _numpy_type(element: str) -> Any:
    """Return the type of numpy for an element type of MLIR. The worker next to this
    script knows them.
    """
    worker = run_path(str(Path(__file__).with_name("worker.py")))
    return worker["numpy_type"](element)


def print_portable(module: Any) -> None:
    """Print a module of StableHLO in the syntax of its version 1.0, which every release
    since 2024 reads.
    """
    xla, ir = import_module("jaxlib.xla_client"), import_module("jaxlib.mlir.ir")

    def remove_sharding(operation: Any) -> Any:
        # by release, the attributes or their names
        names = [
            getattr(attribute, "name", attribute) for attribute in operation.attributes
        ]
        for name in names:
            if name.startswith("sdy."):
                del operation.attributes[name]
        return ir.WalkResult.ADVANCE

    with module.context:
        module.operation.walk(remove_sharding)
        module.operation.write_bytecode(written := io.BytesIO())
        convert = xla._xla.mlir  # noqa: SLF001
        try:
            artifact = convert.serialize_portable_artifact(
                written.getvalue(), _OLDEST_READER, use_mixed_serialization=True
            )
        except TypeError:  # a release before mixed serialization
            artifact = convert.serialize_portable_artifact(
                written.getvalue(), _OLDEST_READER
            )
        portable = convert.deserialize_portable_artifact(artifact)
        if isinstance(portable, (str, bytes)):
            portable = ir.Module.parse(portable)
        sys.stdout.write(portable.operation.get_asm(enable_debug_info=False) + "\n")


def main() -> int:
    """Print the program, or an error."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    # or the last line of an error is about the filter
    os.environ["JAX_TRACEBACK_FILTERING"] = "off"
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("script", type=Path)
    parser.add_argument("--function")
    parser.add_argument("--argument", action="append", default=[])
    options, rest = parser.parse_known_args()
    names = [name.lstrip("-") for name in rest[::2]]
    settings = dict(zip(names, map(json.loads, rest[1::2]), strict=True))
    try:
        function = lowered(options.script, options.function, options.argument, settings)
        print_portable(function.compiler_ir("stablehlo"))
    except LookupError as error:
        sys.stderr.write(f"error: {error.args[0]}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
