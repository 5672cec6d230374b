"""Convert results to JSON by walking over their dataclasses, so that no result needs a
second class for its keys.

The metadata of a field say how it is written. Pydantic, which stores and reads nights,
reads the same metadata. `field(metadata=key("class"))` has another key than its name,
and `field(metadata=UNPRINTED)` is not printed. A property with `@in_json` is printed as
well; whoever reads the JSON ignores it, because it follows from the fields.

    >>> from dataclasses import dataclass, field
    >>> @dataclass
    ... class Found:
    ...     pass_: str = field(metadata=key("pass"))
    ...     probes: list[str] = field(metadata=UNPRINTED)
    ...
    ...     @in_json
    ...     def count(self) -> int:
    ...         return len(self.probes)
    >>> as_json(Found("inline", ["a", "b"]))
    {'pass': 'inline', 'count': 2}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import PurePath
from typing import Any, Final, Generic, TypeVar

Json = dict[str, Any]
T = TypeVar("T")

UNPRINTED: Final[Mapping[str, object]] = {"printed": False}
UNSTORED: Final[Mapping[str, object]] = {"printed": False, "exclude": True}
"""The metadata of a field that is neither printed nor stored with a night."""


def key(name: str) -> Mapping[str, object]:
    """Return the metadata of a field that has another key than its name."""
    return {"alias": name}


def inline(kind: type) -> Mapping[str, object]:
    """Return the metadata of a field whose value, a dataclass `kind` or None, is
    printed as keys among the others. For None, each of these keys is null.
    """
    return {"inline": kind}


@dataclass(frozen=True, eq=False)
class JsonProperty(Generic[T]):
    """A property that is printed with the fields of its class."""

    get: Callable[[Any], T]
    key: str | None = None

    def __get__(self, instance: object, owner: type) -> T:
        return self.get(instance)


in_json = JsonProperty
"""Makes a method a property that is printed by its name."""


def in_json_as(key: str) -> Callable[[Callable[[Any], T]], JsonProperty[T]]:
    """Make a method a property that is printed with another key than its name."""
    return lambda get: JsonProperty(get, key)


@cache
def printed_keys(kind: type) -> Mapping[str, str | type]:
    """Return the key in JSON of each printed field and property of a dataclass. For an
    inline field, return the class whose keys are printed in its place.
    """
    keys: dict[str, str | type] = {}
    for item in fields(kind):
        options = item.metadata
        if options.get("printed", True):
            keys[item.name] = options.get("inline") or options.get("alias", item.name)
    for base in reversed(kind.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, JsonProperty):
                keys[name] = value.key or name
    return keys


def as_json(value: object) -> Any:
    """Return a result as dictionaries, lists, texts, numbers, booleans and None, which
    stands for infinite numbers, too.
    """
    text = json.dumps(value, default=_entries)
    return json.loads(text, parse_constant=lambda _: None)


def _entries(value: Any) -> Any:
    """Return what `json.dumps` writes for a value of another type."""
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if not is_dataclass(value):
        return list(value)
    written: Json = {}
    kind: Any = type(value)
    for name, key in printed_keys(kind).items():
        entry = getattr(value, name)
        if isinstance(key, str):
            written[key] = entry
        else:
            written |= as_json(entry) or dict.fromkeys(printed_keys(key).values())
    return written
