"""Print what triage costs next to its peers, on small inputs: `python -m benchmarks`,
some minutes.

The modules take arguments for more: `python -m benchmarks.reduce --help`.
"""

from __future__ import annotations

from benchmarks import (
    answers,
    culprits,
    known,
    overhead,
    reduce,
    sealing,
)

for module in (
    overhead,
    known,
    answers,
    culprits,
    reduce,
    sealing,
):
    for ratio in module.ratios():
        print(ratio, flush=True)
