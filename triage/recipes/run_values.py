"""Values of arguments and results as recipes write them: `2x3xf32=1 2 3 4 5 6`,
`2x3xf32=@values.bin`, `@values.npy`, `@tensor.pb` (an ONNX tensor), or `5` for an
argument that is not a tensor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from triage.model.content import settled_sha256

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_VALUE = re.compile(r"(?:(?P<type>[\w?]+)(?:=|\Z))?(?P<content>.*)\Z", re.DOTALL)
_TYPE = re.compile(
    r"(?P<shape>(?:\d+x)*)(?P<element>i1|[su]?i(?:8|16|32|64)|bf16|f16|f32|f64|f8E\w+)"
    r"\Z"
)
_ELEMENTS = {
    "i1": "?", "i8": "i1", "i16": "<i2", "i32": "<i4", "i64": "<i8",
    "ui8": "u1", "ui16": "<u2", "ui32": "<u4", "ui64": "<u8",
    "f16": "<f2", "f32": "<f4", "f64": "<f8", "bf16": "<u2",
}  # fmt: skip
_NAMES = {
    kind.lstrip("<"): name
    for name, kind in _ELEMENTS.items()
    if name not in ("i1", "bf16")
}
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?\Z")
_SCALAR_TYPE = re.compile(r"[suif]+\d+\Z")
_SCALAR = ""  # the element type of a value that is not a tensor
_BF16 = "bf16"
_TENSOR = re.compile(r"tensor<(?P<shape>(?:[\d?]+x)*)(?P<element>[suif]+\d+|bf16)>\Z")
_VTENSOR = re.compile(
    r"!torch\.vtensor<\[(?P<shape>[\d?,\s]*)\],\s*(?P<element>[suif]+\d+|bf16)>\Z"
)
_MOST_ELEMENTS = 1 << 28  # of a value that is read here
_MOST_WRITTEN = 16  # elements; more are written to a file
_SEPARATOR = re.compile(r"[\s,\[\]]+")
_TRUTH = {"true": "1", "false": "0"}
TENSOR_PROTO = ".pb"
_RAW = ".bin"  # of elements that no .npy file holds, with their type before it
# Differences that are accepted where nothing else is asked for. `relative` counts in
# addition.
TOLERANCES: Mapping[str, float] = {
    "f16": 1e-3,
    "bf16": 1e-2,
    "f32": 1e-4,
    "f64": 1e-4,
    "relative": 1e-5,
}


@dataclass(frozen=True, slots=True)
class ValueText:
    """A value in parts."""

    type: str
    """`2x3xf32`; empty where the file says it, and for a number that is not a tensor.
    """
    file: str | None
    """Behind `@`."""
    literal: str
    """The elements."""

    @property
    def element(self) -> str:
        """The element type, such as `f32`; empty when it is not known here."""
        match = _TYPE.match(self.type)
        if match:
            return match["element"]
        return ""

    def __str__(self) -> str:
        if self.file is None:
            content = self.literal
        else:
            content = f"@{self.file}"
        return "=".join(part for part in (self.type, content) if part)


@lru_cache(maxsize=1 << 13)
def split_value(text: str) -> ValueText:
    """Split a value. Raises ValueError, which says what is wrong with it."""
    if _NUMBER.match(text):
        return ValueText("", None, text)
    match = _VALUE.match(text)
    if match:
        kind, content = (match["type"] or "", match["content"])
    else:
        kind, content = ("", text)
    if content.startswith("@"):
        if not content[1:]:
            raise ValueError(f'"{text}" names no file behind the @.')
        return ValueText(kind, content[1:], "")
    if kind and not _TYPE.match(kind):
        raise ValueError(
            f'"{kind}" is not the type of a tensor: write dimensions and an element '
            "type, such as 2x3xf32."
        )
    if not kind:
        raise ValueError(
            f'"{text}" is not a value: write 2x3xf32=1, 2x3xf32=@file.bin, @file.npy '
            "or a number."
        )
    return ValueText(kind, None, content)


def located(text: str, folder: Path) -> str:
    """Return the value with the absolute path of its file. Raises ValueError if the
    file does not exist.
    """
    value = split_value(text)
    if value.file is None:
        return text
    file = folder.absolute() / value.file
    if not file.is_file():
        raise ValueError(f'there is no file "{value.file}" in {folder}.')
    return str(ValueText(value.type, str(file), value.literal))


def identity_of(text: str) -> str:
    """Return the value with the SHA-256 of its file instead of the file's name. Raises
    OSError for an unreadable file.
    """
    value = split_value(text)
    if value.file is None:
        return text
    return f"{value.type}=@{settled_sha256(value.file)}"


def tensor_proto(text: str) -> Path | None:
    """Return the file of a value that is an ONNX tensor, which has to be converted."""
    file = split_value(text).file
    if file is not None and file.endswith(TENSOR_PROTO):
        return Path(file)
    return None


def converted(file: Path, data: bytes) -> bytes:
    """Return the content of an ONNX tensor's file as that of a .npy file. Raises
    ValueError for other types.
    """
    try:
        import onnx
        from google.protobuf.message import DecodeError
        from onnx import numpy_helper
    except ImportError as error:
        raise ValueError(
            f"{file}: tensors of ONNX need a package: pip install onnx ({error})"
        ) from error
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(data)
        array = numpy_helper.to_array(tensor, str(file.parent))
    except (DecodeError, TypeError, ValueError) as error:
        raise ValueError(f"{file}: this is not an ONNX tensor: {error}") from error
    # texts, and types that numpy does not have, such as bf16
    if array.dtype.kind not in "biuf":
        name = onnx.TensorProto.DataType.Name(tensor.data_type)
        raise ValueError(f"{file}: values of the ONNX type {name} cannot be converted")
    return _npy(array)


def _npy(array: Array) -> bytes:
    import numpy as np

    content = BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


def _loaded(source: BinaryIO) -> Array:
    import numpy as np

    array: Array = np.load(source, allow_pickle=False)
    return array


def read_value(text: str) -> Array | None:
    """Return the elements of a value, if they can be read here. `bf16` becomes
    `f32`.
    """
    import numpy as np

    value = split_value(text)
    file = tensor_proto(text)
    if file is not None:
        return _loaded(BytesIO(converted(file, file.read_bytes())))
    try:
        if value.file is not None and not value.type:
            with Path(value.file).open("rb") as source:
                return _loaded(source)
        match = _TYPE.match(value.type)
        if match is None:
            return np.array(
                float(value.literal)
                if set(value.literal) & set(".eE")
                else int(value.literal)
            )
        shape = tuple(int(size) for size in match["shape"].split("x")[:-1])
        if math.prod(shape) > _MOST_ELEMENTS:
            return None
        element = match["element"].removeprefix("s")
        if element not in _ELEMENTS:
            return None
        if value.file is not None:
            array: Array = np.fromfile(value.file, dtype=_ELEMENTS[element]).reshape(
                shape
            )
            if element == _BF16:
                return _widened(array)
            return array
        numbers = [
            _TRUTH.get(word, word) for word in _SEPARATOR.split(value.literal) if word
        ] or ["0"]
        kind = np.dtype("f4" if element == _BF16 else _ELEMENTS[element])
        elements = np.array(
            [float(word) if kind.kind == "f" else int(word) for word in numbers],
            dtype=kind,
        )
        if elements.size == 1:
            return np.full(shape, elements[0])
        return elements.reshape(shape)
    except (OSError, ValueError, OverflowError, EOFError):
        return None


def element_type(text: str, array: Array) -> str:
    """Return the element type of a value that was read, such as `f32`; empty for whole
    numbers in a file.
    """
    return split_value(text).element or (
        _NAMES.get(array.dtype.str[1:], "") if array.dtype.kind == "f" else ""
    )


def element_of(text: str) -> str | None:
    """Return the element type that `value_text` and `value_bytes` need for a value of
    the same type, unless numpy has it.
    """
    value = split_value(text)
    if value.file is None and not value.type:
        return _SCALAR
    if value.element == _BF16:
        return _BF16
    return None


def value_text(array: Array, element: str | None = None) -> str | None:
    """Return a few elements, or many equal ones, as a text; others need a file. For
    `element` see `element_of`.
    """
    import numpy as np

    if element == _SCALAR:
        if array.dtype.kind == "f":
            return str(array.item())
        return str(int(array))
    if element == _BF16:
        array = _widened(_bf16_bits(array))
    element = element or _NAMES.get(array.dtype.str[1:])
    equal = array.size > 0 and bool((array == array.flat[0]).all())
    if (
        element is None
        or not np.isfinite(array).all()
        or not (equal or 0 < array.size <= _MOST_WRITTEN)
    ):
        return None
    numbers = " ".join(
        str(array.flat[index]).removesuffix(".0")
        for index in range(1 if equal else array.size)
    )
    return f"{'x'.join([*map(str, array.shape), element])}={numbers}"


def value_bytes(array: Array, element: str | None = None) -> tuple[bytes, str]:
    """Return the content of a file with a value, and the end of its name, for
    `file_value`. For `element` see `element_of`.
    """
    if element != _BF16:
        return _npy(array), ".npy"
    return _bf16_bits(
        array
    ).tobytes(), f".{'x'.join([*map(str, array.shape), _BF16])}{_RAW}"


def result_ending(raw_type: str | None) -> str:
    """Return the end of the name of a file for a result. `raw_type` is its type where a
    .npy file cannot hold it.
    """
    if raw_type:
        return f".{raw_type}{_RAW}"
    return ".npy"


def file_value(file: Path) -> str:
    """Return the value in a file whose name ends as `value_bytes` or `result_ending`
    says.
    """
    if file.suffix == _RAW:
        return f"{file.stem.rpartition('.')[2]}=@{file}"
    return f"@{file}"


def array_type(type_: str) -> tuple[tuple[int | None, ...], str, str | None] | None:
    """Return the shape (with None for unknown sizes), the numpy type and the element
    type (see `element_of`) of an MLIR type.

    Returns None for types that no value has.
    """
    if type_ == "index" or _SCALAR_TYPE.match(type_):
        kind = _ELEMENTS.get("i64" if type_ == "index" else type_)
        if kind:
            return ((), kind, _SCALAR)
        return None
    match = _TENSOR.match(type_) or _VTENSOR.match(type_)
    if match is None:
        return None
    element = match["element"].removeprefix("s")
    if element == _BF16:
        kind = "<f4"
    else:
        kind = _ELEMENTS.get(element)
    shape = tuple(
        None if size == "?" else int(size)
        for size in re.findall(r"\d+|\?", match["shape"])
    )
    if kind:
        return (shape, kind, _BF16 if element == _BF16 else None)
    return None


def zero_of(type_: str) -> str | None:
    """Return zeros for an argument of an MLIR type, if its size is known."""
    if _SCALAR_TYPE.match(type_):
        return "0"
    match = _TENSOR.match(type_)
    if match and "?" not in match["shape"]:
        return f"{match['shape']}{match['element']}"
    return None


def _bf16_bits(array: Array) -> Array:
    """Return the bits of the `bf16` numbers nearest to those of an array."""
    import numpy as np

    bits = array.astype("<f4").view("<u4").astype("<u8")
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(array), 0x7FC0, rounded).astype("<u2")


def _widened(array: Array) -> Array:
    """Return the `f32` numbers of `bf16` bits."""
    import numpy as np

    return (
        (array.astype("<u4") << 16).view("<f4").reshape(array.shape).astype(np.float32)
    )
