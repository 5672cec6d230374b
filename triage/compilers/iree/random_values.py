"""Generate random values where a suite asks for them: the same ones for each seed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from math import prod
from pathlib import Path

from triage.model.case import Artifact

# A global whose initial value is a parameter, in the custom and in the generic form of MLIR.
_PARAMETER = re.compile(rb'#(?:stream|flow)\.parameter\.named<(?:"[^"]*"::)?"([^"]+)"> : tensor<((?:\d+x)*)(\w+)>')
_CHUNK = 1 << 24  # elements that are drawn at once
# MLIR's types -> numpy's. numpy has no bf16: its elements are the upper halves of f32.
_STORED = {"f16": "f2", "f32": "f4", "f64": "f8", "bf16": "u2", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8"}


@dataclass(frozen=True, slots=True)
class RandomWeights:
    """Weights for all parameters of a program, in the order in which it names them; zeros without a seed."""

    program: Path
    seed: int | None

    def write(self, target: Path) -> None:
        """Write a file in the `safetensors` format, which the runtime reads. ValueError if there is nothing to draw."""
        import numpy as np

        header: dict[str, dict[str, object]] = {}
        sizes: list[tuple[str, int]] = []
        end = 0
        for name, dimensions, element in dict.fromkeys(_PARAMETER.findall(self.program.read_bytes())):
            kind, shape = element.decode(), [int(size) for size in dimensions.split(b"x")[:-1]]
            if kind not in _STORED or (kind.startswith("i") and self.seed is not None):
                raise ValueError(f"{self.program}: there are no random weights of the type {kind}")
            sizes.append((kind, prod(shape)))
            begin, end = end, end + prod(shape) * np.dtype(_STORED[kind]).itemsize
            header[name.decode()] = {"dtype": kind.upper(), "shape": shape, "data_offsets": [begin, end]}
        if not header and self.seed is not None:
            raise ValueError(f"{self.program}: the program names no parameters that random weights could replace")
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 64)
        random = np.random.default_rng(self.seed)
        with target.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            if self.seed is None:
                file.truncate(8 + len(text) + end)
                return
            for kind, count in sizes:
                for size in [_CHUNK] * (count // _CHUNK) + [count % _CHUNK]:
                    drawn = random.normal(0.0, 0.01, size)
                    bits = (drawn.astype("f4").view("u4") >> 16) if kind == "bf16" else drawn
                    bits.astype(_STORED[kind]).tofile(file)


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
        """Draw the tensor and write it. ValueError for a type that numpy does not have."""
        import numpy as np

        random = np.random.RandomState(self.seed)
        random.rand(self.skipped)
        try:
            array = np.asarray(self.coeff * random.rand(*self.shape) + self.offset)
            if np.dtype(self.dtype).kind == "b":
                array = np.round(array)
            np.save(target, array.astype(self.dtype))
        except TypeError as error:
            raise ValueError(f"random values of the type {self.dtype} cannot be made: {error}") from error


@dataclass(frozen=True, slots=True)
class ModelArguments:
    """Random arguments for an ONNX model, whose number and types it says itself."""

    model: Path
    folder: Path

    def __call__(self) -> tuple[Artifact, ...]:
        """Return a file for each argument. ValueError if the model cannot be read."""
        import onnx

        try:
            graph = onnx.load(self.model, load_external_data=False).graph
        except Exception as error:  # protobuf's own class is not public
            raise ValueError(f"{self.model}: it cannot be read as an ONNX model: {error}") from error
        weights = {tensor.name for tensor in graph.initializer}
        arguments: list[Artifact] = []
        for index, value in enumerate(value for value in graph.input if value.name not in weights):
            if not value.type.HasField("tensor_type"):
                raise ValueError(f'{self.model}: the argument "{value.name}" is not a tensor')
            tensor = value.type.tensor_type
            shape = tuple(size.dim_value or 1 for size in tensor.shape.dim)  # a size that is not fixed is 1
            dtype = str(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
            name = "-".join(["random", str(index), dtype, *map(str, shape)])
            largest = 1.0 if "float" in dtype else 2.0  # integers are 0 or 1
            arguments.append(Artifact(self.folder / f"{name}.npy", RandomTensor(shape, dtype, index, coeff=largest)))
        return tuple(arguments)
