"""Generate random values where a suite asks for them: the same ones for each seed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from triage.model.case import Artifact

# A global whose initial value is a parameter, in the custom and in the generic form of MLIR.
_PARAMETER = re.compile(rb'#(?:stream|flow)\.parameter\.named<(?:"[^"]*"::)?"([^"]+)"> : tensor<((?:\d+x)*)(\w+)>')
_CHUNK = 1 << 24  # elements that are drawn at once
# MLIR's types -> those of numpy and of a file of weights. numpy has no bf16: its elements are the upper halves of f32.
_STORED = {"f16": ("f2", "F16"), "f32": ("f4", "F32"), "f64": ("f8", "F64"), "bf16": ("u2", "BF16")} | {
    f"{sign}i{8 * size}": (f"{kind}{size}", f"{kind.upper()}{8 * size}")
    for sign, kind in (("", "i"), ("s", "i"), ("u", "u"))
    for size in (1, 2, 4, 8)
}


@dataclass(frozen=True, slots=True)
class RandomWeights:
    """Weights for all parameters of a program, in the order in which it names them."""

    program: Path
    seed: int
    deviation: float = 0.01
    """Standard deviation of floats; 0 makes all weights zero."""

    def write(self, target: Path) -> None:
        """Write a file in the `safetensors` format, which the runtime reads. ValueError if there is nothing to draw."""
        import numpy as np

        shapes = [
            (name.decode(), tuple(map(int, shape.split(b"x")[:-1])), kind.decode())
            for name, shape, kind in dict.fromkeys(_PARAMETER.findall(self.program.read_bytes()))
        ]
        unknown = next((kind for *_, kind in shapes if kind not in _STORED), None)
        if unknown is not None:
            raise ValueError(f"{self.program}: there are no random weights of the type {unknown}")
        if not shapes and self.deviation:
            raise ValueError(f"{self.program}: the program names no parameters that random weights could replace")
        header: dict[str, dict[str, object]] = {}
        offset = 0
        for name, shape, kind in shapes:
            size = np.dtype(_STORED[kind][0]).itemsize * int(np.prod(shape, dtype=np.int64))
            header[name] = {"dtype": _STORED[kind][1], "shape": list(shape), "data_offsets": [offset, offset + size]}
            offset += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 64)
        random = np.random.default_rng(self.seed)
        with target.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for _, shape, kind in shapes:
                item = np.dtype(_STORED[kind][0])
                left = int(np.prod(shape, dtype=np.int64))
                while left > 0:
                    count = min(left, _CHUNK)
                    left -= count
                    if not self.deviation:
                        np.zeros(count, item).tofile(file)
                    elif kind == "bf16":
                        floats = random.normal(0.0, self.deviation, size=count).astype("f4")
                        (floats.view("u4") >> 16).astype("u2").tofile(file)
                    elif item.kind == "f":
                        random.normal(0.0, self.deviation, size=count).astype(item).tofile(file)
                    else:
                        limits = np.iinfo(item)
                        random.integers(limits.min, limits.max, size=count, dtype=item).tofile(file)


@dataclass(frozen=True, slots=True)
class Formula:
    """A tensor: `coeff` times uniform random numbers from 0 to 1, plus `offset`."""

    shape: tuple[int, ...]
    dtype: str
    """As numpy names it."""
    coeff: float = 1.0
    offset: float = 0.0


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
                array = formula.coeff * random.rand(*formula.shape) + formula.offset
                if np.dtype(formula.dtype).kind == "b":
                    array = np.round(array)
                array = array.astype(formula.dtype)
        except TypeError as error:
            raise ValueError(f"random values of the type {formula.dtype} cannot be made: {error}") from error
        np.save(target, array)


@dataclass(frozen=True, slots=True)
class ModelArguments:
    """Random arguments for an ONNX model, whose number and types it says itself."""

    model: Path
    folder: Path

    def artifacts(self) -> tuple[Artifact, ...]:
        """A file for each argument. ValueError if the model cannot be read."""
        import onnx

        try:
            graph = onnx.load(self.model, load_external_data=False).graph
        except Exception as error:  # protobuf's own class is no public name
            raise ValueError(f"{self.model}: it cannot be read as an ONNX model: {error}") from error
        weights = {tensor.name for tensor in graph.initializer}
        arguments: list[Artifact] = []
        for value in graph.input:
            if value.name in weights:
                continue
            if not value.type.HasField("tensor_type"):
                raise ValueError(f'{self.model}: the argument "{value.name}" is not a tensor')
            tensor = value.type.tensor_type
            shape = tuple(size.dim_value or 1 for size in tensor.shape.dim)  # a size that is not fixed is 1
            dtype = str(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
            index = len(arguments)
            largest = 1.0 if "float" in dtype else 2.0  # integers are 0 or 1
            name = "-".join(["random", str(index), dtype, *map(str, shape)])
            drawn = RandomTensor((Formula(shape, dtype, largest),), index, 0)
            arguments.append(Artifact(self.folder / f"{name}.npy", drawn))
        return tuple(arguments)
