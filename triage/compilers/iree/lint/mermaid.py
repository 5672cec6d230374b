"""Print a program's devices and transfers as a Mermaid flowchart, which GitHub and many
editors draw.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from triage.compilers.iree.lint.program import (
    LintProgram,
    is_control_flow,
    is_tensor,
    steps_of,
)
from triage.mlir import Operation

_Device = str | None


def mermaid(program: LintProgram) -> str:
    """Return one flowchart with a subgraph for each function and a node for each
    device. A loop is drawn as if it ran once.
    """
    lines = ["flowchart TD"]
    for index, function in enumerate(program.functions):
        lines.append(f'  subgraph f{index}["@{function.symbol}"]')
        lines += _drawn(program, function, f"f{index}n")
        lines.append("  end")
    return "\n".join(lines) + "\n"


def _drawn(program: LintProgram, function: Operation, prefix: str) -> Iterator[str]:
    """Yield the lines of a subgraph; the names of its nodes begin with `prefix`. An
    operation is on the first known device of its results and operands.
    """
    devices = program.device_of_value
    contents: dict[_Device, Counter[str]] = defaultdict(Counter)
    moves: Counter[tuple[_Device, _Device, str]] = Counter()
    for port in program.ports.get(function, ()):
        if is_tensor(port.value):
            contents[port.device][port.kind] += 1
            if port.kind == "result":
                moves[devices.get(port.value), port.device, ""] += 1
    end = function.regions[0].blocks[-1].operations[-1]
    for operation, _ in steps_of(function.regions[0]):
        if operation is None or operation is end or is_control_flow(operation):
            continue
        used = program.uses(operation)
        results = [value for value in operation.results if is_tensor(value)]
        placed = [devices[value] for value in (*results, *used) if value in devices]
        device = next(iter(placed), None)
        is_transfer = operation.name in program.words.transfers
        kind = ""
        if is_transfer:
            kind = " moved"
        moves.update((devices.get(value), device, kind) for value in used)
        if (used or results) and not is_transfer:
            contents[device]["operation"] += 1
    ids = {device: f"{prefix}{number}" for number, device in enumerate(contents)}
    for device, counts in contents.items():
        title = f"@{device}" if device else "no device"
        listed = ", ".join(_plural(count, kind) for kind, count in counts.items())
        yield f'    {ids[device]}["{title}<br>{listed}"]'
    for (source, target, kind), count in moves.items():
        if source != target and {source, target} <= ids.keys():
            arrow = "-->"
            if kind:
                arrow = "==>"
            text = f"{_plural(count, 'value')}{kind}"
            yield f'    {ids[source]} {arrow}|"{text}"| {ids[target]}'


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
