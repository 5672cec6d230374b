"""Change bytes at random: flip, cut, repeat, splice, and insert what parsers have
failed on before.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

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
    *(
        b"NaN",
        b"1e999",
        b"-1",
        b"9" * 400,
        b"9" * 5000,
        b"0x",
        b"null",
        b"true",
        b"[]",
        b"{}",
        b'"',
        b"'",
        b"\\",
        b"\\u0000",
    ),
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
    *(
        b":1: error: boom",
        b"error: ",
        b"%",
        b"${x}",
        b"loc(",
        b'"x.y"() : () -> ()',
        b"../",
        b"/dev/stdin",
        b"--",
        b"=",
        b";",
    ),
)


def mutated(seeds: Sequence[bytes], randomly: random.Random) -> bytes:
    """Return one of the seeds with 1 to 8 changes."""
    data = randomly.choice(seeds)
    for _ in range(randomly.choice((1, 1, 2, 4, 8))):
        start, end = _span(data, randomly)
        piece = _piece(data[start:end], seeds, randomly)
        data = (data[:start] + piece + data[end:])[:_LARGEST]
    return data


def _piece(old: bytes, seeds: Sequence[bytes], randomly: random.Random) -> bytes:
    """What is put in place of some bytes: nothing, a flipped bit, repeats, a token
    before them or not, or a part of a seed.
    """
    match randomly.choice(("cut", "flip", "repeat", "token", "token", "splice")):
        case "cut":
            return b""
        case "flip" if old:
            return bytes([old[0] ^ (1 << randomly.randrange(8))]) + old[1:]
        case "repeat":
            return old * randomly.choice((2, 3, 11, 201))
        case "splice":
            other = randomly.choice(seeds)
            start, end = _span(other, randomly)
            return other[start : randomly.choice((end, len(other)))]
        case _:
            return randomly.choice(_TOKENS) + randomly.choice((old, b""))


def _span(data: bytes, randomly: random.Random) -> tuple[int, int]:
    start = randomly.randint(0, len(data))
    return start, min(len(data), start + randomly.choice((1, 2, 4, 16, 64, 256)))
