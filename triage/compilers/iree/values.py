"""Values in the notation of `iree-run-module`: `2x3xf32=1 2 3 4 5 6`, `2x3xf32=@values.bin`, `@values.npy`, or `5` for an
argument that is no tensor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triage.model.content import file_sha256

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_VALUE = re.compile(r"(?:(?P<type>[\w?]+)(?:=|\Z))?(?P<content>.*)\Z", re.DOTALL)
_TYPE = re.compile(r"(?P<shape>(?:\d+x)*)(?P<element>i1|[su]?i(?:8|16|32|64)|bf16|f16|f32|f64|f8E\w+)\Z")
_ELEMENTS = {
    "i1": "?", "i8": "i1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "ui8": "u1", "ui16": "<u2", "ui32": "<u4", "ui64": "<u8",
    "f16": "<f2", "f32": "<f4", "f64": "<f8", "bf16": "<u2",
}  # fmt: skip
_SCALAR = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?\Z")
_SCALAR_TYPE = re.compile(r"[suif]+\d+\Z")
SCALAR = ""  # the element type of a value that is no tensor
_BF16 = "bf16"
_TENSOR = re.compile(r"tensor<(?P<shape>(?:[\d?]+x)*)(?P<element>[suif]+\d+|bf16)>\Z")
_VTENSOR = re.compile(r"!torch\.vtensor<\[(?P<shape>[\d?,\s]*)\],\s*(?P<element>[suif]+\d+|bf16)>\Z")
_NAMES = {"i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64", "u1": "ui8", "u2": "ui16", "u4": "ui32", "u8": "ui64"}
_NAMES |= {"f2": "f16", "f4": "f32", "f8": "f64"}
_MOST_WRITTEN = 16  # elements; more are written to a file
_SEPARATOR = re.compile(r"[\s,\[\]]+")
_NUMBERS = {"true": "1", "false": "0"}
TENSOR_PROTO = ".pb"  # the suffix of ONNX tensors, which have to be converted
# What `iree-run-module` accepts where nothing else is asked for; `relative` counts in addition, from 3.12.0 on.
TOLERANCES: Mapping[str, float] = {"f16": 1e-3, "bf16": 1e-2, "f32": 1e-4, "f64": 1e-4, "relative": 1e-5}


@dataclass(frozen=True, slots=True)
class ValueText:
    """A value in parts. type: `2x3xf32`, empty where the file says it, and for a number that is no tensor; file: behind `@`;
    literal: the elements.
    """

    type: str
    file: str | None
    literal: str

    @property
    def element(self) -> str:
        """The element type, such as `f32`; empty when it is not known here."""
        match = _TYPE.match(self.type)
        return match["element"] if match else ""

    def __str__(self) -> str:
        content = self.literal if self.file is None else f"@{self.file}"
        return "=".join(part for part in (self.type, content) if part)


@lru_cache(maxsize=1 << 13)
def split_value(text: str) -> ValueText:
    """Split a value. ValueError says what is wrong with it."""
    if _SCALAR.match(text):
        return ValueText("", None, text)
    match = _VALUE.match(text)
    kind, content = (match["type"] or "", match["content"]) if match else ("", text)
    if content.startswith("@"):
        if not content[1:]:
            raise ValueError(f'"{text}" names no file behind the @.')
        return ValueText(kind, content[1:], "")
    if kind and not _TYPE.match(kind):
        raise ValueError(f'"{kind}" is not the type of a tensor: write dimensions and an element type, such as 2x3xf32.')
    if not kind:
        raise ValueError(f'"{text}" is not a value: write 2x3xf32=1, 2x3xf32=@file.bin, @file.npy or a number.')
    return ValueText(kind, None, content)


def located(text: str, folder: Path) -> str:
    """The value with the absolute path of its file. ValueError when there is no such file."""
    value = split_value(text)
    if value.file is None:
        return text
    file = (folder / value.file).absolute()
    if not file.is_file():
        raise ValueError(f'there is no file "{value.file}" in {folder}.')
    return str(replace(value, file=str(file)))


def identity_of(text: str) -> str:
    """The value with the SHA-256 of its file instead of the file's name. OSError when the file cannot be read."""
    value = split_value(text)
    if value.file is None:
        return text
    return f"{value.type}=@{file_sha256(value.file)}"


def read_value(text: str) -> Array | None:
    """The elements of a value; None when it is not in a form that can be read here. `bf16` becomes `f32`."""
    import numpy as np

    value = split_value(text)
    try:
        if value.file is not None and not value.type:
            with Path(value.file).open("rb") as source:
                array: Array = np.load(source, allow_pickle=False)
            return array
        match = _TYPE.match(value.type)
        if match is None:
            return np.array(float(value.literal) if set(value.literal) & set(".eE") else int(value.literal))
        shape, element = _shape(match), match["element"].removeprefix("s")
        if element not in _ELEMENTS:
            return None
        if value.file is not None:
            array = np.fromfile(value.file, dtype=_ELEMENTS[element]).reshape(shape)
            return _widened(array) if element == "bf16" else array
        numbers = [_NUMBERS.get(word, word) for word in _SEPARATOR.split(value.literal) if word] or ["0"]
        kind = np.dtype("f4" if element == "bf16" else _ELEMENTS[element])
        elements = np.array([float(word) if kind.kind == "f" else int(word) for word in numbers], dtype=kind)
        return np.full(shape, elements[0]) if elements.size == 1 else elements.reshape(shape)
    except (OSError, ValueError, OverflowError, EOFError):
        return None


