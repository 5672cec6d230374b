"""Prints a function of JAX as StableHLO; a release's interpreter starts this script,
which imports nothing of triage.

    lowering.py SCRIPT [--function NAME] [--argument 4x8xf32...] [--NAME VALUE...]

Without --argument, SCRIPT runs until it first calls the function, and the values of
that call say what the program takes. An argument is a type such as `4x8xf32`, or JSON
for a tuple (a list) or a dict of types.
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
from typing import Any

_OLDEST_READER = "1.0.0"  # the version of StableHLO that every release since 2024 reads
_IMPORTED = "<imported>"  # `__name__` of a script that only defines its functions


class Called(BaseException):
    """The script calls the function that is looked for."""

    def __init__(self, lowered: Any) -> None:
        self.lowered = lowered


class Watched:
    """A function under `jax.jit`, lowered instead of called if its name is the one that
    is looked for.
    """

    def __init__(self, inner: Any, jitted: Any, wanted: str | None) -> None:
        self.inner, self.jitted, self.wanted = inner, jitted, wanted

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.stop_if_wanted(arguments, named)
        return self.jitted(*arguments, **named)

    def __get__(self, owner: Any, kind: Any) -> Any:
        if owner is None:
            return self
        return partial(self, owner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.jitted, name)

    def lower(self, *arguments: Any, **named: Any) -> Any:
        """Lower the function, as its caller asks."""
        self.stop_if_wanted(arguments, named)
        return self.jitted.lower(*arguments, **named)

    def stop_if_wanted(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        jax = import_module("jax")
        leaves = jax.tree_util.tree_leaves((arguments, named))
        is_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
        if not is_traced and (self.wanted is None or self.wanted in self.names()):
            raise Called(self.jitted.lower(*arguments, **named))

    def names(self) -> Iterator[str]:
        """Yield the names that the script has for this function."""
        yield getattr(self.inner, "__name__", "")
        frame = sys._getframe(1)  # noqa: SLF001
        while frame is not None:
            for name, value in {**frame.f_globals, **frame.f_locals}.items():
                if value is self or value is self.inner:
                    yield name
            frame = frame.f_back  # type: ignore[assignment]


def run_script(script: Path, name: str) -> dict[str, Any]:
    """Run a script, whose output goes to stderr, and return its names."""
    sys.argv = [str(script)]
    sys.path.insert(0, str(script.parent))
    with redirect_stdout(sys.stderr):
        return runpy.run_path(str(script), run_name=name)


def run_until_called(script: Path, function: str | None) -> Any:
    """Return what the first call of a function lowers to, or the names of the script if
    it does not call it.
    """
    jax: Any = import_module("jax")
    original = jax.jit

    def jit(inner: Any = None, **options: Any) -> Any:
        if inner is None:
            return partial(jit, **options)
        return Watched(inner, original(inner, **options), function)

    jax.jit = jit
    try:
        return run_script(script, "__main__")
    except Called as found:
        return found.lowered
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
    """Return what JAX makes of a function. Raises LookupError if there is no such
    function, or nothing says what it takes.
    """
    types = [
        argument_type(json.loads(text) if text[0] in "[{" else text)
        for text in arguments
    ]
    if types or settings:
        names = run_script(script, _IMPORTED)
    else:
        names = run_until_called(script, function)
        if not isinstance(names, dict):
            return names
    jitted = {
        name: value
        for name, value in names.items()
        if callable(value) and hasattr(value, "lower")
    }
    if function is None and len(jitted) != 1:
        known = ", ".join(jitted) or "none"
        raise LookupError(
            f"{script.name} calls no function under jax.jit; name one as lower: "
            f"{{function: NAME}}; it has: {known}"
        )
    name = function or next(iter(jitted))
    if name not in jitted and not callable(names.get(name)):
        raise LookupError(
            f"{script.name} has no function {name}; under jax.jit it has: "
            f"{', '.join(jitted) or 'none'}"
        )
    if name in jitted:
        chosen = jitted[name]
    else:
        chosen = import_module("jax").jit(names[name])
    if isinstance(chosen, Watched):
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
    """Return what JAX traces for a type such as `4x8xf32`, or for a list (a tuple) or a
    dict of types.
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
        [int(size) for size in dimensions], dtype_of(element)
    )


def dtype_of(element: str) -> Any:
    """Return the type of numpy for an element type of MLIR, as the worker next to this
    script does.
    """
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        return import_module("worker").dtype_of(element)
    finally:
        del sys.path[0], sys.modules["worker"]


def print_portable(module: Any) -> None:
    """Print a module of StableHLO in the oldest version that has its operations."""
    xla, ir = import_module("jaxlib.xla_client"), import_module("jaxlib.mlir.ir")

    def without_sharding(operation: Any) -> Any:
        for name in [
            each.name if hasattr(each, "name") else each
            for each in operation.attributes
        ]:
            if name.startswith("sdy."):
                del operation.attributes[name]
        return ir.WalkResult.ADVANCE

    with module.context:
        module.operation.walk(without_sharding)
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
        print_portable(
            lowered(
                options.script, options.function, options.argument, settings
            ).compiler_ir("stablehlo")
        )
    except LookupError as error:
        sys.stderr.write(f"error: {error.args[0]}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
