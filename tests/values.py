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
    array: Array
    mlir: str
    """As MLIR writes it."""

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def operation(self) -> str:
        """A StableHLO operation with one operand."""
        return "not" if self.dtype.kind in "biu" else "negate"

    @property
    def result(self) -> Array:
        return ~self.array if self.operation == "not" else -self.array

    @property
    def program(self) -> str:
        type_ = f"tensor<4x{self.mlir}>"
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
        is_of_numpy = self.dtype.isbuiltin == 1
        return WAYS if is_of_numpy else ("inline", "raw")


# Name, type of numpy, and numbers. The third integer of 64 bits is not a number of f64.
_TABLE = """\
i1 bool 1 0 0 1
i8 int8 -128 127 125 1
i16 int16 -32768 32767 32765 1
i32 int32 -2147483648 2147483647 2147483645 1
i64 int64 -9223372036854775808 9223372036854775807 9007199254740993 1
ui8 uint8 0 255 253 1
ui16 uint16 0 65535 65533 1
ui32 uint32 0 4294967295 4294967293 1
ui64 uint64 0 18446744073709551615 9007199254740993 1
f16 float16 0.1 -2.5 inf nan
bf16 bfloat16 0.1 -2.5 inf nan
f32 float32 0.1 -2.5 inf nan
f64 float64 0.1 -2.5 inf nan
f8E5M2 float8_e5m2 0.1 -2.5 inf nan
f8E4M3FN float8_e4m3fn 0.1 -2.5 448 nan
f8E5M2FNUZ float8_e5m2fnuz 0.1 -2.5 64 nan
f8E4M3FNUZ float8_e4m3fnuz 0.1 -2.5 64 nan
cf64 complex64 1+2j 0.1-1j 3 0
cf128 complex128 1+2j 0.1-1j 3 0
"""
_IN_MLIR = {"cf64": "complex<f32>", "cf128": "complex<f64>"}


def _element(name: str, type_: str, *words: str) -> Element:
    dtype = np.dtype(getattr(ml_dtypes, type_, type_))
    number = {"b": int, "i": int, "u": int, "c": complex}.get(dtype.kind, float)
    array = np.array([number(word) for word in words], object).astype(dtype)
    return Element(name, array, _IN_MLIR.get(name, name))


ELEMENTS = {line.split()[0]: _element(*line.split()) for line in _TABLE.splitlines()}


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


def in_all_ways(element: Element, array: Array, folder: Path, name: str) -> list[str]:
    """Return a value of a recipe in all ways of its type."""
    start = f"{element.name}-{name}"
    return [value(element, array, way, folder, start) for way in element.ways]


def write_matrix(folder: Path, names: list[str], head: str, rev: str) -> list[str]:
    """Write three recipes for each element type, which give an argument in every way
    and expect results in every way, from a reference, and one that is wrong. Return the
    names of the latter. `head` has the keys `compiler` and `target`.
    """
    for element in map(ELEMENTS.__getitem__, names):
        (folder / f"{element.name}.mlir").write_text(element.program)
        other = element.result.copy()
        other[0] = element.array[0]  # negated or inverted, it is another number
        assert other[0] != element.result[0]
        inputs = in_all_ways(element, element.array, folder, "in")
        right = in_all_ways(element, element.result, folder, "out")
        off = in_all_ways(element, other, folder, "off")
        for kind, run in {
            "expected": {"expected": right},
            "reference": {"reference": {"toolchain": rev}},
            "wrong": {"expected": [*right[:-1], off[-1]]},
        }.items():
            name = f"{element.name.lower()}-{kind}"
            keys = json.dumps({"inputs": inputs, **run})  # JSON is YAML
            (folder / f"{name}.yaml").write_text(
                f"name: {name}\ninput: {element.name}.mlir\n{head}run: {keys}\n"
            )
    return [f"{name.lower()}-wrong" for name in names]
