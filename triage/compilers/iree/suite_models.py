"""Tests of whole models and of single operations in IREE's suites: an adapter for each
kind of JSON file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat

from triage.compilers.iree.suite_files import (
    ModelArguments,
    RandomTensor,
    RandomWeights,
    SuiteFile,
)
from triage.model.case import Case, Library, RunSpec
from triage.model.errors import BadFiles
from triage.model.execution import Stage
from triage.recipes.mapping import MappingFormat, Text, Texts

_SCOPE = "model"  # of the weights of every model of sharktank
_LIBRARY = "--iree-codegen-transform-dialect-library="
_OUTCOMES = "tests_and_expected_outcomes"
_MODELS = "https://huggingface.co/onnxmodelzoo/legacy_models/resolve/main/"
_ONNX_TEST = re.compile(
    r"tests/model_zoo/(?P<folder>[\w./-]+)_models_test\.py::test_models\["
    r"(?P<model>[^\]]+\.onnx)\]\Z"
)
_STAGES: dict[str, tuple[Stage, ...]] = {
    "pass": (),
    "fail-import": (Stage.IMPORT,),
    "fail-compile": (Stage.COMPILE,),
    # a wrong result is a failed run in these files
    "fail-run": (Stage.RUN, Stage.COMPARE),
}
_ByMachine = dict[str, PositiveFloat]


class _Module(MappingFormat):
    mlir: Text = Field(examples=["https://example.com/model.mlir"])
    compiler_flags: Texts = ()


class _Weights(MappingFormat):
    type: Literal["url", "random"]
    scope: Text
    url: Text = ""
    module: Text = ""  # whose parameters get random values
    seed: NonNegativeInt = 0


class _Value(MappingFormat):
    value: Text | None = None
    url: Text | None = None


class _Test(MappingFormat):
    """A test of a model: `quality`, `benchmark` or `compstat`."""

    type: Literal["quality", "benchmark", "compstat"]
    markers: Texts
    module: Text = ""  # of compstat
    modules: Texts = ()
    weights: tuple[_Weights, ...] = ()
    inputs: tuple[_Value, ...] = ()
    run_args: Texts = ()
    expected_outputs: tuple[_Value, ...] = ()
    golden_time_ms: PositiveFloat | None = Field(default=None, examples=[5.84])
    tolerance_factor: PositiveFloat = 1.1
    golden_dispatch_count: PositiveFloat | None = None
    golden_binary_size: PositiveFloat | None = None


class _Source(_Value):
    url: Text = Field(alias="source")


class _SharktankTest(MappingFormat):
    mlir: Text
    compiler_flags: Texts = ()
    real_weights: Text | None = None
    custom_real_weights_group: Text = ""  # where their harness keeps the weights
    inputs: tuple[_Source, ...] = ()
    outputs: tuple[_Source, ...] = ()
    device: Text | None = None
    run_function: Text | None = None
    threshold_args: Texts = ()
    compile_only: bool = False
    run_test_expecting_to_fail: bool = False
    compile_chip_expecting_to_fail: Texts = ()
    tuner_file: dict[str, Text] = Field(default={})
    pipeline_mlir: Text | None = None
    pipeline_compiler_flags: Texts = ()
    add_pipeline_module: bool = False


class _SharktankTime(MappingFormat):
    function_run: Text
    inputs: Texts = ()
    device: Text | None = None
    benchmark_flags: Texts = ()
    benchmark_repetitions: PositiveFloat = 1.0  # their harness does not use these two
    benchmark_min_warmup_time: PositiveFloat = 1.0
    golden_time_ms: _ByMachine = Field(default={})
    golden_time_tolerance_multiplier: _ByMachine = Field(default={})
    golden_dispatch: _ByMachine = Field(default={})
    golden_size: _ByMachine = Field(default={})
    specific_chip_to_ignore: Texts = ()
    real_weights_file_name: Text = ""  # the quality test has its URL
    compilation_required: bool = False
    compiled_file_name: Text = ""
    compile_flags: Texts = ()
    mlir_file_name: Text | None = None
    modules: Texts = ()


class _OnnxModels(MappingFormat):
    config_name: Text
    iree_compile_flags: Texts
    iree_run_module_flags: Texts
    tests_and_expected_outcomes: dict[
        str, Literal["pass", "skip", "fail-import", "fail-compile", "fail-run"]
    ]


class _Formula(MappingFormat):
    """Random numbers: `coeff` times those from 0 to 1, plus `offset`."""

    shape: tuple[NonNegativeInt, ...]
    dtype: Text = "float32"
    coeff: float = 1.0
    offset: float = 0.0


class _TorchTest(MappingFormat):
    function_name: Text = "main"
    flat_args: list[dict[Literal["Formula"], _Formula]]
    seed: NonNegativeInt = 0
    rtol: float = 1e-5
    atol: float = 1e-8
    equal_nan: bool = False
    mode: Literal["compare", "benchmark"] = "compare"
    file_name: Text = "test.mlir"
    vmfb_name: Text = "out.vmfb"
    expected_output: list[_Value] | None = None


def reader_of(data: Any) -> Callable[[SuiteFile], Iterator[Case]] | None:
    """Return what reads a test of a model, None for another JSON file.

    A file with only the keys of `_Module` is not one: a test names it as its program.
    """
    if isinstance(data, dict) and not data.keys() <= _Module.model_fields.keys():
        for key, reader in _READERS.items():
            if key in data:
                return reader
    return None


def is_onnx_models(data: Any) -> bool:
    """Return whether a JSON file is a config of ONNX models."""
    return isinstance(data, dict) and _OUTCOMES in data


def _case_with_type(file: SuiteFile) -> Iterator[Case]:
    """Yield the case of a test in `torch_models`, whose `type` is quality, benchmark
    or compstat.
    """
    test = file.content(_Test)
    names = test.modules or (test.module,)
    first, *others = [_module(file, name) for name in names]
    if test.type == "compstat":
        thresholds = {
            "dispatches": test.golden_dispatch_count,
            "artifact_bytes": test.golden_binary_size,
        }
        yield file.case(test.type, first, thresholds=thresholds)
        return
    weights: list[tuple[str, Path]] = []
    for entry in test.weights:
        if entry.type == "url":
            path = file.file(entry.url)
        else:
            path = _random_weights(file, _module(file, entry.module), entry.seed)
        weights.append((entry.scope, path))
    is_measured = test.type == "benchmark"
    run = file.suite.run_spec(
        _values(file, test.inputs),
        _values(file, test.expected_outputs),
        weights,
        test.run_args,
        libraries=tuple(others),
        measured=is_measured,
    )
    thresholds = {}
    if is_measured and test.golden_time_ms:
        thresholds["run_ms"] = test.golden_time_ms * test.tolerance_factor
    yield file.case(test.type, first, run, thresholds=thresholds)


def _module(file: SuiteFile, name: str) -> Library:
    path = file.suite.folder / f"{name.removesuffix('.json')}.json"
    if not path.is_file():
        raise file.mistake(f'there is no module "{name}": {path} does not exist.', name)
    module_file = SuiteFile(file.suite, path)
    module = module_file.content(_Module)
    return module_file.program(module.mlir, module.compiler_flags)


def _random_weights(file: SuiteFile, program: Library, seed: int | None) -> Path:
    path = program.input.path
    if seed is None:
        name = "zero.safetensors"
    else:
        name = "random.safetensors"
    return file.suite.add_artifact(
        f"{path}\0{seed}", name, RandomWeights(path, seed), *program.artifacts
    )


def _values(file: SuiteFile, values: Sequence[_Value]) -> list[str]:
    return [file.value(entry.value or "", entry.url) for entry in values]


def _sharktank_case(file: SuiteFile) -> Iterator[Case]:
    test = file.content(_SharktankTest)
    program, weights = _sharktank_model(file)
    failing: list[Stage] = []
    if test.run_test_expecting_to_fail:
        failing = [Stage.RUN, Stage.COMPARE]
    if _chip_of(file) in test.compile_chip_expecting_to_fail:
        failing.append(Stage.COMPILE)
    if test.compile_only:
        yield file.case("quality", program, failing=failing)
        return
    libraries: list[Library] = []
    if test.pipeline_mlir is not None:
        flags = test.pipeline_compiler_flags
        libraries.append(_program_for_chip(file, test.pipeline_mlir, flags))
    run = file.suite.run_spec(
        _values(file, test.inputs),
        _values(file, test.outputs),
        [(_SCOPE, weights)],
        test.threshold_args,
        libraries=tuple(libraries),
        device=test.device,
        function=test.run_function,
    )
    yield file.case("quality", program, run, failing=failing)


def _sharktank_time(file: SuiteFile) -> Iterator[Case]:
    test, kind = file.content(_SharktankTime), _kind_of(file)
    if _chip_of(file) in test.specific_chip_to_ignore:
        return
    tests = [_quality_test(file, module) for module in test.modules or ("",)]
    models = [_sharktank_model(quality) for quality in tests]
    programs = [program for program, _ in models]
    if test.mlir_file_name is not None:
        pipeline = str(file.file_below(test.mlir_file_name))
        programs.append(_program_for_chip(file, pipeline, test.compile_flags))
    run = file.suite.run_spec(
        [*map(file.value, test.inputs)],
        weights=[(_SCOPE, weights) for _, weights in models],
        flags=test.benchmark_flags,
        libraries=tuple(programs[1:]),
        device=test.device,
        function=test.function_run,
        measured=True,
    )
    thresholds = {
        "run_ms": test.golden_time_ms.get(kind),
        "dispatches": test.golden_dispatch.get(kind),
        "artifact_bytes": test.golden_size.get(kind),
    }
    if thresholds["run_ms"]:
        factor = test.golden_time_tolerance_multiplier.get(kind, 1.1)
        thresholds["run_ms"] *= factor
    yield file.case("benchmark", programs[0], run, thresholds=thresholds)


_READERS = {
    "type": _case_with_type,
    "function_run": _sharktank_time,
    "mlir": _sharktank_case,
}
"""A key that only such a test has -> what reads it."""


def _quality_test(file: SuiteFile, module: str) -> SuiteFile:
    """Return the quality test that a benchmark names: by its folder and its file,
    joined by `_`. A benchmark without modules is named as its test.
    """
    _, _, machine = file.path.stem.rpartition("_")
    name = f"{file.path.parent.name}_{file.path.stem}"
    if module:
        name = f"{module}_{machine}"
    for path in sorted(file.suite.folder.rglob("*.json")):
        if f"{path.parent.name}_{path.stem}" == name and path != file.path:
            test = SuiteFile(file.suite, path)
            if "mlir" in test.data:
                return test
    text = f'there is no quality test for "{name}" below {file.suite.folder}: name a '
    raise file.mistake(f"{text}folder that has it as well.", module)


def _sharktank_model(file: SuiteFile) -> tuple[Library, Path]:
    """Return the program of a quality test, and its weights, which are zero without
    real ones.
    """
    test = file.content(_SharktankTest)
    flags = list(test.compiler_flags)
    name = test.tuner_file.get(_kind_of(file))
    if name is not None:
        flags.append(f"{_LIBRARY}{file.file_below(name)}")
    program = _program_for_chip(file, test.mlir, flags)
    if test.real_weights is None:
        return program, _random_weights(file, program, None)
    return program, file.file(test.real_weights)


def _chip_of(file: SuiteFile) -> str | None:
    """Return the chip of a test of sharktank. As in their own harness, the environment
    names it.
    """
    if file.path.stem.endswith("_rocm"):
        return os.environ.get("ROCM_CHIP", "gfx942")
    return None


def _kind_of(file: SuiteFile) -> str:
    """Return the kind of machine whose golden values count for a test of sharktank."""
    return os.environ.get("SKU", "mi300") if _chip_of(file) else "cpu"


def _program_for_chip(file: SuiteFile, place: str, flags: Sequence[str]) -> Library:
    chip = _chip_of(file)
    named = [f"--iree-rocm-target={chip}"] if chip else []
    return file.program(place, [*flags, *named])


def onnx_cases(file: SuiteFile) -> Iterator[Case]:
    """Yield the cases of a config of ONNX models. The folder has models by their path
    in the zoo; others are downloaded.
    """
    config, suite = file.content(_OnnxModels), file.suite
    for test, outcome in config.tests_and_expected_outcomes.items():
        match = _ONNX_TEST.match(test)
        if match is None and (test != "default" or outcome != "skip"):
            message = (
                'a test is called "tests/model_zoo/'
                '…_models_test.py::test_models[….onnx]", and the "default" is "skip".'
            )
            problem = file.document.problem((_OUTCOMES, test), message)
            raise BadFiles([problem])
        if match is None or outcome == "skip":
            continue
        place = f"{match['folder']}/{match['model']}"
        local, url = suite.folder / place, f"{_MODELS}{place}"
        program = file.program(
            str(local) if local.is_file() else url, config.iree_compile_flags
        )
        arguments = ModelArguments(program.input.path, suite.download(url).parent)
        run = suite.run_spec(
            (), flags=config.iree_run_module_flags, arguments=arguments
        )
        if program.input.path.is_file():
            with suppress(ValueError):  # the import reports it
                run = run.with_arguments()
        name = place.removesuffix(".onnx")
        yield file.case("", program, run, name=name, failing=_STAGES[outcome])


def torch_test(file: SuiteFile) -> tuple[Path, RunSpec]:
    """Return the program of a test with formulas for its inputs, and how to run it."""
    test = file.content(_TorchTest)
    program = file.file(test.file_name)
    inputs: list[Path] = []
    skipped = 0
    for argument in test.flat_args:
        tensor = RandomTensor(
            **dict(argument["Formula"]), seed=test.seed, skipped=skipped
        )
        inputs.append(
            file.suite.add_artifact(repr(tensor), f"input_{len(inputs)}.npy", tensor)
        )
        skipped += prod(tensor.shape)
    expected = [
        file.file(output.url or output.value or "")
        for output in test.expected_output or ()
    ]
    is_measured = test.mode == "benchmark"
    closeness = (test.rtol, test.atol, test.equal_nan)
    run = file.suite.run_spec(
        [f"@{path}" for path in inputs],
        [f"@{path}" for path in expected],
        function=test.function_name,
        measured=is_measured,
        closeness=None if is_measured else closeness,
    )
    return program, run
