"""Healthy programs on several devices, with one fault planted in each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tests.conftest import ROOT

ANYWHERE = 0
GENERATOR = ROOT / "recipes" / "models" / "sharded_llama.py"


@dataclass(frozen=True)
class Planted:
    """A program with a fault."""

    text: str
    options: tuple[str, ...]
    line: int | None
    """The line of the fault: None for a fault in the options, ANYWHERE for several
    lines.
    """
    severity: str
    backend: str = "rocm"


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


def _renamed(n: int, old: str, new: str, devices: int, severity: str) -> Planted:
    """A program on n devices with other references, which declares so many devices."""
    text = sharded(n, "--layers", "1").replace(old, new)
    return Planted(text, hip(devices), line_of(text, new), severity)


def one_too_few(n: int) -> Planted:
    return _renamed(n, f"@__device_{n - 1}>", f"@__device_{n - 1}>", n - 1, "error")


def unknown_symbol(n: int) -> Planted:
    return _renamed(
        n,
        f"#hal.device.promise<@__device_{n - 1}>",
        "#hal.device.affinity<@spare, [0]>",
        n,
        "error",
    )


def half_named(n: int) -> Planted:
    options = ("--iree-hal-target-device=first=hip[0]", *hip(n)[1:])
    return Planted(sharded(n, "--layers", "1"), options, None, "error")


def argument_without_affinity(n: int) -> Planted:
    text = sharded(n, "--layers", "2")
    name = f"%up_1_{n - 1}: "
    before = next(row for row in text.split("\n") if row.strip().startswith(name))
    bare = before[: before.index(" {")] + ("," if before.endswith(",") else "")
    return Planted(text.replace(before, bare), hip(n), line_of(text, name), "warning")


def _changed_results(n: int, change: Callable[[str], str]) -> Planted:
    """A program whose last result is changed, in its text after `->`."""
    text = sharded(n, "--layers", "1", "--chain", "kv-cache", "--length", "2")
    head, end = text.index("-> (") + 4, text.index(") {", text.index("-> ("))
    results = text[head:end].split(", ")
    results[n - 1] = change(results[n - 1])  # the cache of the last device
    return Planted(
        text[:head] + ", ".join(results) + text[end:],
        hip(n),
        line_of(text, "  return "),
        "warning",
    )


def result_without_affinity(n: int) -> Planted:
    return _changed_results(n, lambda result: result.partition(" {")[0])


def result_elsewhere(n: int) -> Planted:
    return _changed_results(
        n, lambda result: replaced(result, f"@__device_{n - 1}>", "@__device_0>")
    )


def operands_apart(n: int) -> Planted:
    text = replaced(sharded(n, "--layers", "1"), f"ins(%x_0_{n - 1}, ", "ins(%x_0_0, ")
    return Planted(text, hip(n), line_of(text, f"%inner_0_{n - 1} = "), "warning")


def _chain(kind: str) -> Callable[[int], Planted]:
    def make(n: int) -> Planted:
        text = sharded(2, "--layers", "0", "--chain", kind, "--length", str(20 * n))
        return Planted(text, hip(2), ANYWHERE, "advice")

    return make


# : What is planted -> the rule that must find it, and how it is planted for 2, 4 and 8
# of something.
FAULTS: dict[str, tuple[str, Callable[[int], Planted]]] = {
    "one too few": ("undeclared-device", one_too_few),
    "unknown symbol": ("undeclared-device", unknown_symbol),
    "half named": ("undeclared-device", half_named),
    "argument without affinity": ("missing-affinity", argument_without_affinity),
    "result without affinity": ("missing-affinity", result_without_affinity),
    "result elsewhere": ("mixed-devices", result_elsewhere),
    "operands apart": ("mixed-devices", operands_apart),
    "updates": ("long-chain", _chain("updates")),
    "for loops": ("long-chain", _chain("for")),
    "while loops": ("long-chain", _chain("while")),
    "globals": ("long-chain", _chain("globals")),
    "optimization barriers": ("long-chain", _chain("opaque")),
}
