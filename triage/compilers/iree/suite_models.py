"""Tests of whole models and of single operations in IREE's suites: an adapter for each kind of JSON file."""

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

from triage.compilers.iree.random_values import ModelArguments, RandomTensor, RandomWeights
from triage.compilers.iree.suite_files import SuiteFiles, SuiteMapping, mistake
from triage.model.case import Case, Expectation, Library, Reference, RunSpec
from triage.model.execution import Stage
from triage.recipes.document import ConfigDocument, Loc
from triage.recipes.mapping import Text, Texts, content_of

_SCOPE = "model"  # of the weights of every model of sharktank
_LIBRARY = "--iree-codegen-transform-dialect-library="
_OUTCOMES = "tests_and_expected_outcomes"
_MODELS = "https://huggingface.co/onnxmodelzoo/legacy_models/resolve/main/"
_ONNX_TEST = re.compile(r"tests/model_zoo/(?P<folder>[\w./-]+)_models_test\.py::test_models\[(?P<model>[^\]]+\.onnx)\]\Z")
_STAGES: dict[str, tuple[Stage, ...]] = {
    "pass": (),
    "fail-import": (Stage.IMPORT,),
    "fail-compile": (Stage.COMPILE,),
    "fail-run": (Stage.RUN, Stage.COMPARE),  # a wrong result is a failed run in these files
}
_ByMachine = dict[str, PositiveFloat]


class _Module(SuiteMapping):
    mlir: Text = Field(examples=["https://example.com/model.mlir"])
    compiler_flags: Texts = ()


class _Weights(SuiteMapping):
    type: Literal["url", "random"]
    scope: Text
    url: Text = ""
    module: Text = ""  # whose parameters get random values
    seed: NonNegativeInt | None = None


class _Value(SuiteMapping):
    value: Text | None = None
    url: Text | None = None


class _Test(SuiteMapping):
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


class _SharktankTest(SuiteMapping):
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


class _SharktankTime(SuiteMapping):
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


class _OnnxModels(SuiteMapping):
    config_name: Text
    iree_compile_flags: Texts
    iree_run_module_flags: Texts
    tests_and_expected_outcomes: dict[str, Literal["pass", "skip", "fail-import", "fail-compile", "fail-run"]]


class _Formula(SuiteMapping):
    """Random numbers: `coeff` times those from 0 to 1, plus `offset`."""

    shape: tuple[NonNegativeInt, ...]
    dtype: Text = "float32"
    coeff: float = 1.0
    offset: float = 0.0


class _TorchTest(SuiteMapping):
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
    """Whether a JSON file is a test of a model. A module of a test with a `type` has only the keys `mlir` and its flags."""
    is_module = isinstance(data, dict) and not data.keys() - _Module.model_fields.keys()
    return isinstance(data, dict) and not is_module and not data.keys().isdisjoint(("type", "function_run", "mlir"))


def is_onnx_models(data: Any) -> bool:
    """Whether a JSON file is a config of ONNX models."""
    return isinstance(data, dict) and _OUTCOMES in data


def model_cases(files: SuiteFiles, document: ConfigDocument) -> Iterator[Case]:
    """Yield the case of a test of a model, unless it is not for this machine."""
    if "type" in document.data:
        yield _typed_case(files, document)
    elif "function_run" in document.data:
        yield from _sharktank_time(files, document)
    else:
        yield _sharktank_case(files, document)


def _typed_case(files: SuiteFiles, document: ConfigDocument) -> Case:
    test = content_of(document, _Test)
    names = test.modules or (test.module,)
    first, *others = [_module(files, name, document, ("module", "modules", i)) for i, name in enumerate(names)]
    case = replace(files.case(test.type, first, document), summary=" ".join(test.markers))
    if test.type == "compstat":
        return replace(case, goldens=_goldens(dispatches=test.golden_dispatch_count, artifact_bytes=test.golden_binary_size))
    weights: list[tuple[str, Path]] = []
    for index, entry in enumerate(test.weights):
        if entry.type == "url":
            path = files.file(entry.url, document, ("weights", index, "url"))
        elif entry.module and entry.seed is not None:
            path = _random_weights(files, _module(files, entry.module, document, ("weights", index, "module")), entry.seed)
        else:
            raise mistake(document, ("weights", index), 'random weights need the keys "module" and "seed".')
        weights.append((entry.scope, path))
    inputs = _values(files, document, "inputs", test.inputs)
    expected = _values(files, document, "expected_outputs", test.expected_outputs)
    run = files.run(inputs, expected, weights, test.run_args, others)
    if test.type == "quality":
        return replace(case, run=run)
    time = test.golden_time_ms
    return _measured(replace(case, goldens=_goldens(run_ms=time and time * test.tolerance_factor)), run)


