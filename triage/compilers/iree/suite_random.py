"""Random weights, tensors and arguments of tests, which are generated on first use."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from triage.model.case import Artifact
from triage.recipes.run_values import array_dtype

# A global whose initial value is a parameter, in the custom and in the generic form of
# MLIR.
_PARAMETER = re.compile(
    rb'#(?:stream|flow)\.parameter\.named<(?:"[^"]*"::)?"([^"]+)"> : '
    rb"tensor<((?:\d+x)*)(\w+)>"
)
_CHUNK = 1 << 24  # elements that are drawn at once
_FLOATS = ("f16", "f32", "f64", "bf16")
_INTEGERS = ("i8", "i16", "i32", "i64")


@dataclass(frozen=True, slots=True)
class RandomWeights:
    """Weights for all parameters of a program, in the order in which it names them;
    zeros without a seed.
    """

    program: Path
    seed: int | None

    def write(self, target: Path) -> None:
        """Write a file in the `safetensors` format, which the runtime reads. Raises
        ValueError if there is nothing to draw.
        """
        import numpy as np

        header: dict[str, object] = {}
        arrays: list[tuple[np.dtype[Any], int]] = []
        end = 0
        named = dict.fromkeys(_PARAMETER.findall(self.program.read_bytes()))
        for name, dimensions, element in named:
            kind = element.decode()
            if kind not in _FLOATS and (self.seed is not None or kind not in _INTEGERS):
                raise ValueError(f"{self.program}: no random weights have type {kind}")
            shape = [int(size) for size in dimensions.split(b"x")[:-1]]
            dtype, count, begin = array_dtype(kind), prod(shape), end
            arrays.append((dtype, count))
            end += count * dtype.itemsize
            header[name.decode()] = {
                "dtype": kind.upper(),
                "shape": shape,
                "data_offsets": [begin, end],
            }
        if not header and self.seed is not None:
            raise ValueError(f"{self.program}: the program names no parameters")
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 64)
        with target.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            if self.seed is None:
                file.truncate(8 + len(text) + end)  # zeros
                return
            random = np.random.default_rng(self.seed)
            for dtype, count in arrays:
                for start in range(0, count, _CHUNK):
                    drawn = random.normal(0.0, 0.01, min(_CHUNK, count - start))
                    drawn.astype(dtype).tofile(file)


@dataclass(frozen=True, slots=True)
class RandomTensor:
    """A `.npy` file with uniform random numbers from 0 to `coeff`, plus `offset`."""

    shape: tuple[int, ...]
    dtype: str
    """As numpy names it."""
    seed: int
    skipped: int = 0
    """Numbers that tensors before this one drew from the same seed."""
    coeff: float = 1.0
    offset: float = 0.0

    def write(self, target: Path) -> None:
        """Draw the tensor and write it. Raises ValueError for a type that numpy does
        not have.
        """
        import numpy as np

        random = np.random.RandomState(self.seed)
        random.rand(self.skipped)
        try:
            array = np.asarray(self.coeff * random.rand(*self.shape) + self.offset)
            if np.dtype(self.dtype).kind == "b":
                array = np.round(array)
            np.save(target, array.astype(self.dtype))
        except TypeError as error:
            raise ValueError(
                f"random values of the type {self.dtype} cannot be made: {error}"
            ) from error


@dataclass(frozen=True, slots=True)
class ModelArguments:
    """Makes random arguments for an ONNX model: a tensor for each of its inputs that
    has no weights. A size that the model leaves open is 1.
    """

    model: Path
    folder: Path
    """Where the files of the arguments are generated."""

    def __call__(self) -> tuple[Artifact, ...]:
        """Return a file to generate for each argument. Raises ValueError if the model
        cannot be read.
        """
        files = []
        try:
            import onnx
            from onnx.helper import tensor_dtype_to_np_dtype

            graph = onnx.load(self.model, load_external_data=False).graph
            weights = {tensor.name for tensor in graph.initializer}
            values = [value for value in graph.input if value.name not in weights]
            for index, value in enumerate(values):
                tensor = value.type.tensor_type
                shape = tuple(size.dim_value or 1 for size in tensor.shape.dim)
                dtype = str(tensor_dtype_to_np_dtype(tensor.elem_type))
                bound = 2.0  # integers are 0 or 1
                if "float" in dtype:
                    bound = 1.0
                drawn = RandomTensor(shape, dtype, index, coeff=bound)
                name = "-".join(["random", str(index), dtype, *map(str, shape)])
                files.append(Artifact(self.folder / f"{name}.npy", drawn))
        except Exception as error:  # protobuf's own class is not public
            raise ValueError(
                f"{self.model}: it cannot be read as an ONNX model with tensors as "
                f"arguments: {error}"
            ) from error
        return tuple(files)
