"""Tests of whole models and of single operations in IREE's suites: an adapter for each
kind of JSON file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat

from triage.compilers.iree.suite_files import (
    At,
    ModelArguments,
    RandomTensor,
    RandomWeights,
    SuiteFile,
)
from triage.model.case import Case, Expectation, Library, RunSpec
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
    seed: NonNegativeInt | None = None


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


def is_model_test(data: Any) -> bool:
    """Return whether a JSON file is a test of a model.

    A file with only the keys of `_Module` is not: a test names it as its program.
    """
    if not isinstance(data, dict):
        return False
    is_module = data.keys() <= _Module.model_fields.keys()
    return not is_module and any(
        key in data for key in ("type", "function_run", "mlir")
    )


def is_onnx_models(data: Any) -> bool:
    """Return whether a JSON file is a config of ONNX models."""
    return isinstance(data, dict) and _OUTCOMES in data


def model_cases(file: SuiteFile) -> Iterator[Case]:
    """Yield the case of a test of a model, unless it is not for this machine."""
    if "type" in file.data:
        yield _case_with_type(file)
    elif "function_run" in file.data:
        yield from _sharktank_time(file)
    else:
        yield _sharktank_case(file)


def expectations_at(*stages: Stage) -> tuple[Expectation, ...]:
    """Return known failures at these stages."""
    return tuple(Expectation(None, stage=stage) for stage in stages)


def _case_with_type(file: SuiteFile) -> Case:
    """Return the case of a test in `torch_models`, whose `type` is quality, benchmark
    or compstat.
    """
    test = file.content(_Test)
    names = test.modules or (test.module,)
    first, *others = [
        _module(file, name, "module", "modules", index)
        for index, name in enumerate(names)
    ]
    case = replace(file.case(test.type, first), summary=" ".join(test.markers))
    if test.type == "compstat":
        return _with_thresholds(
            case,
            dispatches=test.golden_dispatch_count,
            artifact_bytes=test.golden_binary_size,
        )
    weights: list[tuple[str, Path]] = []
    for index, entry in enumerate(test.weights):
        if entry.type == "url":
            path = file.file(entry.url, "weights", index, "url")
        elif entry.module and entry.seed is not None:
            path = _random_weights(
                file,
                _module(file, entry.module, "weights", index, "module"),
                entry.seed,
            )
        else:
            raise file.mistake(
                'random weights need the keys "module" and "seed".', "weights", index
            )
        weights.append((entry.scope, path))
    inputs = _values(file, "inputs", test.inputs)
    expected = _values(file, "expected_outputs", test.expected_outputs)
    run = file.suite.run_spec(inputs, expected, weights, test.run_args, others)
    if test.type == "quality":
        return replace(case, run=run)
    time = test.golden_time_ms
    return _with_measured_run(
        _with_thresholds(case, run_ms=time and time * test.tolerance_factor), run
    )


def _module(file: SuiteFile, name: str, *at: At) -> Library:
    path = file.suite.folder / f"{name.removesuffix('.json')}.json"
    if not path.is_file():
        raise file.mistake(f'there is no module "{name}": {path} does not exist.', *at)
    own = SuiteFile(file.suite, path)
    module = own.content(_Module)
    return own.program(module.mlir, module.compiler_flags, "mlir")


def _random_weights(file: SuiteFile, program: Library, seed: int | None) -> Path:
    path = program.input.path
    if seed is None:
        name = "zero.safetensors"
    else:
        name = "random.safetensors"
    return file.suite.add_artifact(
        f"{path}\0{seed}", name, RandomWeights(path, seed), *program.artifacts
    )


def _values(file: SuiteFile, key: str, values: Sequence[_Value]) -> list[str]:
    return [
        file.value(entry.value or "", entry.url, key, index, "url", "source", "value")
        for index, entry in enumerate(values)
    ]


def _with_thresholds(case: Case, **limits: float | None) -> Case:
    """Return the case with thresholds for metrics, without those that are None."""
    return replace(
        case,
        thresholds=tuple(
            (name, limit) for name, limit in limits.items() if limit is not None
        ),
    )


def _with_measured_run(case: Case, run: RunSpec) -> Case:
    """Return the case with a run that is measured, also by `bench`."""
    run = replace(run, measured=True)
    plain = replace(
        run,
        flags=tuple(flag for flag in run.flags if not flag.startswith("--benchmark_")),
    )
    return replace(case, run=run, benchmarks=(plain,))


def _sharktank_case(file: SuiteFile) -> Case:
    test, machine = file.content(_SharktankTest), _Machine(file)
    program, weights = _sharktank_model(file)
    if test.run_test_expecting_to_fail:
        stages = [Stage.RUN, Stage.COMPARE]
    else:
        stages = []
    if machine.chip in test.compile_chip_expecting_to_fail:
        stages += [Stage.COMPILE]
    case = replace(file.case("quality", program), expect=expectations_at(*stages))
    if test.compile_only:
        return case
    libraries = []
    if test.pipeline_mlir is not None:
        own = machine.flags(test.pipeline_compiler_flags)
        libraries.append(file.program(test.pipeline_mlir, own, "pipeline_mlir"))
    inputs = _values(file, "inputs", test.inputs)
    expected = _values(file, "outputs", test.outputs)
    run = file.suite.run_spec(
        inputs, expected, [(_SCOPE, weights)], test.threshold_args, libraries
    )
    return replace(
        case, run=replace(run, device=test.device, function=test.run_function)
    )


def _sharktank_time(file: SuiteFile) -> Iterator[Case]:
    test, machine, path = file.content(_SharktankTime), _Machine(file), file.path
    if machine.chip in test.specific_chip_to_ignore:
        return
    names = [f"{name}_{path.stem.rpartition('_')[2]}" for name in test.modules] or [
        f"{path.parent.name}_{path.stem}"
    ]
    models = [_sharktank_model(_quality_test(file, name)) for name in names]
    programs = [program for program, _ in models]
    name = test.mlir_file_name
    if name is not None:
        place = str(file.file_below(name, "mlir_file_name"))
        programs.append(
            file.program(place, machine.flags(test.compile_flags), "mlir_file_name")
        )
    inputs = [
        file.value(text, None, "inputs", index)
        for index, text in enumerate(test.inputs)
    ]
    run = file.suite.run_spec(
        inputs,
        (),
        [(_SCOPE, weights) for _, weights in models],
        test.benchmark_flags,
        programs[1:],
    )
    time = test.golden_time_ms.get(machine.kind)
    case = _with_thresholds(
        file.case("benchmark", programs[0]),
        run_ms=time
        and time * test.golden_time_tolerance_multiplier.get(machine.kind, 1.1),
        dispatches=test.golden_dispatch.get(machine.kind),
        artifact_bytes=test.golden_size.get(machine.kind),
    )
    yield _with_measured_run(
        case, replace(run, device=test.device, function=test.function_run)
    )


def _quality_test(file: SuiteFile, name: str) -> SuiteFile:
    """Return the quality test that a benchmark names: by its folder and its file,
    joined by `_`.
    """
    for path in sorted(file.suite.folder.rglob("*.json")):
        if f"{path.parent.name}_{path.stem}" == name and path != file.path:
            found = SuiteFile(file.suite, path)
            if (
                is_model_test(found.data)
                and not {"function_run", "type"} & found.data.keys()
            ):
                return found
    text = (
        f'there is no quality test for "{name}" below {file.suite.folder}: name a '
        "folder that has it as well."
    )
    raise file.mistake(text, "modules", 0)


def _sharktank_model(file: SuiteFile) -> tuple[Library, Path]:
    """Return the program of a quality test, and its weights, which are zero without
    real ones.
    """
    test, machine = file.content(_SharktankTest), _Machine(file)
    flags = list(test.compiler_flags)
    name = test.tuner_file.get(machine.kind)
    if name is not None:
        flags.append(f"{_LIBRARY}{file.file_below(name, 'tuner_file', machine.kind)}")
    program = file.program(test.mlir, machine.flags(flags), "mlir")
    if test.real_weights is None:
        return program, _random_weights(file, program, None)
    return program, file.file(test.real_weights, "real_weights")


class _Machine:
    """The machine of a test of sharktank. The environment names its kind and chip, as
    for their own harness.
    """

    def __init__(self, file: SuiteFile) -> None:
        is_rocm = file.path.stem.endswith("_rocm")
        self.chip: str | None = None
        if is_rocm:
            self.chip = os.environ.get("ROCM_CHIP", "gfx942")
        # whose golden values count
        if is_rocm:
            self.kind = os.environ.get("SKU", "mi300")
        else:
            self.kind = "cpu"

    def flags(self, flags: Sequence[str]) -> list[str]:
        if self.chip:
            return [*flags, f"--iree-rocm-target={self.chip}"]
        return list(flags)


def onnx_cases(file: SuiteFile, config_name: str, *, several: bool) -> Iterator[Case]:
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
            raise file.mistake(message, _OUTCOMES, test)
        if match is None or outcome == "skip":
            continue
        place = f"{match['folder']}/{match['model']}"
        local, url = suite.folder / place, f"{_MODELS}{place}"
        program = file.program(
            str(local) if local.is_file() else url, config.iree_compile_flags
        )
        arguments = ModelArguments(program.input.path, suite.download(url).parent)
        run = suite.run_spec((), flags=config.iree_run_module_flags)
        run = replace(run, arguments=arguments)
        if program.input.path.is_file():
            with suppress(ValueError):  # the import reports it
                run = run.with_arguments()
        name = place.removesuffix(".onnx") + (
            f"[config={config_name}]" if several else ""
        )
        yield replace(
            file.case(config_name, program, name),
            run=run,
            expect=expectations_at(*_STAGES[outcome]),
        )


def torch_test(file: SuiteFile) -> tuple[Path, RunSpec]:
    """Return the program of a test with formulas for its inputs, and how to run it."""
    test = file.content(_TorchTest)
    program = file.file(test.file_name, "file_name")
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
        file.file(
            output.url or output.value or "", "expected_output", index, "url", "value"
        )
        for index, output in enumerate(test.expected_output or ())
    ]
    run = file.suite.run_spec(
        [f"@{path}" for path in inputs], [f"@{path}" for path in expected]
    )
    run = replace(run, function=test.function_name, measured=test.mode == "benchmark")
    if not run.measured:
        run = replace(run, closeness=(test.rtol, test.atol, test.equal_nan))
    return program, run
