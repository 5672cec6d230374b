"""The base of the classes that are written as JSON."""

from __future__ import annotations

from typing import ClassVar


class Shape:
    """A dataclass whose fields are the keys of its JSON; `class_` becomes `class`."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"alias_generator": lambda name: name.removesuffix("_")}
