"""Print a program's devices and transfers as a Mermaid flowchart, which GitHub and many editors draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from triage.compilers.iree.lint.program import LintProgram, is_control_flow, is_tensor, returned_by, steps_of
from triage.mlir import Operation, Value
from triage.mlir.tree import arguments_of

_MOST_OPERATIONS = 400  # of one function; in larger ones, steps are joined
_MOST_NAMES = 3


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
        listed = ", ".join(name for name, _ in self.names.most_common(_MOST_NAMES))
        title = f"{count} {self.kind}{'' if count == 1 else 's'}" + (f": {listed}" if self.kind == "operation" else "")
        lines = f"lines {min(self.lines)} to {max(self.lines)}" if self.lines else ""
        return "<br>".join(filter(None, (f"@{self.device}" if self.device else "no device", title, lines)))


def mermaid(program: LintProgram) -> str:
    """Return one flowchart with a subgraph for each function. Control flow is drawn as if it ran once."""
    lines = ["flowchart TD"]
    for index, function in enumerate(program.functions):
        lines += [f'  subgraph f{index}["@{function.symbol}"]', *_function(program, function, f"f{index}n"), "  end"]
    return "\n".join(lines) + "\n"


def _function(program: LintProgram, function: Operation, prefix: str) -> list[str]:
    width = max(1, sum(1 for _ in function.walk()) // _MOST_OPERATIONS)  # operations of one level
    boxes: dict[tuple[str, str | None, int], _Box] = {}
    homes: dict[Value, tuple[_Box, int]] = {}  # the box of a value, and the transfers since then
    arrows: dict[tuple[_Box, _Box], list[int]] = {}  # values, and those that were moved

    def box_for(kind: str, device: str | None, level: int, name: str) -> _Box:
        box = boxes.setdefault((kind, device, level), _Box(kind, device, level))
        box.names[name] += 1
        return box

    def connect(values: Sequence[Value], target: _Box) -> None:
        for source, moves in (homes[value] for value in values):
            if source is not target:
                arrow = arrows.setdefault((source, target), [0, 0])
                arrow[0] += 1
                arrow[1] += moves > 0

    for value, device in zip_longest(arguments_of(function), program.affinities(function, "arg_attrs")):
        if value is not None and is_tensor(value):
            homes[value] = box_for("argument", device, -1, "argument"), 0
    for number, (operation, pairs) in enumerate(steps_of(function)):
        homes |= {target: homes[source] for source, target in pairs if source in homes}
        if operation is None or is_control_flow(operation) or operation is returned_by(function):
            continue
        used = [value for value in program.uses(operation) if value in homes]
        results = [value for value in operation.results if is_tensor(value)]
        if operation.name in program.words.transfers and used:
            source, moves = homes[used[0]]
            homes |= dict.fromkeys(results, (source, moves + 1))
        elif results or used:
            device = next((program.placed[value] for value in (*results, *used) if value in program.placed), None)
            before = [box.level + (moves > 0 or box.device != device) for box, moves in (homes[value] for value in used)]
            level = max([0, *before]) if width == 1 else number // width
            target = box_for("operation", device, level, operation.name)
            target.lines += [operation.line] if operation.line else []
            connect(used, target)
            homes |= dict.fromkeys(results, (target, 0))
    for value, device in zip_longest(returned_by(function).operands, program.affinities(function, "res_attrs")):
        if value in homes:
            connect([value], box_for("result", device, 1 << 30, "result"))
    names = {box: f"{prefix}{number}" for number, box in enumerate(boxes.values())}
    lines = [f'    {name}["{box.label}"]' for box, name in names.items()]
    for (source, target), (values, moved) in arrows.items():
        text = f"{values} value{'' if values == 1 else 's'}" + (f", {moved} moved" if moved else "")
        lines.append(f'    {names[source]} {"==>" if moved else "-->"}|"{text}"| {names[target]}')
    return lines