def _module(files: SuiteFiles, name: str, document: ConfigDocument, loc: Loc) -> Library:
    file = files.folder / f"{name.removesuffix('.json')}.json"
    if not file.is_file():
        raise mistake(document, loc, f'there is no module "{name}": {file} does not exist.')
    own = files.document(file)
    module = content_of(own, _Module)
    return files.program(module.mlir, module.compiler_flags, own, ("mlir",))


def _random_weights(files: SuiteFiles, program: Library, seed: int | None) -> Path:
    path = program.input.path
    name = "zero.safetensors" if seed is None else "random.safetensors"
    return files.made(f"{path}\0{seed}", name, RandomWeights(path, seed), *program.artifacts)


def _values(files: SuiteFiles, document: ConfigDocument, key: str, values: Sequence[_Value]) -> list[str]:
    at = [(key, index, "url", "source", "value") for index in range(len(values))]
    return [files.value(value.value or "", value.url, document, loc) for value, loc in zip(values, at, strict=True)]


def _goldens(**limits: float | None) -> tuple[tuple[str, float], ...]:
    return tuple((name, limit) for name, limit in limits.items() if limit is not None)


def _measured(case: Case, run: RunSpec) -> Case:
    """The case with a run that is measured, also by `bench`."""
    run = replace(run, measured=True)
    plain = replace(run, flags=tuple(flag for flag in run.flags if not flag.startswith("--benchmark_")))
    return replace(case, run=run, benchmarks=(plain,))


def _sharktank_case(files: SuiteFiles, document: ConfigDocument) -> Case:
    test, machine = content_of(document, _SharktankTest), _Machine(document)
    program, weights = _sharktank_model(files, document)
    stages = [Stage.RUN, Stage.COMPARE] if test.run_test_expecting_to_fail else []
    stages += [Stage.COMPILE] if machine.chip in test.compile_chip_expecting_to_fail else []
    expect = tuple(Expectation(None, stage=stage) for stage in stages)
    case = replace(files.case("quality", program, document), expect=expect)
    if test.compile_only:
        return case
    libraries = []
    if test.pipeline_mlir is not None:
        own = machine.flags(test.pipeline_compiler_flags)
        libraries.append(files.program(test.pipeline_mlir, own, document, ("pipeline_mlir",)))
    inputs, expected = _values(files, document, "inputs", test.inputs), _values(files, document, "outputs", test.outputs)
    run = files.run(inputs, expected, [(_SCOPE, weights)], test.threshold_args, libraries)
    return replace(case, run=replace(run, device=test.device, function=test.run_function))


def _sharktank_time(files: SuiteFiles, document: ConfigDocument) -> Iterator[Case]:
    test, machine = content_of(document, _SharktankTime), _Machine(document)
    if machine.chip in test.specific_chip_to_ignore:
        return
    path = Path(document.path)
    names = [f"{name}_{path.stem.rpartition('_')[2]}" for name in test.modules] or [f"{path.parent.name}_{path.stem}"]
    models = [_sharktank_model(files, _quality_test(files, name, document)) for name in names]
    programs = [program for program, _ in models]
    if test.mlir_file_name is not None:
        file = files.file_below(test.mlir_file_name, document, ("mlir_file_name",))
        programs.append(files.program(str(file), machine.flags(test.compile_flags), document, ("mlir_file_name",)))
    inputs = [files.value(text, None, document, ("inputs", index)) for index, text in enumerate(test.inputs)]
    weights = [(_SCOPE, path) for _, path in models]
    run = files.run(inputs, weights=weights, flags=test.benchmark_flags, libraries=programs[1:])
    time = test.golden_time_ms.get(machine.kind)
    goldens = _goldens(
        run_ms=time and time * test.golden_time_tolerance_multiplier.get(machine.kind, 1.1),
        dispatches=test.golden_dispatch.get(machine.kind),
        artifact_bytes=test.golden_size.get(machine.kind),
    )
    case = replace(files.case("benchmark", programs[0], document), goldens=goldens)
    yield _measured(case, replace(run, device=test.device, function=test.function_run))


