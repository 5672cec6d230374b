"""The files of IREE's test suites: the forms of their JSON files, and the programs,
values and weights that they name, download or generate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from math import inf, prod, ulp
from pathlib import Path, PurePosixPath
from typing import Annotated, ClassVar, Literal, TypeVar
from urllib.parse import urlsplit

from triage.compilers.iree.targets import IREE
from triage.model.case import Artifact, Flag, Generator, Library, RunSpec
from triage.model.content import Address
from triage.model.errors import BadFiles, Problem
from triage.model.execution import Limits
from triage.model.fields import between, file_key
from triage.recipes.document import (
    STRICT,
    ConfigDocument,
    Text,
    Texts,
    content_of,
    read_document,
)
from triage.recipes.run_keys import without_tolerances
from triage.recipes.run_values import (
    ValueText,
    split_value,
    value_type,
    with_located_file,
)

LIMITS = Limits(timeout=1800.0, memory=64 << 30)
"""Models take minutes, and their weights gigabytes."""
# written to a file that is read here; the tests' own would be lost
_STATISTICS = "--iree-scheduling-dump-statistics-"
# A global whose initial value is a parameter, in the custom and in the generic form of
# MLIR.
_PARAMETER = re.compile(
    rb'#(?:stream|flow)\.parameter\.named<(?:"[^"]*"::)?"([^"]+)"> : tensor<(\w+)>'
)

Form = TypeVar("Form")
NotNegative = Annotated[int, between(0, inf, "write zero or more.")]
Positive = Annotated[float, between(ulp(0), inf, "write a number above zero.")]


@dataclass(frozen=True, kw_only=True)
class SuiteForm:
    """A mapping whose keys are the fields."""

    __pydantic_config__: ClassVar = STRICT


@dataclass(frozen=True, kw_only=True)
class SuiteValue(SuiteForm):
    """A value, or its type and its file."""

    value: Text | None = None
    url: Text | None = None
    source: Text | None = None


GoldenNumber = Positive | dict[str, Positive] | None
"""A number of all machines, or of each kind of machine."""
Values = tuple[Text | SuiteValue, ...]


@dataclass(frozen=True, kw_only=True)
class SuiteConfig(SuiteForm):
    """A list of tests with their flags."""

    config_name: Text
    iree_compile_flags: Texts
    iree_run_module_flags: Texts


@dataclass(frozen=True, kw_only=True)
class OperationsConfig(SuiteConfig):
    """A config of tests that are folders."""

    skip_compile_tests: Texts = ()
    skip_run_tests: Texts = ()
    expected_compile_failures: Texts = ()
    expected_run_failures: Texts = ()
    golden_times_ms: dict[str, Positive] = field(default_factory=dict)
    tolerance_factor: Positive = file_key(1.1, "How much slower.", 1.1)


@dataclass(frozen=True, kw_only=True)
class OnnxConfig(SuiteConfig):
    """A config of ONNX models."""

    tests_and_expected_outcomes: dict[
        str, Literal["pass", "skip", "fail-import", "fail-compile", "fail-run"]
    ]


@dataclass(frozen=True, kw_only=True)
class Formula(SuiteForm):
    """Uniform random numbers: `coeff` times those from 0 to 1, plus `offset`."""

    shape: tuple[NotNegative, ...]
    dtype: Text = "float32"
    coeff: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, kw_only=True)
class TorchTest(SuiteForm):
    """How a test of an operation is run, if its inputs are formulas."""

    function_name: Text = "main"
    flat_args: list[dict[Literal["Formula"], Formula]]
    seed: NotNegative = 0
    rtol: float = 1e-5
    atol: float = 1e-8
    equal_nan: bool = False
    mode: Literal["compare", "benchmark"] = "compare"
    file_name: Text = "test.mlir"
    vmfb_name: Text = "out.vmfb"
    expected_output: tuple[SuiteValue, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ModelWeights(SuiteForm):
    """Weights of a test of a model: a file, or random ones."""

    type: Literal["url", "random"]
    scope: Text
    url: Text = ""
    module: Text = ""  # whose parameters get random values
    seed: NotNegative = 0


@dataclass(frozen=True, kw_only=True)
class ModelTest(SuiteForm):
    """A program, a test of one, or both. `torch_models` and sharktank have different
    names for some of the keys.
    """

    mlir: Text = file_key("", "A program.", "https://example.com/model.mlir")
    compiler_flags: Texts = ()
    type: Literal["quality", "benchmark", "compstat"] | None = None
    module: Texts = ()
    modules: Texts = ()
    weights: tuple[ModelWeights, ...] = ()
    real_weights: Text = ""
    tuner_file: dict[str, Text] = field(default_factory=dict)
    inputs: Values = ()
    outputs: Values = ()
    expected_outputs: Values = ()
    device: Text | None = None
    run_function: Text | None = None
    function_run: Text | None = None
    run_args: Texts = ()
    threshold_args: Texts = ()
    benchmark_flags: Texts = ()
    pipeline_mlir: Text | None = None
    mlir_file_name: Text | None = None  # also of a pipeline, somewhere in the folder
    pipeline_compiler_flags: Texts = ()
    compile_flags: Texts = ()
    compile_only: bool = False
    run_test_expecting_to_fail: bool = False
    compile_chip_expecting_to_fail: Texts = ()
    specific_chip_to_ignore: Texts = ()
    golden_time_ms: GoldenNumber = None
    tolerance_factor: GoldenNumber = None
    golden_time_tolerance_multiplier: GoldenNumber = None
    golden_dispatch_count: GoldenNumber = None
    golden_dispatch: GoldenNumber = None
    golden_binary_size: GoldenNumber = None
    golden_size: GoldenNumber = None
    # only their own harness uses these
    markers: Texts = ()
    custom_real_weights_group: Text = ""
    add_pipeline_module: bool = False
    benchmark_repetitions: Positive = 1.0
    benchmark_min_warmup_time: Positive = 1.0
    real_weights_file_name: Text = ""
    compilation_required: bool = False
    compiled_file_name: Text = ""


@dataclass(frozen=True)
class SuiteFile:
    """A JSON file of a suite."""

    path: Path
    """Absolute."""
    folder: Path
    """Of the suite. Names of modules are relative to it. Absolute."""
    downloads: Path
    """Where files from URLs and generated files are kept."""
    artifacts: dict[Path, tuple[Artifact, ...]] = field(default_factory=dict)
    """A file that the suite does not contain -> what has to be obtained for it. All
    files of a suite share it.
    """

    @cached_property
    def _document(self) -> ConfigDocument:
        return read_document(self.path, "write a mapping", json=True)

    @property
    def keys(self) -> frozenset[str]:
        data = self._document.data
        return frozenset(data if isinstance(data, dict) else ())

    def read(self, form: type[Form]) -> Form:
        """Return the content of the file. Raises BadFiles with every mistake."""
        return content_of(self._document, form)

    def text_with(self, lists: dict[str, list[str]]) -> str:
        """Return the text of the file with other lists."""
        return json.dumps({**self._document.data, **lists}, indent=2) + "\n"

    def other_file(self, path: Path) -> SuiteFile:
        """Return another file of the suite."""
        return replace(self, path=path.absolute())

    def mistake(self, message: str) -> BadFiles:
        """Return the error for a mistake in the file."""
        return BadFiles([Problem(str(self.path), None, None, message)])

    def add_artifact(
        self, key: str, name: str, source: Address | Generator, *needed: Artifact
    ) -> Path:
        """Add a file that is downloaded, or generated from `needed`, and return its
        path. The key decides its content.
        """
        path = self.downloads / sha256(key.encode()).hexdigest()[:16] / name
        self.artifacts[path] = (*needed, Artifact(path, source))
        return path

    def locate(self, address: str) -> Path:
        """Return the path of a file next to this one. One with a URL becomes an
        artifact, to be downloaded.
        """
        if re.match(r"https?://[^/]+/.", address):
            name = PurePosixPath(urlsplit(address).path).name or "file"
            return self.add_artifact(address, name, Address(address))
        path = (self.path.parent / address).absolute()
        if not path.is_file():
            text = f'there is no file "{Address(address)}" next to this one.'
            raise self.mistake(text)
        return path

    def file_below(self, name: str) -> Path:
        """Return a file somewhere below the folder of the suite, by its name."""
        for file in sorted(self.folder.rglob(name)):
            return file
        raise self.mistake(f'there is no file "{name}" below {self.folder}.')

    def program(self, address: str, flags: Iterable[str]) -> Library:
        """Return a program by its URL or path, with its flags."""
        path = self.locate(address)
        kept = [Flag(flag) for flag in flags if not flag.startswith(_STATISTICS)]
        artifacts = self.artifacts.get(path, ())
        return Library(IREE.input_at(path), tuple(kept), artifacts)

    def value(self, entry: str | SuiteValue) -> str:
        """Return a value as recipes write it, with the path of its file."""
        if isinstance(entry, str):
            entry = SuiteValue(value=entry)
        text = entry.value or ""
        address = entry.url or entry.source
        if address:
            return str(ValueText(text, str(self.locate(address)), ""))
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
        artifacts = [
            artifact for path in files for artifact in self.artifacts.get(path, ())
        ]
        return replace(
            run,
            flags=flags,
            tolerances=tolerances,
            limits=LIMITS,
            artifacts=tuple(artifacts),
        )


@dataclass(frozen=True)
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
        arrays: list[tuple[np.dtype[np.generic], int]] = []
        end = 0
        parameters = dict.fromkeys(_PARAMETER.findall(self.program.read_bytes()))
        for name, type_ in parameters:
            kind = value_type(type_.decode())
            if kind is None:
                raise ValueError(f"no weights have the type {type_.decode()}")
            shape = [size or 0 for size in kind.shape]
            begin, end = end, end + prod(shape) * kind.dtype.itemsize
            arrays.append((kind.dtype, prod(shape)))
            header[name.decode()] = {
                "dtype": type_.decode().rpartition("x")[2].upper(),
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


@dataclass(frozen=True, kw_only=True)
class RandomTensor(Formula):
    """A `.npy` file with random numbers."""

    seed: int
    skipped: int = 0
    """Numbers that tensors before this one drew from the same seed."""

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


@dataclass(frozen=True)
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
                kind = value.type.tensor_type
                shape = tuple(size.dim_value or 1 for size in kind.shape.dim)
                dtype = str(tensor_dtype_to_np_dtype(kind.elem_type))
                path = self.model.with_name(f"{index}-{dtype}-{shape}.npy")
                tensor = RandomTensor(shape=shape, dtype=dtype, seed=index)
                files.append(Artifact(path, tensor))
        except Exception as error:  # protobuf's own class is not public
            raise ValueError(
                f"{self.model} has no arguments that can be made: {error}"
            ) from error
        return tuple(files)
