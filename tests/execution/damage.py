"""What a disk, a kill or an editor can do to a small file."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest


def flipped(data: bytes, random: Random) -> bytes:
    """Return bytes with one flipped bit, or none of none."""
    changed = bytearray(data)
    if data:
        changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


DAMAGE = {
    "empty": lambda _: b"",
    "half": lambda data: data[: len(data) // 2],
    "a flipped bit": lambda data: flipped(data, Random(len(data))),
    "nested": lambda _: b"[" * 100_000,
    "a long number": lambda _: b"9" * 5_000,
    "another type": lambda _: (
        b'{"files": 5, "flags": "x", "name": 1, "verdict": "good", "by": [], "case": {}}'
    ),
}
each_damage = pytest.mark.parametrize("damage", DAMAGE)


def do(damage: str, path: Path) -> None:
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
