"""Measured statuses of the bundled recipes: one letter per release, oldest first."""

from __future__ import annotations

from pathlib import Path

_HEADER, *_LINES = Path(__file__).with_suffix(".txt").read_text().splitlines()
VERSIONS = _HEADER.split()


def read_statuses() -> dict[str, str]:
    """Return the letters by case name: P passed, F failed, C crashed, M out of memory,
    T timed out, U untestable.
    """
    return dict(line.rsplit(maxsplit=1) for line in _LINES)
