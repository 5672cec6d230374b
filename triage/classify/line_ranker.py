"""Score which lines of a log tell its failure, by a linear model of the words of a line
and of its neighbours. `benchmarks/train_lines.py` learns the weights.

The model puts lines in order. It cannot tell a failing log from a green one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from math import sqrt
from pathlib import Path

WEIGHTS = Path(__file__).with_name("line_weights.json")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8,}\b")
_PATH = re.compile(r"(?:[A-Za-z]:)?[\w.+~-]*(?:[/\\][\w.+~@-]+)+")
_WORD = re.compile(r"[a-z_]+|[^\w\s]{1,3}")
_LOUD = re.compile(
    r"error|fatal|assert|panic|exception|fail|cannot|could not|unable|not found"
    r"|no such|abort|segmentation|undefined|unsupported|not supported",
    re.IGNORECASE,
)
_EXCEPTION = re.compile(
    r"^\W*(?:[\w.]+\.)?\w*(?:Error|Exception|Exit|Interrupt)\b",
)
_NEIGHBOURS = {-2: "pp ", -1: "p ", 1: "n ", 2: "nn "}
_READ = 400  # characters of a line
_WORDS, _WORDS_OF_NEIGHBOUR = 60, 12


def _words(line: str) -> list[str]:
    """Return the words and signs of a line; each path, address and number is one word,
    the same for all.
    """
    text = _PATH.sub("path", _ADDRESS.sub("hex", line[:_READ]))
    return _WORD.findall(re.sub(r"\d+", " number ", text).lower())[:_WORDS]


def line_features(lines: Sequence[str]) -> Iterator[dict[str, float]]:
    """Yield what the model reads of each line."""
    words = [_words(line) for line in lines]
    loud = [at for at, line in enumerate(lines) if _LOUD.search(line)]
    for at, line in enumerate(lines):
        line_words = words[at]
        values = {f"w {word}": 1.0 for word in line_words}
        pairs = pairwise(line_words)
        values |= {f"b {first} {second}": 1.0 for first, second in pairs}
        values["s " + " ".join(line_words[:2])] = 1.0
        for distance, prefix in _NEIGHBOURS.items():
            near = ["none"]
            if 0 <= at + distance < len(lines):
                near = words[at + distance][:_WORDS_OF_NEIGHBOUR]
            values |= {prefix + word: 0.5 for word in near}
        size = sqrt(sum(value * value for value in values.values()))
        values = {name: value / size for name, value in values.items()}
        values["at the end"] = 1 / (len(lines) - at)
        values["at the start"] = 1 / (at + 1)
        values["loud"] = float(_LOUD.search(line) is not None)
        values["first loud"] = float(loud[:1] == [at])
        values["last loud"] = float(loud[-1:] == [at])
        values["exception"] = float(_EXCEPTION.match(line) is not None)
        yield values


@cache
def weights() -> dict[str, float]:
    """Return the learned weights."""
    content: dict[str, float] = json.loads(WEIGHTS.read_text("utf-8"))
    return content


def scores(lines: Sequence[str], learned: Mapping[str, float]) -> list[float]:
    """Return a number for each line: the larger, the more likely it tells the
    failure.
    """
    return [
        sum(learned.get(name, 0.0) * value for name, value in values.items())
        for values in line_features(lines)
    ]
