"""Convert results to JSON by their dataclasses: no result has a second class for its
keys.

`field(metadata=key("class"))` has another key than its name, and a field with the
metadata UNPRINTED is not printed. A property with `@in_json` is printed as well.
Pydantic, which stores and reads nights, reads the same metadata.

    >>> from dataclasses import dataclass, field
    >>> @dataclass
    ... class Found:
    ...     pass_: str = field(metadata=key("pass"))
    ...     probes: list[str] = field(metadata=UNPRINTED)
    ...
    ...     @in_json
    ...     def count_(self) -> int:
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
    return dict(value) if isinstance(value, Mapping) else list(value)
