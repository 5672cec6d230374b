"""The fields of dataclasses: how they are checked where a file is read, and how they
are printed as JSON. No class has a second one for its keys.

`field(metadata=key("class"))` has another key than its name, and a field with the
metadata UNPRINTED is not printed. A property with `@in_json` is printed as well.
Pydantic, which is slow to import, reads the same metadata, and calls the checks in an
`Annotated` type.

    >>> from dataclasses import dataclass, field
    >>> @dataclass
    ... class Example:
    ...     pass_: str = field(metadata=key("pass"))
    ...     probes: list[str] = field(metadata=UNPRINTED)
    ...
    ...     @in_json
    ...     def count_(self) -> int:
    ...         return len(self.probes)
    >>> as_json(Example("inline", ["a", "b"]))
    {'pass': 'inline', 'count': 2}
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sized
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache, partial
from pathlib import PurePath
from typing import Annotated, Any, Final, Generic, TypeVar

Json = dict[str, Any]
T = TypeVar("T")

REQUIRED: Any = MISSING
LONGEST = 7 * 24 * 3600.0

_NUMBER = r"([0-9]{1,16}(?:\.[0-9]{1,12})?)"
_DURATION = re.compile(rf"(?=.)(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s?)?")
_SIZE = re.compile(rf"{_NUMBER} ?([kKMGT]?)(i?)B")


@dataclass(frozen=True, eq=False)
class Check:
    """Checks a value, or makes it from what the file has."""

    run: Callable[[Any], object]
    """Returns the value to keep. Raises ValueError, which says what to write
    instead.
    """
    reads: Any = None
    """The type in the file (default: that of the value)."""
    is_first: bool = False
    """Whether it runs before the type in front of it checks the value, not after."""
    for_editors: Mapping[str, object] = field(default_factory=dict)
    """What the JSON schema of the type says besides."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return how pydantic reads the type in front of it."""
        from pydantic_core import core_schema

        if self.is_first:
            return core_schema.no_info_before_validator_function(
                self.run,
                handler(source),
                json_schema_input_schema=handler.generate_schema(self.reads),
            )
        read = handler.generate_schema(self.reads) if self.reads else handler(source)
        return core_schema.no_info_after_validator_function(
            self.run, read, metadata={"pydantic_js_updates": self.for_editors}
        )


@dataclass(frozen=True)
class CheckedBy:
    """Checks a text by the context of the file, such as `RecipeContext.backend`."""

    method: str

    def run(self, text: str, info: Any) -> Any:
        if info.context:
            return getattr(info.context, self.method)(text)
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return how pydantic reads the type in front of it."""
        from pydantic_core import core_schema

        return core_schema.with_info_after_validator_function(self.run, handler(source))


def file_key(
    default: Any, description: str, *examples: object, alias: str | None = None
) -> Any:
    """Return a field that is a key of a file, with a sentence for editors. A message
    about the key shows the first example. The default `dict` is a new mapping.
    """
    metadata: dict[str, Any] = {"description": description, "examples": [*examples]}
    if alias:
        metadata["alias"] = alias
    if default is dict:
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def file_keys(value: Any) -> dict[str, Any]:
    """Return the keys that a file needs for a value: those that are not defaults."""
    return {
        key.metadata.get("alias", key.name): getattr(value, key.name)
        for key in fields(value)
        if getattr(value, key.name) != key.default
    }


def fits(regex: str, advice: str) -> Check:
    """Return a check that a text matches a pattern. `{text}` in the advice stands for
    another text.
    """
    return Check(partial(_match, regex, advice))


def _match(regex: str, advice: str, text: str) -> str:
    if not re.fullmatch(regex, text):
        raise ValueError(advice.replace("{text}", text))
    return text


def between(least: float, most: float, advice: str) -> Check:
    """Return a check that a number is not smaller and not larger than two others."""
    return Check(partial(_limit, least, most, advice))


def _limit(least: float, most: float, advice: str, number: float) -> float:
    if not least <= number <= most:
        raise ValueError(advice)
    return number


def as_pairs(values: Mapping[str, T]) -> tuple[tuple[str, T], ...]:
    """Make pairs of a mapping."""
    return tuple(values.items())


def parse_duration(text: str) -> float:
    """Return the seconds of `120s`, `2m`, `1h30m`, or of a plain number. Raises
    ValueError, which says what to write instead.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(
            f'"{text}" is not a duration: write hours, minutes and seconds as 120s, '
            "2m or 1h30m."
        )
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    seconds = round(hours * 3600 + minutes * 60 + seconds, 9)
    if not 0 < seconds <= LONGEST:
        raise ValueError(
            f'"{text}" is out of range: write a duration above zero and at most a '
            "week (168h), such as 120s."
        )
    return seconds


