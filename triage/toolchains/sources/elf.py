"""Where a Linux binary says that its libraries are."""

from __future__ import annotations

import struct
from mmap import ACCESS_READ, mmap
from pathlib import Path

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian: what the compilers here are built for
_LOAD, _DYNAMIC = 1, 2
_STRINGS, _RPATH, _RUNPATH = 5, 15, 29
_HEADER = struct.Struct("<16x H H I Q Q Q I H H H")
_SEGMENT = struct.Struct("<I I Q Q Q Q Q Q")
_ENTRY = struct.Struct("<q Q")


def library_paths(path: Path) -> list[str]:
    """The folders of RPATH and RUNPATH; none for a file that is no 64-bit ELF binary or has none. OSError as open does."""
    with path.open("rb") as source:
        if source.read(len(_MAGIC)) != _MAGIC:
            return []
        try:
            with mmap(source.fileno(), 0, access=ACCESS_READ) as data:
                return _paths(data)
        except (struct.error, IndexError, ValueError):  # cut off
            return []


def _paths(data: mmap) -> list[str]:
    _, _, _, _, table, _, _, _, size, count = _HEADER.unpack_from(data)
    segments = [_SEGMENT.unpack_from(data, table + number * size) for number in range(count)]
    entries: dict[int, int] = {}
    for kind, _, offset, _, _, length, _, _ in segments:
        if kind == _DYNAMIC:
            entries |= dict(_ENTRY.iter_unpack(data[offset : offset + length]))
    if _STRINGS not in entries:
        return []
    strings = _offset(segments, entries[_STRINGS])
    found = [_text(data, strings + entries[tag]) for tag in (_RPATH, _RUNPATH) if tag in entries]
    return [part for text in found for part in text.split(":") if part]


def _offset(segments: list[tuple[int, ...]], address: int) -> int:
    for kind, _, offset, start, _, length, _, _ in segments:
        if kind == _LOAD and start <= address < start + length:
            return address - start + offset
    raise ValueError("an address outside of the file")


def _text(data: mmap, offset: int) -> str:
    return data[offset : data.find(b"\0", offset)].decode("utf-8", "replace")
