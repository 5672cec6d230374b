"""Checks of the values in a recipe. Each takes the scalar as written and returns what the case contains."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version
from pydantic import ValidationInfo

from triage.model.execution import Stage
from triage.recipes.document import Written
from triage.recipes.family import RecipeFamilies, RecipeFamily
from triage.recipes.matrix import has_placeholder
from triage.recipes.suggestions import did_you_mean
from triage.recipes.values import advice, as_text, as_written, parse_duration

MAX_DEVICES = 1024
MAX_NAME = 100

NAME = re.compile(r"[a-z0-9-]+")
KEY: re.Pattern[str] = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
ISSUE = re.compile(r"[\w.-]+/[\w.-]+#\d+|https?://\S+")
_TWO_FLAGS = re.compile(r"\S\s+--?[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Setting:
    """What checks know besides the value. family: None for an unknown compiler, whose words are not checked; folder: where
    relative inputs are looked for, None to skip that; failure_names: known classes and families, None to accept any.
    """

    families: RecipeFamilies
    family: RecipeFamily | None
    folder: Path | None = None
    failure_names: Collection[str] | None = None


def setting(info: ValidationInfo) -> Setting:
    """The setting of this validation."""
    assert isinstance(info.context, Setting)
    return info.context


def as_time_limit(value: Any) -> tuple[float, bool]:
    """Seconds, and whether the time in which a program waits for a core does not count: `120s cpu`."""
    text = as_written(value)
    seconds = text.removesuffix(" cpu")
    try:
        return parse_duration(seconds.rstrip()), seconds != text
    except ValueError as error:
        raise advice(str(error)) from None


def name_from(text: str) -> str:
    """The recipe name that is most like a text: `rms-norm-fwd` for `_RMS_norm.fwd`; empty when nothing can be kept."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:MAX_NAME].strip("-")


def check_name(value: Any) -> str:
    """A recipe's name."""
    text = as_text(value)
    if not NAME.fullmatch(text):
        better = name_from(text) or "cuda-matmul-f32"
        raise advice(f'"{text}" cannot be a name: use lowercase letters a-z, digits and hyphens, such as "{better}".')
    if len(text) > MAX_NAME:
        raise advice(f"the name has {len(text)} characters; write at most {MAX_NAME}, because file names contain it.")
    return text


def check_compiler(value: Any, info: ValidationInfo) -> str:
    """A compiler family's name."""
    text, families = as_text(value), setting(info).families
    if text not in families:
        nicknames = {nickname: family.name for family in families.values() for nickname in family.nicknames}
        guess = did_you_mean(text, families, nicknames)
        raise advice(f'"{text}" is not a known compiler{guess} Compilers: {", ".join(families)}.')
    return text


def check_backend(value: Any, info: ValidationInfo) -> str:
    """A backend of the compiler."""
    text, family = as_text(value), setting(info).family
    if family is None or not family.backends or has_placeholder(text):
        return text
    if text not in family.backends:
        guess = did_you_mean(text, family.backends, family.aliases)
        raise advice(f'"{text}" is not a backend of {family.name}{guess} Backends: {", ".join(family.backends)}.')
    return text


def check_word(value: Any) -> str:
    """A text without white space, such as a chip."""
    text = as_text(value)
    if re.search(r"\s", text):
        raise advice(f'"{text}" contains white space; write one word.')
    return text


def check_devices(value: Any) -> int | None:
    """A number of devices; None while a placeholder stands in its place."""
    text = as_written(value)
    if has_placeholder(text):
        return None
    if not re.fullmatch(r"[0-9]+", text):
        raise advice(f'"{text}" is not a number of devices: write a whole number, such as 2.')
    # Counted by its digits first: Python refuses to convert numbers of thousands of digits.
    count = int(text) if len(text) < 10 else MAX_DEVICES + 1
    if count < 1:
        raise advice(f"cannot compile for {text} devices: write 1 or more, or remove the key.")
    if count > MAX_DEVICES:
        raise advice(f"{text} devices are too many; write at most {MAX_DEVICES}.")
    return count


def check_phase(value: Any, info: ValidationInfo) -> str:
    """A phase the compiler can stop after."""
    text, family = as_text(value), setting(info).family
    if family is None:
        return text
    if not family.phases:
        raise advice(f'compiler "{family.name}" cannot stop after a phase; remove the key.')
    if text not in family.phases:
        guess = did_you_mean(text, family.phases)
        raise advice(f'"{text}" is not a phase of {family.name}{guess} Phases: {", ".join(family.phases)}.')
    return text


def check_flag(value: Any) -> str:
    """One compiler flag, handed over as one argument."""
    text = as_text(value)
    if has_placeholder(text) and text.startswith("${"):
        return text
    if not text.startswith("-"):
        raise advice(f'"{text}" is not a flag: a flag begins with a hyphen, such as "--{text.lstrip()}".')
    if _TWO_FLAGS.search(text):
        raise advice(f'"{text}" looks like several flags; write each as its own entry.')
    return text


def check_version(value: Any) -> str:
    """A release that bounds a range."""
    text = as_written(value)
    kind = value.kind if isinstance(value, Written) else "str"
    if kind in {"int", "float"}:
        full = text + ".0" * (2 - text.count("."))
        warning = " (3.10 would be 3.1)" if kind == "float" else ""
        raise advice(f'YAML reads {text} without quotes as a number{warning}; write "{full}".')
    try:
        Version(text)
    except InvalidVersion:
        raise advice(f'"{text}" is not a version: write a release such as "3.5.0".') from None
    return text


def check_failure(value: Any, info: ValidationInfo) -> str:
    """A failure's class or family."""
    text, known = as_text(value), setting(info).failure_names
    if known is not None and text not in known:
        guess = did_you_mean(text, known)
        raise advice(f'"{text}" is not a failure class or family{guess} Known: {", ".join(sorted(known))}.')
    return text


def check_stage(value: Any) -> Stage:
    """A stage of a case."""
    text, known = as_text(value), [stage.value for stage in Stage]
    if text not in known:
        raise advice(f'"{text}" is not a stage{did_you_mean(text, known)} Stages: {", ".join(known)}.')
    return Stage(text)


def check_issue(value: Any) -> str:
    """The issue that tracks a failure."""
    text = as_written(value)
    if not ISSUE.fullmatch(text):
        number = text.lstrip("#")
        raise advice(f'"{text}" is not an issue: write "owner/repo#{number if number.isdigit() else 123}" or its URL.')
    return text


def check_arg(value: Any) -> str:
    """One value handed to a generator."""
    if isinstance(value, list):
        joined = ",".join(str(item) for item in value)
        raise advice(f'an argument cannot be a list: write "{joined}" and split it in the generator.')
    return as_written(value)


def check_key(value: Any) -> str:
    """A name for a generator's argument or a matrix key."""
    text = str(value)
    if not KEY.fullmatch(text):
        bare = text.lstrip("-")
        instead = f'"{bare}"' if KEY.fullmatch(bare) else 'a word such as "dtype"'
        raise advice(f'"{text}" cannot be a key here: use letters, digits, _ and -, starting with a letter; write {instead}.')
    return text


def check_choice(value: Any) -> str:
    """One value of a matrix key."""
    text = as_written(value)
    if re.search(r"[,\[\]\n\r\t]", text) or text != text.strip():
        raise advice(f'"{text}" cannot be part of a case name: remove commas, brackets, line breaks and outer spaces.')
    return text
