"""The recipe keys `run` and `bench`: how to run a compiled program, and the results
that it must compute. Files may say the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    ValidationInfo,
    model_validator,
)

from triage.model.case import Case, Reference, RunSpec
from triage.model.checks import FlagText, Text, Word, fits
from triage.model.errors import BadFiles, Problem
from triage.model.execution import Limits
from triage.recipes.document import read_text
from triage.recipes.mapping import AtKey, MappingFormat
from triage.recipes.recipe import (
    File,
    LimitsFormat,
    RecipeFormat,
    check_file,
    is_pattern,
    locate,
)
from triage.recipes.run_values import TENSOR_PROTO, TOLERANCES, located, split_value

_TOLERANCE = re.compile(
    r"--expected_(f16|f32|f64|bf16)_threshold=([\d.]+(?:e[+-]?\d+)?)f?\Z"
)


def _value(text: str, info: ValidationInfo) -> str:
    parts = split_value(text)
    if parts.file is not None:
        check_file(parts.file, info)
    return text


def _run_flag(text: str) -> str:
    for name, key in (
        ("--input=", "inputs"),
        ("--expected_output=", "expected"),
        ("--function=", "function"),
    ):
        if text.startswith(name):
            raise ValueError(
                f'write "{text.removeprefix(name)}" under `{key}` instead of '
                f"{name.rstrip('=')}."
            )
    if _TOLERANCE.match(text):
        raise ValueError(
            "the results are not compared by that program: write "
            "`tolerance: {f32: 1e-3}` instead."
        )
    return text


_Value = Annotated[Text, AfterValidator(_value)]
_RunFlag = Annotated[FlagText, AfterValidator(_run_flag)]
_TYPES = f'"{{text}}" is not an element type; known: {", ".join(TOLERANCES)}.'
_Tolerances = dict[Annotated[str, fits("|".join(TOLERANCES), _TYPES)], NonNegativeFloat]


def _differs(reference: Reference) -> Reference:
    is_same = reference.toolchain is None and reference.flags is None
    if reference.onnxruntime and not is_same:
        raise AtKey(
            "onnxruntime",
            "onnxruntime compiles nothing; remove `toolchain` and `flags`, or "
            "`onnxruntime`.",
        )
    if is_same and not reference.onnxruntime:
        raise ValueError(
            "a reference needs another toolchain or other flags: write "
            "`{toolchain: 3.12.0}`."
        )
    return reference


class _CallFormat(MappingFormat):
    """A call of a compiled function."""

    function: Word | None = Field(
        None,
        description="Function to run; the only one when left out.",
        examples=["main"],
    )
    inputs: list[_Value] = Field(
        [],
        description="The function's arguments.",
        examples=[["2x3xf32=@inputs/a.bin", "@b.npy", "4xi64=7"]],
    )
    device: Word | None = Field(
        None,
        description="Device to run on; the usual one of the backend when left out.",
        examples=["local-task"],
    )
    flags: list[_RunFlag] = Field(
        [],
        description="Further options of the program that runs or measures it.",
        examples=[["--parameters=model=weights.irpa"]],
    )


class RunFormat(_CallFormat):
    """How to run the compiled program."""

    expected: list[_Value] = Field(
        [],
        description="The results it must compute.",
        examples=[["2x3xf32=@expected.bin"]],
    )
    flagfile: File | None = Field(
        None,
        description=(
            "File with `--input=`, `--expected_output=` and other options, one a "
            "line; its paths are relative to it."
        ),
        examples=["run_module_io_flags.txt"],
    )
    data: Text | None = Field(
        None,
        description="Folder next to the input with `input_0.pb`, `output_0.pb` and so "
        "on (ONNX tensors, or .npy). Where the input is a pattern, a file without this "
        "folder is compiled only.",
        examples=["test_data_set_0"],
    )
    reference: Annotated[Reference, AfterValidator(_differs)] | None = Field(
        None,
        description="Compile whose results are expected.",
        examples=[{"toolchain": "3.12.0"}],
    )
    tolerance: _Tolerances = Field(
        {},
        description="Largest accepted difference by element type "
        f"({', '.join(TOLERANCES)}).",
        examples=[{"f32": 1e-3}],
    )
    limits: LimitsFormat = Field(
        default_factory=LimitsFormat,
        description="Limits of one run.",
        examples=[{"timeout": "60s"}],
    )

    @model_validator(mode="after")
    def _expects_once(self) -> Self:
        if self.data is not None and (self.inputs or self.expected or self.flagfile):
            raise AtKey(
                "data",
                "the values are those of a folder and written here; remove `data` "
                "or the others.",
            )
        if self.reference is not None and self.expected:
            raise AtKey(
                "reference",
                "the results are expected from a reference and from files; remove "
                "one of them.",
            )
        return self


class BenchmarkFormat(_CallFormat):
    """A function whose run time is measured."""

    function: Word = Field(description="Function to measure.", examples=["prefill"])
    name: Word | None = Field(
        None,
        description="What reports call it; the function when left out.",
        examples=["prefill-2048"],
    )

    def spec(self, folder: Path) -> RunSpec:
        inputs = tuple(located(text, folder) for text in self.inputs)
        return RunSpec(
            self.device, self.function, inputs, flags=tuple(self.flags), name=self.name
        )


class RunnableFormat(RecipeFormat):
    """A program that is compiled, and then run or measured."""

    run: RunFormat | None = Field(
        None,
        description="Run what was compiled and compare its results.",
        examples=[{"inputs": ["4xf32=1"]}],
    )

    bench: list[BenchmarkFormat] = Field(
        [],
        description="Functions that `triage bench` measures.",
        examples=[[{"function": "prefill"}]],
    )

    @model_validator(mode="after")
    def _runs_whole_programs(self) -> Self:
        if self.run is not None and self.phase not in (None, "end"):
            raise AtKey(
                "phase",
                "a compile that stops early cannot be run; remove `phase` or `run`.",
            )
        reference = self.run.reference if self.run else None
        is_onnx = str(self.input).endswith(".onnx")
        if reference and reference.onnxruntime and not is_onnx:
            raise AtKey(
                "run",
                "onnxruntime runs only ONNX models; name an .onnx file under "
                "`input`, or another reference.",
            )
        return self

    @model_validator(mode="after")
    def _names_each_benchmark(self) -> Self:
        names = [entry.name or entry.function for entry in self.bench]
        for name in names:
            if names.count(name) > 1:
                raise AtKey(
                    "bench",
                    f'{names.count(name)} benchmarks are called "{name}": give '
                    "each a `name` of its own.",
                )
        return self

    def complete(self, case: Case, folder: Path) -> Case:
        """Return the case with its run and its benchmarks."""
        return replace(
            case,
            run=self._run_spec(case, folder),
            benchmarks=tuple(entry.spec(folder) for entry in self.bench),
        )

    def _run_spec(self, case: Case, folder: Path) -> RunSpec | None:
        """Return how a case is run, if it is. The values of the data folder, of the
        flagfile and of the recipe follow each other. A device or a function of the
        recipe replaces that of the flagfile.
        """
        run = self.run
        if run is None:
            return None
        data = flagfile = RunSpec()
        if run.data is not None:
            place = case.input.path.parent / run.data
            if is_pattern(self.input) and not place.is_dir():
                return None
            data = read_data_folder(place)
        if run.flagfile:
            flagfile = read_flagfile(locate(folder, run.flagfile))
        inputs = [located(text, folder) for text in run.inputs]
        expected = [located(text, folder) for text in run.expected]
        return RunSpec(
            device=run.device or flagfile.device,
            function=run.function or flagfile.function,
            inputs=(*data.inputs, *flagfile.inputs, *inputs),
            expected=(*data.expected, *flagfile.expected, *expected),
            flags=(*flagfile.flags, *run.flags),
            tolerances=tuple({**dict(flagfile.tolerances), **run.tolerance}.items()),
            reference=run.reference,
            limits=run.limits.value(Limits(timeout=120.0)),
        )


def read_flagfile(path: Path) -> RunSpec:
    """Read a file with an option of the runtime's program on each line. Paths in it are
    relative to its folder. Raises BadFiles with every mistake.
    """
    values: dict[str, list[str]] = {"input": [], "expected_output": []}
    single: dict[str, str] = {}
    flags: list[str] = []
    problems: list[Problem] = []
    for number, raw in enumerate(read_text(path).splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        name, _, text = line.lstrip("-").partition("=")
        message = ""
        if not line.startswith("-"):
            message = (
                f'"{line}" is not an option, such as --input=2x3xf32=@input_0.bin.'
            )
        elif name in values:
            try:
                values[name].append(located(text, path.parent))
            except ValueError as error:
                message = str(error)
        elif name in ("function", "device"):
            single[name] = text
        else:
            flags.append(line)
        if message:
            column = raw.find(text) + 1
            problems.append(Problem(str(path), number, column, message))
    if problems:
        raise BadFiles(problems)
    inputs, expected = map(tuple, values.values())
    device, function = single.get("device"), single.get("function")
    return RunSpec(device, function, inputs, expected, *without_tolerances(flags))


def without_tolerances(
    flags: Sequence[str],
) -> tuple[tuple[str, ...], tuple[tuple[str, float], ...]]:
    """Return the flags that set no tolerance, and the tolerances of the others by
    element type.
    """
    matches = [_TOLERANCE.match(flag) for flag in flags]
    tolerances = {match[1]: float(match[2]) for match in matches if match}
    others = (flag for flag, match in zip(flags, matches, strict=True) if match is None)
    return tuple(others), tuple(tolerances.items())


def read_data_folder(folder: Path) -> RunSpec:
    """Return the values in a folder with `input_0.pb`, `output_0.pb` and so on. Raises
    BadFiles if a number has no file or several, or if there is no output.
    """
    inputs, expected = _numbered(folder, "input"), _numbered(folder, "output")
    if not expected:
        message = (
            f"this is not a folder of test data: it has no output_0{TENSOR_PROTO} to "
            "compare with."
        )
        raise BadFiles([Problem(str(folder), None, None, message)])
    return RunSpec(inputs=inputs, expected=expected)


def _numbered(folder: Path, role: str) -> tuple[str, ...]:
    files = {
        path.stem: path.absolute()
        for path in folder.glob(f"{role}_[0-9]*")
        if path.suffix in (TENSOR_PROTO, ".npy")
    }
    names = [f"{role}_{number}" for number in range(len(files))]
    for name in names:
        if len(list(folder.glob(f"{name}.*"))) != 1:
            message = f"there are {len(files)} files {role}_…, and not one {name}."
            raise BadFiles([Problem(str(folder), None, None, message)])
    return tuple(f"@{files[name]}" for name in names)
