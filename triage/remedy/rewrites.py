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
from triage.remedy.change import CaseChange
from triage.toolchains.home import disk_errors, write_whole

_LARGEST = 16 << 20  # bytes; parsing takes seconds for each rewrite
_LARGEST_STATIC = 2 << 20


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
        named = {
            name: [entries(text[1:-1]) for text in array_elements(function.inherent.get(name))]
            for name in ("arg_attrs", "res_attrs")
        }
        first = next((each[attribute] for some in named.values() for each in some if attribute in each), None)
        if first is None or types is None:
            continue
        for (name, some), values in zip(named.items(), types, strict=True):
            some = some or [{} for _ in values]
            for type_, each in zip(values, some, strict=True):
                if type_.startswith("tensor<") and attribute not in each:
                    each[attribute] = first
                    changed = True
            if any(some):
                function.inherent[name] = f"[{', '.join(f'{{{entries_text(each)}}}' for each in some)}]"
    return changed


@dataclass(frozen=True, slots=True)
class InputRewrite:
    """A way to rewrite an input."""

    variants: Callable[[str], Iterator[tuple[Module, str]]]
    """Yields changed modules with a description of the change, from the generic form. The first valid one is used."""
    caveat: str = ""
    """How the meaning differs, if it does."""
    largest: int = _LARGEST
    """Size limit of the input in bytes."""
    passes: tuple[str, ...] = ()
    """Passes that the toolchain's optimizer runs. The results of functions follow the static shapes that they find."""


def rewrites_for(names: RewriteNames | None) -> dict[str, InputRewrite]:
    """Return the available rewrites by the name that rules use; barriers and affinities need a family's names."""

    def wider(text: str) -> Iterator[tuple[Module, str]]:
        module = parse_module(text)
        types = [name for name in float_types(module) if name in CONVERTIBLE]
        if widen_floats(module, types):
            yield module, f"{WIDE} in the place of {' and '.join(types)}"

    def with_barriers(text: str, names: RewriteNames) -> Iterator[tuple[Module, str]]:
        module = parse_module(text)
        if add_barriers(module, names.barrier, names.transfers):
            yield module, f"{names.barrier} before each {' and '.join(sorted(names.transfers))}"

    def with_affinities(text: str, names: RewriteNames) -> Iterator[tuple[Module, str]]:
        module = parse_module(text)
        if add_affinities(module, names.affinity):
            yield module, f"{names.affinity} on every tensor argument and result"

    rewrites = {
        "static": InputRewrite(static_candidates, "It is the program for one size only.", _LARGEST_STATIC, CANONICALIZE),
        "dtype": InputRewrite(wider, "It computes and stores other types."),
    }
    if names is not None:
        rewrites["barriers"] = InputRewrite(lambda text: with_barriers(text, names))
        rewrites["affinities"] = InputRewrite(lambda text: with_affinities(text, names))
    return rewrites


def rewritten_inputs(runner: Engine, case: Case, toolchain: Toolchain, names: Collection[str]) -> Mapping[str, CaseChange]:
    """Rewrite an input with each of the named rewrites that change something and give a valid program.

    Files are stored by content. The result is empty if the toolchain's tools cannot read the input.
    """
    prepared = runner.planner.input_of(case, toolchain)
    if not names or not isinstance(prepared, Prepared) or case.input.kind is InputKind.OTHER:
        return {}
    tools = mlir_tools(runner.compilers[case.compiler], toolchain)
    if tools is None:
        return {}
    size, hints = prepared.path.stat().st_size, family_of(case).remedies
    known = rewrites_for(hints.names if hints else None)
    chosen = {name: known[name] for name in names if name in known and size <= known[name].largest}
    found = {}
    reader = Reader(tools, runner.stop)
    try:
        generic = reader.generic(prepared.path) if chosen else None
        for name, wanted in chosen.items() if generic else ():
            if result := rewrite(reader, generic or "", wanted):
                text, change = result
                path = runner.registry.home / "remedies" / f"{sha256(text.encode()).hexdigest()[:24]}.mlir"
                with disk_errors("write a changed input"):
                    write_whole(path, text)
                found[name] = CaseChange(program=path, rewrite=change, caveat=wanted.caveat)
    finally:
        reader.close()
    return found


def rewrite(reader: Reader, generic: str, wanted: InputRewrite) -> tuple[str, str] | None:
    """Return the first valid variant in readable syntax and a description of the change, if there is one."""
    try:
        for module, change in wanted.variants(generic):
            text: str | None = print_module(module)
            if wanted.passes and text:
                text = reader.transformed(text, (*wanted.passes, "--mlir-print-op-generic"))
                if text is not None:
                    fix_results(folded := parse_module(text))
                    text = print_module(folded)
            if text and (pretty := reader.transformed(text, wanted.passes)) is not None:
                return pretty, change
    except UnparsableError:
        pass
    return None
