"""Print a program's devices and transfers as a Mermaid flowchart, which GitHub and many
editors draw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from triage.compilers.iree.lint.program import (
    TRANSFER,
    LintProgram,
    is_tensor,
    steps_of,
    tensors_of,
    terminator,
)
from triage.mlir import Operation


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
    counts: Counter[str] = Counter()
    moves: Counter[tuple[str, str, bool]] = Counter()
    end = terminator(function.regions[0])
    for operation, _ in steps_of(function.regions[0]):
        if operation is None or operation is end or operation.name.startswith("scf."):
            continue
        used = tensors_of(operation)
        values = [*filter(is_tensor, operation.results), *used]
        placed = [devices[value] for value in values if value in devices]
        device = next(iter(placed), "")
        is_transfer = operation.name == TRANSFER
        if values:
            counts[device] += int(not is_transfer)
        for value in used:
            moves[devices.get(value, ""), device, is_transfer] += 1
    ids = {device: f"{prefix}{number}" for number, device in enumerate(counts)}
    for device, count in counts.items():
        title = f"@{device}" if device else "no device"
        yield f'    {ids[device]}["{title}<br>{count} operations"]'
    for (source, target, is_transfer), count in moves.items():
        if source != target and {source, target} <= ids.keys():
            arrow, kind = "-->", "used"
            if is_transfer:
                arrow, kind = "==>", "moved"
            yield f'    {ids[source]} {arrow}|"{count} {kind}"| {ids[target]}'
