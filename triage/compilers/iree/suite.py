"""Read IREE's test suites: folders of programs with their values, and lists of ONNX
models. Each kind of JSON file has a form.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveFloat

from triage.compilers.iree.suite_files import (
    RUN_FAILS,
    ModelArguments,
    RandomTensor,
    Suite,
    SuiteFile,
    SuiteValue,
)
from triage.compilers.iree.suite_models import (
    is_model_test,
    model_test,
    models_below,
)
from triage.compilers.iree.targets import IREE, target_of
from triage.model.case import Case, Flag, Library, RunSpec
from triage.model.errors import BadFiles, BadInput, Problem
from triage.model.execution import Limits, Stage
from triage.model.outcome import Probe
from triage.recipes.document import MappingFormat, Text, Texts, content_of
from triage.recipes.expectations import (
    ExpectationChange,
    UpdatedFile,
)
from triage.recipes.run_keys import joined_runs, read_flagfile

_VALUES, _TORCH_VALUES = "run_module_io_flags.txt", "run_module_io.json"
_MODELS = "https://huggingface.co/onnxmodelzoo/legacy_models/resolve/main/"
_ONNX_TEST = re.compile(
    r"tests/model_zoo/([\w./-]+)_models_test\.py::test_models\[([^\]]+\.onnx)\]\Z"
)
_OUTCOMES = {
    "pass": (),
    "fail-import": (Stage.IMPORT,),
    "fail-compile": (Stage.COMPILE,),
    "fail-run": RUN_FAILS,
}
# List of known failures -> their stages. The first is the one of tests without a run.
_FAILING = {
    "expected_compile_failures": (Stage.COMPILE,),
    "expected_run_failures": RUN_FAILS,
}


class _Config(MappingFormat):
    """A list of tests with their flags."""

    config_name: Text
    iree_compile_flags: Texts
    iree_run_module_flags: Texts


class _Operations(_Config):
    """A config of tests that are folders."""

    skip_compile_tests: Texts = ()
    skip_run_tests: Texts = ()
    expected_compile_failures: Texts = ()
    expected_run_failures: Texts = ()
    golden_times_ms: dict[str, PositiveFloat] = Field(default={})
    tolerance_factor: PositiveFloat = Field(default=1.1, examples=[1.1])


class _OnnxModels(_Config):
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
    """How a test of an operation is run, if its inputs are formulas."""

    function_name: Text = "main"
    flat_args: list[dict[Literal["Formula"], _Formula]]
    seed: NonNegativeInt = 0
    rtol: float = 1e-5
    atol: float = 1e-8
    equal_nan: bool = False
    mode: Literal["compare", "benchmark"] = "compare"
    file_name: Text = "test.mlir"
    vmfb_name: Text = "out.vmfb"
    expected_output: tuple[SuiteValue, ...] | None = None


class IreeSuites:
    """IREE's test suites."""

    def cases(
        self, folder: Path, configs: Sequence[Path], downloads: Path
    ) -> tuple[Case, ...]:
        """Return the cases of a suite: for each config the tests that it does not skip,
        in the order of their names.

        Args:
            folder: The tests are below it, and names of modules are relative to it.
            configs: Files with flags and known failures, tests of whole models, or
                folders of such tests.
            downloads: Where files from URLs are kept.

        Raises:
            BadFiles: With the mistakes of the first file that has any.
            BadInput: The folder has no test.
        """
        suite = Suite(folder.absolute(), downloads)
        stems = Counter(path.stem for path in configs)
        cases: list[Case] = []
        for path in configs:
            if path.is_dir():
                cases += models_below(suite, path)
                continue
            file, config = SuiteFile(suite, path), path.stem
            if is_model_test(file):
                cases += model_test(file)
                continue
            if stems[config] > 1:
                config = f"{file.path.parent.name}/{config}"
            listed = _operations(file)
            if "tests_and_expected_outcomes" in file.keys:
                listed = _onnx_models(file)
            suffix = f"[config={config}]" if len(configs) > 1 else ""
            cases += [
                replace(case, recipe=config, name=f"{case.name}{suffix}")
                for case in listed
            ]
        return tuple(cases)

    def updated_config(self, path: Path, seen: Sequence[Probe]) -> UpdatedFile:
        """Return the text of a config that lists the failures that were seen of its
        cases.

        Raises BadFiles if the file is not a config with lists of failures.
        """
        document = SuiteFile(Suite(path.parent, path.parent), path).document
        config = content_of(document, _Operations)
        of_compile, of_run = _FAILING
        lists = {key: set(getattr(config, key)) for key in _FAILING}
        changes = []
        for probe in seen:
            test = probe.case.name.partition("[config=")[0]
            failure = probe.outcome.failure
            old = next((key for key, tests in lists.items() if test in tests), None)
            new = None
            if failure:
                new = of_run if failure.stage in RUN_FAILS else of_compile
            if new == old:
                continue
            changes.append(ExpectationChange(test, old, new))
            for tests in lists.values():
                tests.discard(test)
            if new:
                lists[new].add(test)
        updated = {key: sorted(tests) for key, tests in lists.items()}
        text = json.dumps({**document.data, **updated}, indent=2)
        return UpdatedFile(path, changes, text=f"{text}\n")


