"""Tests of whole models and of single operations in IREE's suites: an adapter for each kind of JSON file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from triage.compilers.iree.random_values import Formula, ModelArguments, RandomTensor
from triage.compilers.iree.suite_files import LIMITS, Files, SuiteFiles, measured
from triage.model.case import Artifact, Case, Expectation, Flag, Input, InputKind, Library, Reference, RunSpec
from triage.model.execution import Stage
from triage.recipes.document import ConfigDocument, Loc
from triage.recipes.mapping import MappingFormat, Natural, Positive, Text, Truth
from triage.recipes.values import advice, as_written

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

_Number = Positive | SkipJsonSchema[None]
_Texts = tuple[Text, ...]


class ModuleFormat(MappingFormat):
    """A program with the flags that compile it."""

    noun: ClassVar[str] = "a module"
    mlir: Text = Field(examples=["https://example.com/model.mlir"])
    compiler_flags: _Texts = ()


class WeightsFormat(MappingFormat):
    """Weights: a file, or random ones for the parameters of a module."""

    noun: ClassVar[str] = "an entry of weights"
    type: Literal["url", "random"]
    scope: Text
    url: Text | None = None
    module: Text | None = None
    seed: Natural | None = None

    @model_validator(mode="after")
    def _says_where(self) -> Self:
        wanted = ("url",) if self.type == "url" else ("module", "seed")
        if any(getattr(self, key) is None for key in wanted):
            raise advice(f'weights of type "{self.type}" need the key "{" and ".join(wanted)}".')
        return self


class ValueFormat(MappingFormat):
    """An argument or a result: its type or literal, and the file with its elements."""

    noun: ClassVar[str] = "a value"
    value: Text | None = None
    url: Text | None = None

    @model_validator(mode="after")
    def _is_there(self) -> Self:
        if self.value is None and self.url is None:
            raise advice('a value needs the key "value", the key "url" or both: write {"value": "1x64xi64"}.')
        return self


class _TypedFormat(MappingFormat):
    type: Text
    markers: _Texts


class _ExecutedFormat(_TypedFormat):
    modules: _Texts = Field(min_length=1)
    weights: tuple[WeightsFormat, ...] = ()
    inputs: tuple[ValueFormat, ...] = ()
    run_args: _Texts = ()
    expected_outputs: tuple[ValueFormat, ...] = ()


class QualityFormat(_ExecutedFormat):
    """A run whose results are compared."""

    noun: ClassVar[str] = "a quality test"


class TimeFormat(_ExecutedFormat):
    """A run whose time has a limit."""

    noun: ClassVar[str] = "a benchmark test"
    golden_time_ms: _Number = Field(default=None, examples=[5.84])
    tolerance_factor: Positive = 1.1


class StatisticsFormat(_TypedFormat):
    """A compile whose number of dispatches and size have limits."""

    noun: ClassVar[str] = "a compstat test"
    module: Text
    golden_dispatch_count: _Number = None
    golden_binary_size: _Number = None


_FORMATS: dict[str, type[QualityFormat | TimeFormat | StatisticsFormat]] = {
    "quality": QualityFormat,
    "benchmark": TimeFormat,
    "compstat": StatisticsFormat,
}


def typed_case(files: SuiteFiles, document: ConfigDocument) -> Case | None:
    """The case of a test with a `type`; None if it has mistakes."""
    kind, path = document.data.get("type"), Path(document.path).absolute()
    if kind not in _FORMATS:
        files.report(document, ("type",), f'"{kind}" is not a type of test: write {", ".join(_FORMATS)}.')
        return None
    test = files.content(document, _FORMATS[kind])
    if test is None:
        return None
    if isinstance(test, StatisticsFormat):
        program = _module(files, test.module, document, ("module",))
        limits = (("dispatches", test.golden_dispatch_count), ("artifact_bytes", test.golden_binary_size))
        goldens = tuple((name, limit) for name, limit in limits if limit is not None)
        case = files.case(str(kind), path, path, program) if program else None
        return replace(case, summary=" ".join(test.markers), goldens=goldens) if case else None
    programs = [_module(files, name, document, ("modules", index)) for index, name in enumerate(test.modules)]
    inputs = [files.value(v.value or "", v.url, document, ("inputs", i, _key(v))) for i, v in enumerate(test.inputs)]
    expected = [
        files.value(v.value or "", v.url, document, ("expected_outputs", i, _key(v)))
        for i, v in enumerate(test.expected_outputs)
    ]
    weights = [(entry.scope, _weights(files, entry, document, index)) for index, entry in enumerate(test.weights)]
    first, *others = programs
    if first is None or None in others:
        return None
    run = files.run(inputs, expected, weights, test.run_args)
    run = replace(run, libraries=tuple(library for library in others if library))
    case = replace(files.case(str(kind), path, path, first), summary=" ".join(test.markers), run=run)
    if not isinstance(test, TimeFormat):
        return case
    limit = test.golden_time_ms
    return replace(measured(case, run), goldens=(("run_ms", limit * test.tolerance_factor),) if limit is not None else ())


def _key(value: ValueFormat) -> str:
    return "value" if value.url is None else "url"


def _module(files: SuiteFiles, name: str, document: ConfigDocument, loc: Loc) -> Library | None:
    file = (files.folder / name).with_suffix(".json")
    if not file.is_file():
        files.report(document, loc, f'there is no module "{name}": {file} does not exist.')
        return None
    own = files.document(file)
    module = files.content(own, ModuleFormat) if own else None
    return files.program(module.mlir, module.compiler_flags, own, ("mlir",)) if own and module else None


def _weights(files: SuiteFiles, entry: WeightsFormat, document: ConfigDocument, index: int) -> tuple[Path, Files]:
    if entry.url is not None:
        return files.file(entry.url, document, ("weights", index, "url"))
    module = _module(files, entry.module or "", document, ("weights", index, "module"))
    return files.weights(module, entry.seed) if module else (Path(), ())


class SourceFormat(MappingFormat):
    """The URL or the file of an argument or a result, and its type where the file does not say it."""

    noun: ClassVar[str] = "a value"
    source: Text
    value: Text = ""


class SharktankFormat(MappingFormat):
    """A model of sharktank that is compiled and run."""

    noun: ClassVar[str] = "a quality test"
    mlir: Text
    compiler_flags: _Texts = ()
    real_weights: Text | None = None
    custom_real_weights_group: Text | None = None  # where their harness keeps the weights
    inputs: tuple[SourceFormat, ...] = ()
    outputs: tuple[SourceFormat, ...] = ()
    device: Text | None = None
    run_function: Text | None = None
    threshold_args: _Texts = ()
    compile_only: Truth = False
    run_test_expecting_to_fail: Truth = False
    compile_chip_expecting_to_fail: _Texts = ()
    tuner_file: dict[str, Text] = Field(default={})
    pipeline_mlir: Text | None = None
    pipeline_compiler_flags: _Texts = ()
    add_pipeline_module: Truth = False


class SharktankTimeFormat(MappingFormat):
    """A model of sharktank that is compiled as its quality test says, and measured."""

    noun: ClassVar[str] = "a benchmark test"
    function_run: Text
    inputs: _Texts = ()
    device: Text | None = None
    benchmark_flags: _Texts = ()
    benchmark_repetitions: Positive = 1.0  # their harness does not use these two
    benchmark_min_warmup_time: Positive = 1.0
    golden_time_ms: dict[str, Positive] = Field(default={})  # by the kind of machine
    golden_time_tolerance_multiplier: dict[str, Positive] = Field(default={})
    golden_dispatch: dict[str, Positive] = Field(default={})
    golden_size: dict[str, Positive] = Field(default={})
    specific_chip_to_ignore: _Texts = ()
    real_weights_file_name: Text | None = None  # the quality test has its URL
    compilation_required: Truth = False
    compiled_file_name: Text | None = None
    compile_flags: _Texts = ()
    mlir_file_name: Text | None = None
    modules: _Texts = ()

    @model_validator(mode="after")
    def _has_a_pipeline(self) -> Self:
        if bool(self.modules) != (self.mlir_file_name is not None):
            raise advice('"modules" and "mlir_file_name" belong together: write both or none of them.')
        return self


def is_model_test(data: Any) -> bool:
    """Whether a JSON file is a test of a model. A module of a test with a `type` has only the keys `mlir` and its flags."""
    own = SharktankFormat.model_fields.keys() - ModuleFormat.model_fields.keys()
    return isinstance(data, dict) and ("type" in data or "function_run" in data or ("mlir" in data and bool(data.keys() & own)))


class SharktankTests:
    """Makes the cases of sharktank's tests. The environment names the machine, as for their own harness."""

    def __init__(self, files: SuiteFiles) -> None:
        self._files = files
        self._json = sorted(files.folder.rglob("*.json"))

    def case(self, document: ConfigDocument) -> Case | None:
        """The case of a test; None if it has mistakes, or is not for this machine."""
        path = Path(document.path).absolute()
        if "function_run" in document.data:
            return self._measured(path, document)
        test = self._files.content(document, SharktankFormat)
        program = self._program(path, document, test) if test else None
        if test is None or program is None:
            return None
        case = self._files.case("quality", path, path, program)
        if not test.compile_only:
            case = replace(case, run=self._run(document, test, program, path))
        stages = [Stage.RUN, Stage.COMPARE] if test.run_test_expecting_to_fail else []
        stages += [Stage.COMPILE] if _is_rocm(path) and _chip() in test.compile_chip_expecting_to_fail else []
        return replace(case, expect=tuple(Expectation(None, stage=stage) for stage in stages))

    def _run(self, document: ConfigDocument, test: SharktankFormat, program: Library, path: Path) -> RunSpec:
        files = self._files
        inputs = [files.value(v.value, v.source, document, ("inputs", i, "source")) for i, v in enumerate(test.inputs)]
        expected = [files.value(v.value, v.source, document, ("outputs", i, "source")) for i, v in enumerate(test.outputs)]
        run = files.run(inputs, expected, [(_SCOPE, self._weights(test, document, program))], test.threshold_args)
        if test.pipeline_mlir is not None:
            own = _flags(test.pipeline_compiler_flags, path)
            pipeline = files.program(test.pipeline_mlir, own, document, ("pipeline_mlir",))
            run = replace(run, libraries=(pipeline,) if pipeline else ())
        return replace(run, device=test.device, function=test.run_function)

    def _measured(self, path: Path, document: ConfigDocument) -> Case | None:
        files, kind = self._files, _kind(path)
        test = files.content(document, SharktankTimeFormat)
        if test is None or (_is_rocm(path) and _chip() in test.specific_chip_to_ignore):
            return None
        suffix = path.stem.rpartition("_")[2]
        names = [f"{name}_{suffix}" for name in test.modules] or [f"{path.parent.name}_{path.stem}"]
        programs: list[Library | None] = []
        weights = []
        for index, name in enumerate(names):
            model = self._model(name, path, document, ("modules", index) if test.modules else ("function_run",))
            programs.append(model[0] if model else None)
            weights += [(_SCOPE, model[1])] if model else []
        if test.mlir_file_name is not None:
            file = files.file_below(test.mlir_file_name, document, ("mlir_file_name",))
            programs.append(files.program(str(file), _flags(test.compile_flags, path), document, ()) if file else None)
        inputs = [files.value(text, None, document, ("inputs", index)) for index, text in enumerate(test.inputs)]
        found = [program for program in programs if program]
        if len(found) < len(programs):
            return None
        run = files.run(inputs, weights=weights, flags=test.benchmark_flags)
        run = replace(run, device=test.device, function=test.function_run, libraries=tuple(found[1:]))
        goldens = []
        if kind in test.golden_time_ms:
            goldens.append(("run_ms", test.golden_time_ms[kind] * test.golden_time_tolerance_multiplier.get(kind, 1.1)))
        limits = (("dispatches", test.golden_dispatch), ("artifact_bytes", test.golden_size))
        goldens += [(name, by_kind[kind]) for name, by_kind in limits if kind in by_kind]
        return replace(measured(files.case("benchmark", path, path, found[0]), run), goldens=tuple(goldens))

    def _model(self, name: str, path: Path, document: ConfigDocument, loc: Loc) -> tuple[Library, tuple[Path, Files]] | None:
        """The program of a quality test, and its weights. name: its folder and its file, joined by `_`."""
        for file in self._json:
            if f"{file.parent.name}_{file.stem}" != name or file == path:
                continue
            source = self._files.document(file)
            if source is None or not is_model_test(source.data) or {"function_run", "type"} & source.data.keys():
                continue
            test = self._files.content(source, SharktankFormat)
            program = self._program(file, source, test) if test else None
            return (program, self._weights(test, source, program)) if test and program else None
        message = f'there is no quality test for "{name}" below {self._files.folder}: name a folder that has it as well.'
        self._files.report(document, loc, message)
        return None

    def _program(self, path: Path, document: ConfigDocument, test: SharktankFormat) -> Library | None:
        flags = list(test.compiler_flags)
        if (name := test.tuner_file.get(_kind(path))) is not None:
            flags.append(f"{_LIBRARY}{self._files.file_below(name, document, ('tuner_file', _kind(path)))}")
        return self._files.program(test.mlir, _flags(flags, path), document, ("mlir",))

    def _weights(self, test: SharktankFormat, document: ConfigDocument, program: Library) -> tuple[Path, Files]:
        """The weights of a model. Without real ones they are zero, as the compiler writes them for their harness."""
        if test.real_weights is not None:
            return self._files.file(test.real_weights, document, ("real_weights",))
        return self._files.weights(program, None)


