"""The files of IREE's test suites: JSON files, and the programs, values and weights
that they name, download or generate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import urlsplit

from triage.compilers.iree.devices import IREE, target_of
from triage.model.address import Address
from triage.model.case import Artifact, Case, Flag, Generator, Library, RunSpec, Target
from triage.model.errors import BadFiles, Problem
from triage.model.execution import Limits
from triage.recipes.document import read_document
from triage.recipes.mapping import MappingFormat, content_of
from triage.recipes.run_keys import without_tolerances
from triage.recipes.run_values import ValueText, split_value

EMPTY = (
    'write a mapping such as {"config_name": …} or {"type": "compstat", "markers": '
    '[], "module": …}'
)
# models take minutes, and their weights gigabytes
LIMITS = Limits(timeout=1800.0, memory=64 << 30)
# written to a file that is read here; the tests' own would be lost
_STATISTICS = "--iree-scheduling-dump-statistics-"
# A global whose initial value is a parameter, in the custom and in the generic form of
# MLIR.
_PARAMETER = re.compile(
    rb'#(?:stream|flow)\.parameter\.named<(?:"[^"]*"::)?"([^"]+)"> : '
    rb"tensor<((?:\d+x)*)(\w+)>"
)
_CHUNK = 1 << 24  # elements that are drawn at once
# MLIR's types -> numpy's. numpy has no bf16: its elements are the upper halves of f32.
_STORED = {
    "f16": "f2",
    "f32": "f4",
    "f64": "f8",
    "bf16": "u2",
    "i8": "i1",
    "i16": "i2",
    "i32": "i4",
    "i64": "i8",
}

M = TypeVar("M", bound=MappingFormat)
At = str | int


class Suite:
    """A folder of tests."""

    def __init__(self, folder: Path, downloads: Path) -> None:
        """Names of modules are relative to `folder`. Files from URLs are kept in
        `downloads`.
        """
        self.folder, self.downloads = folder.absolute(), downloads
        self.problems: list[Problem] = []
        self._artifacts: dict[Path, tuple[Artifact, ...]] = {}

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Add a file's mistakes to `problems`, and go on with the next file."""
        try:
            yield
        except BadFiles as error:
            self.problems += error.problems

    def add_artifact(
        self, key: str, name: str, source: Address | Generator, *before: Artifact
    ) -> Path:
        """Add a file that is downloaded, or generated from `before`, and return its
        path. The key decides its content.
        """
        path = self.downloads / sha256(key.encode()).hexdigest()[:16] / name
        self._artifacts[path] = (*before, Artifact(path, source))
        return path

    def download(self, url: str) -> Path:
        """Add the file of a URL, and return its path."""
        name = PurePosixPath(urlsplit(url).path).name or "file"
        return self.add_artifact(url, name, Address(url))

    def artifacts_of(self, *paths: Path) -> tuple[Artifact, ...]:
        """Return what has to be obtained before these files are there."""
        return tuple(
            artifact for path in paths for artifact in self._artifacts.get(path, ())
        )

    def run_spec(
        self,
        inputs: Sequence[str],
        expected: Sequence[str] = (),
        weights: Sequence[tuple[str, Path]] = (),
        flags: Sequence[str] = (),
        libraries: Sequence[Library] = (),
    ) -> RunSpec:
        """Return a run with these values and weights (by scope). Flags that set a
        tolerance become tolerances.
        """
        named = [split_value(text).file for text in (*inputs, *expected)]
        files = [Path(file) for file in named if file]
        others, tolerances = without_tolerances(flags)
        return RunSpec(
            inputs=tuple(inputs),
            expected=tuple(expected),
            flags=others,
            tolerances=tolerances,
            limits=LIMITS,
            libraries=tuple(libraries),
            parameters=tuple(weights),
            artifacts=self.artifacts_of(*files, *(path for _, path in weights)),
        )


