"""Print what `triage run` starts, a shell command a line, for peers that start the same.

Run: `python -m benchmarks.command_lines PATH REV [SUITE_CONFIG]`.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from triage.cli.cases import cases_in
from triage.execution.engine import open_engine
from triage.execution.task import Task


def command_lines(path: Path, rev: str, suite_configs: list[Path]) -> list[str]:
    """Return the command of each case, whose output is thrown away."""
    cases, lines = cases_in([path], suite_configs), []
    with open_engine(cases) as engine:
        for case in cases:
            ref = engine.registry.resolve(rev, case.compiler)
            task = engine.planner.plan(case, engine.registry.obtain(ref))
            if isinstance(task, Task):
                words = task.toolchain.program, task.prepared.path, Path(os.devnull)
                lines.append(shlex.join(task.invocation.argv(*words)))
    return lines


if __name__ == "__main__":
    place, revision, *configs = sys.argv[1:]
    print("\n".join(command_lines(Path(place), revision, [*map(Path, configs)])))
