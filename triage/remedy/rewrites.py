"""Rewritten inputs: the same program, or one like it, for failures that no flag fixes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

from triage.compilers.base import mlir_tools
from triage.compilers.parts import RewriteNames
from triage.compilers.registry import family_of
from triage.execution.engine import Engine
from triage.execution.files import Prepared
from triage.execution.mlir_tools import Reader
from triage.mlir import Module, Operation, UnparsableError, Value, parse_module, print_module
from triage.mlir.rewrite import CANONICALIZE, CONVERTIBLE, WIDE, fix_results, float_types, static_candidates, widen_floats
from triage.mlir.tree import array_elements, entries, entries_text, function_types
from triage.model.case import Case, InputKind
from triage.model.revision import Toolchain
from triage.remedy.change import RewrittenInput
from triage.toolchains.home import disk_errors, write_whole

_SIDES = {"arg_attrs": 0, "res_attrs": 1}


def add_barriers(module: Module, barrier: str, transfers: Collection[str]) -> bool:
    """Put a `barrier` operation before the first operand of each transfer that has none; return whether any was added."""
    guarded = {value for operation in module.walk() if operation.name == barrier for value in operation.results}
    changed = False
    for block in module.blocks():
        operations: list[Operation] = []
        for operation in block.operations:
            if operation.name in transfers and operation.operands and operation.operands[0] not in guarded:
                value = Value(operation.operands[0].type)
                operations.append(Operation(barrier, [operation.operands[0]], [value]))
                operation.operands[0] = value
                changed = True
            operations.append(operation)
        block.operations = operations
    return changed


def add_affinities(module: Module, attribute: str) -> bool:
    """Copy a function's first affinity to its tensor arguments and results that have none.

    `attribute` is the argument and result attribute that holds an affinity. Returns whether anything changed.
    """
    changed = False
    for function in module.functions():
        types = function_types(function)
        known = [entries(text[1:-1]) for side in _SIDES for text in array_elements(function.inherent.get(side))]
        first = next((named[attribute] for named in known if attribute in named), None)
        if first is None or types is None:
            continue
        for side, index in _SIDES.items():
            named = [entries(text[1:-1]) for text in array_elements(function.inherent.get(side))] or [{} for _ in types[index]]
            for type_, attributes in zip(types[index], named, strict=True):
                if type_.startswith("tensor<") and attribute not in attributes:
                    attributes[attribute] = first
                    changed = True
            if any(named):
                function.inherent[side] = f"[{', '.join(f'{{{entries_text(attributes)}}}' for attributes in named)}]"
    return changed


_LARGEST = 16 << 20  # bytes; parsing takes seconds for each rewrite
_LARGEST_STATIC = 2 << 20


@dataclass(frozen=True, slots=True)
class InputRewrite:
    """A way to rewrite an input.

    Attributes:
        variants: Yields changed modules with a description of the change, from the generic form. The first valid one is used.
        caveat: How the meaning differs; empty if it does not.
        largest: Size limit of the input in bytes.
        passes: Passes that the toolchain's optimizer runs. The results of functions follow the static shapes that they find.
    """

    variants: Callable[[str], Iterator[tuple[Module, str]]]
    caveat: str = ""
    largest: int = _LARGEST
    passes: tuple[str, ...] = ()


def rewrites_for(names: RewriteNames | None) -> dict[str, InputRewrite]:
    """Return the available rewrites by the name that rules use; barriers and affinities need a family's names."""
    rewrites = {
        "static": InputRewrite(static_candidates, "It is the program for one size only.", _LARGEST_STATIC, CANONICALIZE),
        "dtype": InputRewrite(_wider, "It computes and stores other types."),
    }
    if names is not None:
        rewrites["barriers"] = InputRewrite(lambda text: _with_barriers(text, names))
        rewrites["affinities"] = InputRewrite(lambda text: _with_affinities(text, names))
    return rewrites


def _wider(text: str) -> Iterator[tuple[Module, str]]:
    module = parse_module(text)
    types = [name for name in float_types(module) if name in CONVERTIBLE]
    if widen_floats(module, types):
        yield module, f"{WIDE} in the place of {' and '.join(types)}"


def _with_barriers(text: str, names: RewriteNames) -> Iterator[tuple[Module, str]]:
    module = parse_module(text)
    if add_barriers(module, names.barrier, names.transfers):
        yield module, f"{names.barrier} before each {' and '.join(sorted(names.transfers))}"


def _with_affinities(text: str, names: RewriteNames) -> Iterator[tuple[Module, str]]:
    module = parse_module(text)
    if add_affinities(module, names.affinity):
        yield module, f"{names.affinity} on every tensor argument and result"


def rewritten_inputs(runner: Engine, case: Case, toolchain: Toolchain, names: Collection[str]) -> Mapping[str, RewrittenInput]:
    """Rewrite an input with each of the named rewrites that change something and give a valid program.

    Files are stored by content. The result is empty if the toolchain's tools cannot read the input.
    """
    prepared = runner.planner.input_of(case, toolchain)
    if not names or not isinstance(prepared, Prepared) or case.input.kind is InputKind.OTHER:
        return {}
    tools = mlir_tools(runner.compilers[case.compiler], toolchain)
    if tools is None:
        return {}
    size = prepared.path.stat().st_size
    hints = family_of(case).remedies
    known = rewrites_for(hints.names if hints else None)
    chosen = {name: known[name] for name in names if name in known and size <= known[name].largest}
    reader = Reader(tools, runner.stop)
    try:
        generic = reader.generic(prepared.path) if chosen else None
        results = {name: rewrite(reader, generic, chosen[name]) for name in chosen} if generic else {}
    finally:
        reader.close()
    found = {}
    for name, result in results.items():
        if result is not None:
            text, change = result
            path = runner.registry.home / "remedies" / f"{sha256(text.encode()).hexdigest()[:24]}.mlir"
            with disk_errors("write a changed input"):
                write_whole(path, text)
            found[name] = RewrittenInput(path, change, chosen[name].caveat)
    return found


def rewrite(reader: Reader, generic: str, wanted: InputRewrite) -> tuple[str, str] | None:
    """Return the first valid variant in readable syntax and a description of the change; None if there is none."""
    try:
        for module, change in wanted.variants(generic):
            if (text := _with_passes(reader, print_module(module), wanted)) is not None:
                return text, change
    except UnparsableError:
        pass
    return None


def _with_passes(reader: Reader, text: str, wanted: InputRewrite) -> str | None:
    """Run the passes, and return the module in readable syntax; None if it is invalid."""
    if wanted.passes:
        after = reader.transformed(text, (*wanted.passes, "--mlir-print-op-generic"))
        if after is None:
            return None
        module = parse_module(after)
        fix_results(module)
        text = print_module(module)
    return reader.transformed(text, wanted.passes)
