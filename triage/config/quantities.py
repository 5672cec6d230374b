"""Durations and sizes as people write them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_DURATION = re.compile(rf"(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?")
_SECONDS = re.compile(_NUMBER)
_SIZE = re.compile(rf"{_NUMBER} ?([A-Za-z]*)")

UNITS: Mapping[str, int] = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}

LONGEST = 7 * 24 * 3600.0
SMALLEST = 1 << 20
LARGEST = 1 << 50


def parse_duration(text: str) -> float:
    """Seconds of `120s`, `2m`, `1h30m`, or a plain number. ValueError says what to write instead."""
    if _SECONDS.fullmatch(text):
        seconds = float(text)
    else:
        found = _DURATION.fullmatch(text)
        if not text or found is None:
            raise ValueError(f'"{text}" is no duration: write hours, minutes and seconds as 120s, 2m or 1h30m.')
        hours, minutes, rest = (float(part or 0) for part in found.groups())
        seconds = hours * 3600 + minutes * 60 + rest
    if seconds <= 0:
        raise ValueError(f'"{text}" leaves no time at all: write a duration above zero, such as 120s.')
    if seconds > LONGEST:
        raise ValueError(f'"{text}" is longer than a week: write at most 168h.')
    return seconds


def parse_size(text: str) -> int:
    """Bytes of `8GiB`, `512MiB`, `2GB` (powers of 1000 without the i). ValueError says what to write instead."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f'"{text}" is no size: write a number and a unit, such as 8GiB or 512MiB.')
    number, unit = found.groups()
    if not unit:
        raise ValueError(f'"{text}" has no unit: write {number}GiB or {number}MiB.')
    if unit not in UNITS:
        raise ValueError(f'"{text}" has the unknown unit "{unit}": write {number}{_meant(unit)}; {_UNIT_LIST}.')
    size = int(float(number) * UNITS[unit])
    if size < SMALLEST:
        raise ValueError(f'"{text}" is {size} bytes, too little for any process: write at least 1MiB.')
    if size > LARGEST:
        raise ValueError(f'"{text}" is more than any machine has: write at most 1024TiB.')
    return size


_UNIT_LIST = "the units are " + ", ".join(unit for unit in UNITS if unit != "KB")


def _meant(unit: str) -> str:
    """The binary unit that begins with the same letter, GiB where none does."""
    return next((known for known in UNITS if known.endswith("iB") and known[0] == unit[0].upper()), "GiB")
