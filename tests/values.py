"""Every element type, with values that only an exact copy keeps: the programs, files
and recipes of the matrix of values.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

WAYS = ("inline", "npy", "raw")
"""How a recipe names a value."""


@dataclass(frozen=True)
class Element:
    """An element type, and a program that negates or inverts each element of its
    arguments, one for each way to write a value.
    """

    name: str
    """As recipes write it."""
    dtype: Any
    numbers: tuple[Any, ...]
    operation: str
    """A StableHLO operation with one operand."""
    mlir: str = ""
    """As MLIR writes it, if that is another name."""

    @property
    def array(self) -> Array:
        return np.array(self.numbers).astype(self.dtype)

    @property
    def result(self) -> Array:
        result = ~self.array if self.operation == "not" else -self.array
        return result.astype(self.dtype)

    @property
    def program(self) -> str:
        type_ = f"tensor<4x{self.mlir or self.name}>"
        count = range(len(self.ways))
        arguments = ", ".join(f"%x{index}: {type_}" for index in count)
        results = ", ".join(f"%y{index}" for index in count)
        types = ", ".join(type_ for _ in count)
        body = "".join(
            f"  %y{index} = stablehlo.{self.operation} %x{index} : {type_}\n"
            for index in count
        )
        return (
            f"func.func @main({arguments}) -> ({types}) {{\n{body}"
            f"  return {results} : {types}\n}}\n"
        )

    @property
    def ways(self) -> tuple[str, ...]:
        """How a recipe can name a value; .npy files have only numpy's own types."""
        is_of_numpy = np.dtype(self.dtype).isbuiltin == 1
        return WAYS if is_of_numpy else ("inline", "raw")


def _integer(bits: int, *, signed: bool) -> Element:
    name = f"{'i' if signed else 'ui'}{bits}"
    info = np.iinfo(f"{'int' if signed else 'uint'}{bits}")
    # the third one is not a number of f64, if the type is large enough
    numbers = (info.min, info.max, min(2**53 + 1, info.max - 2), 1)
    array = np.array(numbers, info.dtype)
    return Element(name, info.dtype, tuple(array), "not")


def _float(name: str, dtype: Any, *numbers: float) -> Element:
    return Element(name, dtype, numbers or (0.1, -2.5, np.inf, np.nan), "negate")


ELEMENTS = {
    element.name: element
    for element in (
        Element("i1", np.bool_, (True, False, False, True), "not"),
        *(_integer(bits, signed=True) for bits in (8, 16, 32, 64)),
        *(_integer(bits, signed=False) for bits in (8, 16, 32, 64)),
        _float("f16", np.float16),
        _float("bf16", ml_dtypes.bfloat16),
        _float("f32", np.float32),
        _float("f64", np.float64),
        _float("f8E5M2", ml_dtypes.float8_e5m2),
        _float("f8E4M3FN", ml_dtypes.float8_e4m3fn, 0.1, -2.5, 448, np.nan),
        _float("f8E5M2FNUZ", ml_dtypes.float8_e5m2fnuz, 0.1, -2.5, 64, np.nan),
        _float("f8E4M3FNUZ", ml_dtypes.float8_e4m3fnuz, 0.1, -2.5, 64, np.nan),
        Element(
            "cf64", np.complex64, (1 + 2j, 0.1 - 1j, 3, 0), "negate", "complex<f32>"
        ),
        Element(
            "cf128", np.complex128, (1 + 2j, 0.1 - 1j, 3, 0), "negate", "complex<f64>"
        ),
    )
}


def number_text(number: Any) -> str:
    """Return a number as a person writes it."""
    if number.dtype.kind == "b":
        return str(int(number))
    if number.dtype.kind in "iu":
        return str(number)
    if number.dtype.kind == "c":
        return f"{complex(number)}".strip("()")
    return repr(float(number))


def value(element: Element, array: Array, way: str, folder: Path, name: str) -> str:
    """Return a value of a recipe in one of the WAYS; its file, if any, is in a
    folder.
    """
    type_ = "x".join([*map(str, array.shape), element.name])
    if way == "inline":
        return f"{type_}={' '.join(map(number_text, array.flat))}"
    if way == "npy":
        np.save(folder / f"{name}.npy", array)
        return f"@{name}.npy"
    array.tofile(folder / f"{name}.bin")
    return f"{type_}=@{name}.bin"


def write_recipe(
    folder: Path, name: str, element: Element, head: str, run: dict[str, Any]
) -> None:
    """Write a recipe that runs the program of an element type. `head` has the keys
    `compiler` and `target`.
    """
    (folder / f"{element.name}.mlir").write_text(element.program)
    # JSON is YAML
    keys = "".join(f"  {key}: {json.dumps(text)}\n" for key, text in run.items())
    (folder / f"{name}.yaml").write_text(
        f"name: {name}\ninput: {element.name}.mlir\n{head}run:\n{keys}"
    )


def write_matrix(folder: Path, names: list[str], head: str, rev: str) -> list[str]:
    """Write three recipes for each element type, which give an argument in every way
    and expect results in every way, from a reference, and one that is wrong. Return the
    names of the latter.
    """
    wrong = []
    for element in map(ELEMENTS.__getitem__, names):
        start = element.name.lower()
        array, result = element.array, element.result
        other = result.copy()
        other[0] = array[0]  # negated or inverted, it is another number
        assert other[0] != result[0]

        def values(name: str, *arrays: Array, element: Element = element) -> list[str]:
            return [
                value(element, array, way, folder, f"{element.name}-{name}-{number}")
                for number, (way, array) in enumerate(
                    zip(element.ways, arrays, strict=True)
                )
            ]

        count = len(element.ways)
        inputs = {"inputs": values("in", *[array] * count)}
        right = values("out", *[result] * count)
        off = values("off", *[result] * (count - 1), other)
        wrong.append(f"{start}-wrong")
        runs = {
            f"{start}-expected": {"expected": right},
            f"{start}-reference": {"reference": {"toolchain": rev}},
            wrong[-1]: {"expected": off},
        }
        for name, run in runs.items():
            write_recipe(folder, name, element, head, inputs | run)
    return wrong
