"""Read IREE's tests of models from sharktank: one JSON file compiles and runs a model, another one measures its time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from triage.compilers.iree.model_suite import LIMITS, ModelTests, checked_test, document_in, split_tolerances, suite_case
from triage.compilers.iree.values import ValueText
from triage.compilers.iree.weights import RandomWeights
from triage.config.document import ConfigDocument, FileKind
from triage.config.schema import MappingFormat, Positive, Text, Truth
from triage.config.values import advice
from triage.model.case import Artifact, Case, Expectation, Library, RunSpec
from triage.model.errors import Problem
from triage.model.execution import Stage

_LIBRARY = "--iree-codegen-transform-dialect-library="
SHARKTANK = FileKind("quality test", 'write {"mlir": "https://…/model.mlir", "run_function": "main"}')
_SCOPE = "model"  # of the weights of every model


_Texts = list[Text]
_Numbers = dict[str, Positive]  # by the name of the machine's kind


class SourceFormat(MappingFormat):
    """The URL or the file of an argument or a result, and its type where the file does not say it."""

    noun: ClassVar[str] = "a value"

    source: Text = Field(examples=["https://example.com/input.bin"])
    value: Text = Field(default="", examples=["1x64xi64"])


class SharktankFormat(MappingFormat):
    """A model that is compiled and run."""

    noun: ClassVar[str] = "a quality test"

    mlir: Text = Field(examples=["https://example.com/model.mlir"])
    compiler_flags: _Texts = Field(default=[], examples=[["--iree-opt-level=O3"]])
    real_weights: Text | None = Field(default=None, examples=["https://example.com/weights.irpa"])
    custom_real_weights_group: Text | None = Field(default=None)  # where their harness keeps the weights
    inputs: list[SourceFormat] = Field(default=[], examples=[[{"source": "https://…/input.bin", "value": "1x64xi64"}]])
    outputs: list[SourceFormat] = Field(default=[], examples=[[{"source": "https://…/output.bin", "value": "1x64xf32"}]])
    device: Text | None = Field(default=None, examples=["local-task"])
    run_function: Text | None = Field(default=None, examples=["main"])
    threshold_args: _Texts = Field(default=[], examples=[["--expected_f16_threshold=1.0f"]])
    compile_only: Truth = Field(default=False, examples=[True])
    run_test_expecting_to_fail: Truth = Field(default=False, examples=[True])
    compile_chip_expecting_to_fail: _Texts = Field(default=[], examples=[["gfx90a"]])
    tuner_file: dict[str, Text] = Field(default={}, examples=[{"mi300": "spec.mlir"}])
    pipeline_mlir: Text | None = Field(default=None, examples=["https://example.com/pipeline.mlir"])
    pipeline_compiler_flags: _Texts = Field(default=[], examples=[["--iree-opt-level=O3"]])
    add_pipeline_module: Truth = Field(default=False, examples=[True])


_OWN = SharktankFormat.model_fields.keys() - {"mlir", "compiler_flags"}


class SharktankTimeFormat(MappingFormat):
    """A model that is compiled as its quality test says, and measured."""

    noun: ClassVar[str] = "a benchmark test"

    function_run: Text = Field(examples=["main"])
    inputs: _Texts = Field(default=[], examples=[["1x64xi64"]])
    device: Text | None = Field(default=None, examples=["local-task"])
    benchmark_flags: _Texts = Field(default=[], examples=[["--benchmark_repetitions=10"]])
    benchmark_repetitions: Positive = Field(default=1.0)  # their harness does not use these two
    benchmark_min_warmup_time: Positive = Field(default=1.0)
    golden_time_ms: _Numbers = Field(default={}, examples=[{"mi300": 7.65}])
    golden_time_tolerance_multiplier: _Numbers = Field(default={}, examples=[{"mi300": 1.1}])
    golden_dispatch: _Numbers = Field(default={}, examples=[{"mi300": 792}])
    golden_size: _Numbers = Field(default={}, examples=[{"mi300": 460000}])
    specific_chip_to_ignore: _Texts = Field(default=[], examples=[["gfx90a"]])
    real_weights_file_name: Text | None = Field(default=None)  # the quality test has its URL
    compilation_required: Truth = Field(default=False, examples=[True])
    compiled_file_name: Text | None = Field(default=None)
    compile_flags: _Texts = Field(default=[], examples=[["--iree-hal-target-device=hip"]])
    mlir_file_name: Text | None = Field(default=None, examples=["pipeline.mlir"])
    modules: _Texts = Field(default=[], examples=[["sdxl_clip"]])

    @model_validator(mode="after")
    def _has_a_pipeline(self) -> Self:
        if bool(self.modules) != (self.mlir_file_name is not None):
            raise advice('"modules" and "mlir_file_name" belong together: write both or none of them.')
        return self


class SharktankTests:
    """Makes the cases of tests. Mistakes are added to the problems of `files`."""

    def __init__(self, folder: Path, files: ModelTests, problems: list[Problem]) -> None:
        """folder: is searched for the quality tests of benchmarks and for further files; files: finds and reads them."""
        self._folder, self._files, self._problems = folder, files, problems
        self._qualities: dict[Path, SharktankFormat | None] = {}

    def case(self, path: Path, document: ConfigDocument) -> Case | None:
        """The case of a test; None when it has mistakes, or is not for this machine."""
        return (self._measured if "function_run" in document.data else self._compared)(path.absolute(), document)

    def _compared(self, path: Path, document: ConfigDocument) -> Case | None:
        test = self._quality(path, document)
        program = self._program(path, document, test) if test else None
        if test is None or program is None:
            return None
        case = suite_case("quality", self._files.name(path), path, program)
        if not test.compile_only:
            case = replace(case, run=self._run(document, test, program, path))
        stages = [Stage.RUN, Stage.COMPARE] if test.run_test_expecting_to_fail else []
        stages += [Stage.COMPILE] if _is_rocm(path) and _chip() in test.compile_chip_expecting_to_fail else []
        return replace(case, expect=tuple(Expectation(None, stage=stage) for stage in stages))

    def _run(self, document: ConfigDocument, test: SharktankFormat, program: Library, path: Path) -> RunSpec:
        inputs = [self._source(entry, document, ("inputs", index)) for index, entry in enumerate(test.inputs)]
        expected = [self._source(entry, document, ("outputs", index)) for index, entry in enumerate(test.outputs)]
        flags, tolerances = split_tolerances(test.threshold_args)
        weights, artifacts = self._weights(test, document, program)
        libraries = []
        if test.pipeline_mlir is not None:
            own = self._flags(test.pipeline_compiler_flags, path)
            pipeline = self._files.program(test.pipeline_mlir, own, document, ("pipeline_mlir",))
            libraries = [pipeline] if pipeline else []
        return RunSpec(
            device=test.device,
            function=test.run_function,
            inputs=tuple(text for text, _ in inputs),
            expected=tuple(text for text, _ in expected),
            flags=flags,
            tolerances=tolerances,
            limits=LIMITS,
            libraries=tuple(libraries),
            parameters=((_SCOPE, weights),),
            artifacts=(*(artifact for _, some in (*inputs, *expected) for artifact in some), *artifacts),
        )

    def _measured(self, path: Path, document: ConfigDocument) -> Case | None:
        test = checked_test(document, SharktankTimeFormat, self._problems)
        if test is None or (_is_rocm(path) and _chip() in test.specific_chip_to_ignore):
            return None
        suffix = path.stem.rpartition("_")[2]
        names = [f"{path.parent.name}_{path.stem}"] if not test.modules else [f"{name}_{suffix}" for name in test.modules]
        models = [
            self._model(name, path, document, ("modules", index) if test.modules else ("function_run",))
            for index, name in enumerate(names)
        ]
        programs = [model[0] for model in models if model]
        if test.mlir_file_name is not None and (file := self._further(test.mlir_file_name, document, ("mlir_file_name",))):
            programs += filter(None, [self._files.program(str(file), self._flags(test.compile_flags, path), document, ())])
        inputs = [self._files.value(text, document, ("inputs", index)) for index, text in enumerate(test.inputs)]
        if len(programs) < len(names) + (test.mlir_file_name is not None):
            return None
        run = RunSpec(
            device=test.device,
            function=test.function_run,
            inputs=tuple(text for text, _ in inputs),
            flags=tuple(test.benchmark_flags),
            limits=LIMITS,
            libraries=tuple(programs[1:]),
            parameters=tuple((_SCOPE, model[1]) for model in models if model),
            artifacts=tuple(artifact for some in [*(i[1] for i in inputs), *(m[2] for m in models if m)] for artifact in some),
            measured=True,
        )
        plain = replace(run, flags=tuple(flag for flag in run.flags if not flag.startswith("--benchmark_")))
        goldens = tuple(_goldens(test, _kind(path)))
        return replace(
            suite_case("benchmark", self._files.name(path), path, programs[0]), run=run, benchmarks=(plain,), goldens=goldens
        )

    def _model(
        self, name: str, path: Path, document: ConfigDocument, loc: tuple[str | int, ...]
    ) -> tuple[Library, Path, tuple[Artifact, ...]] | None:
        """The program of a quality test, and its weights. name: its folder and its file, joined by `_`."""
        files = [file for file in self._json_files if f"{file.parent.name}_{file.stem}" == name and file != path]
        quality = next((known for file in files if (known := self._known(file)) is not None), None)
        if quality is None:
            message = f'there is no quality test for "{name}" below {self._folder}: name a folder that has it as well.'
            self._problems.append(document.problem(loc, message))
            return None
        file, source, test = quality
        program = self._program(file, source, test)
        return (program, *self._weights(test, source, program)) if program else None

    @cached_property
    def _json_files(self) -> list[Path]:
        return sorted(self._folder.rglob("*.json"))

    def _known(self, file: Path) -> tuple[Path, ConfigDocument, SharktankFormat] | None:
        document = document_in(file, SHARKTANK, self._problems)
        if document is None or not is_sharktank(document.data) or "function_run" in document.data:
            return None
        test = self._quality(file, document)
        return (file, document, test) if test else None

    def _quality(self, path: Path, document: ConfigDocument) -> SharktankFormat | None:
        if path not in self._qualities:
            self._qualities[path] = checked_test(document, SharktankFormat, self._problems)
        return self._qualities[path]

    def _program(self, path: Path, document: ConfigDocument, test: SharktankFormat) -> Library | None:
        flags = list(test.compiler_flags)
        if (name := test.tuner_file.get(_kind(path))) is not None:
            flags.append(f"{_LIBRARY}{self._further(name, document, ('tuner_file', _kind(path)))}")
        return self._files.program(test.mlir, self._flags(flags, path), document, ("mlir",))

    def _flags(self, flags: Sequence[str], path: Path) -> list[str]:
        return [*flags, f"--iree-rocm-target={_chip()}"] if _is_rocm(path) else list(flags)

    def _further(self, name: str, document: ConfigDocument, loc: tuple[str | int, ...]) -> Path | None:
        """A file somewhere below the folder, by its name."""
        file = next(iter(sorted(self._folder.rglob(name))), None)
        if file is None:
            message = f'there is no file "{name}" below {self._folder}: name a folder that has it as well.'
            self._problems.append(document.problem(loc, message))
        return file

    def _weights(self, test: SharktankFormat, document: ConfigDocument, program: Library) -> tuple[Path, tuple[Artifact, ...]]:
        """The weights of a model. Without real ones they are zero, as the compiler writes them for their harness."""
        if test.real_weights is not None:
            return self._files.file(test.real_weights, document, ("real_weights",))
        path = self._files.generated(f"{program.input.path}", "zero.safetensors")
        return path, (*program.artifacts, Artifact(path, RandomWeights(program.input.path, 0, deviation=0.0)))

    def _source(
        self, entry: SourceFormat, document: ConfigDocument, loc: tuple[str | int, ...]
    ) -> tuple[str, tuple[Artifact, ...]]:
        path, artifacts = self._files.file(entry.source, document, (*loc, "source"))
        return str(ValueText(entry.value, str(path), "")), artifacts


def is_sharktank(data: Any) -> bool:
    """Whether a JSON file is a test of this kind. A module of a test with a `type` has only the first two keys."""
    return isinstance(data, dict) and ("function_run" in data or ("mlir" in data and bool(data.keys() & _OWN)))


def _is_rocm(path: Path) -> bool:
    return path.stem.endswith("_rocm")


def _chip() -> str:
    """The chip that tests for ROCm are compiled for, from the environment variable that their harness reads."""
    return os.environ.get("ROCM_CHIP", "gfx942")


def _kind(path: Path) -> str:
    """The kind of machine whose golden values count."""
    return os.environ.get("SKU", "mi300") if _is_rocm(path) else "cpu"


def _goldens(test: SharktankTimeFormat, kind: str) -> Iterator[tuple[str, float]]:
    if kind in test.golden_time_ms:
        yield "run_ms", test.golden_time_ms[kind] * test.golden_time_tolerance_multiplier.get(kind, 1.1)
    for name, limits in (("dispatches", test.golden_dispatch), ("artifact_bytes", test.golden_size)):
        if kind in limits:
            yield name, limits[kind]