def _operations(file: SuiteFile) -> Iterator[Case]:
    """Yield the cases of a config whose tests are folders."""
    tests = _tests_below(file.suite.folder)
    if not tests:
        raise BadInput(f"{file.suite.folder}: no {_VALUES} or {_TORCH_VALUES} below it")
    config = content_of(file.document, _Operations)
    compiler_flags = tuple(map(Flag, config.iree_compile_flags))
    backend, _ = target_of(config.iree_compile_flags)
    run_of_all = file.complete(RunSpec(flags=config.iree_run_module_flags))
    for name, values in tests:
        if name in config.skip_compile_tests:
            continue
        program, run = _operation(file.suite, values)
        run, golden = joined_runs(run_of_all, run), 0.0
        if run.measured:
            golden = config.golden_times_ms.get(name, 0.0)
            if backend in (None, "llvm-cpu"):
                # where the runtime runs a program when nothing is said
                run = replace(run, device="local-task")
        yield file.case(
            "",
            Library(IREE.input_at(program), compiler_flags),
            None if name in config.skip_run_tests else run,
            name=name,
            limits=Limits(),
            run_ms=golden * config.tolerance_factor,
            failing=[
                stage
                for key, stages in _FAILING.items()
                for stage in stages
                if name in getattr(config, key)
            ],
        )


def _tests_below(folder: Path) -> list[tuple[str, Path]]:
    """Return the names of the tests below a folder, and the files with their values.

    The name is the path below the folder of the suite, which has `conftest.py`, and the
    last two folders of a Torch test.
    """
    parents = (folder, *folder.parents)
    suites = (path for path in parents if (path / "conftest.py").is_file())
    suite = next(suites, folder)
    tests = []
    for values in folder.rglob("run_module_io*"):
        if values.name == _TORCH_VALUES:
            tests.append(("/".join(values.parts[-3:-1]), values))
        elif values.name == _VALUES:
            tests.append((values.parent.relative_to(suite).as_posix(), values))
    return sorted(tests)


def _operation(suite: Suite, values: Path) -> tuple[Path, RunSpec]:
    """Return the program of a test, and how to run it."""
    if values.name == _TORCH_VALUES:
        return _torch_test(SuiteFile(suite, values))
    folder = values.parent
    programs = [*folder.glob("*.mlir"), *folder.glob("*.mlirbc")]
    if len(programs) != 1:
        message = f"a test has one program (*.mlir, *.mlirbc), not {len(programs)}."
        raise BadFiles([Problem(str(folder), None, None, message)])
    return programs[0], read_flagfile(values)


def _torch_test(file: SuiteFile) -> tuple[Path, RunSpec]:
    test = content_of(file.document, _TorchTest)
    inputs: list[str] = []
    skipped = 0
    for argument in test.flat_args:
        drawn = dict(argument["Formula"])
        tensor = RandomTensor(**drawn, seed=test.seed, skipped=skipped)
        name = f"input_{len(inputs)}.npy"
        path = file.suite.add_artifact(repr(tensor), name, tensor)
        inputs.append(f"@{path}")
        skipped += prod(tensor.shape)
    outputs = [
        file.file(each.url or each.value or "") for each in test.expected_output or ()
    ]
    is_benchmark = test.mode == "benchmark"
    run = RunSpec(
        inputs=tuple(inputs),
        expected=tuple(f"@{path}" for path in outputs),
        function=test.function_name,
        measured=is_benchmark,
        closeness=None if is_benchmark else (test.rtol, test.atol, test.equal_nan),
    )
    return file.file(test.file_name), file.complete(run)


def _onnx_models(file: SuiteFile) -> Iterator[Case]:
    """Yield the cases of a config of ONNX models, which are downloaded."""
    config = content_of(file.document, _OnnxModels)
    for test, outcome in config.tests_and_expected_outcomes.items():
        if outcome == "skip":
            continue
        match = _ONNX_TEST.match(test)
        if match is None:
            text = "tests/model_zoo/…_models_test.py::test_models[….onnx]"
            raise file.mistake(f'"{test}" is not a test, which is called "{text}".')
        path = "/".join(match.groups())
        program = file.program(f"{_MODELS}{path}", config.iree_compile_flags)
        arguments = ModelArguments(program.input.path)
        run = RunSpec(flags=config.iree_run_module_flags, arguments=arguments)
        name = path.removesuffix(".onnx")
        failing = _OUTCOMES[outcome]
        yield file.case("", program, file.complete(run), name=name, failing=failing)
