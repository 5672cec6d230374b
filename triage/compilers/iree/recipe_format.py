"""The recipe keys of IREE: how to run what was compiled, and what it must compute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema

from triage.compilers.iree.flagfile import read_flagfile
from triage.compilers.iree.tensor_files import read_data_folder
from triage.compilers.values import TOLERANCES, located, split_value
from triage.model.case import Reference, RunSpec
from triage.model.execution import Limits
from triage.recipes.fields import check_flag, check_word, setting
from triage.recipes.files import check_existing, check_file, is_pattern, locate
from triage.recipes.mapping import MappingFormat
from triage.recipes.matrix import has_placeholder
from triage.recipes.schema import LimitsFormat, RecipeFormat
from triage.recipes.suggestions import did_you_mean
from triage.recipes.values import advice, as_text, as_written

_TEXT = {"type": "string", "pattern": r"\S"}
_BY_TYPE = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number"], "minimum": 0},
    "propertyNames": {"enum": list(TOLERANCES)},
}


def _value(value: Any, info: ValidationInfo) -> str:
    text = as_text(value)
    if has_placeholder(text):
        return text
    try:
        parts = split_value(text)
    except ValueError as error:
        raise advice(str(error)) from None
    if parts.file is not None:
        check_existing(parts.file, setting(info).folder)
    return text


def _tolerances(value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        raise advice("tolerances are a mapping such as `{f32: 1e-3}`.")
    known: dict[str, float] = {}
    for key, written in value.items():
        name = str(key)
        if name not in TOLERANCES:
            raise advice(
                f'"{name}" is not an element type{did_you_mean(name, TOLERANCES)} Keys: {", ".join(TOLERANCES)}.', name
            )
        try:
            number = float(as_written(written))
        except ValueError:
            number = -1.0
        if not 0 <= number < float("inf"):
            raise advice(f'"{written}" is not a tolerance: write a number that is not negative, such as 1e-3.', name)
        known[name] = number
    return known


def _run_flag(value: Any) -> str:
    text = check_flag(value)
    for name, key in (("--input=", "inputs"), ("--expected_output=", "expected"), ("--function=", "function")):
        if text.startswith(name):
            raise advice(f'write "{text.removeprefix(name)}" under `{key}` instead of {name.rstrip("=")}.')
    return text


_Value = Annotated[str, BeforeValidator(_value), WithJsonSchema(_TEXT)]


class ReferenceFormat(MappingFormat):
    """Another compile of the same case, whose results are expected."""

    noun: ClassVar[str] = "a reference"

    toolchain: Annotated[str, BeforeValidator(check_word), WithJsonSchema(_TEXT)] | SkipJsonSchema[None] = Field(
        default=None, description="Its toolchain (REV); the same one when left out.", examples=["3.12.0"]
    )
    flags: list[Annotated[str, BeforeValidator(check_flag), WithJsonSchema(_TEXT)]] | SkipJsonSchema[None] = Field(
        default=None, description="Its compiler flags instead of the recipe's.", examples=[["--iree-opt-level=O0"]]
    )

    onnxruntime: bool = Field(default=False, description="What onnxruntime computes for an ONNX model is expected.")

    @model_validator(mode="after")
    def _differs(self) -> Self:
        if self.onnxruntime and (self.toolchain is not None or self.flags is not None):
            raise advice("onnxruntime compiles nothing; remove `toolchain` and `flags`, or `onnxruntime`.", "onnxruntime")
        if self.toolchain is None and self.flags is None and not self.onnxruntime:
            raise advice("a reference needs another toolchain or other flags: write `{toolchain: 3.12.0}`.")
        return self

    def value(self) -> Reference:
        return Reference(self.toolchain, None if self.flags is None else tuple(self.flags), self.onnxruntime)


class RunFormat(MappingFormat):
    """How to run the compiled program."""

    noun: ClassVar[str] = "a run"

    inputs: list[_Value] = Field(
        default=[], description="The function's arguments.", examples=[["2x3xf32=@inputs/a.bin", "@b.npy", "4xi64=7"]]
    )
    expected: list[_Value] = Field(default=[], description="The results it must compute.", examples=[["2x3xf32=@expected.bin"]])
    flagfile: Annotated[str, BeforeValidator(check_file), WithJsonSchema(_TEXT)] | SkipJsonSchema[None] = Field(
        default=None,
        description="File with `--input=`, `--expected_output=` and other options, one a line; its paths are relative to it.",
        examples=["run_module_io_flags.txt"],
    )
    data: Annotated[str, BeforeValidator(as_text), WithJsonSchema(_TEXT)] | SkipJsonSchema[None] = Field(
        default=None,
        description="Folder beside the input with `input_0.pb`, `output_0.pb` and so on (ONNX tensors, or .npy). Where the "
        "input is a pattern, a file without this folder is compiled only.",
        examples=["test_data_set_0"],
    )
    reference: ReferenceFormat | SkipJsonSchema[None] = Field(
        default=None, description="Compile whose results are expected.", examples=[{"toolchain": "3.12.0"}]
    )
    function: Annotated[str, BeforeValidator(check_word), WithJsonSchema(_TEXT)] | SkipJsonSchema[None] = Field(
        default=None, description="Function to run; the only one when left out.", examples=["main"]
    )
    device: Annotated[str, BeforeValidator(check_word), WithJsonSchema(_TEXT)] | SkipJsonSchema[None] = Field(
        default=None, description="Device to run on; the usual one of the backend when left out.", examples=["local-task"]
    )
    flags: list[Annotated[str, BeforeValidator(_run_flag), WithJsonSchema(_TEXT)]] = Field(
        default=[], description="Further options of `iree-run-module`.", examples=[["--parameters=model=weights.irpa"]]
    )
    tolerance: Annotated[dict[str, float], BeforeValidator(_tolerances), WithJsonSchema(_BY_TYPE)] = Field(
        default={},
        description=f"Largest accepted difference by element type ({', '.join(TOLERANCES)}).",
        examples=[{"f32": 1e-3}],
    )
    limits: LimitsFormat = Field(default_factory=LimitsFormat, description="Limits of one run.", examples=[{"timeout": "60s"}])

    @model_validator(mode="after")
    def _expects_once(self) -> Self:
        if self.data is not None and (self.inputs or self.expected or self.flagfile):
            raise advice("the values are those of a folder and written here; remove `data` or the others.", "data")
        if self.reference is not None and self.expected:
            raise advice("the results are expected from a reference and from files; remove one of them.", "reference")
        return self


class BenchmarkFormat(MappingFormat):
    """A function whose run time is measured."""

    noun: ClassVar[str] = "a benchmark"

    function: Annotated[str, BeforeValidator(check_word), WithJsonSchema(_TEXT)] = Field(
        description="Function to measure.", examples=["prefill"]
    )
    name: Annotated[str, BeforeValidator(check_word), WithJsonSchema(_TEXT)] | SkipJsonSchema[None] = Field(
        default=None, description="What reports call it; the function when left out.", examples=["prefill-2048"]
    )
    inputs: list[_Value] = Field(default=[], description="Its arguments.", examples=[["1x128xi64=@tokens.bin"]])
    device: Annotated[str, BeforeValidator(check_word), WithJsonSchema(_TEXT)] | SkipJsonSchema[None] = Field(
        default=None, description="Device to run on; the usual one of the backend when left out.", examples=["local-task"]
    )
    flags: list[Annotated[str, BeforeValidator(_run_flag), WithJsonSchema(_TEXT)]] = Field(
        default=[], description="Further options of `iree-benchmark-module`.", examples=[["--parameters=model=weights.irpa"]]
    )

    def spec(self, folder: Path) -> RunSpec:
        inputs = tuple(located(text, folder) for text in self.inputs)
        return RunSpec(self.device, self.function, inputs, flags=tuple(self.flags), name=self.name)


class IreeFormat(RecipeFormat):
    """A program for IREE."""

    run: RunFormat | SkipJsonSchema[None] = Field(
        default=None, description="Run what was compiled and compare its results.", examples=[{"inputs": ["4xf32=1"]}]
    )

    bench: list[BenchmarkFormat] = Field(
        default=[], description="Functions that `triage bench` measures.", examples=[[{"function": "prefill"}]]
    )

    @model_validator(mode="after")
    def _runs_whole_programs(self) -> Self:
        if self.run is not None and self.phase not in (None, "end"):
            raise advice("a compile that stops early cannot be run; remove `phase` or `run`.", "phase")
        reference = self.run.reference if self.run else None
        if reference and reference.onnxruntime and not str(self.input).endswith(".onnx"):
            raise advice("onnxruntime runs only ONNX models; name an .onnx file under `input`, or another reference.", "run")
        return self

    @model_validator(mode="after")
    def _names_each_benchmark(self) -> Self:
        names = [entry.name or entry.function for entry in self.bench]
        for name in names:
            if names.count(name) > 1:
                raise advice(f'{names.count(name)} benchmarks are called "{name}": give each a `name` of its own.', "bench")
        return self

    def benchmarks(self, folder: Path) -> tuple[RunSpec, ...]:
        return tuple(entry.spec(folder) for entry in self.bench)

    def run_spec(self, folder: Path, source: Path) -> RunSpec | None:
        if (run := self.run) is None:
            return None
        data = RunSpec()
        if run.data is not None:
            place = source.parent / run.data
            if is_pattern(self.input) and not place.is_dir():
                return None
            data = read_data_folder(place)
        listed = read_flagfile(locate(folder, run.flagfile)) if run.flagfile else RunSpec()
        return RunSpec(
            device=run.device or listed.device,
            function=run.function or listed.function,
            inputs=(*data.inputs, *listed.inputs, *(located(text, folder) for text in run.inputs)),
            expected=(*data.expected, *listed.expected, *(located(text, folder) for text in run.expected)),
            flags=(*listed.flags, *run.flags),
            tolerances=tuple(run.tolerance.items()),
            reference=run.reference.value() if run.reference else None,
            limits=run.limits.value(Limits(timeout=120.0)),
        )
