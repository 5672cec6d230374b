"""How results become JSON: one walk over dataclasses, so that a result needs no second
class for its keys.

A field's key is its name, without the underscore of a field such as `class_`, or the
name in the class's JSON_KEYS; a key None leaves the field out, and the key `*` writes
the keys of the value itself. JSON_PROPERTIES names properties that are written as well;
whoever reads the JSON ignores them, because they follow from the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

Json = dict[str, Any]


def as_json(value: object) -> Any:
    """Return a result as plain JSON values: dictionaries, lists, texts, numbers,
    booleans, None.
    """
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float):
        return value
    if is_dataclass(value):
        names = [field.name for field in fields(value)] + list(
            getattr(value, "JSON_PROPERTIES", ())
        )
        renamed = getattr(value, "JSON_KEYS", {})
        written: Json = {}
        for name in names:
            key = renamed.get(name, name.removesuffix("_"))
            if key is not None:
                entry = as_json(getattr(value, name))
                if key == "*":
                    written |= entry
                else:
                    written |= {key: entry}
        return written
    if isinstance(value, Mapping):
        return {str(key): as_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(entry) for entry in value]
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"a {type(value).__name__} has no JSON form")
