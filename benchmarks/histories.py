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
HEAD = f"{'':12s}  jobs  flaky  {'trouble':18s}  histories  confirmed  wrong   share  suspects  inconclusive  probes  rounds"
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


def row(cell: Cell, total: Tally) -> str:
    commits, jobs, trouble, rate = cell
    share = total.wrong / max(1, total.confirmed)
    return (
        f"{'commits' if commits else 'releases':12s}  {jobs:4d}  {rate:5.0%}  {trouble:18s}  {total.runs:9d}"
        f"  {total.confirmed:9d}  {total.wrong:5d}  {share:6.2%}"
        f"  {total.suspects:8d}  {total.inconclusive:12d}"
        f"  {total.probes / total.runs:6.2f}  {total.rounds / total.runs:6.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300, help="histories in each of the 72 cells, on average")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args()
    tallies: dict[Cell, Tally] = {}
    if options.format == "text":
        print(HEAD)
    with ProcessPoolExecutor() as pool:
        for cell, total in zip(cells(), pool.map(partial(searched, options.runs), cells()), strict=True):
            tallies[cell] = total
            if options.format == "text":
                print(row(cell, total), flush=True)
    allowed = 1 - CONFIDENCE
    if options.format == "json":
        keys = ("commits", "jobs", "trouble", "rate")
        print(json.dumps([dict(zip(keys, cell, strict=True)) | asdict(total) for cell, total in tallies.items()], indent=1))
    else:
        count = sum(total.runs for total in tallies.values())
        print(f"{count} histories; at most {allowed:.1%} of confirmed answers may be wrong")
    sys.exit(any(total.wrong > allowed * total.confirmed for total in tallies.values()))


if __name__ == "__main__":
    main()
