"""Print a program's devices and transfers as a Mermaid flowchart, which GitHub and many editors draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest

from triage.compilers.iree.lint.program import LintProgram, entering, is_control_flow, is_tensor, leaving
from triage.mlir import Block, Operation, Value
from triage.mlir.tree import arguments_of

_MOST_OPERATIONS = 400  # of one function; in larger ones, steps are joined
_MOST_NAMES = 3


@dataclass(eq=False, slots=True)
class _Node:
    """Operations on one device with no transfer between them; or arguments, or results."""

    kind: str
    device: str | None
    level: int
    names: Counter[str] = field(default_factory=Counter)
    lines: list[int] = field(default_factory=list)

    @property
    def label(self) -> str:
        count = self.names.total()
        listed = ", ".join(name for name, _ in self.names.most_common(_MOST_NAMES))
        title = f"{count} {self.kind}{'' if count == 1 else 's'}" + (f": {listed}" if self.kind == "operation" else "")
        lines = f"lines {min(self.lines)} to {max(self.lines)}" if self.lines else ""
        return "<br>".join(filter(None, (f"@{self.device}" if self.device else "no device", title, lines)))


@dataclass(eq=False, slots=True)
class _Chart:
    program: LintProgram
    width: int  # operations of one step, when there are more than can be shown
    nodes: dict[tuple[str, str | None, int], _Node] = field(default_factory=dict)
    homes: dict[Value, tuple[_Node, int]] = field(default_factory=dict)  # its node, and the transfers since then
    flows: dict[tuple[_Node, _Node], list[int]] = field(default_factory=dict)  # values and transfers between two nodes
    count: int = 0

    def node(self, kind: str, device: str | None, level: int, name: str, line: int = 0) -> _Node:
        node = self.nodes.setdefault((kind, device, level), _Node(kind, device, level))
        node.names[name] += 1
        node.lines += [line] if line else []
        return node

    def block(self, block: Block) -> None:
        for operation in block.operations[:-1]:
            if is_control_flow(operation):  # drawn as if it ran once
                for index, region in enumerate(operation.regions):
                    self._pass_on(entering(operation, index))
                    for inner in region.blocks:
                        self.block(inner)
                self._pass_on(leaving(operation))
            else:
                self._operation(operation)

    def _pass_on(self, pairs: Iterable[tuple[Value, Value]]) -> None:
        self.homes |= {target: self.homes[source] for source, target in pairs if source in self.homes}

    def _operation(self, operation: Operation) -> None:
        used = [value for value in self.program.uses(operation) if value in self.homes]
        results = [value for value in operation.results if is_tensor(value)]
        if operation.name in self.program.words.transfers and used:
            source, moves = self.homes[used[0]]
            self.homes |= dict.fromkeys(results, (source, moves + 1))
        elif results or used:
            self.count += 1
            device = next((self.program.placed[value] for value in (*results, *used) if value in self.program.placed), None)
            steps = [self.homes[value] for value in used]
            level = max((source.level + (moves > 0 or source.device != device) for source, moves in steps), default=0)
            level = max(0, level) if self.width == 1 else self.count // self.width
            target = self.node("operation", device, level, operation.name, operation.line or 0)
            self.join(used, target)
            self.homes |= dict.fromkeys(results, (target, 0))

    def join(self, values: list[Value], target: _Node) -> None:
        for source, moves in (self.homes[value] for value in values):
            if source is not target:
                flow = self.flows.setdefault((source, target), [0, 0])
                flow[0] += 1
                flow[1] += moves > 0


def mermaid(program: LintProgram) -> str:
    """Return one flowchart with a subgraph for each function."""
    lines = ["flowchart TD"]
    for index, function in enumerate(program.functions):
        lines += [f'  subgraph f{index}["@{function.symbol}"]', *_function(program, function, f"f{index}n"), "  end"]
    return "\n".join(lines) + "\n"


def _function(program: LintProgram, function: Operation, prefix: str) -> list[str]:
    chart = _Chart(program, max(1, sum(1 for _ in function.walk()) // _MOST_OPERATIONS))
    for value, device in zip_longest(arguments_of(function), program.affinities(function, "arg_attrs")):
        if value is not None and is_tensor(value):
            chart.homes[value] = chart.node("argument", device, -1, "argument"), 0
    for block in function.regions[0].blocks:
        chart.block(block)
    returned = function.regions[0].blocks[-1].operations[-1].operands
    for value, device in zip_longest(returned, program.affinities(function, "res_attrs")):
        if value in chart.homes:
            chart.join([value], chart.node("result", device, 1 << 30, "result"))
    names = {each: f"{prefix}{number}" for number, each in enumerate(chart.nodes.values())}
    boxes = [f'    {name}["{each.label}"]' for each, name in names.items()]
    for (source, target), (values, moved) in chart.flows.items():
        text = f"{values} value{'' if values == 1 else 's'}" + (f", {moved} moved" if moved else "")
        boxes.append(f'    {names[source]} {"==>" if moved else "-->"}|"{text}"| {names[target]}')
    return boxes
