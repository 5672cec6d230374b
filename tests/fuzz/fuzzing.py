"""Fuzz every target in turn: `python -m tests.fuzz.fuzzing [--seconds N] [--seed N]
[TARGET...]`; exit 1 when something fails.

A finding is an error that is not the program's own, a broken property, or a slow check.
"""

from __future__ import annotations

import argparse
import logging
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from tests.fuzz.targets import TARGETS, examples_of, files_of
from triage.model.errors import TriageError

CORPUS = Path(__file__).parent / "corpus"
SECONDS = 10  # for one input of at most 64 KiB, on a busy machine
_LARGEST = 1 << 16  # bytes of an input
# what parsers have failed on before
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


class TooSlow(BaseException):
    """A check took too long. Nothing that it calls may catch this."""


def mutated(seeds: Sequence[bytes], randomly: random.Random) -> bytes:
    """Return one of the seeds with 1 to 8 changes of a few bytes."""
    data = randomly.choice(seeds)
    for _ in range(randomly.choice((1, 1, 2, 4, 8))):
        start, end = _span(data, randomly)
        old, other = data[start:end], randomly.choice(seeds)
        first, last = _span(other, randomly)
        token, bit = randomly.choice(_TOKENS), 1 << randomly.randrange(8)
        flipped = bytes(byte ^ bit for byte in old[:1]) + old[1:]
        repeated = old * randomly.choice((2, 3, 11, 201))
        spliced = other[first : randomly.choice((last, len(other)))]
        pieces = (b"", flipped, repeated, token, token + old, spliced)
        data = (data[:start] + randomly.choice(pieces) + data[end:])[:_LARGEST]
    return data


def _span(data: bytes, randomly: random.Random) -> tuple[int, int]:
    start = randomly.randint(0, len(data))
    return start, min(len(data), start + randomly.choice((1, 2, 4, 16, 64, 256)))


def failure_of(name: str, data: bytes) -> tuple[str, str] | None:
    """The place and the report of the failure of a target on an input; None when there
    is none.
    """

    def stop(*_: object) -> None:
        raise TooSlow(f"not finished after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        with tempfile.TemporaryDirectory() as folder:
            TARGETS[name](data, Path(folder))
    except TriageError:
        return None
    except (Exception, TooSlow) as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if "/triage/" in frame.filename] or frames
        place = f"{type(error).__name__} at {own[-1].filename}:{own[-1].lineno}"
        return place, "".join(traceback.format_exception(error, limit=-6))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return None


def fuzz(name: str, seconds: float, seed: int) -> int:
    """Check a target's seeds and mutations of them for some time, and save and print
    the smallest input that fails at each place; return the number of places.
    """
    findings: dict[str, tuple[bytes, str]] = {}
    seeds = examples_of(name) + files_of(name, "corpus")
    randomly, executions = random.Random(f"{name} {seed}"), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        is_seed = executions < len(seeds)
        data = seeds[executions] if is_seed else mutated(seeds, randomly)
        executions += 1
        place, report = failure_of(name, data) or ("", "")
        if place and len(data) < len(findings.get(place, (data + b".",))[0]):
            findings[place] = data, report
    print(f"{name:12s} {executions:8d} executions  {len(findings)} findings")
    for data, report in findings.values():
        path = CORPUS / name / sha256(data).hexdigest()[:12]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        print(f"\nsaved as {path}:\n{report}")
    return len(findings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("targets", nargs="*", default=list(TARGETS), metavar="TARGET")
    add("--seconds", type=float, default=60.0, help="for all targets together")
    add("--seed", type=int, default=int(time.time()), help="of an earlier run")
    options = parser.parse_args()
    logging.disable()  # the parsers of HTML comment on what they are given
    print(f"seed {options.seed}", flush=True)
    seconds = options.seconds / len(options.targets)
    counts = [fuzz(name, seconds, options.seed) for name in options.targets]
    sys.exit(any(counts))


if __name__ == "__main__":
    main()
