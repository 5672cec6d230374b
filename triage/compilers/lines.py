"""What a program tells of a compile in lines of its own on stdout."""

from __future__ import annotations

import json

from triage.compilers.port import Told
from triage.model.execution import Execution

_MARK = "triage: "


def lines_told(execution: Execution) -> Told:
    """Lines that begin with `triage: ` and go on as JSON: `{"stage": "llir"}` as a stage begins, and numbers as
    `{"metrics": {"shared_bytes": 4096}}`. Other lines, and what is no number, are passed over.
    """
    phase: str | None = None
    metrics: dict[str, float] = {}
    for line in execution.stdout.text.splitlines():
        if not line.startswith(_MARK):
            continue
        try:
            said = json.loads(line.removeprefix(_MARK))
        except ValueError:
            continue
        if not isinstance(said, dict):
            continue
        if isinstance(stage := said.get("stage"), str):
            phase = stage
        if isinstance(numbers := said.get("metrics"), dict):
            metrics |= {str(name): value for name, value in numbers.items() if type(value) in (int, float)}
    return Told(phase, metrics)
