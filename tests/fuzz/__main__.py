"""Fuzz every target in turn: `python -m tests.fuzz [--seconds N] [--seed N]
[TARGET...]`; exit 1 when something fails.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time

from tests.fuzz.harness import fuzz, save
from tests.fuzz.targets import TARGETS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("targets", nargs="*", default=list(TARGETS), metavar="TARGET")
    add("--seconds", type=float, default=60.0, help="for all targets together")
    add("--seed", type=int, default=int(time.time()), help="of an earlier run")
    options = parser.parse_args()
    logging.disable()  # the parsers of HTML comment on what they are given
    print(f"seed {options.seed}", flush=True)
    failed = 0
    seconds = options.seconds / len(options.targets)
    for name in options.targets:
        executions, findings = fuzz(name, seconds, options.seed)
        failed += len(findings)
        count = f"{executions:8d} executions  {len(findings)} findings"
        print(f"{name:12s} {count}", flush=True)
        for data, report in findings.values():
            print(f"\nsaved as {save(name, data)}:\n{report}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
