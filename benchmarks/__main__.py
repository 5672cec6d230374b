"""Print what triage costs next to its peers, on small inputs: `python -m benchmarks`,
some minutes. `python -m benchmarks.NAME` runs one module.
"""

from __future__ import annotations

import sys

from benchmarks import answers, culprits, known, overhead, reduce
from benchmarks.common import show

MODULES = (overhead, known, answers, culprits, reduce)

if __name__ == "__main__":
    sys.exit(show(ratio for module in MODULES for ratio in module.ratios()))
