"""Tests of whole models in IREE's suites: `torch_models`, and those of sharktank."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveFloat

from triage.compilers.iree.suite_files import (
    RUN_FAILS,
    RandomWeights,
    Suite,
    SuiteFile,
    SuiteValue,
)
from triage.model.case import Case, Library, RunSpec
from triage.model.errors import BadInput
from triage.model.execution import Stage
from triage.recipes.document import MappingFormat, Text, Texts, content_of

_SCOPE = "model"  # of the weights of every model of sharktank
_LIBRARY = "--iree-codegen-transform-dialect-library="
_Golden = PositiveFloat | dict[str, PositiveFloat] | None
"""A number of all machines, or of each kind of machine."""

_Values = tuple[Text | SuiteValue, ...]


class _Module(MappingFormat):
    """A program that tests name."""

    mlir: Text = Field(examples=["https://example.com/model.mlir"])
    compiler_flags: Texts = ()


class _Weights(MappingFormat):
    type: Literal["url", "random"]
    scope: Text
    url: Text = ""
    module: Text = ""  # whose parameters get random values
    seed: NonNegativeInt = 0


class _ModelTest(_Module):
    """A test of a model. `torch_models` and sharktank have different names for some of
    the keys.
    """

    mlir: Text = ""
    type: Literal["quality", "benchmark", "compstat"] = "quality"
    module: Texts = ()
    modules: Texts = ()
    weights: tuple[_Weights, ...] = ()
    real_weights: Text | None = None
    tuner_file: dict[str, Text] = Field({})
    inputs: _Values = ()
    outputs: _Values = ()
    expected_outputs: _Values = ()
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
    golden_time_ms: _Golden = None
    tolerance_factor: _Golden = None
    golden_time_tolerance_multiplier: _Golden = None
    golden_dispatch_count: _Golden = None
    golden_dispatch: _Golden = None
    golden_binary_size: _Golden = None
    golden_size: _Golden = None
    # only their own harness uses these
    markers: Texts = ()
    custom_real_weights_group: Text = ""
    add_pipeline_module: bool = False
    benchmark_repetitions: PositiveFloat = 1.0
    benchmark_min_warmup_time: PositiveFloat = 1.0
    real_weights_file_name: Text = ""
    compilation_required: bool = False
    compiled_file_name: Text = ""


def models_below(suite: Suite, folder: Path) -> Iterator[Case]:
    """Yield the cases of the tests of models below a folder."""
    files = [SuiteFile(suite, path) for path in sorted(folder.rglob("*.json"))]
    tests = [file for file in files if is_model_test(file)]
    if not tests:
        raise BadInput(f"{folder}: no JSON file below it is a test of a model")
    for file in tests:
        yield from model_test(file)


def is_model_test(file: SuiteFile) -> bool:
    """Return whether a file is a test of a model, and not a module that tests name."""
    is_module = file.keys <= _Module.model_fields.keys()
    return not is_module and not file.keys.isdisjoint(("type", "function_run", "mlir"))


def model_test(file: SuiteFile) -> Iterator[Case]:
    """Yield the case of a test of a model."""
    test, machine = content_of(file.document, _ModelTest), _Machine(file)
    if machine.chip in test.specific_chip_to_ignore:
        return
    kind, modules = test.type, test.modules or test.module or ("",)
    if "type" in file.keys:
        programs = [_module(file, name) for name in modules]
        weights = [_weights(file, entry) for entry in test.weights]
    else:
        files = [file]
        if test.function_run:
            kind = "benchmark"
            files = [_quality_test(file, name) for name in modules]
        models = [_sharktank_model(quality) for quality in files]
        programs = [program for program, _ in models]
        weights = [weights for _, weights in models]
    pipeline = test.pipeline_mlir
    if test.mlir_file_name is not None:
        pipeline = str(file.file_below(test.mlir_file_name))
    if pipeline is not None:
        flags = (*test.pipeline_compiler_flags, *test.compile_flags, *machine.flags)
        programs.append(file.program(pipeline, flags))
    run = run_ms = None
    if kind != "compstat" and not test.compile_only:
        run = RunSpec(
            inputs=tuple(map(file.value, test.inputs)),
            expected=tuple(map(file.value, (*test.outputs, *test.expected_outputs))),
            parameters=tuple(weights),
            flags=(*test.run_args, *test.threshold_args, *test.benchmark_flags),
            libraries=tuple(programs[1:]),
            device=test.device,
            function=test.run_function or test.function_run,
            measured=kind == "benchmark",
        )
        run = file.complete(run)
    golden = machine.golden(test.golden_time_ms)
    if golden and kind == "benchmark":
        factors = (test.tolerance_factor, test.golden_time_tolerance_multiplier)
        run_ms = golden * (machine.golden(*factors) or 1.1)
    failing: list[Stage] = []
    if test.run_test_expecting_to_fail:
        failing += RUN_FAILS
    if machine.chip in test.compile_chip_expecting_to_fail:
        failing.append(Stage.COMPILE)
    yield file.case(
        kind,
        programs[0],
        run,
        failing=failing,
        run_ms=run_ms,
        dispatches=machine.golden(test.golden_dispatch_count, test.golden_dispatch),
        artifact_bytes=machine.golden(test.golden_binary_size, test.golden_size),
    )


class _Machine:
    """The machine that a test is for. As in sharktank's own harness, the environment
    names its chip.
    """

    def __init__(self, file: SuiteFile) -> None:
        self.chip, self.name = "", "cpu"
        self.flags: list[str] = []
        if file.path.stem.endswith("_rocm"):
            self.chip = os.environ.get("ROCM_CHIP", "gfx942")
            self.name = os.environ.get("SKU", "mi300")
            self.flags = [f"--iree-rocm-target={self.chip}"]

    def golden(self, *numbers: _Golden) -> float | None:
        """Return the number for this machine, if there is one."""
        for number in numbers:
            if isinstance(number, dict):
                number = number.get(self.name)
            if number:
                return number
        return None


def _module(file: SuiteFile, name: str) -> Library:
    path = file.suite.folder / f"{name.removesuffix('.json')}.json"
    if not path.is_file():
        raise file.mistake(f'there is no module "{name}": {path} does not exist.')
    of_module = SuiteFile(file.suite, path)
    module = content_of(of_module.document, _Module)
    return of_module.program(module.mlir, module.compiler_flags)


def _weights(file: SuiteFile, entry: _Weights) -> tuple[str, Path]:
    if entry.type == "url":
        return entry.scope, file.file(entry.url)
    return entry.scope, _random_weights(file, _module(file, entry.module), entry.seed)


def _random_weights(file: SuiteFile, program: Library, seed: int | None) -> Path:
    path = program.input.path
    weights, name = RandomWeights(path, seed), "weights.safetensors"
    return file.suite.add_artifact(f"{path}\0{seed}", name, weights, *program.artifacts)


def _sharktank_model(file: SuiteFile) -> tuple[Library, tuple[str, Path]]:
    """Return the program of a quality test, and its weights, which are zero without
    real ones.
    """
    test, machine = content_of(file.document, _ModelTest), _Machine(file)
    flags = list(test.compiler_flags)
    tuner = test.tuner_file.get(machine.name)
    if tuner is not None:
        flags.append(f"{_LIBRARY}{file.file_below(tuner)}")
    program = file.program(test.mlir, [*flags, *machine.flags])
    if test.real_weights is None:
        return program, (_SCOPE, _random_weights(file, program, None))
    return program, (_SCOPE, file.file(test.real_weights))


def _quality_test(file: SuiteFile, module: str) -> SuiteFile:
    """Return the quality test that a benchmark names: by its folder and its file,
    joined by `_`. A benchmark without modules is named as its test.
    """
    name = f"{file.path.parent.name}_{file.path.stem}"
    if module:
        name = f"{module}_{file.path.stem.rpartition('_')[2]}"
    for path in sorted(file.suite.folder.rglob("*.json")):
        if f"{path.parent.name}_{path.stem}" == name and path != file.path:
            test = SuiteFile(file.suite, path)
            if "mlir" in test.keys:
                return test
    folder = file.suite.folder
    raise file.mistake(f'there is no quality test for "{name}" below {folder}.')