def _is_rocm(path: Path) -> bool:
    return path.stem.endswith("_rocm")


def _chip() -> str:
    return os.environ.get("ROCM_CHIP", "gfx942")


def _kind(path: Path) -> str:
    """The kind of machine whose golden values count."""
    return os.environ.get("SKU", "mi300") if _is_rocm(path) else "cpu"


def _flags(flags: Sequence[str], path: Path) -> list[str]:
    return [*flags, f"--iree-rocm-target={_chip()}"] if _is_rocm(path) else list(flags)


class OnnxModelsFormat(MappingFormat):
    """A config of ONNX models: the tests to run, and what becomes of each."""

    noun: ClassVar[str] = "a config of ONNX models"
    config_name: Text
    iree_compile_flags: _Texts
    iree_run_module_flags: _Texts
    tests_and_expected_outcomes: dict[str, Literal["pass", "skip", "fail-import", "fail-compile", "fail-run"]]


def is_onnx_models(data: Any) -> bool:
    """Whether a JSON file is a config of ONNX models."""
    return isinstance(data, dict) and _OUTCOMES in data


def onnx_cases(files: SuiteFiles, document: ConfigDocument, *, only: bool) -> list[Case]:
    """The cases of a config of ONNX models. The folder has models by their path in the zoo; others are downloaded."""
    config = files.content(document, OnnxModelsFormat)
    cases: list[Case] = []
    for test, outcome in config.tests_and_expected_outcomes.items() if config else ():
        match = _ONNX_TEST.match(test)
        if test == "default" and outcome != "skip":
            files.report(document, (_OUTCOMES, test), 'only tests that are listed are run: write "skip", and list the others.')
        elif match is None and test != "default":
            message = f'"{test}" is not a test: write "tests/model_zoo/…_models_test.py::test_models[….onnx]".'
            files.report(document, (_OUTCOMES, test), message, at_key=True)
        if config is None or match is None or outcome == "skip":
            continue
        place = f"{match['folder']}/{match['model']}"
        model, downloaded = files.folder / place, files.download(f"{_MODELS}{place}")
        artifacts: Files = () if model.is_file() else (downloaded,)
        model = model if model.is_file() else downloaded.path
        arguments = ModelArguments(model, downloaded.path.parent)
        run = RunSpec(flags=tuple(config.iree_run_module_flags), arguments=arguments, limits=LIMITS)
        run = replace(run, reference=Reference(onnxruntime=True))
        if model.is_file():
            with suppress(ValueError):  # the import reports it
                run = run.with_arguments()
        program = Library(Input(model, InputKind.ONNX), tuple(map(Flag, config.iree_compile_flags)), artifacts)
        name = place.removesuffix(".onnx") + ("" if only else f"[config={config.config_name}]")
        expect = tuple(Expectation(None, stage=stage) for stage in _STAGES[outcome])
        case = files.case(config.config_name, name, Path(document.path).absolute(), program)
        cases.append(replace(case, run=run, expect=expect))
    return cases


