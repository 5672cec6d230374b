"""Read and write the values of arguments and results in recipes: `2x3xf32=1 2 3 4 5 6`,
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
# Files with elements that .npy files cannot hold; their type is before the ending.
_RAW = ".bin"
# Default tolerances by element type. `relative` is allowed in addition.
TOLERANCES: Mapping[str, float] = {
    "f16": 1e-3,
    "bf16": 1e-2,
    "f32": 1e-4,
    "f64": 1e-4,
    "relative": 1e-5,
}


@dataclass(frozen=True, slots=True)
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
        return match["element"] if match else ""

    def __str__(self) -> str:
        content = self.literal if self.file is None else f"@{self.file}"
        return "=".join(part for part in (self.type, content) if part)


@lru_cache(maxsize=1 << 13)
def split_value(text: str) -> ValueText:
    """Split a value. Raises ValueError, which says what is wrong with the text."""
    if _NUMBER.match(text):
        return ValueText("", None, text)
    kind, content = "", text
    match = _VALUE.match(text)
    if match:
        kind, content = match["type"] or "", match["content"]
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
    """Return a value with the absolute path of its file, which may be relative to a
    folder. Raises ValueError if the file does not exist.
    """
    value = split_value(text)
    if value.file is None:
        return text
    file = folder.absolute() / value.file
    if not file.is_file():
        raise ValueError(f'there is no file "{value.file}" in {folder}.')
    return str(ValueText(value.type, str(file), value.literal))


def identity_of(text: str) -> str:
    """Return a value with the SHA-256 of its file in place of the name. Raises OSError
    if the file cannot be read.
    """
    value = split_value(text)
    if value.file is None:
        return text
    return f"{value.type}=@{settled_sha256(value.file)}"


def tensor_proto(text: str) -> Path | None:
    """Return the file of a value, if it is an ONNX tensor."""
    file = split_value(text).file
    if file is not None and file.endswith(TENSOR_PROTO):
        return Path(file)
    return None


def converted(file: Path, data: bytes) -> bytes:
    """Convert the content `data` of a file with an ONNX tensor to that of a .npy file.
    Raises ValueError if it is not one, or of a type that numpy does not have.
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
    """Return the elements of a value, with `bf16` as `f32`. Returns None if they cannot
    be read, if there are too many, or if numpy does not have their type.
    """
    value = split_value(text)
    file = tensor_proto(text)
    if file is not None:
        return _loaded(BytesIO(converted(file, file.read_bytes())))
    try:
        if value.file is not None and not value.type:
            with Path(value.file).open("rb") as source:
                return _loaded(source)
        return _array(value)
    except (OSError, ValueError, OverflowError, EOFError):
        return None


def _array(value: ValueText) -> Array | None:
    """Return the elements of a value with a type, or of a number."""
    import numpy as np

    match = _TYPE.match(value.type)
    if match is None:
        is_float = not set(".eE").isdisjoint(value.literal)
        return np.array(float(value.literal) if is_float else int(value.literal))
    shape = tuple(int(size) for size in match["shape"].split("x")[:-1])
    element = match["element"].removeprefix("s")
    if math.prod(shape) > _MOST_ELEMENTS or element not in _ELEMENTS:
        return None
    if value.file is not None:
        array: Array = np.fromfile(value.file, _ELEMENTS[element]).reshape(shape)
        return _widened(array) if element == _BF16 else array
    dtype = np.dtype("f4" if element == _BF16 else _ELEMENTS[element])
    convert = float if dtype.kind == "f" else int
    words = filter(None, _SEPARATOR.split(value.literal))
    numbers = [convert(_TRUTH.get(word, word)) for word in words]
    elements = np.array(numbers or [0], dtype)
    if elements.size == 1:
        return np.full(shape, elements[0])
    return elements.reshape(shape)


def element_type(text: str, array: Array) -> str:
    """Return the element type of a value that was read as `array`, such as `f32`; empty
    for whole numbers in a file.
    """
    element = split_value(text).element
    if not element and array.dtype.kind == "f":
        return _NAMES.get(array.dtype.str[1:], "")
    return element


def element_of(text: str) -> str | None:
    """Return the `element` that `value_text` and `value_bytes` need to write a value
    like this one. It is None unless the value is `bf16` or not a tensor.
    """
    value = split_value(text)
    if value.file is None and not value.type:
        return _SCALAR
    if value.element == _BF16:
        return _BF16
    return None


def value_text(array: Array, element: str | None = None) -> str | None:
    """Return a value as a text, if it has a few elements or equal ones; otherwise it
    needs a file. `element` is that of `element_of`.
    """
    import numpy as np

    if element == _SCALAR:
        return str(array.item() if array.dtype.kind == "f" else int(array))
    if element == _BF16:
        array = _widened(_bf16_bits(array))
    element = element or _NAMES.get(array.dtype.str[1:])
    are_equal = array.size > 0 and bool((array == array.flat[0]).all())
    is_short = are_equal or 0 < array.size <= _MOST_WRITTEN
    if element is None or not is_short or not np.isfinite(array).all():
        return None
    shown = array.flat[:1] if are_equal else array.flat
    numbers = " ".join(str(number).removesuffix(".0") for number in shown)
    return f"{'x'.join([*map(str, array.shape), element])}={numbers}"


def value_bytes(array: Array, element: str | None = None) -> tuple[bytes, str]:
    """Return the content of a file with a value, and the end of the file's name.
    `element` is that of `element_of`.
    """
    if element != _BF16:
        return _npy(array), ".npy"
    type_ = "x".join([*map(str, array.shape), _BF16])
    return _bf16_bits(array).tobytes(), result_ending(type_)


def result_ending(raw_type: str | None) -> str:
    """Return the end of the name of a file for a result. If a .npy file cannot hold it,
    `raw_type` is its type.
    """
    return f".{raw_type}{_RAW}" if raw_type else ".npy"


def file_value(file: Path) -> str:
    """Return the value in a file, whose name ends as `value_bytes` or `result_ending`
    says.
    """
    if file.suffix == _RAW:
        return f"{file.stem.rpartition('.')[2]}=@{file}"
    return f"@{file}"


def array_type(type_: str) -> tuple[tuple[int | None, ...], str, str | None] | None:
    """Return how to make a value of an MLIR type: the shape (None for an unknown size),
    the type of numpy, and the `element` as in `element_of`.

    Returns None for types that no value has.
    """
    if type_ == "index" or _SCALAR_TYPE.match(type_):
        kind = _ELEMENTS.get("i64" if type_ == "index" else type_)
        return ((), kind, _SCALAR) if kind else None
    match = _TENSOR.match(type_) or _VTENSOR.match(type_)
    if match is None:
        return None
    sizes = re.findall(r"\d+|\?", match["shape"])
    shape = tuple(None if size == "?" else int(size) for size in sizes)
    element = match["element"].removeprefix("s")
    if element == _BF16:
        return shape, "<f4", _BF16
    kind = _ELEMENTS.get(element)
    return (shape, kind, None) if kind else None


def zero_of(type_: str) -> str | None:
    """Return the value of zeros for an MLIR type, if its size is known."""
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

    wide = (array.astype("<u4") << 16).view("<f4")
    return wide.reshape(array.shape).astype(np.float32)
