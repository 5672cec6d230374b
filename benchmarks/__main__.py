"""Print what triage costs next to its peers, on small inputs: `python -m benchmarks`,
about nine minutes.

The modules take arguments for more: `python -m benchmarks.reduce --help`.
"""

from __future__ import annotations

from benchmarks import (
    answers,
    cluster,
    culprits,
    known,
    overhead,
    real_commits,
    reduce,
    sealing,
)

for module in (
    overhead,
    known,
    answers,
    culprits,
    real_commits,
    reduce,
    cluster,
    sealing,
):
    for ratio in module.ratios():
        print(ratio, flush=True)
