"""Print a program's devices and transfers as a Mermaid flowchart, which GitHub and many editors draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from triage.compilers.iree.lint.program import LintProgram, is_control_flow, is_tensor, steps_of
from triage.mlir import Operation, Value

_MOST_OPERATIONS = 400  # of one function; in larger ones, steps are joined


@dataclass(eq=False, slots=True)
class _Box:
    """Operations on one device with no transfer between them; or arguments, or results."""

    kind: str
    device: str | None
    level: int
    names: Counter[str] = field(default_factory=Counter)
    lines: list[int] = field(default_factory=list)

    @property
    def label(self) -> str:
        count = self.names.total()
        listed = ", ".join(name for name, _ in self.names.most_common(3))
        title = f"{count} {self.kind}{'' if count == 1 else 's'}" + (f": {listed}" if self.kind == "operation" else "")
        lines = f"lines {min(self.lines)} to {max(self.lines)}" if self.lines else ""
        return "<br>".join(filter(None, (f"@{self.device}" if self.device else "no device", title, lines)))


class _Chart:
    """The boxes of one function, and the arrows between them."""

    def __init__(self) -> None:
        self.boxes: dict[tuple[str, str | None, int], _Box] = {}
        self.homes: dict[Value, tuple[_Box, int]] = {}
        """The box of each value, and the transfers since then."""
        self.arrows: dict[tuple[_Box, _Box], list[int]] = {}
        """Values between two boxes, and those of them that were moved."""

    def box(self, kind: str, device: str | None, level: int, name: str, values: Sequence[Value]) -> _Box:
        """The box for a name, with an arrow for each value that it uses."""
        target = self.boxes.setdefault((kind, device, level), _Box(kind, device, level))
        target.names[name] += 1
        for source, moves in (self.homes[value] for value in values):
            if source is not target:
                arrow = self.arrows.setdefault((source, target), [0, 0])
                arrow[0] += 1
                arrow[1] += moves > 0
        return target

    def add(self, operation: Operation, program: LintProgram, level: int | None) -> None:
        used = [value for value in program.uses(operation) if value in self.homes]
        results = [value for value in operation.results if is_tensor(value)]
        if operation.name in program.words.transfers and used:
            source, moves = self.homes[used[0]]
            self.homes |= dict.fromkeys(results, (source, moves + 1))
        elif results or used:
            device = next((program.placed[value] for value in (*results, *used) if value in program.placed), None)
            before = [box.level + (moves > 0 or box.device != device) for box, moves in (self.homes[value] for value in used)]
            target = self.box("operation", device, max([0, *before]) if level is None else level, operation.name, used)
            target.lines += [operation.line] if operation.line else []
            self.homes |= dict.fromkeys(results, (target, 0))


def mermaid(program: LintProgram) -> str:
    """Return one flowchart with a subgraph for each function. Control flow is drawn as if it ran once."""
    lines = ["flowchart TD"]
    for index, function in enumerate(program.functions):
        lines += [f'  subgraph f{index}["@{function.symbol}"]', *_function(program, function, f"f{index}n"), "  end"]
    return "\n".join(lines) + "\n"


def _function(program: LintProgram, function: Operation, prefix: str) -> list[str]:
    chart, end = _Chart(), function.regions[0].blocks[-1].operations[-1]
    width = sum(1 for _ in function.walk()) // _MOST_OPERATIONS  # operations of one level, in a large function
    ports = program.ports.get(function, ())
    for port in ports:
        if port.kind == "argument" and is_tensor(port.value):
            chart.homes[port.value] = chart.box("argument", port.device, -1, "argument", []), 0
    for number, (operation, pairs) in enumerate(steps_of(function.regions[0])):
        chart.homes |= {target: chart.homes[source] for source, target in pairs if source in chart.homes}
        if operation is not None and operation is not end and not is_control_flow(operation):
            chart.add(operation, program, number // width if width > 1 else None)
    for port in ports:
        if port.kind == "result" and port.value in chart.homes:
            chart.box("result", port.device, 1 << 30, "result", [port.value])
    names = {box: f"{prefix}{number}" for number, box in enumerate(chart.boxes.values())}
    lines = [f'    {name}["{box.label}"]' for box, name in names.items()]
    for (source, target), (values, moved) in chart.arrows.items():
        text = f"{values} value{'' if values == 1 else 's'}" + (f", {moved} moved" if moved else "")
        lines.append(f'    {names[source]} {"==>" if moved else "-->"}|"{text}"| {names[target]}')
    return lines