def parse_size(text: str, least: int = 1 << 20) -> int:
    """Return the bytes of `8GiB`, `512MiB` or `2GB`; without the i, units are powers of
    1000. Raises ValueError, which says what to write instead.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(
            f'"{text}" is not a size: write a number and a unit, such as 8GiB or '
            "512MiB."
        )
    base = 1024 if match[3] else 1000
    size = float(match[1]) * base ** " KMGT".index(match[2].upper())
    if not least <= size <= 1 << 50:
        raise ValueError(
            f'"{text}" is out of range: write at least 1MiB and at most 1024TiB.'
        )
    return int(size)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("the text is empty; give it a value or remove the key.")
    return text


def _not_empty(values: Sized) -> Sized:
    if not values:
        raise ValueError("the list is empty; give it values or remove the key.")
    return values


Text = Annotated[str, Check(_not_blank)]
"""A scalar that is not empty, as the text in the file."""
Word = Annotated[Text, fits(r"\S+", '"{text}" contains white space; write one word.')]
DeviceCount = Annotated[
    int, between(1, 1024, "write at least 1 and at most 1024 devices.")
]
Duration = Annotated[float, Check(parse_duration, reads=str)]
Size = Annotated[int, Check(parse_size, reads=str)]
NOT_EMPTY = Check(_not_empty, for_editors={"minItems": 1})
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


UNPRINTED: Final[Mapping[str, object]] = {"printed": False}
UNSTORED: Final[Mapping[str, object]] = {"printed": False, "exclude": True}
"""The metadata of a field that is neither printed nor stored with a night."""


def key(name: str) -> Mapping[str, object]:
    """Return the metadata of a field that has another key than its name."""
    return {"alias": name}


@dataclass(frozen=True, eq=False)
class JsonProperty(Generic[T]):
    """A property that is printed with the fields of its class."""

    get: Callable[[Any], T]

    def __get__(self, instance: object, owner: type) -> T:
        return self.get(instance)


in_json = JsonProperty
"""Makes a method a property that is printed. Its name may end with an underscore, which
the key does not have.
"""


@cache
def printed_keys(kind: type) -> Mapping[str, str]:
    """Return the key in JSON of each printed field and property of a dataclass."""
    keys = {
        item.name: item.metadata.get("alias", item.name)
        for item in fields(kind)
        if item.metadata.get("printed", True)
    }
    for base in reversed(kind.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, JsonProperty):
                keys[name] = name.removesuffix("_")
    return keys


def as_json(value: object) -> Any:
    """Return a result as dictionaries, lists, texts, numbers, booleans and None, which
    stands for infinite numbers, too.
    """
    text = json.dumps(value, default=_plain)
    return json.loads(text, parse_constant=lambda _: None)


def _plain(value: Any) -> Any:
    """Return what `json.dumps` writes for a value of another type."""
    if is_dataclass(value):
        kind: Any = type(value)
        keys = printed_keys(kind).items()
        return {key: getattr(value, name) for name, key in keys}
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    return list(value)
