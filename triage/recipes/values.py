"""Checked values of configuration files. Each check takes the scalar as written and raises `advice` when it is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from triage.recipes.document import Written

if TYPE_CHECKING:
    from pydantic_core import PydanticCustomError

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_DURATION = re.compile(rf"(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?")
_SECONDS = re.compile(_NUMBER)
_SIZE = re.compile(rf"{_NUMBER} ?([A-Za-z]*)")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./][A-Za-z0-9_./-]*)*|[1-9]\d*(?:s|m|h|[KMGT]i?B)")
# YAML 1.1 reads these as truth values or as no value.
_RESERVED = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})

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

VARIABLE: re.Pattern[str] = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LONGEST = 7 * 24 * 3600.0
SMALLEST = 1 << 20
LARGEST = 1 << 50


def advice(message: str, key: str | None = None) -> PydanticCustomError:
    """An error whose message is reported unchanged. key: the key of the mapping to report it at."""
    from pydantic_core import PydanticCustomError

    return PydanticCustomError("advice", "{message}", {"message": message, "key": key})


def as_written(value: Any) -> str:
    """Any scalar, as the text in the file."""
    if isinstance(value, str):
        return str(value)
    raise advice(f"expected one value here, not {'a list' if isinstance(value, list) else 'a mapping'}.")


def as_text(value: Any) -> str:
    """A scalar that YAML reads as text."""
    text = as_written(value)
    kind = value.kind if isinstance(value, Written) else "str"
    if kind == "bool":
        meaning = "true" if text.lower() in {"y", "yes", "on", "true"} else "false"
        raise advice(f'YAML 1.1 reads {text} without quotes as {meaning}; write "{text}".')
    if kind in {"int", "float"}:
        raise advice(f'YAML reads {text} without quotes as {_number(text, kind)}; write "{text}".')
    if not text.strip():
        raise advice("the text is empty; give it a value or remove the key.")
    return text


def _number(text: str, kind: str) -> str:
    """A number as YAML 1.1 reads it: `3.10` as 3.1, `010` as octal, `1:30` in base 60."""
    import yaml

    try:
        return f"the number {yaml.safe_load(text):{'g' if kind == 'float' else ''}}"
    except (ValueError, OverflowError):  # thousands of digits
        return "a number"


def as_list(value: Any) -> Any:
    """A single text stands for a list of one."""
    return [value] if isinstance(value, str) else value


def as_truth(value: Any) -> bool:
    """True or false."""
    text = as_written(value).lower()
    if text not in ("true", "false"):
        raise advice(f'"{text}" is neither true nor false.')
    return text == "true"


def as_duration(value: Any) -> float:
    """Seconds."""
    try:
        return parse_duration(as_written(value))
    except ValueError as error:
        raise advice(str(error)) from None


def as_natural(value: Any) -> int:
    """A whole number that is not negative."""
    text = as_written(value)
    if not text.isdecimal():
        raise advice(f'"{text}" is not a whole number: write one such as 42.')
    return int(text)


def as_positive(value: Any) -> float:
    """A number above 0."""
    try:
        number = float(as_written(value))
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise advice(f'"{value}" is not a positive number: write one such as 5.84.')
    return number


def as_size(value: Any) -> int:
    """Bytes."""
    try:
        return parse_size(as_written(value))
    except ValueError as error:
        raise advice(str(error)) from None


def as_variables(value: Any) -> dict[str, str | None]:
    """Environment variables: a list of names to pass on, whose values are None, or a mapping of names to values."""
    if isinstance(value, Mapping):
        variables: dict[str, str | None] = {str(name): as_written(text) for name, text in value.items()}
    else:
        variables = dict.fromkeys(map(as_text, as_list(value) or ()))
    for name in variables:
        if not VARIABLE.fullmatch(name):
            raise advice(f'"{name}" cannot be the name of an environment variable: use letters, digits and _.')
        if name == "TMPDIR":
            raise advice("TMPDIR is the folder of each run and cannot be changed; remove it.")
    return variables


def parse_duration(text: str) -> float:
    """Seconds of `120s`, `2m`, `1h30m`, or a plain number. ValueError explains what to write instead."""
    if _SECONDS.fullmatch(text):
        seconds = float(text)
    else:
        match = _DURATION.fullmatch(text)
        if not text or match is None:
            raise ValueError(f'"{text}" is not a duration: write hours, minutes and seconds as 120s, 2m or 1h30m.')
        hours, minutes, rest = (float(part or 0) for part in match.groups())
        seconds = hours * 3600 + minutes * 60 + rest
    if seconds <= 0:
        raise ValueError(f'"{text}" is no time at all: write a duration above zero, such as 120s.')
    if seconds > LONGEST:
        raise ValueError(f'"{text}" is longer than a week: write at most 168h.')
    return seconds


def parse_size(text: str) -> int:
    """Bytes of `8GiB`, `512MiB`, `2GB` (powers of 1000 without the i). ValueError explains what to write instead."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" is not a size: write a number and a unit, such as 8GiB or 512MiB.')
    number, unit = match.groups()
    if not unit:
        raise ValueError(f'"{text}" has no unit: write {number}GiB or {number}MiB.')
    if unit not in UNITS:
        # The binary unit with the same first letter.
        meant = next((known for known in UNITS if known.endswith("iB") and known[0] == unit[0].upper()), "GiB")
        units = ", ".join(known for known in UNITS if known != "KB")
        raise ValueError(f'"{text}" has the unknown unit "{unit}": write {number}{meant}; the units are {units}.')
    size = float(number) * UNITS[unit]
    if size < SMALLEST:
        raise ValueError(f'"{text}" is {int(size)} bytes, too little for any process: write at least 1MiB.')
    if size > LARGEST:  # also infinity, of hundreds of digits
        raise ValueError(f'"{text}" is more than any machine has: write at most 1024TiB.')
    return int(size)


def yaml_text(value: Any) -> str:
    """A value as YAML on one line; texts are quoted unless they are plain words."""
    import json

    match value:
        case Mapping():
            return "{" + ", ".join(f"{yaml_text(key)}: {yaml_text(item)}" for key, item in value.items()) + "}"
        case str():
            plain = _PLAIN.fullmatch(value) and value.lower() not in _RESERVED
            return value if plain else json.dumps(value, ensure_ascii=False)
        case Sequence():
            return "[" + ", ".join(map(yaml_text, value)) + "]"
        case None:
            return "none"
        case float():
            return repr(value)
        case _:
            return json.dumps(value)