def _quality_test(files: SuiteFiles, name: str, document: ConfigDocument) -> ConfigDocument:
    """The quality test that a benchmark names: by its folder and its file, joined by `_`."""
    for file in sorted(files.folder.rglob("*.json")):
        if f"{file.parent.name}_{file.stem}" == name and file != Path(document.path).absolute():
            found = files.document(file)
            if is_model_test(found.data) and not {"function_run", "type"} & found.data.keys():
                return found
    message = f'there is no quality test for "{name}" below {files.folder}: name a folder that has it as well.'
    raise mistake(document, ("modules", 0), message)


def _sharktank_model(files: SuiteFiles, document: ConfigDocument) -> tuple[Library, Path]:
    """The program of a quality test, and its weights. Without real ones they are zero, as the compiler writes them there."""
    test, machine = content_of(document, _SharktankTest), _Machine(document)
    flags = list(test.compiler_flags)
    if (name := test.tuner_file.get(machine.kind)) is not None:
        flags.append(f"{_LIBRARY}{files.file_below(name, document, ('tuner_file', machine.kind))}")
    program = files.program(test.mlir, machine.flags(flags), document, ("mlir",))
    if test.real_weights is None:
        return program, _random_weights(files, program, None)
    return program, files.file(test.real_weights, document, ("real_weights",))


class _Machine:
    """The machine of a test of sharktank. The environment names its kind and chip, as for their own harness."""

    def __init__(self, document: ConfigDocument) -> None:
        is_rocm = Path(document.path).stem.endswith("_rocm")
        self.chip = os.environ.get("ROCM_CHIP", "gfx942") if is_rocm else None
        self.kind = os.environ.get("SKU", "mi300") if is_rocm else "cpu"  # whose golden values count

    def flags(self, flags: Sequence[str]) -> list[str]:
        return [*flags, f"--iree-rocm-target={self.chip}"] if self.chip else list(flags)


def onnx_cases(files: SuiteFiles, document: ConfigDocument, *, several: bool) -> Iterator[Case]:
    """Yield the cases of a config of ONNX models. The folder has models by their path in the zoo; others are downloaded."""
    config = content_of(document, _OnnxModels)
    for test, outcome in config.tests_and_expected_outcomes.items():
        match = _ONNX_TEST.match(test)
        if match is None and (test != "default" or outcome != "skip"):
            message = 'a test is called "tests/model_zoo/…_models_test.py::test_models[….onnx]", and the "default" is "skip".'
            raise mistake(document, (_OUTCOMES, test), message)
        if match is None or outcome == "skip":
            continue
        place = f"{match['folder']}/{match['model']}"
        local, url = files.folder / place, f"{_MODELS}{place}"
        program = files.program(str(local) if local.is_file() else url, config.iree_compile_flags, document, ())
        arguments = ModelArguments(program.input.path, files.download(url).parent)
        run = replace(
            files.run((), flags=config.iree_run_module_flags), reference=Reference(onnxruntime=True), arguments=arguments
        )
        if program.input.path.is_file():
            with suppress(ValueError):  # the import reports it
                run = run.with_arguments()
        name = place.removesuffix(".onnx") + (f"[config={config.config_name}]" if several else "")
        expect = tuple(Expectation(None, stage=stage) for stage in _STAGES[outcome])
        yield replace(files.case(config.config_name, program, document, name), run=run, expect=expect)


def torch_test(files: SuiteFiles, path: Path) -> tuple[Path, RunSpec]:
    """The program of a test with formulas for its inputs, and how to run it."""
    document = files.document(path)
    test = content_of(document, _TorchTest)
    program = files.file(test.file_name, document, ("file_name",))
    inputs: list[Path] = []
    skipped = 0
    for argument in test.flat_args:
        tensor = RandomTensor(**dict(argument["Formula"]), seed=test.seed, skipped=skipped)
        inputs.append(files.made(repr(tensor), f"input_{len(inputs)}.npy", tensor))
        skipped += prod(tensor.shape)
    expected = [
        files.file(output.url or output.value or "", document, ("expected_output", index, "url", "value"))
        for index, output in enumerate(test.expected_output or ())
    ]
    run = files.run([f"@{file}" for file in inputs], [f"@{file}" for file in expected])
    run = replace(run, function=test.function_name, measured=test.mode == "benchmark")
    return program, run if run.measured else replace(run, closeness=(test.rtol, test.atol, test.equal_nan))
