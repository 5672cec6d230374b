"""Random values in place of weights and inputs: the same ones for each seed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

# A global whose initial value is a parameter, in the custom and in the generic form of MLIR.
_PARAMETER = re.compile(rb'#(?:stream|flow)\.parameter\.named<(?:"[^"]*"::)?"([^"]+)"> : tensor<((?:\d+x)*)(\w+)>')
_CHUNK = 1 << 24  # elements that are drawn at once
_INTEGERS = {f"{sign}i{bits}": f"{'u' if sign == 'u' else ''}int{bits}" for sign in ("", "s", "u") for bits in (8, 16, 32, 64)}
_FLOATS = {"f16": "float16", "f32": "float32", "f64": "float64"}
# Types that numpy does not have: in `ml_dtypes`, and in files of weights.
_SMALL = {
    "bf16": ("bfloat16", "BF16"),
    "f8E4M3FN": ("float8_e4m3fn", "F8_E4M3"),
    "f8E4M3FNUZ": ("float8_e4m3fnuz", "F8_E4M3"),
    "f8E5M2": ("float8_e5m2", "F8_E5M2"),
    "f8E5M2FNUZ": ("float8_e5m2fnuz", "F8_E5M2"),
}
_CODES = {"f": "F", "i": "I", "u": "U"}


@dataclass(frozen=True, slots=True)
class RandomWeights:
    """Weights for all parameters of a program, in the order in which it names them. deviation: of floats; 0 for zeros alone."""

    program: Path
    seed: int
    deviation: float = 0.01

    def write(self, target: Path) -> None:
        """Write a file in the `safetensors` format, which the runtime reads. ValueError when there is nothing to draw."""
        import numpy as np

        shapes = {
            name.decode(): (tuple(map(int, shape.split(b"x")[:-1])), kind.decode())
            for name, shape, kind in _PARAMETER.findall(self.program.read_bytes())
        }
        if not shapes and self.deviation:
            raise ValueError(f"{self.program}: the program names no parameters that random weights could replace")
        header: dict[str, dict[str, object]] = {}
        offset = 0
        for name, (shape, kind) in shapes.items():
            item, code = _stored(self.program, kind)
            size = item.itemsize * int(np.prod(shape, dtype=np.int64))
            header[name] = {"dtype": code, "shape": list(shape), "data_offsets": [offset, offset + size]}
            offset += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 64)
        random = np.random.default_rng(self.seed)
        with target.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for shape, kind in shapes.values():
                item, _ = _stored(self.program, kind)
                left = int(np.prod(shape, dtype=np.int64))
                while left > 0:
                    count = min(left, _CHUNK)
                    drawn = _random(random, count, item, self.deviation) if self.deviation else np.zeros(count, item)
                    drawn.tofile(file)
                    left -= _CHUNK


def _stored(program: Path, kind: str) -> tuple[np.dtype[Any], str]:
    """The type of the elements, and what a file of weights calls it."""
    import numpy as np

    if kind in _SMALL:
        try:
            import ml_dtypes
        except ImportError as error:
            raise ValueError(f"{program}: random weights of the type {kind} need the package ml_dtypes") from error
        name, code = _SMALL[kind]
        return np.dtype(getattr(ml_dtypes, name)), code
    known = _INTEGERS.get(kind) or _FLOATS.get(kind)
    if known is None:
        raise ValueError(f"{program}: there are no random weights of the type {kind}")
    item = np.dtype(known)
    return item, f"{_CODES[item.kind]}{8 * item.itemsize}"


def _random(random: np.random.Generator, count: int, item: np.dtype[Any], deviation: float) -> Array:
    import numpy as np

    if item.kind in "iu":
        limits = np.iinfo(item)
        return random.integers(limits.min, limits.max, size=count, dtype=item)
    return random.normal(0.0, deviation, size=count).astype(item)


@dataclass(frozen=True, slots=True)
class Formula:
    """A tensor: `coeff` times uniform random numbers from 0 to 1, plus `offset`. dtype: as numpy names it."""

    shape: tuple[int, ...]
    dtype: str
    coeff: float
    offset: float


@dataclass(frozen=True, slots=True)
class RandomTensor:
    """One of several tensors that are drawn in turn from one seed, as a `.npy` file."""

    formulas: tuple[Formula, ...]
    seed: int
    index: int

    def write(self, target: Path) -> None:
        """Draw the tensors up to this one and write it. ValueError for a type that numpy does not have."""
        import numpy as np

        random = np.random.RandomState(self.seed)
        try:
            for formula in self.formulas[: self.index + 1]:
                array = (formula.coeff * random.rand(*formula.shape) + formula.offset).astype(formula.dtype)
        except TypeError as error:
            raise ValueError(f"random values of the type {formula.dtype} cannot be made: {error}") from error
        np.save(target, array)


@dataclass(frozen=True, slots=True)
class RandomArgument:
    """A `.npy` file with random numbers: from 0 to 1, integers that are 0 or 1. dtype: as numpy names it."""

    shape: tuple[int, ...]
    dtype: str
    seed: int

    def write(self, target: Path) -> None:
        """Draw the numbers and write them. ValueError for a type that numpy does not have."""
        import numpy as np

        random = np.random.default_rng(self.seed)
        try:
            floats = np.dtype(self.dtype).kind == "f"
        except TypeError as error:
            raise ValueError(f"random values of the type {self.dtype} cannot be made: {error}") from error
        array = random.random(self.shape) if floats else random.integers(0, 2, self.shape)
        np.save(target, np.asarray(array).astype(self.dtype))
