"""Chains: values that go from operation to operation in place, and from device to device. The longer they are, the more
iterations the analysis of devices needs; how many exactly, only a compile tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from triage.lint.finding import LintFinding, LintRule, Severity
from triage.lint.flow import entering, is_tensor, leaving, loops
from triage.lint.program import Program
from triage.mlir import Block, Operation, SourcePosition, Value

TIED = 32  # the iterations that the analysis was allowed at first
MOVED = 32


@dataclass(frozen=True, slots=True)
class Chain:
    """length: links; end: where the last one is."""

    length: int
    end: SourcePosition | None


@dataclass(slots=True)
class _Walk:
    """tied, moved: links on the longest way to a value; a global's value is known by the global's name."""

    program: Program
    tied: dict[Value | str, int] = field(default_factory=dict)
    moved: dict[Value, int] = field(default_factory=dict)
    longest: Chain = Chain(0, None)
    transfers: dict[str, Chain] = field(default_factory=dict)

    def block(self, block: Block) -> None:
        for one in block.operations:
            for index, region in enumerate(one.regions if one.name.startswith("scf.") else ()):
                for source, target in entering(one, index):
                    self._follow(target, source)
                for inner in region.blocks:
                    self.block(inner)
            self._tie(one)
            self._move(one)

    def _follow(self, target: Value, source: Value) -> None:
        self.tied[target] = max(self.tied.get(target, 0), self.tied.get(source, 0))
        self.moved[target] = max(self.moved.get(target, 0), self.moved.get(source, 0))

    def _tie(self, one: Operation) -> None:
        words = self.program.placement.words
        if one.name in words.stores and one.operands:
            self.tied[one.attribute("global") or ""] = self._link(one, one.operands[0])
        elif one.name in words.loads and one.results:
            self.tied[one.results[0]] = self.tied.get(one.attribute("global") or "", 0)
        elif (place := words.updates.get(one.name)) is not None and one.results:
            self.tied[one.results[0]] = self._link(one, one.operands[place])
        elif one.name in words.passes_on:
            for source, target in zip(one.operands, one.results, strict=False):
                self.tied[target] = self._link(one, source)
        for source, target in leaving(one):
            self._follow(target, source)
            if loops(one) and is_tensor(source):
                self.tied[target] = max(self.tied[target], self._link(one, source))

    def _link(self, one: Operation, source: Value) -> int:
        length = self.tied.get(source, 0) + 1
        if length > self.longest.length:
            self.longest = Chain(length, one.place)
        return length

    def _move(self, one: Operation) -> None:
        if not self.program.references or one.name.startswith("scf."):
            return
        most = max((self.moved.get(value, 0) for value in self.program.uses(one)), default=0)
        if one.name in self.program.placement.words.moves and one.results:
            most += 1
            device = self.program.on.get(one.results[0], "")
            if device and most > self.transfers.get(device, Chain(0, None)).length:
                self.transfers[device] = Chain(most, one.place)
        if most:
            self.moved |= dict.fromkeys(one.results, most)


def chains(program: Program) -> tuple[Chain, Mapping[str, Chain]]:
    """The longest chain of tied operations of all functions, and for each device the longest chain of transfers to it."""
    walks = []
    for function in program.functions:
        walk = _Walk(program)
        for block in function.regions[0].blocks:
            walk.block(block)
        walks.append(walk)
    tied = max((walk.longest for walk in walks), key=lambda one: one.length, default=Chain(0, None))
    moved: dict[str, Chain] = {}
    for walk in walks:
        for device, chain in walk.transfers.items():
            if chain.length > moved.get(device, Chain(0, None)).length:
                moved[device] = chain
    return tied, moved


def long(program: Program) -> Iterator[LintFinding]:
    """Advice only: a program's shape alone does not tell how many iterations its analysis takes."""
    tied, moved = chains(program)
    if tied.length > TIED:
        text = (
            f"{tied.length} operations in a row hand a tensor on in place, and this is the last; analyses of devices and of"
            " usage walk such a chain from end to end, and give up after a number of iterations that differs between releases"
        )
        yield LintFinding("long-chain", Severity.ADVICE, text, tied.end)
    for device, chain in moved.items():
        if chain.length > MOVED:
            text = f"{chain.length} transfers lie one behind the other up to here, on @{device}"
            yield LintFinding("long-chain", Severity.ADVICE, text, chain.end)


RULES = (LintRule("long-chain", Severity.ADVICE, "More than 32 tied operations, or transfers, one behind the other.", long),)
