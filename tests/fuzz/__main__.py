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
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help=f"any of {', '.join(TARGETS)} (default: all)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        help="for all targets together (default: 60)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=int(time.time()),
        help="for the same inputs again (default: the time)",
    )
    options = parser.parse_args()
    names = options.targets or list(TARGETS)
    if unknown := set(names) - set(TARGETS):
        parser.error(f"unknown targets: {', '.join(sorted(unknown))}")
    logging.disable()  # the parsers of HTML comment on what they are given
    print(f"seed {options.seed}", flush=True)
    failed = 0
    for name in names:
        executions, findings = fuzz(name, options.seconds / len(names), options.seed)
        failed += len(findings)
        print(
            f"{name:12s} {executions:8d} executions  {len(findings)} findings",
            flush=True,
        )
        for data, report in findings.values():
            print(f"\nsaved as {save(name, data)}:\n{report}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
