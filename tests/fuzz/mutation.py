"""Change bytes at random: flip, cut, repeat, splice, and insert what parsers have
failed on before.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

_LARGEST = 1 << 16  # bytes of an input
_WORDS = r"""
\x00 \x1b[31m \x7f \r \n \u202e \x85 \xb2 \ufeff NaN 1e999 -1 0x null true [] {} " ' \\ \\u0000
&a\u0020[*a] <<:\u0020*a !!python/object :1:\u0020error:\u0020boom error:\u0020 % ${x} loc(
"x.y"()\u0020:\u0020()\u0020->\u0020() ../ /dev/stdin -- = ;
"""
_REPEATED = ("9", "[", "{", "(", '{"a":', "- ", ".", " ")
_TOKENS = (
    b"\xff\xfe",
    *(word.encode().decode("unicode_escape").encode() for word in _WORDS.split()),
    *(300 * word.encode() for word in _REPEATED),
    5000 * b"9",  # more digits than Python reads as an integer
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