def element_of(text: str) -> str | None:
    """The element type that `value_text` and `value_bytes` need to write a value of the same type; None for numpy's own."""
    value = split_value(text)
    if value.file is None and not value.type:
        return SCALAR
    return _BF16 if value.element == _BF16 else None


def value_bytes(array: Array) -> tuple[bytes, str]:
    """The `bf16` numbers nearest to those of an `f32` array as raw bytes, and their type such as `2x3xbf16`."""
    import numpy as np

    bits = array.reshape(-1).astype("<f4").view("<u4").astype("<u8")
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(array.reshape(-1)), 0x7FC0, rounded).astype("<u2").tobytes(), "x".join(
        [*map(str, array.shape), _BF16]
    )


def value_text(array: Array, element: str | None = None) -> str | None:
    """Write a few elements, or many equal ones, as a text; None when a file is needed. element: see `element_of`."""
    import numpy as np

    if element == SCALAR:
        return str(array.item()) if array.dtype.kind == "f" else str(int(array))
    if element == _BF16:
        array = _widened(np.frombuffer(value_bytes(array)[0], "<u2")).reshape(array.shape)
    element = element or _NAMES.get(array.dtype.str[1:])
    equal = array.size > 0 and bool((array == array.flat[0]).all())
    if element is None or not np.isfinite(array).all() or not (equal or 0 < array.size <= _MOST_WRITTEN):
        return None
    numbers = " ".join(str(array.flat[index]).removesuffix(".0") for index in range(1 if equal else array.size))
    return f"{'x'.join([*map(str, array.shape), element])}={numbers}"


def array_type(type_: str) -> tuple[tuple[int | None, ...], str, str | None] | None:
    """The shape (None for an unknown size), the numpy type and the element type, as in `element_of`, of an MLIR type; None for
    types that no value has.
    """
    if type_ == "index" or _SCALAR_TYPE.match(type_):
        kind = _ELEMENTS.get("i64" if type_ == "index" else type_)
        return ((), kind, SCALAR) if kind else None
    match = _TENSOR.match(type_) or _VTENSOR.match(type_)
    if match is None:
        return None
    element = match["element"].removeprefix("s")
    kind = "<f4" if element == _BF16 else _ELEMENTS.get(element)
    shape = tuple(None if size == "?" else int(size) for size in re.findall(r"\d+|\?", match["shape"]))
    return (shape, kind, _BF16 if element == _BF16 else None) if kind else None


def _shape(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(size) for size in match["shape"].split("x")[:-1])


def _widened(array: Array) -> Array:
    """The `f32` numbers of `bf16` bits."""
    import numpy as np

    return (array.astype("<u4") << 16).view("<f4").reshape(array.shape).astype(np.float32)


def differences(actual: Array, expected: Array, element: str, tolerances: Mapping[str, float]) -> dict[str, float]:
    """How two results differ: `elements`, `mismatches`, `nan`, `inf`, `max_abs_error`, `max_rel_error`, and the index of the
    first mismatch as `element`.

    element: the element type as IREE names it; tolerances: those that differ from the defaults. `nan` and `inf` count the
    elements that have become so. Results of different shapes have no numbers.
    """
    import numpy as np

    if actual.shape != expected.shape:
        return {}
    with np.errstate(all="ignore"):
        got, want = actual.astype(np.float64, copy=False), expected.astype(np.float64, copy=False)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        error = np.where(same, 0.0, np.abs(got - want))
        known = {**TOLERANCES, **tolerances}
        accepted = known.get(element, 0.0) + (known["relative"] * np.abs(want) if element in known else 0.0)
        wrong = ~same & ~(error <= accepted)
        finite = error[np.isfinite(error)]
        relative = (error / np.abs(want))[np.isfinite(error) & np.isfinite(want) & (want != 0)]
    first = {"element": float(np.flatnonzero(wrong)[0])} if wrong.any() else {}
    return {
        **first,
        "elements": float(got.size),
        "mismatches": float(np.count_nonzero(wrong)),
        "nan": float(np.count_nonzero(np.isnan(got) & ~np.isnan(want))),
        "inf": float(np.count_nonzero(np.isinf(got) & ~np.isinf(want))),
        "max_abs_error": float(finite.max(initial=0.0)),
        "max_rel_error": float(relative.max(initial=0.0)),
    }


def first_difference(actual: Array, expected: Array, relative: float, absolute: float, equal_nan: bool) -> str | None:
    """Where two results differ first, as `iree-run-module` says it; None when all elements are close."""
    import numpy as np

    if actual.shape != expected.shape:
        sizes = ["x".join(map(str, array.shape)) for array in (actual, expected)]
        return f"metadata is {sizes[0]}; expected that the view matches {sizes[1]}"
    wrong = np.flatnonzero(~np.isclose(actual, expected, rtol=relative, atol=absolute, equal_nan=equal_nan))
    if not wrong.size:
        return None
    index = int(wrong[0])
    got, want = (f"{array.reshape(-1)[index]:g}" for array in (actual, expected))
    return f"element at index {index} ({got}) does not match the expected ({want})"
