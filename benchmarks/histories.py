"""Search simulated histories and count the wrong answers that are called confirmed.

Run: `python -m benchmarks.histories [--runs N] [--format json]`. Each cell searches N histories; tests/bisect/simulated.py
describes them. No process is started, nothing is compiled.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from itertools import product

from tests.bisect.simulated import JOBS, RATES, Tally, Trouble, tally, troubles
from triage.bisect.result import CONFIDENCE

# Of 300 histories in a cell on average: where wrong answers are rarest, the fewest are needed.
SHARES = {0.0: 100, 0.01: 150, 0.05: 250, 0.2: 700}
Cell = tuple[bool, int, Trouble, float]


def cells() -> list[Cell]:
    return [
        (commits, jobs, trouble, rate)
        for commits, jobs in product((True, False), JOBS)
        for trouble in troubles(commits=commits)
        for rate in RATES
    ]


def searched(runs: int, cell: Cell) -> Tally:
    commits, jobs, trouble, rate = cell
    return tally(runs * SHARES[rate] // 300, commits=commits, jobs=jobs, trouble=trouble, rate=rate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300, help="histories in each of the 72 cells, on average")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args()
    with ProcessPoolExecutor() as pool:
        tallies = dict(zip(cells(), pool.map(partial(searched, options.runs), cells()), strict=True))
    allowed = 1 - CONFIDENCE
    if options.format == "json":
        keys = ("commits", "jobs", "trouble", "rate")
        print(json.dumps([dict(zip(keys, cell, strict=True)) | asdict(total) for cell, total in tallies.items()], indent=1))
    else:
        count = sum(total.runs for total in tallies.values())
        print(f"{count} histories; at most {allowed:.1%} of confirmed answers may be wrong")
        print("              jobs  flaky  trouble             confirmed  wrong   share  suspects  inconclusive  probes  rounds")
        for (commits, jobs, trouble, rate), total in tallies.items():
            share = total.wrong / max(1, total.confirmed)
            print(
                f"{'commits' if commits else 'releases':12s}  {jobs:4d}  {rate:5.0%}  {trouble:18s}  {total.confirmed:9d}"
                f"  {total.wrong:5d}  {share:6.2%}  {total.suspects:8d}  {total.inconclusive:12d}"
                f"  {total.probes / total.runs:6.2f}  {total.rounds / total.runs:6.2f}"
            )
    sys.exit(any(total.wrong > allowed * total.confirmed for total in tallies.values()))


if __name__ == "__main__":
    main()
