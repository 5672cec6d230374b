"""Measured statuses of the bundled recipes: one letter per release, oldest first."""

from __future__ import annotations

from pathlib import Path

VERSIONS = [
    *("2.9.0", "3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0", "3.5.0", "3.6.0"),
    *("3.7.0", "3.7.1", "3.8.0", "3.9.0", "3.10.0", "3.11.0", "3.12.0", "3.13.0"),
]


def read_statuses() -> dict[str, str]:
    """Return the letters by case name: P passed, F failed, C crashed, M out of memory,
    T timed out, U untestable.
    """
    lines = (Path(__file__).parent / "statuses.txt").read_text().splitlines()
    return dict(line.rsplit(maxsplit=1) for line in lines)
