"""What sealing costs: starts of a compiler with and without a seal, in turn.

CPU times count this process, which takes the limits, and the compiler.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common import TOOLCHAINS, Ratio, cpu_seconds, show
from triage.model.execution import Limits
from triage.processes.process import run
from triage.processes.sealing import Seal, is_sealing

WHOS = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
PROGRAM = "iree/compiler/_mlir_libs/iree-compile"


def ratios(runs: int = 200) -> Iterator[Ratio]:
    """Yield the CPU time of sealed starts next to that of others."""
    programs = sorted(TOOLCHAINS.glob(f"iree-base-compiler-*/{PROGRAM}"))
    if not programs or not is_sealing():
        return
    program = programs[-1]
    spent = dict.fromkeys((True, False), 0.0)
    with TemporaryDirectory() as folder:
        for _ in range(runs):
            for sealed in spent:
                seal = Seal((program.parents[3],)) if sealed else None
                before = cpu_seconds(*WHOS)
                argv = [str(program), "--version"]
                done = run(argv, Limits(timeout=60), Path(folder), seal=seal)
                spent[sealed] += cpu_seconds(*WHOS) - before
                assert done.ok, done.stderr.text
    what = f"{runs} sealed starts of a compiler, CPU time"
    yield Ratio(what, spent[True], "not sealed", spent[False], "s", limit=1.03)


if __name__ == "__main__":
    sys.exit(show(ratios()))
