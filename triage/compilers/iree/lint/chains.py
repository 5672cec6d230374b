"""Lint rule about chains of in-place operations and of transfers.

The longer a chain, the more iterations the affinity solver needs. Only a compile shows how many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from triage.compilers.iree.lint.program import LintProgram, entering, is_control_flow, is_loop, is_tensor, leaving
from triage.compilers.lint import LintFinding, Severity
from triage.mlir import Block, Operation, SourcePosition, Value

_MAX_LENGTH = 32  # the solver's original limit of iterations


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of `length` operations; `end` is the position of the last one."""

    length: int = 0
    end: SourcePosition | None = None


@dataclass(slots=True)
class _ChainWalk:
    """Walks one function.

    Attributes:
        tied: Value -> length of the longest chain of in-place operations to it; a global is known by its name.
        moved: Value -> the largest number of transfers on the way to it.
        longest: The longest chain of in-place operations.
        transfers: Device -> the longest chain of transfers to it.
    """

    program: LintProgram
    tied: dict[Value | str, int] = field(default_factory=dict)
    moved: dict[Value, int] = field(default_factory=dict)
    longest: Chain = Chain()
    transfers: dict[str, Chain] = field(default_factory=dict)

    def block(self, block: Block) -> None:
        for operation in block.operations:
            for index, region in enumerate(operation.regions if is_control_flow(operation) else ()):
                for source, target in entering(operation, index):
                    self._follow(target, source)
                for inner in region.blocks:
                    self.block(inner)
            self._tie(operation)
            self._move(operation)

    def _follow(self, target: Value, source: Value) -> None:
        self.tied[target] = max(self.tied.get(target, 0), self.tied.get(source, 0))
        self.moved[target] = max(self.moved.get(target, 0), self.moved.get(source, 0))

    def _tie(self, operation: Operation) -> None:
        words = self.program.words
        if operation.name in words.stores and operation.operands:
            self.tied[operation.attribute("global") or ""] = self._link(operation, operation.operands[0])
        elif operation.name in words.loads and operation.results:
            self.tied[operation.results[0]] = self.tied.get(operation.attribute("global") or "", 0)
        elif (index := words.updates.get(operation.name)) is not None and operation.results:
            self.tied[operation.results[0]] = self._link(operation, operation.operands[index])
        elif operation.name in words.passes_on:
            for source, target in zip(operation.operands, operation.results, strict=False):
                self.tied[target] = self._link(operation, source)
        for source, target in leaving(operation):
            self._follow(target, source)
            if is_loop(operation) and is_tensor(source):
                self.tied[target] = max(self.tied[target], self._link(operation, source))

    def _link(self, operation: Operation, source: Value) -> int:
        length = self.tied.get(source, 0) + 1
        if length > self.longest.length:
            self.longest = Chain(length, operation.position)
        return length

    def _move(self, operation: Operation) -> None:
        if not self.program.references or is_control_flow(operation):
            return
        count = max((self.moved.get(value, 0) for value in self.program.uses(operation)), default=0)
        if operation.name in self.program.words.transfers and operation.results:
            count += 1
            device = self.program.placed.get(operation.results[0], "")
            if device and count > self.transfers.get(device, Chain()).length:
                self.transfers[device] = Chain(count, operation.position)
        if count:
            self.moved |= dict.fromkeys(operation.results, count)


def chains(program: LintProgram) -> tuple[Chain, Mapping[str, Chain]]:
    """Return the longest chain of in-place operations, and for each device the longest chain of transfers to it."""
    walks = []
    for function in program.functions:
        walk = _ChainWalk(program)
        for block in function.regions[0].blocks:
            walk.block(block)
        walks.append(walk)
    tied = max((walk.longest for walk in walks), key=lambda chain: chain.length, default=Chain())
    moved: dict[str, Chain] = {}
    for walk in walks:
        for device, chain in walk.transfers.items():
            if chain.length > moved.get(device, Chain()).length:
                moved[device] = chain
    return tied, moved


def long_chains(program: LintProgram) -> Iterator[LintFinding]:
    """Report long chains as advice: the shape of a program does not determine the number of iterations."""
    tied, moved = chains(program)
    if tied.length > _MAX_LENGTH:
        text = (
            f"this is the last of {tied.length} in-place operations in a row; the affinity solver walks the whole chain"
            " and gives up after a number of iterations that differs between releases"
        )
        yield LintFinding("long-chain", Severity.ADVICE, text, tied.end)
    for device, chain in moved.items():
        if chain.length > _MAX_LENGTH:
            text = f"this is the last of {chain.length} transfers in a row, on @{device}"
            yield LintFinding("long-chain", Severity.ADVICE, text, chain.end)
