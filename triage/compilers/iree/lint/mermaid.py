"""Print a program's devices and transfers as a Mermaid flowchart, which GitHub and many
editors draw.
"""

from __future__ import annotations

from collections import Counter, defaultdict

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
        lines += [
            f'  subgraph f{index}["@{function.symbol}"]',
            *_function(program, function, f"f{index}n"),
            "  end",
        ]
    return "\n".join(lines) + "\n"


def _function(program: LintProgram, function: Operation, prefix: str) -> list[str]:
    counts: dict[_Device, Counter[str]] = defaultdict(Counter)
    places: dict[_Device, list[int]] = defaultdict(list)  # source lines
    # values from one device to another, and whether transferred
    arrows: Counter[tuple[_Device, _Device, bool]] = Counter()
    ports = [port for port in program.ports.get(function, ()) if is_tensor(port.value)]
    for port in ports:
        counts[port.device][port.kind] += 1
    end = function.regions[0].blocks[-1].operations[-1]
    for operation, _ in steps_of(function.regions[0]):
        if operation is None or operation is end or is_control_flow(operation):
            continue
        used = program.uses(operation)
        results = [value for value in operation.results if is_tensor(value)]
        device = next(
            (
                program.placed[value]
                for value in (*results, *used)
                if value in program.placed
            ),
            None,
        )
        is_transfer = operation.name in program.words.transfers
        arrows.update(
            (program.placed.get(value), device, is_transfer) for value in used
        )
        if (used or results) and not is_transfer:
            counts[device]["operation"] += 1
            if operation.line:
                places[device] += [operation.line]
    arrows.update(
        (program.placed.get(port.value), port.device, False)
        for port in ports
        if port.kind == "result"
    )
    ids = {device: f"{prefix}{number}" for number, device in enumerate(counts)}
    lines = [
        f'    {ids[device]}["{_label(device, counts[device], places[device])}"]'
        for device in counts
    ]
    for (source, target, moved), count in arrows.items():
        if source != target and {source, target} <= ids.keys():
            if moved:
                arrow, text = ("==>", " moved")
            else:
                arrow, text = ("-->", "")
            lines.append(
                f'    {ids[source]} {arrow}|"{_plural(count, "value")}{text}"| '
                f"{ids[target]}"
            )
    return lines


def _label(device: _Device, counts: Counter[str], lines: list[int]) -> str:
    listed = ", ".join(_plural(count, kind) for kind, count in counts.items())
    if lines:
        place = [f"lines {min(lines)} to {max(lines)}"]
    else:
        place = []
    return "<br>".join([f"@{device}" if device else "no device", listed, *place])


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
