"""A program in 32 bit floats: f16, bf16 and f64 replaced in every type, constants converted, casts that say nothing any more
taken out.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from math import copysign, inf

from triage.mlir import Module, Value

WIDE = "f32"
_KINDS: Mapping[str, tuple[int, Callable[[bytes], float]]] = {  # name -> bytes, and how they are read, least byte first
    "f16": (2, lambda raw: float(struct.unpack("<e", raw)[0])),
    "bf16": (2, lambda raw: float(struct.unpack("<f", b"\0\0" + raw)[0])),
    "f64": (8, lambda raw: float(struct.unpack("<d", raw)[0])),
}
_CASTS = ("arith.extf", "arith.truncf")
_STRING = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")')
_BITS = re.compile(r"(?<![\w.])0x([0-9A-Fa-f]+)(?!\w)")
_BLOB = re.compile(r'"0x([0-9A-Fa-f]+)"')


def widen(module: Module) -> str:
    """Leaves a module with constants of these types that are kept outside of it, as resources, as it is."""
    found = [kind for kind in _KINDS if _speaks_of(module, kind)]
    texts = [text for one in module.walk() for text in (*one.properties.values(), *one.attributes.values())]
    if not found or any("dense_resource<" in text and _type(kind).search(text) for text in texts for kind in found):
        return ""
    for kind in found:
        _replace(module, kind)
    _drop_casts(module)
    return f"{WIDE} in the place of {' and '.join(found)}"


def _speaks_of(module: Module, kind: str) -> bool:
    pattern = _type(kind)
    if any(pattern.search(text) for text in module.aliases.values()):
        return True
    return any(pattern.search(value.type) for value in _values(module))


def _values(module: Module) -> list[Value]:
    values = [value for one in module.walk() for value in one.results]
    blocks = [block for one in module.walk() for region in one.regions for block in region.blocks]
    return values + [value for block in blocks for value in block.arguments]


def _replace(module: Module, kind: str) -> None:
    for value in _values(module):
        value.type = _renamed(value.type, kind)
    for one in module.walk():
        for kept in (one.properties, one.attributes):
            for name, text in kept.items():
                kept[name] = _renamed(_converted(text, kind), kind)
    module.aliases = {name: _renamed(_converted(text, kind), kind) for name, text in module.aliases.items()}


def _drop_casts(module: Module) -> None:
    same: dict[Value, Value] = {}
    for block in [block for one in (module.root, *module.walk()) for region in one.regions for block in region.blocks]:
        for one in block.operations:
            if one.name in _CASTS and one.operands[0].type == one.results[0].type:
                same[one.results[0]] = one.operands[0]
        block.operations = [one for one in block.operations if not (one.results and one.results[0] in same)]
    for one in module.walk():
        one.operands = [_source(value, same) for value in one.operands]


def _source(value: Value, same: Mapping[Value, Value]) -> Value:
    while value in same:
        value = same[value]
    return value


def _type(kind: str) -> re.Pattern[str]:
    """The type alone or as an element, not as a part of a name."""
    return re.compile(rf"(?:(?<=[\d?]x)|(?<![\w.@#!%])){kind}(?!\w)")


def _renamed(text: str, kind: str) -> str:
    if kind not in text:
        return text
    parts = _STRING.split(text)
    return "".join(part if number % 2 else _type(kind).sub(WIDE, part) for number, part in enumerate(parts))


def _converted(text: str, kind: str) -> str:
    """Numbers that are written as bits, of a constant of this type."""
    if "0x" not in text or not re.search(rf" : (?:{kind}|(?:tensor|vector)<[\d?x]*{kind}>)$", text):
        return text
    if blob := _BLOB.search(text):
        size = _KINDS[kind][0]
        raw = bytes.fromhex(blob[1])
        wide = b"".join(_bits(raw[at : at + size], kind) for at in range(0, len(raw), size))
        return f'{text[: blob.start()]}"0x{wide.hex().upper()}"{text[blob.end() :]}'
    return _BITS.sub(lambda found: f"0x{_bits(bytes.fromhex(found[1])[::-1], kind)[::-1].hex().upper()}", text)


def _bits(raw: bytes, kind: str) -> bytes:
    """The same number as 32 bits, least byte first; what is too large becomes infinite."""
    number = _KINDS[kind][1](raw)
    try:
        return struct.pack("<f", number)
    except OverflowError:
        return struct.pack("<f", copysign(inf, number))
