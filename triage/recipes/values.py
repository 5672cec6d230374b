"""Read and write durations, sizes, shares and other values as text, and suggest known
words for mistyped ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from packaging.version import Version

from triage.model.fields import file_keys

_SIZE_UNITS = {"GiB": 1 << 30, "MiB": 1 << 20, "GB": 10**9, "MB": 10**6}
_NEEDS_NO_QUOTES = re.compile(
    r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./][A-Za-z0-9_./-]*)*"
)
Constant = bool | int | float | str | None
_YAML_WORDS = {"true": True, "false": False, "null": None, "none": None}
# words that are not texts in YAML 1.1
_RESERVED = re.compile("y|n|yes|no|on|off|true|false|null", re.IGNORECASE)

_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def time_text(seconds: float) -> str:
    """Return a measured time with three digits.

    >>> [time_text(seconds) for seconds in (0.00284, 0.9996, 1230.4)]
    ['2.84 ms', '1 s', '1230 s']
    """
    for unit, name in _TIME_UNITS:
        value = float(f"{seconds / unit:.3g}")
        if value >= 100:
            return f"{seconds / unit:.0f} {name}"
        if value >= 1:
            return f"{value:.3g} {name}"
    return "0 s"


def share_text(share: float, digits: int = 1) -> str:
    """Return a share in percent. It is 100 % only if it is the whole, and 0 % only if
    it is nothing.

    >>> [share_text(share) for share in (0.0, 0.99999, 1.0)]
    ['0.0%', '99.9%', '100.0%']
    """
    percent = round(100 * share, digits)
    least = 10.0**-digits
    if 0 < share < 1:
        percent = min(max(percent, least), 100 - least)
    return f"{percent:.{digits}f}%"


def rounded_text(value: float) -> str:
    """Return a number with four digits, all of a larger whole one.

    >>> [rounded_text(value) for value in (232448.0, 1234.5, 0.123456)]
    ['232448', '1234', '0.1235']
    """
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.4g}"


def format_size(size: int) -> str:
    """Return a size as `parse_size` reads it, such as `8GiB`."""
    for unit, factor in _SIZE_UNITS.items():
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size}B"


def yaml_text(value: Any) -> str:
    """Return a value as YAML on one line. Texts are quoted unless they are plain words.

    >>> yaml_text({"backend": "cuda", "since": "3.5.0"})
    '{backend: cuda, since: "3.5.0"}'
    """
    if is_dataclass(value):
        return yaml_text(file_keys(value))
    if isinstance(value, Mapping):
        pairs = ((yaml_text(key), yaml_text(item)) for key, item in value.items())
        return f"{{{', '.join(map(': '.join, pairs))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(yaml_text, value))}]"
    if value is None:
        return "none"
    is_plain = isinstance(value, str) and _NEEDS_NO_QUOTES.fullmatch(value)
    if is_plain and not _RESERVED.fullmatch(value):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def recipe_lines(values: Mapping[str, Any]) -> list[str]:
    """Return the lines of a recipe, without keys that have no value."""
    return [f"{key}: {yaml_text(value)}" for key, value in values.items() if value]


def name_from(text: str) -> str:
    """Make the name of a recipe from a text.

    >>> name_from("Model (1)")
    'model-1'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:100].strip("-")


def closest(word: str, choices: Iterable[str]) -> str | None:
    """Return the known word that a mistyped word probably means, if one is similar."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, sorted(choices), n=1)), None)


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return the end of a clause: `; did you mean "x"?`, or `.` if no known word is
    similar.
    """
    nearest = closest(word, choices)
    if nearest is None:
        return "."
    return f'; did you mean "{nearest}"?'


def why_unreadable(path: Path, error: OSError | ValueError) -> str:
    """Return a sentence that says why a path cannot be used."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        reason = getattr(error, "strerror", None) or str(error)
        return f"cannot be read: {reason.lower()}."
    names = [entry.name for entry in path.parent.glob("*")]
    return "no such file or folder" + did_you_mean(path.name, names)


def unknown_word(word: str, noun: str, choices: Iterable[str]) -> str:
    """Return a sentence that a word is not known, with the known ones."""
    return (
        f'"{word}" is not a known {noun}{did_you_mean(word, choices)} Known: '
        f"{', '.join(choices)}."
    )


@lru_cache(maxsize=1024)
def parse_version(text: str | None) -> Version | None:
    """Read a version. Returns None if the text is not one."""
    try:
        return Version(text or "")
    except ValueError:  # also a number of thousands of digits
        return None


def read_constant(text: str) -> Constant:
    """Return the number, truth value, None or text that a scalar of a recipe stands
    for. Quotes do not matter. Raises ValueError for a word that may mean two things.
    """
    word = text.lower()
    if word in ("yes", "no", "on", "off"):
        raise ValueError(f'"{text}" is a truth value in YAML 1.1; write true or false.')
    if word in _YAML_WORDS:
        return _YAML_WORDS[word]
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    return text
