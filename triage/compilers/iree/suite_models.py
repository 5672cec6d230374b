"""Tests of whole models in IREE's suites: JSON files whose `type` is quality, benchmark
or compstat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PositiveFloat

from triage.compilers.iree.suite_files import LIMITS, At, SuiteFile
from triage.model.case import Case, Library, RunSpec
from triage.recipes.mapping import MappingFormat, Text, Texts
from triage.recipes.run_keys import without_tolerances
from triage.recipes.run_values import split_value


class _Module(MappingFormat):
    mlir: Text = Field(examples=["https://example.com/model.mlir"])
    compiler_flags: Texts = ()


class _Weights(MappingFormat):
    type: Literal["url"]
    scope: Text
    url: Text


class _Value(MappingFormat):
    value: Text = ""
    url: Text | None = None


class _Test(MappingFormat):
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


def is_model_test(data: Any) -> bool:
    """Return whether a JSON file is a test of a model."""
    return isinstance(data, dict) and "type" in data


def model_case(file: SuiteFile) -> Case:
    """Return the case of a test of a model, which is named for its file."""
    test = file.content(_Test)
    names = test.modules or (test.module,)
    first, *others = [
        _module(file, name, "module", "modules", index)
        for index, name in enumerate(names)
    ]
    folder = file.suite.folder
    path = file.path.with_suffix("")
    name = path.name
    if path.is_relative_to(folder):
        name = path.relative_to(folder).as_posix()
    time = test.golden_time_ms
    limits = {
        "run_ms": time and time * test.tolerance_factor,
        "dispatches": test.golden_dispatch_count,
        "artifact_bytes": test.golden_binary_size,
    }
    case = replace(
        file.case(test.type, name, first, LIMITS),
        summary=" ".join(test.markers),
        thresholds=tuple((name, limit) for name, limit in limits.items() if limit),
    )
    if test.type == "compstat":
        return case
    run = _run(file, test, others)
    if test.type == "quality":
        return replace(case, run=run)
    run = replace(run, measured=True)
    flags = tuple(flag for flag in run.flags if not flag.startswith("--benchmark_"))
    return replace(case, run=run, benchmarks=(replace(run, flags=flags),))


def _module(file: SuiteFile, name: str, *at: At) -> Library:
    path = file.suite.folder / f"{name.removesuffix('.json')}.json"
    if not path.is_file():
        raise file.mistake(f'there is no module "{name}": {path} does not exist.', *at)
    own = SuiteFile(file.suite, path)
    module = own.content(_Module)
    return own.program(module.mlir, module.compiler_flags, "mlir")


def _run(file: SuiteFile, test: _Test, libraries: Sequence[Library]) -> RunSpec:
    inputs, expected = [
        [
            file.value(entry.value, entry.url, key, index, "url", "value")
            for index, entry in enumerate(entries)
        ]
        for key, entries in (
            ("inputs", test.inputs),
            ("expected_outputs", test.expected_outputs),
        )
    ]
    weights = [
        (entry.scope, file.file(entry.url, "weights", index, "url"))
        for index, entry in enumerate(test.weights)
    ]
    named = [split_value(text).file for text in (*inputs, *expected)]
    files = [Path(name) for name in named if name]
    files += [path for _, path in weights]
    flags, tolerances = without_tolerances(test.run_args)
    return RunSpec(
        inputs=tuple(inputs),
        expected=tuple(expected),
        flags=flags,
        tolerances=tolerances,
        limits=LIMITS,
        libraries=tuple(libraries),
        parameters=tuple(weights),
        artifacts=file.suite.artifacts_of(*files),
    )
