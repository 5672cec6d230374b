"""Print a program's devices and transfers as a Mermaid flowchart, which GitHub and many editors draw."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from triage.compilers.iree.lint.program import LintProgram, is_control_flow, is_tensor, steps_of
from triage.mlir import Operation, Value

_Box = tuple[str, str | None, int]
"""Operations on one device with no transfer between them; or arguments, or results: what they are, the device, the level."""


def mermaid(program: LintProgram) -> str:
    """Return one flowchart with a subgraph for each function. Control flow is drawn as if it ran once."""
    lines = ["flowchart TD"]
    for index, function in enumerate(program.functions):
        lines += [f'  subgraph f{index}["@{function.symbol}"]', *_function(program, function, f"f{index}n"), "  end"]
    return "\n".join(lines) + "\n"


def _function(program: LintProgram, function: Operation, prefix: str) -> list[str]:
    names: dict[_Box, Counter[str]] = defaultdict(Counter)
    places: dict[_Box, list[int]] = defaultdict(list)  # source lines
    homes: dict[Value, tuple[_Box, int]] = {}  # the box of each value, and the transfers since then
    arrows: Counter[tuple[_Box, _Box]] = Counter()  # values between two boxes
    moved: Counter[tuple[_Box, _Box]] = Counter()  # those of them that were transferred

    def put(box: _Box, name: str, used: Sequence[Value], results: Sequence[Value] = ()) -> None:
        names[box][name] += 1
        for source, moves in (homes[value] for value in used):
            if source != box:
                arrows[source, box] += 1
                moved[source, box] += moves > 0
        homes.update(dict.fromkeys(results, (box, 0)))

    ports, end = program.ports.get(function, ()), function.regions[0].blocks[-1].operations[-1]
    for port in ports:
        if port.kind == "argument" and is_tensor(port.value):
            put(("argument", port.device, -1), "argument", (), [port.value])
    for operation, pairs in steps_of(function.regions[0]):
        homes |= {target: homes[source] for source, target in pairs if source in homes}
        if operation is None or operation is end or is_control_flow(operation):
            continue
        used = [value for value in program.uses(operation) if value in homes]
        results = [value for value in operation.results if is_tensor(value)]
        if operation.name in program.words.transfers and used:
            source, moves = homes[used[0]]
            homes |= dict.fromkeys(results, (source, moves + 1))
        elif results or used:
            device = next((program.placed[value] for value in (*results, *used) if value in program.placed), None)
            before = [source[2] + (moves > 0 or source[1] != device) for source, moves in (homes[value] for value in used)]
            box = ("operation", device, max([0, *before]))
            put(box, operation.name, used, results)
            places[box] += [operation.line] if operation.line else []
    for port in ports:
        if port.kind == "result" and port.value in homes:
            put(("result", port.device, 1 << 30), "result", [port.value])
    return _drawn(prefix, {box: _label(box, names[box], places[box]) for box in names}, arrows, moved)


def _drawn(
    prefix: str, labels: dict[_Box, str], arrows: Counter[tuple[_Box, _Box]], moved: Counter[tuple[_Box, _Box]]
) -> list[str]:
    ids = {box: f"{prefix}{number}" for number, box in enumerate(labels)}
    lines = [f'    {ids[box]}["{label}"]' for box, label in labels.items()]
    for (source, box), count in arrows.items():
        moves = moved[source, box]
        text = _plural(count, "value") + (f", {moves} moved" if moves else "")
        lines.append(f'    {ids[source]} {"==>" if moves else "-->"}|"{text}"| {ids[box]}')
    return lines


def _label(box: _Box, names: Counter[str], lines: Sequence[int]) -> str:
    kind, device, _ = box
    listed = ", ".join(name for name, _ in names.most_common(3))
    title = _plural(names.total(), kind) + (f": {listed}" if kind == "operation" else "")
    place = [f"lines {min(lines)} to {max(lines)}"] if lines else []
    return "<br>".join([f"@{device}" if device else "no device", title, *place])


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
