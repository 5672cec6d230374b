"""Rewrite the program of a case for one size only."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from triage.execution.engine import Engine
from triage.execution.files import Prepared
from triage.execution.mlir_tools import Reader
from triage.mlir import UnparsableError, parse_module, print_module
from triage.mlir.rewrite import (
    CANONICALIZE,
    return_static_values,
    static_candidates,
)
from triage.model.case import Case, InputKind
from triage.model.revision import Toolchain
from triage.toolchains.home import KeptKind, save_file

_LARGEST = 2 << 20  # bytes of an input; parsing takes seconds for each size


def static_program(
    engine: Engine, case: Case, toolchain: Toolchain
) -> tuple[Path, str] | None:
    """Save the program of a case with static shapes, and say which. Returns None if it
    has no dynamic ones, or the toolchain's tools cannot read it.
    """
    prepared = engine.planner.input_of(case, toolchain)
    if not isinstance(prepared, Prepared) or case.input.kind is InputKind.OTHER:
        return None
    tools = engine.compilers[case.compiler].mlir_tools(toolchain)
    if tools is None or prepared.path.stat().st_size > _LARGEST:
        return None
    reader = Reader(tools, engine.stop)
    try:
        generic = reader.generic_form(prepared.path)
        made = with_static_shapes(reader, generic) if generic else None
    finally:
        reader.close()
    if made is None:
        return None
    text, sizes = made
    folder = engine.registry.home.kept(KeptKind.REMEDIES)
    path = folder / f"{sha256(text.encode()).hexdigest()[:24]}.mlir"
    save_file(path, text, "write a changed input")
    return path, sizes


def with_static_shapes(reader: Reader, generic: str) -> tuple[str, str] | None:
    """Return the first valid program with static shapes, in readable syntax, and
    describe its sizes. `generic` is the program in generic form.
    """
    with suppress(UnparsableError):
        for module, sizes in static_candidates(generic):
            printing = (*CANONICALIZE, "--mlir-print-op-generic")
            text = reader.text_after_passes(print_module(module), printing)
            if text is None:
                continue
            folded = parse_module(text)
            return_static_values(folded)
            readable = reader.text_after_passes(print_module(folded), CANONICALIZE)
            if readable is not None:
                return readable, sizes
    return None
