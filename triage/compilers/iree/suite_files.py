"""The files of IREE's test suites: JSON files, and the programs, values and weights
that they name, download or generate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import prod
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from triage.compilers.iree.targets import IREE, target_of
from triage.model.case import (
    Artifact,
    Case,
    Expectation,
    Flag,
    Generator,
    Library,
    RunSpec,
    Target,
)
from triage.model.content import Address
from triage.model.errors import BadFiles, Problem
from triage.model.execution import Limits, Stage
from triage.recipes.document import MappingFormat, Text, read_document
from triage.recipes.run_keys import without_tolerances
from triage.recipes.run_values import (
    ValueText,
    array_dtype,
    split_value,
    with_located_file,
)

if TYPE_CHECKING:
    import numpy as np

# models take minutes, and their weights gigabytes
_LIMITS = Limits(timeout=1800.0, memory=64 << 30)
# a wrong result is a failed run in IREE's suites
RUN_FAILS = (Stage.RUN, Stage.COMPARE)
# written to a file that is read here; the tests' own would be lost
_STATISTICS = "--iree-scheduling-dump-statistics-"
# A global whose initial value is a parameter, in the custom and in the generic form of
# MLIR.
_PARAMETER = re.compile(
    rb'#(?:stream|flow)\.parameter\.named<(?:"[^"]*"::)?"([^"]+)"> : '
    rb"tensor<((?:\d+x)*)(\w+)>"
)


class SuiteValue(MappingFormat):
    """A value, or its type and its file."""

    value: Text | None = None
    url: Text | None = None
    source: Text | None = None


@dataclass(frozen=True)
class Suite:
    """A folder of tests."""

    folder: Path
    """Absolute. Names of modules are relative to it."""
    downloads: Path
    """Where files from URLs and generated files are kept."""
    artifacts: dict[Path, tuple[Artifact, ...]] = field(default_factory=dict)
    """A file that the suite does not contain -> what has to be obtained for it."""

    def add_artifact(
        self, key: str, name: str, source: Address | Generator, *before: Artifact
    ) -> Path:
        """Add a file that is downloaded, or generated from `before`, and return its
        path. The key decides its content.
        """
        path = self.downloads / sha256(key.encode()).hexdigest()[:16] / name
        self.artifacts[path] = (*before, Artifact(path, source))
        return path

    def artifacts_of(self, paths: Iterable[Path]) -> tuple[Artifact, ...]:
        """Return what has to be obtained before these files are there."""
        return tuple(
            artifact for path in paths for artifact in self.artifacts.get(path, ())
        )


class SuiteFile:
    """A JSON file of a suite."""

    def __init__(self, suite: Suite, path: Path) -> None:
        self.suite, self.path = suite, path.absolute()
        self.document = read_document(self.path, "write a mapping", json=True)
        self.keys = frozenset[str]()
        if isinstance(self.document.data, dict):
            self.keys = frozenset(self.document.data)

    def mistake(self, message: str) -> BadFiles:
        """Return the error for a mistake in the file."""
        return BadFiles([Problem(str(self.path), None, None, message)])

    def file(self, address: str) -> Path:
        """Return the path of a file: downloaded from a URL, or next to this one."""
        if re.match(r"https?://[^/]+/.", address):
            name = PurePosixPath(urlsplit(address).path).name or "file"
            return self.suite.add_artifact(address, name, Address(address))
        path = (self.path.parent / address).absolute()
        if not path.is_file():
            text = f'there is no file "{Address(address)}" next to this one.'
            raise self.mistake(text)
        return path

    def file_below(self, name: str) -> Path:
        """Return a file somewhere below the folder, by its name."""
        for file in sorted(self.suite.folder.rglob(name)):
            return file
        raise self.mistake(f'there is no file "{name}" below {self.suite.folder}.')

    def program(self, address: str, flags: Iterable[str]) -> Library:
        """Return a program by its URL or path, with its flags."""
        path = self.file(address)
        kept = [Flag(flag) for flag in flags if not flag.startswith(_STATISTICS)]
        artifacts = self.suite.artifacts_of([path])
        return Library(IREE.input_at(path), tuple(kept), artifacts)

    def value(self, entry: str | SuiteValue) -> str:
        """Return a value as recipes write it, with the path of its file."""
        if isinstance(entry, str):
            entry = SuiteValue(value=entry)
        text, address = entry.value or "", entry.url or entry.source
        if address:
            return str(ValueText(text, str(self.file(address)), ""))
        try:
            return with_located_file(text, self.path.parent)
        except ValueError as error:
            raise self.mistake(str(error)) from None

    def complete(self, run: RunSpec) -> RunSpec:
        """Return a run with limits, with what its files need, and with tolerances in
        place of the flags that set them.
        """
        flags, tolerances = without_tolerances(run.flags)
        values = map(split_value, (*run.inputs, *run.expected))
        files = [Path(value.file) for value in values if value.file]
        files += [path for _, path in run.parameters]
        return replace(
            run,
            flags=flags,
            tolerances=tolerances,
            limits=_LIMITS,
            artifacts=self.suite.artifacts_of(files),
        )

    def case(
        self,
        recipe: str,
        program: Library,
        run: RunSpec | None,
        *,
        name: str = "",
        limits: Limits = _LIMITS,
        failing: Iterable[Stage] = (),
        **thresholds: float | None,
    ) -> Case:
        """Return the case of a test.

        Args:
            recipe: The name of its recipe.
            program: What is compiled.
            run: How it is run; one that is measured is a benchmark, too.
            name: Its name (default: that of the file).
            limits: Of the compile.
            failing: The stages of its known failures.
            thresholds: The largest accepted values of metrics; None for no limit.
        """
        backend, chip = target_of([flag.text for flag in program.flags])
        path = Path(self.path.name)
        if self.path.is_relative_to(self.suite.folder):
            path = self.path.relative_to(self.suite.folder)
        benchmarks: tuple[RunSpec, ...] = ()
        if run and run.measured:
            flags = [flag for flag in run.flags if not flag.startswith("--benchmark_")]
            benchmarks = (replace(run, flags=tuple(flags)),)
        return Case(
            recipe=recipe,
            name=name or path.with_suffix("").as_posix(),
            summary="",
            compiler=IREE.name,
            source=self.path,
            input=program.input,
            target=Target(backend or "llvm-cpu", chip),
            flags=program.flags,
            limits=limits,
            artifacts=program.artifacts,
            run=run,
            benchmarks=benchmarks,
            thresholds=tuple((key, most) for key, most in thresholds.items() if most),
            expect=tuple(Expectation(None, stage=stage) for stage in failing),
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
        ValueError for a type that no array has.
        """
        import numpy as np

        header: dict[str, object] = {}
        arrays: list[tuple[np.dtype[Any], int]] = []
        end = 0
        named = dict.fromkeys(_PARAMETER.findall(self.program.read_bytes()))
        for name, dimensions, element in named:
            kind = element.decode()
            shape = [int(size) for size in dimensions.split(b"x")[:-1]]
            try:
                dtype, count, begin = array_dtype(kind), prod(shape), end
            except LookupError:
                raise ValueError(f"no weights have the type {kind}") from None
            arrays.append((dtype, count))
            end += count * dtype.itemsize
            header[name.decode()] = {
                "dtype": kind.upper(),
                "shape": shape,
                "data_offsets": [begin, end],
            }
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 64)
        with target.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            if self.seed is None:
                file.truncate(8 + len(text) + end)  # zeros
                return
            random = np.random.default_rng(self.seed)
            for dtype, count in arrays:
                random.normal(0.0, 0.01, count).astype(dtype).tofile(file)


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
            raise ValueError(f"no random values of {self.dtype}: {error}") from error


@dataclass(frozen=True, slots=True)
class ModelArguments:
    """Makes random arguments for an ONNX model: a tensor for each of its inputs that
    has no weights. A size that the model leaves open is 1.
    """

    model: Path

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
                path = self.model.with_name(f"{index}-{dtype}-{shape}.npy")
                files.append(Artifact(path, RandomTensor(shape, dtype, index)))
        except Exception as error:  # protobuf's own class is not public
            raise ValueError(
                f"{self.model} has no arguments that can be made: {error}"
            ) from error
        return tuple(files)
