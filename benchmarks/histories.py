"""Search simulated histories and count the wrong answers that are called confirmed.

Run: `python -m benchmarks.histories [--share S] [--format json]`. tests/bisect/simulated.py describes the histories; half of
them are searched with one job, half with four. No process is started, nothing is compiled.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from itertools import product

from tests.bisect.simulated import JOBS, RUNS, Tally, Trouble, tally, troubles
from triage.bisect.result import CONFIDENCE

HEAD = f"{'':12s}  flaky  {'trouble':18s}  histories  confirmed  wrong   share  suspects  inconclusive  probes  rounds"
Cell = tuple[bool, Trouble, float]


def cells() -> list[Cell]:
    families = [(commits, trouble) for commits in (True, False) for trouble in troubles(commits=commits)]
    return [(*family, rate) for family, rate in product(families, RUNS)]


def searched(share: float, cell: Cell) -> Tally:
    commits, trouble, rate = cell
    return tally(round(RUNS[rate] * share), commits=commits, jobs=JOBS, trouble=trouble, rate=rate)


def row(cell: Cell, total: Tally) -> str:
    commits, trouble, rate = cell
    share = total.wrong / max(1, total.confirmed)
    return (
        f"{'commits' if commits else 'releases':12s}  {rate:5.0%}  {trouble:18s}  {total.runs:9d}"
        f"  {total.confirmed:9d}  {total.wrong:5d}  {share:6.2%}"
        f"  {total.suspects:8d}  {total.inconclusive:12d}"
        f"  {total.probes / total.runs:6.2f}  {total.rounds / total.runs:6.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="part of the 21,600 histories to search")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args()
    tallies: dict[Cell, Tally] = {}
    if options.format == "text":
        print(HEAD)
    with ProcessPoolExecutor() as pool:
        for cell, total in zip(cells(), pool.map(partial(searched, options.share), cells()), strict=True):
            tallies[cell] = total
            if options.format == "text":
                print(row(cell, total), flush=True)
    allowed = 1 - CONFIDENCE
    if options.format == "json":
        keys = ("commits", "trouble", "rate")
        print(json.dumps([dict(zip(keys, cell, strict=True)) | asdict(total) for cell, total in tallies.items()], indent=1))
    else:
        count = sum(total.runs for total in tallies.values())
        print(f"{count} histories; at most {allowed:.1%} of confirmed answers may be wrong")
    sys.exit(any(total.wrong > allowed * total.confirmed for total in tallies.values()))


if __name__ == "__main__":
    main()
