"""Print what `triage run` starts, a shell command a line, for peers that start the same.

Run: `python -m benchmarks.command_lines PATH REV [SUITE_CONFIG]`.
"""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path

from triage.cli.cases import cases_in
from triage.execution.engine import open_engine
from triage.execution.judge import NoTask
from triage.execution.plan import plan_task


def main() -> None:
    """Print the command of each case, whose output is thrown away."""
    path, rev, *configs = sys.argv[1:]
    cases = cases_in([Path(path)], [*map(Path, configs)])
    with open_engine(cases) as engine:
        for case in cases:
            ref = engine.registry.resolve(rev, case.compiler)
            with suppress(NoTask):
                task = plan_task(engine, case, engine.registry.obtain(ref))
                words = task.toolchain.program, task.prepared.path, Path(os.devnull)
                print(shlex.join(task.invocation.argv(*words)))


if __name__ == "__main__":
    main()
