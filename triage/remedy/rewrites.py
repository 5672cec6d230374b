"""Rewrite the input of a case, for failures that no flag fixes. The new program is the
same one or a similar one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256

from triage.compilers.parts import RewriteNames
from triage.compilers.registry import family_of
from triage.execution.engine import Engine
from triage.execution.files import Prepared
from triage.execution.mlir_tools import Reader
from triage.mlir import (
    Module,
    Operation,
    UnparsableError,
    Value,
    parse_module,
    print_module,
)
from triage.mlir.rewrite import (
    CANONICALIZE,
    return_static_values,
    static_candidates,
)
from triage.model.case import Case, InputKind
from triage.model.revision import Toolchain
from triage.remedy.candidates import CaseChange
from triage.toolchains.home import KeptKind, save_file

# Bytes of an input; parsing takes seconds for each rewrite.
_LARGEST = {"static": 2 << 20}
_LARGEST_OTHERS = 16 << 20
_CAVEATS = {"static": "It is the program for one size only."}


def add_barriers(module: Module, barrier: str, transfers: Collection[str]) -> bool:
    """Add a barrier operation for the first operand of each transfer, unless a barrier
    computes it already. Return whether one was added.
    """
    guarded = {
        value
        for operation in module.walk()
        if operation.name == barrier
        for value in operation.results
    }
    changed = False
    for block in module.blocks():
        operations: list[Operation] = []
        for operation in block.operations:
            if (
                operation.name in transfers
                and operation.operands
                and operation.operands[0] not in guarded
            ):
                value = Value(operation.operands[0].type)
                operations.append(Operation(barrier, [operation.operands[0]], [value]))
                operation.operands[0] = value
                changed = True
            operations.append(operation)
        block.operations = operations
    return changed


def _candidates(
    rewrite: str, text: str, names: RewriteNames | None
) -> Iterator[tuple[Module, str]]:
    """Yield changed modules, the best first, and describe how each is changed. `text`
    is the program in generic form.
    """
    if rewrite == "static":
        yield from static_candidates(text)
        return
    module = parse_module(text)
    if (
        rewrite == "barriers"
        and names
        and add_barriers(module, names.barrier, names.transfers)
    ):
        transfers = " and ".join(sorted(names.transfers))
        yield module, f"{names.barrier} before each {transfers}"


def rewritten_inputs(
    engine: Engine, case: Case, toolchain: Toolchain, rewrites: Collection[str]
) -> Mapping[str, CaseChange]:
    """Rewrite an input in each of the named ways, and save the valid programs. Return
    the changes by the name of the rewrite.

    Returns an empty result if the toolchain's tools cannot read the input.
    """
    prepared = engine.planner.input_of(case, toolchain)
    is_other = case.input.kind is InputKind.OTHER
    if not isinstance(prepared, Prepared) or is_other:
        return {}
    tools = engine.compilers[case.compiler].mlir_tools(toolchain)
    if tools is None:
        return {}
    size, hints = prepared.path.stat().st_size, family_of(case).remedies
    chosen = [
        rewrite
        for rewrite in sorted(rewrites)
        if size <= _LARGEST.get(rewrite, _LARGEST_OTHERS)
    ]
    if not chosen:
        return {}
    found = {}
    names = hints.rewrite_names if hints else None
    reader = Reader(tools, engine.stop)
    try:
        if chosen:
            generic = reader.generic_form(prepared.path)
        else:
            generic = None
        for rewrite in chosen if generic else ():
            result = rewritten(reader, generic or "", rewrite, names)
            if result:
                text, change = result
                folder = engine.registry.home.kept(KeptKind.REMEDIES)
                path = folder / f"{sha256(text.encode()).hexdigest()[:24]}.mlir"
                save_file(path, text, "write a changed input")
                found[rewrite] = CaseChange(
                    program=path, rewrite=change, caveat=_CAVEATS.get(rewrite, "")
                )
    finally:
        reader.close()
    return found


def rewritten(
    reader: Reader, generic: str, rewrite: str, names: RewriteNames | None = None
) -> tuple[str, str] | None:
    """Return the first changed program that is valid, in readable syntax, and describe
    the change. Returns None if there is none.
    """
    passes: tuple[str, ...] = ()
    if rewrite == "static":
        passes = CANONICALIZE
    with suppress(UnparsableError):
        for module, change in _candidates(rewrite, generic, names):
            text: str | None = print_module(module)
            if passes and text:
                printing = (*passes, "--mlir-print-op-generic")
                text = reader.text_after_passes(text, printing)
                if text:
                    folded = parse_module(text)
                    return_static_values(folded)
                    text = print_module(folded)
            if text:
                pretty = reader.text_after_passes(text, passes)
                if pretty is not None:
                    return pretty, change
    return None
