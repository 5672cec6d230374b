"""The same program written in another way, for failures that no flag mends. No dialect is known here but a few names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from triage.execution.inputs import Prepared
from triage.execution.mlir_tools import Reader
from triage.execution.runner import ProbeRunner
from triage.mlir import Block, Module, Operation, UnparsableError, Value, parse_module, print_module
from triage.mlir.tree import entries, split
from triage.model.case import Case, InputKind
from triage.model.revision import Toolchain
from triage.remedy.dtype import widen
from triage.remedy.signature import sides_of
from triage.remedy.static import PROPAGATED, settle, static_twins
from triage.toolchains.home import disk_errors, write_whole

_ROUNDS = 4  # of passes
_AFFINITY = "iree.abi.affinity"
_BARRIER = "util.optimization_barrier"
_SIDES = {"arg_attrs": 0, "res_attrs": 1}


@dataclass(frozen=True, slots=True)
class Rewriting:
    """tries: the changed program, and in words what was changed, from the generic form; of several the first valid one
    counts, and there is none where there was nothing to change. passes: what the toolchain's tools run on the program
    afterwards, `settle` what is done then. another: what the changed program is, where it does not mean the same; empty where
    it does. largest: bytes of an input that it is made for; reading one takes seconds for each of these.
    """

    tries: Callable[[str], Iterator[tuple[Module, str]]]
    another: str = ""
    passes: tuple[str, ...] = ()
    largest: int = 16 << 20
    settle: Callable[[Module], bool] | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A changed program and what was changed, in words. another: as in `Rewriting`."""

    path: Path
    what: str
    another: str = ""


def add_barriers(module: Module) -> str:
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
    return f"{_BARRIER} before each flow.tensor.transfer" if changed else ""


def add_affinities(module: Module) -> str:
    """Gives each tensor argument and result of a function that has affinities the first of them, where it has none."""
    changed = False
    for function in module.functions():
        kinds = function.properties if "function_type" in function.properties else function.attributes
        sides = sides_of(function)
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
    return f"{_AFFINITY} on every tensor argument and result" if changed else ""


def _once(apply: Callable[[Module], str]) -> Callable[[str], Iterator[tuple[Module, str]]]:
    def tries(text: str) -> Iterator[tuple[Module, str]]:
        module = parse_module(text)
        if what := apply(module):
            yield module, what

    return tries


REWRITINGS: Mapping[str, Rewriting] = {
    "barriers": Rewriting(_once(add_barriers)),
    "affinities": Rewriting(_once(add_affinities)),
    "static": Rewriting(
        static_twins, another="It is the program for one size only.", passes=PROPAGATED, largest=2 << 20, settle=settle
    ),
    "dtype": Rewriting(_once(widen), another="It computes and stores other types."),
}


def rewritten(bench: ProbeRunner, case: Case, toolchain: Toolchain, names: Collection[str]) -> dict[str, Written]:
    """What each rewriting that changes something makes of the input, kept by content; nothing where the toolchain's tools
    cannot read the input.
    """
    prepared, tools = bench.prober.input_of(case), bench.prober.mlir_tools(case, toolchain)
    if not names or tools is None or not isinstance(prepared, Prepared) or case.input.kind is InputKind.OTHER:
        return {}
    size = prepared.path.stat().st_size
    names = [name for name in names if size <= REWRITINGS[name].largest]
    reader = Reader(tools, bench.stop)
    try:
        generic = reader.generic(prepared.path) if names else None
        made = {name: rewrite(reader, generic, REWRITINGS[name]) for name in names} if generic else {}
    finally:
        reader.close()
    found = {}
    for name, (text, what) in made.items():
        if text is not None:
            path = bench.shed.home / "remedies" / f"{sha256(text.encode()).hexdigest()[:24]}.mlir"
            with disk_errors("write a changed input"):
                write_whole(path, text)
            found[name] = Written(path, what, REWRITINGS[name].another)
    return found


def rewrite(reader: Reader, generic: str, rewriting: Rewriting) -> tuple[str | None, str]:
    """A valid program in the syntax people write, and what was changed; None where there is none."""
    try:
        for module, what in rewriting.tries(generic):
            if (text := _finished(reader, print_module(module), rewriting)) is not None:
                return text, what
    except UnparsableError:
        pass
    return None, ""


def _finished(reader: Reader, text: str, rewriting: Rewriting) -> str | None:
    """The text after the rewriting's passes, again while its `settle` finds something for them; None where it is not valid."""
    for _ in range(_ROUNDS if rewriting.passes else 0):
        after = reader.transformed(text, (*rewriting.passes, "--mlir-print-op-generic"))
        if after is None or rewriting.settle is None:
            return after and reader.pretty(after)
        more = rewriting.settle(module := parse_module(after))
        text = print_module(module)
        if not more:
            break
    return reader.pretty(text)


def _blocks(module: Module) -> list[Block]:
    regions = [region for one in (module.root, *module.walk()) for region in one.regions]
    return [block for region in regions for block in region.blocks]


def _listed(text: str) -> list[str]:
    return split(text.strip()[1:-1])


def _dictionary(attribute: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{name} = {value}' if value else name for name, value in attribute.items())}}}"
