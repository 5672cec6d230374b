"""Healthy programs on several devices, with one fault planted in each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial

from tests.conftest import ROOT

ANYWHERE = 0
GENERATOR = ROOT / "recipes" / "models" / "sharded_llama.py"

Planted = tuple[str, tuple[str, ...], int]
"""The text of a program with a fault, its options, and the line of the fault: ANYWHERE
for several lines.
"""


@cache
def sharded(devices: int, *words: str) -> str:
    command = [sys.executable, str(GENERATOR), "--devices", str(devices), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def hip(devices: int) -> tuple[str, ...]:
    return tuple(
        f"--iree-hal-target-device=hip[{ordinal}]" for ordinal in range(devices)
    )


def line_of(text: str, part: str) -> int:
    assert part in text
    return text[: text.index(part)].count("\n") + 1


def replaced(text: str, old: str, new: str) -> str:
    assert old in text, old
    return text.replace(old, new, 1)


def inserted(text: str, before: str, *lines: str) -> tuple[str, int]:
    """The lines put before the one that holds `before`, and the number of the last of
    them.
    """
    at = line_of(text, before)
    rows = text.split("\n")
    return "\n".join([*rows[: at - 1], *lines, *rows[at - 1 :]]), at - 1 + len(lines)


def one_too_few(n: int) -> Planted:
    text = sharded(n, "--layers", "1")
    return text, hip(n - 1), line_of(text, f"@__device_{n - 1}>")


def unknown_symbol(n: int) -> Planted:
    symbol = "#hal.device.affinity<@spare, [0]>"
    text = sharded(n, "--layers", "1")
    text = text.replace(f"#hal.device.promise<@__device_{n - 1}>", symbol)
    return text, hip(n), line_of(text, symbol)


def argument_without_affinity(n: int) -> Planted:
    text = sharded(n, "--layers", "2")
    name = f"%up_1_{n - 1}: "
    before = next(row for row in text.split("\n") if row.strip().startswith(name))
    bare = before[: before.index(" {")] + ("," if before.endswith(",") else "")
    return text.replace(before, bare), hip(n), line_of(text, name)


def _changed_result(n: int, change: Callable[[str], str]) -> Planted:
    """A program in which the cache of the last device, a result, is changed."""
    text = sharded(n, "--layers", "1", "--chain", "kv-cache", "--length", "2")
    head, end = text.index("-> (") + 4, text.index(") {", text.index("-> ("))
    results = text[head:end].split(", ")
    results[n - 1] = change(results[n - 1])
    planted = text[:head] + ", ".join(results) + text[end:]
    return planted, hip(n), line_of(text, "  return ")


def result_without_affinity(n: int) -> Planted:
    return _changed_result(n, lambda result: result.partition(" {")[0])


def result_elsewhere(n: int) -> Planted:
    return _changed_result(
        n, lambda result: replaced(result, f"@__device_{n - 1}>", "@__device_0>")
    )


def operands_apart(n: int) -> Planted:
    text = replaced(sharded(n, "--layers", "1"), f"ins(%x_0_{n - 1}, ", "ins(%x_0_0, ")
    return text, hip(n), line_of(text, f"%inner_0_{n - 1} = ")


def chain(n: int, kind: str) -> Planted:
    words = ("--layers", "0", "--chain", kind, "--length", str(20 * n))
    return sharded(2, *words), hip(2), ANYWHERE


# The rule that must find it and its severity -> how each fault is planted for 2, 4 and
# 8 of something.
FAULTS: dict[tuple[str, str], list[Callable[[int], Planted]]] = {
    ("undeclared-device", "error"): [one_too_few, unknown_symbol],
    ("missing-affinity", "warning"): [
        argument_without_affinity,
        result_without_affinity,
    ],
    ("mixed-devices", "warning"): [result_elsewhere, operands_apart],
    ("long-chain", "advice"): [
        partial(chain, kind=kind)
        for kind in ("updates", "for", "while", "globals", "opaque")
    ],
}
