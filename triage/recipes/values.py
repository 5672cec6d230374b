"""Durations, sizes and other values as text, and suggestions for mistyped words."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from packaging.version import Version

_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,12})?)"
_DURATION = re.compile(rf"(?=.)(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s?)?")
_SIZE = re.compile(rf"{_NUMBER} ?(k|K|[KMGT]i|[MGT])B")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./][A-Za-z0-9_./-]*)*")
# not texts in YAML 1.1
_RESERVED = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})

LONGEST = 7 * 24 * 3600.0


def parse_duration(text: str) -> float:
    """Return the seconds of `120s`, `2m`, `1h30m`, or of a plain number. ValueError
    says what to write instead.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(
            f'"{text}" is not a duration: write hours, minutes and seconds as 120s, '
            "2m or 1h30m."
        )
    hours, minutes, rest = (float(part or 0) for part in match.groups())
    seconds = hours * 3600 + minutes * 60 + rest
    if not 0 < seconds <= LONGEST:
        raise ValueError(
            f'"{text}" is out of range: write a duration above zero and at most a '
            "week (168h), such as 120s."
        )
    return seconds


def parse_size(text: str) -> int:
    """Return the bytes of `8GiB`, `512MiB`, `2GB` (powers of 1000 without the i).
    ValueError says what to write instead.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(
            f'"{text}" is not a size: write a number and a unit, such as 8GiB or '
            "512MiB."
        )
    unit = match[2]
    size = float(match[1]) * (1024 if unit.endswith("i") else 1000) ** (
        "KMGT".index(unit[0].upper()) + 1
    )
    if not 1 << 20 <= size <= 1 << 50:
        raise ValueError(
            f'"{text}" is out of range: write at least 1MiB and at most 1024TiB.'
        )
    return int(size)


def yaml_text(value: Any) -> str:
    """Return a value as YAML on one line; texts are quoted unless they are plain
    words.
    """
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(
                f"{yaml_text(key)}: {yaml_text(item)}" for key, item in value.items()
            )
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(yaml_text, value)) + "]"
    if value is None:
        return "none"
    if (
        isinstance(value, str)
        and _PLAIN.fullmatch(value)
        and value.lower() not in _RESERVED
    ):
        return value
    return json.dumps(value, ensure_ascii=False)


def yaml_lines(
    values: Mapping[str, Any], guessed: Mapping[str, str] | None = None
) -> list[str]:
    """Return keys as lines of YAML, a mapping with a line for each entry; `guessed`
    entries get a comment with the reason.
    """
    reasons = (guessed or {}).items()
    comments = {name: f"  # guessed: {why}" for name, why in reasons}
    lines = []
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            lines.append(f"{key}:")
            lines += [
                f"  {name}: {yaml_text(item)}{comments.get(name, '')}"
                for name, item in value.items()
            ]
        else:
            lines.append(f"{key}: {yaml_text(value)}")
    return lines


def name_from(text: str) -> str:
    """Return a text as the name of a recipe, with letters and digits of ASCII where
    others have a plain form.

    >>> name_from("Mödel (1)")
    'model-1'
    """
    plain = (
        unicodedata.normalize("NFKD", text)
        .casefold()
        .encode("ascii", "ignore")
        .decode()
    )
    return re.sub(r"[^a-z0-9]+", "-", plain)[:100].strip("-")


def closest(
    word: str, known: Iterable[str], aliases: Mapping[str, str] | None = None
) -> str | None:
    """Return the known word that is nearest to a word, ignoring case; `aliases` mean
    exactly one word.
    """
    from difflib import get_close_matches

    lowered = word.strip().lower()
    if aliases and lowered in aliases:
        return aliases[lowered]
    by_lower = {
        candidate.lower(): candidate for candidate in sorted(known, reverse=True)
    }
    longer = sorted(
        (name for name in by_lower if lowered and name.startswith(lowered)), key=len
    )
    return next(
        (
            by_lower[name]
            for name in (*get_close_matches(lowered, sorted(by_lower), n=1), *longer)
        ),
        None,
    )


def did_you_mean(
    word: str, known: Iterable[str], aliases: Mapping[str, str] | None = None
) -> str:
    """Return `; did you mean "x"?` to continue a clause, or `.` when no known word is
    near.
    """
    nearest = closest(word, known, aliases)
    if nearest is not None:
        return f'; did you mean "{nearest}"?'
    return "."


def unknown_word(
    word: str, noun: str, known: Iterable[str], aliases: Mapping[str, str] | None = None
) -> str:
    """Return that a word is not one of those that are known, and which it may mean."""
    return (
        f'"{word}" is not a known {noun}{did_you_mean(word, known, aliases)} Known: '
        f"{', '.join(known)}."
    )


@lru_cache(maxsize=1024)
def parse_version(text: str | None) -> Version | None:
    """Read a version, unless the text is another name of a toolchain."""
    try:
        return Version(text or "")
    except ValueError:  # also a number of thousands of digits
        return None
