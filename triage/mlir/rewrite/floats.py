"""A module that computes in 32 bit floats: types replaced, constants converted, casts without effect removed."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from math import copysign, inf

from triage.mlir import Module, Value

WIDE = "f32"
_READERS: Mapping[str, tuple[int, Callable[[bytes], float]]] = {  # type -> bytes, and how to read them, least byte first
    "f16": (2, lambda raw: float(struct.unpack("<e", raw)[0])),
    "bf16": (2, lambda raw: float(struct.unpack("<f", b"\0\0" + raw)[0])),
    "f64": (8, lambda raw: float(struct.unpack("<d", raw)[0])),
}
CONVERTIBLE = tuple(_READERS)
"""The types whose constants are converted, in whatever form they are written."""

_EIGHT_BIT = re.compile(r"(?:(?<=[\d?]x)|(?<![\w.@#!%]))(f8E\w+)")
_CASTS = ("arith.extf", "arith.truncf")
_STRING = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")')
_BITS = re.compile(r"(?<![\w.])0x([0-9A-Fa-f]+)(?!\w)")
_BLOB = re.compile(r'"0x([0-9A-Fa-f]+)"')


def float_types(module: Module) -> list[str]:
    """Return the float types other than f32 that the module computes in."""
    texts = list(dict.fromkeys([*module.aliases.values(), *(value.type for value in module.values())]))
    narrow = dict.fromkeys(name for text in texts for name in _EIGHT_BIT.findall(text))
    return [name for name in (*CONVERTIBLE, *narrow) if any(_type(name).search(text) for text in texts)]


def widen_floats(module: Module, types: Iterable[str]) -> bool:
    """Replace float types with f32.

    Constants of 8 bit types that are written as bits are not converted; the result is then invalid.

    Args:
        module: Changed in place.
        types: Some of `float_types`.

    Returns:
        Whether anything changed. A module that keeps constants of such a type as resources is left alone.
    """
    types = list(types)
    resources = [text for operation in module.walk() for text in operation.texts() if "dense_resource<" in text]
    if not types or any(_type(name).search(text) for text in resources for name in types):
        return False
    for name in types:
        for value in module.values():
            value.type = _renamed(value.type, name)
        for operation in module.walk():
            for attributes in (operation.properties, operation.attributes):
                attributes.update({key: _renamed(_converted(text, name), name) for key, text in attributes.items()})
        module.aliases = {alias: _renamed(_converted(text, name), name) for alias, text in module.aliases.items()}
    _remove_casts(module)
    return True


def _remove_casts(module: Module) -> None:
    sources: dict[Value, Value] = {}
    for block in module.blocks():
        for operation in block.operations:
            if operation.name in _CASTS and operation.operands[0].type == operation.results[0].type:
                sources[operation.results[0]] = operation.operands[0]
        block.operations = [
            operation for operation in block.operations if not (operation.results and operation.results[0] in sources)
        ]
    for operation in module.walk():
        for index, value in enumerate(operation.operands):
            while value in sources:
                value = sources[value]
            operation.operands[index] = value


@cache
def _type(name: str) -> re.Pattern[str]:
    """Match the type alone or as an element type, not as a part of a name."""
    return re.compile(rf"(?:(?<=[\d?]x)|(?<![\w.@#!%])){name}(?!\w)")


def _renamed(text: str, name: str) -> str:
    if name not in text:
        return text
    parts = _STRING.split(text)
    return "".join(part if index % 2 else _type(name).sub(WIDE, part) for index, part in enumerate(parts))


def _converted(text: str, name: str) -> str:
    """Convert the numbers of a constant of this type that are written as bits."""
    if "0x" not in text or name not in _READERS or not re.search(rf" : (?:{name}|(?:tensor|vector)<[\d?x]*{name}>)$", text):
        return text
    if blob := _BLOB.search(text):
        size = _READERS[name][0]
        raw = bytes.fromhex(blob[1])
        wide = b"".join(_as_f32(raw[offset : offset + size], name) for offset in range(0, len(raw), size))
        return f'{text[: blob.start()]}"0x{wide.hex().upper()}"{text[blob.end() :]}'
    return _BITS.sub(lambda found: f"0x{_as_f32(bytes.fromhex(found[1])[::-1], name)[::-1].hex().upper()}", text)


def _as_f32(raw: bytes, name: str) -> bytes:
    """Return the number as 32 bits, least byte first; a number that is too large becomes infinite."""
    number = _READERS[name][1](raw)
    try:
        return struct.pack("<f", number)
    except OverflowError:
        return struct.pack("<f", copysign(inf, number))
