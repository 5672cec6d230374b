"""Rewrite the program of a case for one size only.

Every unknown dimension of the arguments becomes a number. The toolchain's own
canonicalization propagates it through the program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from triage.execution.engine import Engine
from triage.execution.inputs import Prepared
from triage.execution.mlir_tools import Reader
from triage.mlir import (
    Module,
    Operation,
    UnparsableError,
    Value,
    parse_module,
    print_module,
)
from triage.mlir.tree import (
    CANONICALIZE,
    arguments_of,
    retype,
    symbols,
)
from triage.model.case import Case, InputKind
from triage.model.revision import Toolchain
from triage.toolchains.home import KeptKind, save_file

_LARGEST = 2 << 20  # bytes of an input; parsing takes seconds for each size
_SPLIT_DIMENSION = re.compile(r"\?x(\d{1,18})(?=x)")
_MOST_SPLITS = 12
_CAST = "tensor.cast"
# tried in order: reshapes and divisibility in the program exclude some
_SIZES = (64, 128, 256, 1024)


def static_program(
    engine: Engine, case: Case, toolchain: Toolchain
) -> tuple[Path, str] | None:
    """Save the program of a case with static shapes, and say which. Returns None if it
    has no dynamic ones, or the toolchain's tools cannot read it.
    """
    prepared = engine.inputs.input_of(case, toolchain)
    if not isinstance(prepared, Prepared) or case.input.kind is InputKind.OTHER:
        return None
    tools = engine.compilers[case.compiler].mlir_tools(toolchain)
    if tools is None or prepared.path.stat().st_size > _LARGEST:
        return None
    reader = Reader(tools, engine.stop)
    try:
        generic = reader.generic_form(prepared.path)
        rewritten = with_static_shapes(reader, generic) if generic else None
    finally:
        reader.close()
    if rewritten is None:
        return None
    text, sizes = rewritten
    folder = engine.registry.home.folder(KeptKind.REMEDIES)
    path = folder / f"{sha256(text.encode()).hexdigest()[:24]}.mlir"
    save_file(path, text, "write a changed input")
    return path, sizes


def with_static_shapes(reader: Reader, generic: str) -> tuple[str, str] | None:
    """Make the first valid program with static shapes, in readable syntax, and describe
    its sizes. `generic` is the program in generic form.
    """
    with suppress(UnparsableError):
        for module, sizes in static_candidates(generic):
            text = reader.text_after_passes(print_module(module), CANONICALIZE)
            if text is not None:
                return text, sizes
    return None


def static_candidates(text: str) -> Iterator[tuple[Module, str]]:
    """Yield modules with static shapes of arguments, made from a text in generic form,
    and describe the sizes. Not all are valid programs.

    First, all unknown dimensions get the same size. Then one type of arguments gets a
    multiple of it, because another type may split the same dimension in two.
    """
    what, smallest = "unknown dimensions of the arguments set to", _SIZES[0]
    for size in _SIZES:
        module = parse_module(text)
        if _set_static_arguments(module, size, {}):
            yield module, f"{what} {size}"
    functions = _functions_never_called(parse_module(text))
    types = {value.type for function in functions for value in arguments_of(function)}
    types = {type_ for type_ in types if type_.startswith("tensor<")}
    split = {
        (type_, int(factor))
        for type_ in types
        for other in types - {type_}
        for factor in _SPLIT_DIMENSION.findall(other)
        if "?" in type_
    }
    for type_, factor in sorted(split)[:_MOST_SPLITS]:
        module, size = parse_module(text), smallest * factor
        if _set_static_arguments(module, smallest, {type_: size}):
            yield module, f"{what} {smallest}, of {type_} {size}"


def _set_static_arguments(module: Module, size: int, others: Mapping[str, int]) -> bool:
    """Give arguments static shapes, in place, and cast them to the types that the body
    uses. Return whether any argument changed. `size` is what unknown dimensions become,
    `others` what those of some types become.
    """
    changed = False
    for function in _functions_never_called(module):
        block = function.regions[0].blocks[0]
        casts: list[Operation] = []
        for index, argument in enumerate(block.arguments):
            if not argument.type.startswith("tensor<") or "?" not in argument.type:
                continue
            wanted = str(others.get(argument.type, size))
            static = Value(argument.type.replace("?", wanted), argument.origin)
            block.arguments[index] = static
            # The old value becomes the result of the cast, so that its users stay as
            # they are.
            casts.append(Operation(_CAST, [static], [argument]))
        if casts:
            block.operations[:0] = casts
            retype(function)
            changed = True
    return changed


def _functions_never_called(module: Module) -> list[Operation]:
    """Return the functions that the module does not call, so that their types may
    change.
    """
    called = {
        name
        for operation in module.walk()
        for text in operation.texts()
        for name in symbols(text)
    }
    functions = module.functions()
    return [function for function in functions if function.symbol not in called]
