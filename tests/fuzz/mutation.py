"""Change bytes at random: flip, cut, repeat, splice, and insert what parsers have failed on before."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

_LARGEST = 1 << 16  # bytes of an input
_TOKENS = (
    *(
        b"\x00",
        b"\x1b[31m",
        b"\x7f",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        "\u202e".encode(),
        "\u0085".encode(),
        "²".encode(),
        b"\r",
        b"\n",
    ),
    *(b"NaN", b"1e999", b"-1", b"9" * 400, b"9" * 5000, b"0x", b"null", b"true", b"[]", b"{}", b'"', b"'", b"\\", b"\\u0000"),
    *(
        b"[" * 300,
        b"{" * 300,
        b"(" * 300,
        b'{"a":' * 300,
        b"- " * 300,
        b"." * 2000,
        b" " * 2000,
        b"&a [*a]",
        b"<<: *a",
        b"!!python/object",
    ),
    *(b":1: error: boom", b"error: ", b"%", b"${x}", b"loc(", b'"x.y"() : () -> ()', b"../", b"/dev/stdin", b"--", b"=", b";"),
)


def mutated(seeds: Sequence[bytes], randomly: random.Random) -> bytes:
    """Return one of the seeds with 1 to 8 changes."""
    data = randomly.choice(seeds)
    for _ in range(randomly.choice((1, 1, 2, 4, 8))):
        data = randomly.choice(_CHANGES)(data, seeds, randomly)[:_LARGEST]
    return data


def _span(data: bytes, randomly: random.Random) -> tuple[int, int]:
    start = randomly.randint(0, len(data))
    return start, min(len(data), start + randomly.choice((1, 2, 4, 16, 64, 256)))


def _flip(data: bytes, _: Sequence[bytes], randomly: random.Random) -> bytes:
    if not data:
        return data
    index = randomly.randrange(len(data))
    return data[:index] + bytes([data[index] ^ (1 << randomly.randrange(8))]) + data[index + 1 :]


def _cut(data: bytes, _: Sequence[bytes], randomly: random.Random) -> bytes:
    start, end = _span(data, randomly)
    return data[:start] + data[end:]


def _repeat(data: bytes, _: Sequence[bytes], randomly: random.Random) -> bytes:
    start, end = _span(data, randomly)
    return data[:end] + data[start:end] * randomly.choice((1, 2, 10, 200)) + data[end:]


def _insert(data: bytes, _: Sequence[bytes], randomly: random.Random) -> bytes:
    start, end = _span(data, randomly)
    return data[:start] + randomly.choice(_TOKENS) + data[randomly.choice((start, end)) :]


def _splice(data: bytes, seeds: Sequence[bytes], randomly: random.Random) -> bytes:
    other = randomly.choice(seeds)
    start, end = _span(other, randomly)
    index = randomly.randint(0, len(data))
    return data[:index] + other[start : randomly.choice((end, len(other)))] + data[index:]


def _swap_lines(data: bytes, _: Sequence[bytes], randomly: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return data
    first, second = randomly.sample(range(len(lines)), 2)
    lines[first], lines[second] = lines[second], lines[first]
    return b"".join(lines)


_CHANGES: tuple[Callable[[bytes, Sequence[bytes], random.Random], bytes], ...] = (
    _flip,
    _cut,
    _repeat,
    _insert,
    _insert,
    _splice,
    _swap_lines,
)