class SuiteFile:
    """A JSON file of a suite.

    `at` says where in the file a mistake is: its keys and indices, from outside in.
    Parts that the file does not have are left out.
    """

    def __init__(self, suite: Suite, path: Path) -> None:
        self.suite, self.path = suite, path.absolute()
        self._document = read_document(self.path, EMPTY, json=True)
        self.data: Any = self._document.data

    def content(self, model: type[M]) -> M:
        """Return the content by its model. Raises BadFiles with every mistake."""
        return content_of(self._document, model)

    def mistake(self, message: str, *at: At) -> BadFiles:
        """Return the error for a mistake."""
        return BadFiles([self._document.problem(at, message)])

    def file(self, place: str, *at: At) -> Path:
        """Return the path of a file: downloaded from a URL, or next to this one."""
        if re.match(r"https?://[^/]+/.", place):
            return self.suite.download(place)
        path = (self.path.parent / place).absolute()
        if not path.is_file():
            raise self.mistake(
                f'there is no file "{Address(place)}"; write a URL or a path next to '
                "this file.",
                *at,
            )
        return path

    def file_below(self, name: str, *at: At) -> Path:
        """Return a file somewhere below the folder, by its name."""
        for file in sorted(self.suite.folder.rglob(name)):
            return file
        raise self.mistake(
            (
                f'there is no file "{name}" below {self.suite.folder}: name a folder '
                "that has it as well."
            ),
            *at,
        )

    def program(self, place: str, flags: Sequence[str], *at: At) -> Library:
        """Return a program by its URL or path, with its flags."""
        path = self.file(place, *at)
        if path.suffix not in IREE.inputs:
            raise self.mistake(
                (
                    f'"{path.name}" is not a program: name a file of '
                    f"{', '.join(IREE.inputs)}."
                ),
                *at,
            )
        own = tuple(Flag(flag) for flag in flags if not flag.startswith(_STATISTICS))
        return Library(IREE.input_at(path), own, self.suite.artifacts_of(path))

    def value(self, text: str, url: str | None, *at: At) -> str:
        """Find or download the file that a value names; return the value with the path
        of that file, such as `2xf32=@PATH`.

        `text` is the whole value, or only its type if `url` names its file.
        """
        try:
            if url is None:
                parts = split_value(text)
            else:
                parts = ValueText(text, url, "")
        except ValueError as error:
            raise self.mistake(str(error), *at) from None
        if parts.file is None:
            return text
        return str(replace(parts, file=str(self.file(parts.file, *at))))

    def case(
        self, recipe: str, program: Library, name: str = "", limits: Limits = LIMITS
    ) -> Case:
        """Return the case that compiles the program of a test, named for the file by
        default.
        """
        backend, chip = target_of([flag.text for flag in program.flags])
        folder = self.suite.folder
        if self.path.is_relative_to(folder):
            below = self.path.relative_to(folder)
        else:
            below = Path(self.path.name)
        return Case(
            recipe=recipe,
            name=name or below.with_suffix("").as_posix(),
            summary="",
            compiler=IREE.name,
            source=self.path,
            input=program.input,
            target=Target(backend or "llvm-cpu", chip),
            flags=program.flags,
            limits=limits,
            artifacts=program.artifacts,
        )


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

        header: dict[str, dict[str, object]] = {}
        sizes: list[tuple[str, int]] = []
        end = 0
        for name, dimensions, element in dict.fromkeys(
            _PARAMETER.findall(self.program.read_bytes())
        ):
            kind = element.decode()
            shape = [int(size) for size in dimensions.split(b"x")[:-1]]
            if kind not in _STORED or (kind.startswith("i") and self.seed is not None):
                raise ValueError(
                    f"{self.program}: there are no random weights of the type {kind}"
                )
            sizes.append((kind, prod(shape)))
            begin, end = end, end + prod(shape) * np.dtype(_STORED[kind]).itemsize
            header[name.decode()] = {
                "dtype": kind.upper(),
                "shape": shape,
                "data_offsets": [begin, end],
            }
        if not header and self.seed is not None:
            raise ValueError(
                f"{self.program}: the program names no parameters that random weights "
                "could replace"
            )
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
                    bits: np.ndarray[Any, Any] = drawn
                    if kind == "bf16":
                        bits = drawn.astype("f4").view("u4") >> 16
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
        try:
            import onnx

            graph = onnx.load(self.model, load_external_data=False).graph
        except Exception as error:  # protobuf's own class is not public
            raise ValueError(
                f"{self.model}: it cannot be read as an ONNX model: {error}"
            ) from error
        weights = {tensor.name for tensor in graph.initializer}
        arguments: list[Artifact] = []
        for index, value in enumerate(
            value for value in graph.input if value.name not in weights
        ):
            if not value.type.HasField("tensor_type"):
                raise ValueError(
                    f'{self.model}: the argument "{value.name}" is not a tensor'
                )
            tensor = value.type.tensor_type
            shape = tuple(size.dim_value or 1 for size in tensor.shape.dim)
            dtype = str(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
            name = "-".join(["random", str(index), dtype, *map(str, shape)])
            upper_bound = 1.0 if "float" in dtype else 2.0  # integers are 0 or 1
            arguments.append(
                Artifact(
                    self.folder / f"{name}.npy",
                    RandomTensor(shape, dtype, index, coeff=upper_bound),
                )
            )
        return tuple(arguments)
