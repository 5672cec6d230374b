"""Print what triage costs next to its peers, on small inputs: `python -m benchmarks`,
about six minutes.

The modules take arguments for more: `python -m benchmarks.reduce --help`.
"""

from __future__ import annotations

from benchmarks import cluster, culprits, known, overhead, real_commits, reduce

for module in (overhead, known, culprits, real_commits, reduce, cluster):
    for ratio in module.ratios():
        print(ratio, flush=True)
