"""The same program written in another way, for failures that no flag mends. No dialect is known here but a few names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from triage.mlir import Block, Module, Operation, UnparsableError, Value, parse_module, print_module
from triage.mlir.scan import entries, split
from triage.model.case import Case, InputKind
from triage.model.revision import Toolchain
from triage.probe.inputs import Prepared
from triage.probe.reading import Reader
from triage.probe.workbench import Workbench
from triage.toolchains.home import disk_errors, write_whole

_LARGEST = 16 << 20  # bytes of an input that is rewritten; reading takes seconds for each of these
_AFFINITY = "iree.abi.affinity"
_BARRIER = "util.optimization_barrier"
_SIDES = {"arg_attrs": 0, "res_attrs": 1}


@dataclass(frozen=True, slots=True)
class Rewriting:
    """what: the change in words; apply: makes it, and says whether there was anything to change."""

    what: str
    apply: Callable[[Module], bool]


def add_barriers(module: Module) -> bool:
    """Puts `util.optimization_barrier` before each transfer between devices."""
    made: set[Value] = {value for one in module.walk() if one.name == _BARRIER for value in one.results}
    changed = False
    for block in _blocks(module):
        operations: list[Operation] = []
        for one in block.operations:
            if one.name == "flow.tensor.transfer" and one.operands and one.operands[0] not in made:
                barrier = Operation(_BARRIER, [one.operands[0]], [Value(one.operands[0].type)])
                operations.append(barrier)
                one.operands[0] = barrier.results[0]
                changed = True
            operations.append(one)
        block.operations = operations
    return changed


def add_affinities(module: Module) -> bool:
    """Gives each tensor argument and result of a function that has affinities the first of them, where it has none."""
    changed = False
    for function in module.functions():
        kinds = function.properties if "function_type" in function.properties else function.attributes
        sides = _sides(function.attribute("function_type") or "")
        known = [entries(text[1:-1]) for side in _SIDES for text in _listed(kinds.get(side, "[]"))]
        first = next((one[_AFFINITY] for one in known if _AFFINITY in one), None)
        if first is None or sides is None:
            continue
        for side, number in _SIDES.items():
            types = sides[number]
            attributes = [entries(text[1:-1]) for text in _listed(kinds.get(side, "[]"))] or [{} for _ in types]
            for type_, attribute in zip(types, attributes, strict=True):
                if type_.startswith("tensor<") and _AFFINITY not in attribute:
                    attribute[_AFFINITY] = first
                    changed = True
            if any(attributes):
                kinds[side] = f"[{', '.join(map(_dictionary, attributes))}]"
    return changed


REWRITINGS: Mapping[str, Rewriting] = {
    "barriers": Rewriting(f"{_BARRIER} before each flow.tensor.transfer", add_barriers),
    "affinities": Rewriting(f"{_AFFINITY} on every tensor argument and result", add_affinities),
}


def rewritten(bench: Workbench, case: Case, toolchain: Toolchain, names: Collection[str]) -> dict[str, Path]:
    """A file for each rewriting that changes something, kept by content; none where the toolchain's tools cannot read the
    input.
    """
    prepared, tools = bench.prober.input_of(case), bench.prober.mlir_tools(case, toolchain)
    if not names or tools is None or not isinstance(prepared, Prepared) or prepared.path.stat().st_size > _LARGEST:
        return {}
    if case.input.kind is InputKind.OTHER:
        return {}
    reader = Reader(tools, bench.stop)
    try:
        generic = reader.generic(prepared.path)
        made = {name: _made(reader, generic, REWRITINGS[name]) for name in names} if generic else {}
    finally:
        reader.close()
    found = {}
    for name, text in made.items():
        if text is not None:
            found[name] = bench.shed.home / "remedies" / f"{sha256(text.encode()).hexdigest()[:24]}.mlir"
            with disk_errors("write a changed input"):
                write_whole(found[name], text)
    return found


def _made(reader: Reader, generic: str, rewriting: Rewriting) -> str | None:
    try:
        module = parse_module(generic)
    except UnparsableError:
        return None
    return reader.pretty(print_module(module)) if rewriting.apply(module) else None


def _blocks(module: Module) -> list[Block]:
    regions = [region for one in (module.root, *module.walk()) for region in one.regions]
    return [block for region in regions for block in region.blocks]


def _sides(function_type: str) -> tuple[list[str], list[str]] | None:
    """The types before and after the arrow of `(…) -> …`; None where it is written in another way."""
    before, arrow, after = function_type.partition(") -> ")
    if not arrow or not before.startswith("("):
        return None
    return split(before[1:]), split(after[1:-1] if after.startswith("(") else after)


def _listed(text: str) -> list[str]:
    return split(text.strip()[1:-1])


def _dictionary(attribute: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{name} = {value}' if value else name for name, value in attribute.items())}}}"
