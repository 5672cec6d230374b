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
    chip: str | None = "gfx942"


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


def position_left_out(n: int) -> Planted:
    return _renamed(n, f"@__device_{n - 1}>", f"@__device_{n + 1}>", n + 2, "warning")


def one_too_many(n: int) -> Planted:
    return Planted(sharded(n, "--layers", "2"), hip(n + 1), None, "warning")


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


def transfer_to_where_it_is(n: int) -> Planted:
    target = f"tensor<1x64xf32> to #hal.device.promise<@__device_{n - 1}>"
    again = f"  %again = flow.tensor.transfer %outer_0_{n - 1} : {target}"
    made, line = inserted(sharded(n, "--layers", "1"), f"%back_0_{n - 1} =", again)
    back = f"%back_0_{n - 1} = flow.tensor.transfer "
    return Planted(
        replaced(made, f"{back}%outer_0_{n - 1}", f"{back}%again"),
        hip(n),
        line,
        "advice",
    )


def operands_apart(n: int) -> Planted:
    text = replaced(sharded(n, "--layers", "1"), f"ins(%x_0_{n - 1}, ", "ins(%x_0_0, ")
    return Planted(text, hip(n), line_of(text, f"%inner_0_{n - 1} = "), "warning")


def _weight(n: int, operation: str) -> tuple[str, int]:
    """A program that multiplies with the weight that an operation makes, and the line
    of the operation.
    """
    weight = f"  %weight = {operation} : tensor<64x{128 // n}xf32>"
    made, line = inserted(sharded(n, "--layers", "1"), f"%inner_0_{n - 1} =", weight)
    return replaced(
        made, f"ins(%x_0_{n - 1}, %up_0_{n - 1} ", f"ins(%x_0_{n - 1}, %weight "
    ), line


def constant_on_a_device(n: int) -> Planted:
    text, line = _weight(n, "arith.constant dense<0.5>")
    return Planted(text, hip(n), line, "advice")


def global_on_a_device(n: int) -> Planted:
    text, line = _weight(n, "util.global.load @weight")
    head = f"util.global private @weight = dense<0.5> : tensor<64x{128 // n}xf32>\n"
    return Planted(head + text, hip(n), line + 1, "advice")


def _chain(kind: str) -> Callable[[int], Planted]:
    def make(n: int) -> Planted:
        text = sharded(2, "--layers", "0", "--chain", kind, "--length", str(20 * n))
        return Planted(text, hip(2), ANYWHERE, "advice")

    return make


def reshaped_and_back(n: int) -> Planted:
    kind, flat = "tensor<1x64xf32>", "tensor<64xf32>"
    lines = (
        f"  %flat = tensor.collapse_shape %row_0 [[0, 1]] : {kind} into {flat}",
        f"  %back = tensor.expand_shape %flat [[0, 1]] output_shape [1, 64] : {flat} into {kind}",
    )
    made, line = inserted(sharded(n, "--layers", "1"), "return ", *lines)
    return Planted(
        replaced(made, "return %row_0", "return %back"), hip(n), line, "advice"
    )


def unknown_length(n: int) -> Planted:
    kind = "tensor<?x64xf32>"
    text = (
        f"func.func @f(%x: {kind}, %y: tensor<64x{8 * n}xf32>, %z: tensor<?x{8 * n}xf32>) -> tensor<?x{8 * n}xf32> {{\n"
        f"  %r = linalg.matmul ins(%x, %y : {kind}, tensor<64x{8 * n}xf32>) outs(%z : tensor<?x{8 * n}xf32>)"
        f" -> tensor<?x{8 * n}xf32>\n  return %r : tensor<?x{8 * n}xf32>\n}}\n"
    )
    return Planted(text, ("--iree-hal-target-backends=rocm",), 2, "advice")


def vector_too_large(n: int) -> Planted:
    kind = f"vector<{2048 * n}xf32>"
    text = f"func.func @f(%x: {kind}) -> {kind} {{\n  %r = arith.addf %x, %x : {kind}\n  return %r : {kind}\n}}\n"
    return Planted(
        text, ("--iree-hal-target-backends=llvm-cpu",), 2, "warning", "llvm-cpu", None
    )


def _type(
    element: str, backend: str, chip: str | None, severity: str, *more: str
) -> Callable[[int], Planted]:
    def make(n: int) -> Planted:
        kind = f"tensor<{n}x4x{element}>"
        text = f"func.func @f(\n    %x: {kind}) -> {kind} {{\n  %r = arith.addf %x, %x : {kind}\n  return %r : {kind}\n}}\n"
        return Planted(
            text,
            (f"--iree-hal-target-backends={backend}", *more),
            2,
            severity,
            backend,
            chip,
        )

    return make


# : What is planted -> the rule that must find it, and how it is planted for 2, 4 and 8
# of something.
FAULTS: dict[str, tuple[str, Callable[[int], Planted]]] = {
    "one too few": ("undeclared-device", one_too_few),
    "unknown symbol": ("undeclared-device", unknown_symbol),
    "one too many": ("unused-device", one_too_many),
    "position left out": ("device-gap", position_left_out),
    "half named": ("device-names", half_named),
    "argument without affinity": ("missing-affinity", argument_without_affinity),
    "result without affinity": ("missing-affinity", result_without_affinity),
    "result elsewhere": ("mixed-devices", result_elsewhere),
    "operands apart": ("mixed-devices", operands_apart),
    "transfer to where it is": ("redundant-transfer", transfer_to_where_it_is),
    "constant on a device": ("unplaced-constant", constant_on_a_device),
    "global on a device": ("unplaced-constant", global_on_a_device),
    "updates": ("long-chain", _chain("updates")),
    "for loops": ("long-chain", _chain("for")),
    "while loops": ("long-chain", _chain("while")),
    "globals": ("long-chain", _chain("globals")),
    "optimization barriers": ("long-chain", _chain("opaque")),
    "reshaped and back": ("undone-reshape", reshaped_and_back),
    "unknown length": ("dynamic-dimension", unknown_length),
    "vector too large": ("large-vector", vector_too_large),
    "f8 on cuda": ("missing-type", _type("f8E4M3FN", "cuda", "sm_80", "warning")),
    "OCP f8 on gfx942": ("missing-type", _type("f8E5M2", "rocm", "gfx942", "warning")),
    "FNUZ f8 on gfx1201": (
        "missing-type",
        _type("f8E4M3FNUZ", "rocm", "gfx1201", "warning"),
    ),
    "f64 on Vulkan": (
        "missing-type",
        _type(
            "f64",
            "vulkan-spirv",
            None,
            "warning",
            "--iree-input-demote-f64-to-f32=false",
        ),
    ),
    "f64": ("demoted-type", _type("f64", "llvm-cpu", None, "advice")),
    "f16 on the virtual machine": (
        "missing-type",
        _type("f16", "vmvx", None, "warning"),
    ),
}
