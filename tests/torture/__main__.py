"""`make torture`: attack the program and print what was done and what did not hold.
Exit 1 when there is a finding.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.torture.attacks import (
    Row,
    damaged_files,
    field,
    full_disk,
    kills,
    read_only_home,
)

# Share of all kills for each command.
_SHARES = {
    "run": 0.2,
    "nightly": 0.2,
    "bisect": 0.15,
    "reduce": 0.15,
    "why": 0.1,
    "install": 0.1,
    "site": 0.1,
}


def main() -> int:
    """Run the attacks and return the exit code."""
    parser = argparse.ArgumentParser(prog="make torture")
    parser.add_argument(
        "--kills", type=int, default=200, help="kills in total (default: 200)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=math.inf,
        help="start no attack after this time",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=int(time.time()),
        help="repeat the moments of an earlier run",
    )
    parser.add_argument(
        "--only", default="", help="only attacks whose name contains this"
    )
    options = parser.parse_args()
    folder, begun = Path(tempfile.mkdtemp(prefix="torture-")), time.monotonic()
    deadline = begun + options.seconds
    print(f"seed {options.seed}, below {folder}", flush=True)
    rows: list[Row] = []
    with field(folder, options.seed) as place:
        counts = {
            name: max(1, round(share * options.kills))
            for name, share in _SHARES.items()
        }
        few = max(1, options.kills // 20)
        attacks = {
            **{
                name: partial(
                    kills, place, getattr(place, name), counts[name], deadline
                )
                for name in _SHARES
            },
            "disk": lambda: full_disk(place, few),
            "read-only": lambda: read_only_home(place),
            "damage": lambda: damaged_files(place, 3 * few),
        }
        for name, attack in attacks.items():
            if options.only in name and time.monotonic() < deadline:
                rows.append(attack())
                print(_line(rows[-1]), flush=True)
    print("\n| attack | times | checks | findings |\n|---|---|---|---|")
    print("\n".join(map(_line, rows)))
    findings = [finding for row in rows for finding in row.findings]
    total = sum(row.times for row in rows if row.attack.startswith("kill"))
    print(
        f"\n{total} kills, {sum(row.checks for row in rows)} checks, {time.monotonic() - begun:.0f} s, {len(findings)} findings"
    )
    for finding in findings:
        print(f"- {finding}")
    if not findings:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if findings else 0


def _line(row: Row) -> str:
    times = str(row.times) if row.times else "not possible here"
    return f"| {row.attack} | {times} | {row.checks} | {len(row.findings)} |"


if __name__ == "__main__":
    sys.exit(main())
