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
from collections.abc import Sequence
from pathlib import Path

from tests.torture.attacks import attacks_in, field_in


def main(words: Sequence[str] | None = None) -> int:
    """Run the attacks and return the exit code."""
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    add = parser.add_argument
    add("--kills", type=int, default=200, help="in total")
    add("--seconds", type=float, default=math.inf, help="start no attack after this")
    add("--seed", type=int, default=int(time.time()), help="of an earlier run")
    add("--only", default="", help="attacks whose name contains this")
    options = parser.parse_args(words)
    folder, begun = Path(tempfile.mkdtemp(prefix="torture-")), time.monotonic()
    deadline = begun + options.seconds
    print(f"seed {options.seed}, below {folder}", flush=True)
    print("| attack | times | checks | findings |\n|---|---|---|---|", flush=True)
    with field_in(folder, options.seed) as field:
        checks = field.checks
        for name, attack in attacks_in(field, options.kills, deadline).items():
            if options.only not in name or time.monotonic() > deadline:
                continue
            count, findings = checks.count, len(checks.findings)
            times = attack() or "not possible here"
            row = (name, times, checks.count - count, len(checks.findings) - findings)
            print(f"| {' | '.join(map(str, row))} |", flush=True)
    seconds = time.monotonic() - begun
    print(f"\n{checks.count} checks, {seconds:.0f} s, {len(checks.findings)} findings")
    for finding in checks.findings:
        print(f"- {finding}")
    if not checks.findings:
        shutil.rmtree(folder, ignore_errors=True)
    return min(len(checks.findings), 1)


if __name__ == "__main__":
    sys.exit(main())
