"""What a disk, a kill or an editor can do to a small file."""

from __future__ import annotations

import random
from pathlib import Path

import pytest


def _flipped(data: bytes) -> bytes:
    place = random.Random(len(data))
    changed = bytearray(data)
    changed[place.randrange(len(data))] ^= 1 << place.randrange(8)
    return bytes(changed)


DAMAGE = {
    "empty": lambda _: b"",
    "half": lambda data: data[: len(data) // 2],
    "a flipped bit": _flipped,
    "nested": lambda _: b"[" * 100_000,
    "a long number": lambda _: b"9" * 5_000,
    "another type": lambda _: (
        b'{"files": 5, "flags": "x", "name": 1, "verdict": "good", "by": [], "case": {}}'
    ),
}
each_damage = pytest.mark.parametrize("damage", DAMAGE)


def do(damage: str, path: Path) -> None:
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
