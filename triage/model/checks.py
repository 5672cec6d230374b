"""Checks of the values of keys in files, for `Annotated`. Pydantic, which is slow to
import, runs them where a file is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

SCALAR = {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True, eq=False)
class Check:
    """A check of a value."""

    run: Callable[[Any, Any], object]
    """Is called with the value and the context of the file, such as the compiler
    family. It raises ValueError, which says what to write instead.
    """
    schema: Mapping[str, object] = field(default_factory=dict)
    """What a JSON schema says of the value."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Check what the type in front of it reads."""
        from pydantic_core import core_schema

        def checked(value: Any, info: Any) -> Any:
            self.run(value, info.context)
            return value

        return core_schema.with_info_after_validator_function(checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        """Describe it."""
        return {**handler(schema), **self.schema}


def fits(regex: str, advice: str) -> Check:
    """Return a check that a text matches a pattern. `{text}` in the advice stands for
    another text.
    """

    def run(text: str, _: object) -> None:
        if not re.fullmatch(regex, text):
            raise ValueError(advice.replace("{text}", text))

    # or a placeholder
    return Check(run, {"pattern": rf"^({regex})$|\$\{{"})


def known(noun: str) -> Check:
    """Return a check that a word is a known backend, phase or failure class, where a
    recipe is read.
    """
    return Check(lambda word, setting: setting and setting.check_word(noun, word))


def _not_empty(text: str, _: object) -> None:
    if not text.strip():
        raise ValueError("the text is empty; give it a value or remove the key.")


def _some_devices(number: int, _: object) -> None:
    if not 1 <= number <= 1024:
        raise ValueError("write at least 1 and at most 1024 devices.")


def about(description: str, *examples: object) -> Mapping[str, object]:
    """Return the metadata of a field that is the key of a file: a sentence for editors,
    and examples. A message about the key shows the first one.
    """
    return {"description": description, "examples": [*examples]}


Text = Annotated[str, Check(_not_empty, {**SCALAR, "pattern": r"\S"})]
"""A scalar that is not empty, as the text in the file."""
Word = Annotated[Text, fits(r"\S+", '"{text}" contains white space; write one word.')]
DeviceCount = Annotated[
    int,
    Check(
        _some_devices,
        # or a placeholder
        {"type": ["integer", "string"], "minimum": 1, "maximum": 1024},
    ),
]
Release = Annotated[
    Text,
    fits(
        r"v?\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?"
        r"(\+[a-z0-9]+(\.[a-z0-9]+)*)?",
        '"{text}" is not a version: write a release such as "3.5.0".',
    ),
]
FlagText = Annotated[
    Text,
    fits(
        r"-.*",
        '"{text}" is not a flag: a flag begins with a hyphen, such as "--{text}".',
    ),
    fits(
        r"-(?!.*\S\s+--?[A-Za-z]).*",
        '"{text}" looks like several flags; write each as its own entry.',
    ),
]
Issue = Annotated[
    str,
    fits(
        r"[\w.-]+/[\w.-]+#\d+|https?://\S+",
        '"{text}" is not an issue: write "owner/repo#123" or its URL.',
    ),
]