def _number(value: Any) -> float:
    try:
        return float(as_written(value))
    except ValueError:
        raise advice(f'"{value}" is not a number: write one such as 1e-5.') from None


_Real = Annotated[float, BeforeValidator(_number)]


class FormulaFormat(MappingFormat):
    """Random numbers: `coeff` times those from 0 to 1, plus `offset`."""

    noun: ClassVar[str] = "a formula"
    shape: list[Natural]
    dtype: Text = "float32"
    coeff: _Real = 1.0
    offset: _Real = 0.0


class ArgumentFormat(MappingFormat):
    """An argument of a Torch operation."""

    noun: ClassVar[str] = "an argument"
    formula: FormulaFormat = Field(alias="Formula")


class TorchTestFormat(MappingFormat):
    """A test of one Torch operation."""

    noun: ClassVar[str] = "a Torch test"
    function_name: Text = "main"
    flat_args: list[ArgumentFormat]
    seed: Natural = 0
    rtol: _Real = 1e-5
    atol: _Real = 1e-8
    equal_nan: Literal["true", "false"] = "false"
    mode: Literal["compare", "benchmark"] = "compare"
    file_name: Text = "test.mlir"
    vmfb_name: Text = "out.vmfb"
    expected_output: list[ValueFormat] | None = None


