"""Read tests of single Torch operations: `run_module_io.json` beside a program, with formulas for its inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from triage.compilers.iree.model_suite import download, kept_in
from triage.compilers.iree.weights import Formula, RandomTensor
from triage.config.document import FileKind, read_json5
from triage.config.schema import MappingFormat, Natural, Text, content_of, in_order
from triage.config.values import advice, as_written
from triage.model.case import Artifact, RunSpec
from triage.model.errors import BadFiles

TORCH_VALUES = "run_module_io.json"
_KIND = FileKind("Torch test", 'write {"function_name": "main", "flat_args": […], "seed": 0, "mode": "compare"}')


def _number(value: Any) -> float:
    try:
        return float(as_written(value))
    except ValueError:
        raise advice(f'"{value}" is not a number: write one such as 1e-5.') from None


_Number = Annotated[float, BeforeValidator(_number)]


class FormulaFormat(MappingFormat):
    """Random numbers: `coeff` times those from 0 to 1, plus `offset`."""

    noun: ClassVar[str] = "a formula"

    shape: list[Natural] = Field(examples=[[64, 64]])
    dtype: Text = Field(default="float32", examples=["float32"])
    coeff: _Number = Field(default=1.0, examples=[1])
    offset: _Number = Field(default=0.0, examples=[0])


class ArgumentFormat(MappingFormat):
    """An argument of a Torch operation."""

    noun: ClassVar[str] = "an argument"

    formula: FormulaFormat = Field(alias="Formula", examples=[{"shape": [64, 64], "dtype": "float32"}])


class ExpectedFormat(MappingFormat):
    """An expected result: the URL of a `.npy` file, or its path beside the test."""

    noun: ClassVar[str] = "an expected result"

    url: Text | None = Field(default=None, examples=["https://example.com/expected.npy"])
    value: Text | None = Field(default=None, examples=["expected.npy"])


class TorchTestFormat(MappingFormat):
    """A test of one operation."""

    noun: ClassVar[str] = "a Torch test"

    function_name: Text = Field(default="main", examples=["main"])
    flat_args: list[ArgumentFormat] = Field(examples=[[{"Formula": {"shape": [64, 64]}}]])
    seed: Natural = Field(default=0, examples=[0])
    rtol: _Number = Field(default=1e-5, examples=[1e-5])
    atol: _Number = Field(default=1e-8, examples=[1e-8])
    equal_nan: Literal["true", "false"] = Field(default="false", examples=["false"])
    mode: Literal["compare", "benchmark"] = Field(default="compare", examples=["compare"])
    file_name: Text = Field(default="test.mlir", examples=["test.mlir"])
    vmfb_name: Text = Field(default="out.vmfb", examples=["out.vmfb"])
    expected_output: list[ExpectedFormat] | None = Field(default=None, examples=[[{"url": "https://…/expected.npy"}]])


def read_torch_test(path: Path, downloads: Path) -> tuple[Path, RunSpec]:
    """The program of a test, and how to run it. downloads: where files from URLs and generated inputs are kept.

    Raises:
        BadFiles: with every mistake, by line and column.
    """
    document = read_json5(path, _KIND)
    test = content_of(document, TorchTestFormat)
    program = path.parent / test.file_name
    if not program.is_file():
        document.report(("file_name",), f'there is no program "{test.file_name}" beside this file.')
    formulas = tuple(
        Formula(tuple(argument.formula.shape), argument.formula.dtype, argument.formula.coeff, argument.formula.offset)
        for argument in test.flat_args
    )
    drawn = kept_in(downloads, json.dumps([[str(formula) for formula in formulas], test.seed]))
    inputs = [
        Artifact(drawn / f"input_{index}.npy", RandomTensor(formulas, test.seed, index)) for index in range(len(formulas))
    ]
    expected: list[Path] = []
    results: list[Artifact] = []
    for index, output in enumerate(test.expected_output or ()):
        if output.url is not None:
            results.append(download(downloads, output.url))
            expected.append(results[-1].path)
        elif output.value is not None and (path.parent / output.value).is_file():
            expected.append(path.parent / output.value)
        else:
            message = "an expected result needs a URL or the name of a file that is beside this one."
            document.report(("expected_output", index), message)
    if document.problems:
        raise BadFiles(in_order(document.problems))
    run = RunSpec(
        function=test.function_name,
        inputs=tuple(f"@{artifact.path}" for artifact in inputs),
        expected=tuple(f"@{file}" for file in expected),
        closeness=(test.rtol, test.atol, test.equal_nan == "true") if test.mode == "compare" else None,
        artifacts=(*inputs, *results),
        measured=test.mode == "benchmark",
    )
    return program, run
