"""Print a program's devices and transfers as a Mermaid flowchart, which GitHub and many
editors draw.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from triage.compilers.iree.lint.program import (
    LintProgram,
    is_control_flow,
    is_tensor,
    steps_of,
)
from triage.mlir import Operation

_Device = str | None


@dataclass(slots=True)
class _Tally:
    """What a function has on each device, and what it passes between them."""

    counts: dict[_Device, Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    """Arguments, results and operations."""
    lines: dict[_Device, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The source lines of the operations."""
    arrows: Counter[tuple[_Device, _Device, bool]] = field(default_factory=Counter)
    """Values from one device to another, and whether they are transferred."""


def mermaid(program: LintProgram) -> str:
    """Return one flowchart with a subgraph for each function and a node for each
    device. A loop is drawn as if it ran once.
    """
    lines = ["flowchart TD"]
    for index, function in enumerate(program.functions):
        lines += [
            f'  subgraph f{index}["@{function.symbol}"]',
            *_draw(_tally(program, function), f"f{index}n"),
            "  end",
        ]
    return "\n".join(lines) + "\n"


def _tally(program: LintProgram, function: Operation) -> _Tally:
    """Count what a function has on each device; an operation is on the first known
    device of its results and operands.
    """
    tally, devices = _Tally(), program.device_of_value
    ports = [port for port in program.ports.get(function, ()) if is_tensor(port.value)]
    for port in ports:
        tally.counts[port.device][port.kind] += 1
    end = function.regions[0].blocks[-1].operations[-1]
    for operation, _ in steps_of(function.regions[0]):
        if operation is None or operation is end or is_control_flow(operation):
            continue
        used = program.uses(operation)
        results = [value for value in operation.results if is_tensor(value)]
        own = [devices[value] for value in (*results, *used) if value in devices]
        device = own[0] if own else None
        is_transfer = operation.name in program.words.transfers
        tally.arrows.update((devices.get(value), device, is_transfer) for value in used)
        if (used or results) and not is_transfer:
            tally.counts[device]["operation"] += 1
            if operation.line:
                tally.lines[device].append(operation.line)
    tally.arrows.update(
        (devices.get(port.value), port.device, False)
        for port in ports
        if port.kind == "result"
    )
    return tally


def _draw(tally: _Tally, prefix: str) -> list[str]:
    """Return the lines of a subgraph; the names of its nodes begin with `prefix`."""
    ids = {device: f"{prefix}{number}" for number, device in enumerate(tally.counts)}
    lines = [
        f'    {ids[device]}["{_label(device, counts, tally.lines[device])}"]'
        for device, counts in tally.counts.items()
    ]
    for (source, target, is_transfer), count in tally.arrows.items():
        if source == target or not {source, target} <= ids.keys():
            continue
        arrow, text = "-->", _plural(count, "value")
        if is_transfer:
            arrow, text = "==>", f"{text} moved"
        lines.append(f'    {ids[source]} {arrow}|"{text}"| {ids[target]}')
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