def torch_test(files: SuiteFiles, path: Path) -> tuple[Path, RunSpec] | None:
    """The program of a test with formulas for its inputs, and how to run it; None if it has mistakes."""
    document = files.document(path)
    test = files.content(document, TorchTestFormat) if document else None
    if document is None or test is None:
        return None
    program = path.parent / test.file_name
    if not program.is_file():
        files.report(document, ("file_name",), f'there is no program "{test.file_name}" beside this file.')
    drawn = [each.formula for each in test.flat_args]
    formulas = tuple(Formula(tuple(each.shape), each.dtype, each.coeff, each.offset) for each in drawn)
    content = json.dumps([[str(formula) for formula in formulas], test.seed])
    inputs = [
        Artifact(files.kept(content, f"input_{index}.npy"), RandomTensor(formulas, test.seed, index))
        for index in range(len(formulas))
    ]
    expected = [
        files.file(output.url or output.value or "", document, ("expected_output", index))
        for index, output in enumerate(test.expected_output or ())
    ]
    return program, RunSpec(
        function=test.function_name,
        inputs=tuple(f"@{artifact.path}" for artifact in inputs),
        expected=tuple(f"@{file}" for file, _ in expected),
        closeness=(test.rtol, test.atol, test.equal_nan == "true") if test.mode == "compare" else None,
        artifacts=(*inputs, *(artifact for _, some in expected for artifact in some)),
        measured=test.mode == "benchmark",
    )
