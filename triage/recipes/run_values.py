"""Read and write the values of arguments and results in recipes: `2x3xf32=1 2 3 4 5 6`,
`2x3xf32=@values.bin`, `@values.npy`, `@tensor.pb` (an ONNX tensor), or `5` for an
argument that is not a tensor.

An array has the exact type of its value: ml_dtypes adds those that numpy lacks. What is
kept is written as raw bytes, with the type in the name of the file, because .npy files
do not have every type.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_VALUE = re.compile(r"(?:(?P<type>\w+)(?:=|\Z))?(?P<content>.*)\Z", re.DOTALL)
_F8 = ("E5M2", "E4M3", "E4M3FN", "E5M2FNUZ", "E4M3FNUZ", "E4M3B11FNUZ", "E3M4")
# Element type -> type of numpy, or of ml_dtypes, which adds types to it.
_ELEMENTS = {
    "i1": "bool",
    **{
        f"{sign}i{bits}": f"int{bits}" for sign in ("", "s") for bits in (8, 16, 32, 64)
    },
    **{f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "bf16": "bfloat16",
    **{f"f8{kind}": f"float8_{kind.lower()}" for kind in (*_F8, "E8M0FNU")},
    "cf64": "complex64",
    "cf128": "complex128",
}
_NAMES = {kind: name for name, kind in _ELEMENTS.items() if not name.startswith("si")}
_TYPE = re.compile(rf"(?P<shape>(?:[\d?]+x)*)(?P<element>{'|'.join(_ELEMENTS)})\Z")
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?\Z")
_TENSOR = re.compile(r"tensor<(.*)>|!torch\.vtensor<\[(.*)\],\s*(.*)>", re.DOTALL)
_MOST_ELEMENTS = 1 << 28  # of a value that is read here
_MOST_WRITTEN = 16  # elements; more are written to a file
_SEPARATOR = re.compile(r"[\s,\[\]]+")
_TRUTH = {"true": "1", "false": "0"}
TENSOR_PROTO = ".pb"
TEXT = "text"  # the element type of words
_RAW = ".bin"  # the type of the bytes stands before it
# Default tolerances by element type. `relative` is allowed in addition.
TOLERANCES: Mapping[str, float] = {
    "f16": 1e-3,
    "bf16": 1e-2,
    "f32": 1e-4,
    "f64": 1e-4,
    "relative": 1e-5,
}


@dataclass(frozen=True)
class ValueText:
    """A value, split into type and content."""

    type: str
    """`2x3xf32`; empty if the file has it, and for a number that is not a tensor."""
    file: str | None
    """The file after `@`, if the content is in a file."""
    literal: str
    """The elements, if they are in the text."""

    @property
    def element(self) -> str:
        """The element type, such as `f32`; empty if the text does not have it."""
        match = _TYPE.match(self.type)
        if match:
            return match["element"]
        return ""

    @property
    def is_tensor_proto(self) -> bool:
        """Whether it is an ONNX tensor in a file."""
        return self.file is not None and self.file.endswith(TENSOR_PROTO)

    def __str__(self) -> str:
        content = self.literal if self.file is None else f"@{self.file}"
        return "=".join(part for part in (self.type, content) if part)


@lru_cache(maxsize=1 << 13)
def split_value(text: str) -> ValueText:
    """Split a value. Raises ValueError, which says what is wrong with the text."""
    if _NUMBER.match(text):
        return ValueText("", None, text)
    kind = ""
    content = text
    match = _VALUE.match(text)
    if match:
        kind = match["type"] or ""
        content = match["content"]
    if content.startswith("@"):
        return ValueText(kind, content[1:], "")
    if not _TYPE.match(kind):
        raise ValueError(
            f'"{text}" is not a value: write 2x3xf32=1, 2x3xf32=@file.bin, @file.npy '
            "or a number."
        )
    return ValueText(kind, None, content)


def with_located_file(text: str, folder: Path) -> str:
    """Return a value with the absolute path of its file, which may be relative to a
    folder. Raises ValueError if the file does not exist.
    """
    value = split_value(text)
    if value.file is None:
        return text
    file = folder.absolute() / value.file
    if not os.path.isfile(file):  # noqa: PTH113 - also for a name that is too long
        raise ValueError(f'there is no file "{value.file}" in {folder}.')
    return str(ValueText(value.type, str(file), value.literal))


def with_file_digest(text: str) -> str:
    """Return a value with the SHA-256 of its file in place of the name. Raises OSError
    if the file cannot be read.
    """
    from triage.model.content import cached_sha256  # workers run this file alone

    value = split_value(text)
    if value.file is None:
        return text
    return f"{value.type}=@{cached_sha256(value.file)}"


def read_value(text: str) -> Array | None:
    """Return the elements of a value in their own type. Returns None if they cannot be
    read, if there are too many, or if no value has their type.
    """
    import numpy as np

    try:
        value = split_value(text)
        if value.file is None or value.type:
            return _array(value)
        if value.is_tensor_proto:
            array = _read_tensor_proto(Path(value.file))
        else:
            with Path(value.file).open("rb") as source:
                array = np.load(source, allow_pickle=False)
    except (OSError, ValueError, OverflowError, EOFError, ImportError):
        return None
    if element_name(array):
        return array
    return None


def _read_tensor_proto(file: Path) -> Array:
    """Return the elements of an ONNX tensor in a file. Raises ValueError if it is not
    one, and ImportError without the package onnx.
    """
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import numpy_helper

    try:
        tensor = onnx.TensorProto.FromString(file.read_bytes())
        array: Array = numpy_helper.to_array(tensor, str(file.parent))
    except (DecodeError, TypeError) as error:
        raise ValueError(str(error)) from error
    return array


def _array(value: ValueText) -> Array | None:
    """Return the elements of a value with a type, or of a number."""
    import numpy as np

    kind = value_type(value.type)
    if kind is None:
        is_whole = set(".eE").isdisjoint(value.literal)
        return np.array(int(value.literal) if is_whole else float(value.literal))
    shape = [size or 0 for size in kind.shape]
    dtype = kind.dtype
    if math.prod(shape) > _MOST_ELEMENTS:
        return None
    if value.file is not None:
        return np.fromfile(value.file, dtype).reshape(shape)
    parse_number: type = {"b": int, "c": complex, "i": int, "u": int}.get(
        dtype.kind, float
    )
    words = filter(None, _SEPARATOR.split(value.literal))
    numbers = [parse_number(_TRUTH.get(word, word)) for word in words] or [0]
    if dtype.kind == "i":  # as in IREE, 255 and -1 are the same i8
        limit = 1 << 8 * dtype.itemsize
        numbers = [n - limit if limit // 2 <= n < limit else n for n in numbers]
    elements = np.array(numbers, dtype)
    if elements.size == 1:
        return np.full(shape, elements[0], dtype)
    return elements.reshape(shape)


def array_dtype(element: str) -> np.dtype[Any]:
    """Return the type of an array with these elements, such as `float32` for `f32`."""
    import ml_dtypes
    import numpy as np

    kind = _ELEMENTS[element]
    return np.dtype(getattr(ml_dtypes, kind, kind))


def element_name(array: Array) -> str:
    """Return the element type of an array, such as `f32`, or `text` for words; empty if
    no value has it.
    """
    if array.dtype.kind == "U":
        return TEXT
    return _NAMES.get(array.dtype.name, "")


def type_name(array: Array) -> str:
    """Return the type of an array, such as `2x3xf32`."""
    return "x".join([*map(str, array.shape), element_name(array) or array.dtype.name])


def is_scalar(text: str) -> bool:
    """Return whether a value is not a tensor: a number without a type."""
    value = split_value(text)
    return value.file is None and not value.type


def value_text(array: Array, *, scalar: bool) -> str | None:
    """Return a value as a text, if it has a few elements or equal ones; otherwise it
    needs a file. scalar: the value is not a tensor.
    """
    import numpy as np

    if scalar:
        return str(array.item() if array.dtype.kind == "f" else int(array))
    with np.errstate(invalid="ignore"):  # ml_dtypes warns of NaN
        are_equal = array.size > 0 and bool((array == array.flat[0]).all())
    is_short = are_equal or 0 < array.size <= _MOST_WRITTEN
    if not is_short or array.dtype.kind == "c" or not np.isfinite(array).all():
        return None
    elements = array.flat[:1] if are_equal else array.flat[:]
    if array.dtype.kind == "b":
        elements = elements.astype(int)
    numbers = " ".join(str(number).removesuffix(".0") for number in elements)
    return f"{type_name(array)}={numbers}"


def value_suffix(type_: str) -> str:
    """Return the end of the name of a file for the bytes of a value of this type."""
    if type_.endswith(TEXT):
        return ".npy"
    return f".{type_}{_RAW}"


def file_value(file: Path) -> str:
    """Return the value in a file: its raw bytes, if the name ends as `value_suffix`
    says, else a .npy file.
    """
    if file.suffix == _RAW:
        return f"{file.stem.rpartition('.')[2]}=@{file}"
    return f"@{file}"


@dataclass(frozen=True)
class ValueType:
    """What a value of a type must be."""

    shape: tuple[int | None, ...]
    """None for an unknown size."""
    dtype: np.dtype[Any]
    scalar: bool
    """It is not a tensor."""


def value_type(type_: str) -> ValueType | None:
    """Return how to make a value of a type of MLIR, or of one such as `2x3xf32`; None
    if no value has this type.
    """
    tensor = _TENSOR.fullmatch(type_)
    text = type_
    if type_ == "index":
        text = "i64"
    elif tensor:
        sizes = [f"{size.strip()}x" for size in (tensor[2] or "").split(",")]
        text = tensor[1] or f"{''.join(sizes).removeprefix('x')}{tensor[3]}"
    text = text.replace("complex<f32>", "cf64").replace("complex<f64>", "cf128")
    match = _TYPE.match(text)
    if match is None:
        return None
    shape = tuple(
        None if size == "?" else int(size) for size in match["shape"].split("x")[:-1]
    )
    return ValueType(shape, array_dtype(match["element"]), scalar=tensor is None)
