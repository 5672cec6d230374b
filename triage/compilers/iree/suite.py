"""Read IREE's test suites. A config lists tests of operations, which are folders with a
program and its values, or ONNX models. A test of a whole model is a file of its own, in
the form of `torch_models` or of sharktank.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

from triage.compilers.iree.suite_files import (
    LIMITS,
    GoldenNumber,
    ModelArguments,
    ModelTest,
    OnnxConfig,
    OperationsConfig,
    RandomTensor,
    RandomWeights,
    SuiteFile,
    TorchTest,
)
from triage.compilers.iree.targets import IREE, named_target
from triage.model.case import Case, Expectation, Flag, Library, RunSpec, Target
from triage.model.errors import BadFiles, BadInput, Problem
from triage.model.execution import Limits, Stage
from triage.model.outcome import Probe
from triage.recipes.expectations import ExpectationChange, UpdatedFile
from triage.recipes.run_keys import joined_runs, read_flagfile

_VALUES = "run_module_io_flags.txt"
_TORCH_VALUES = "run_module_io.json"
_MODELS = "https://huggingface.co/onnxmodelzoo/legacy_models/resolve/main/"
_ONNX_TEST = re.compile(
    r"tests/model_zoo/([\w./-]+)_models_test\.py::test_models\[([^\]]+\.onnx)\]\Z"
)
# a wrong result is a failed run in IREE's suites
_RUN_FAILS = (Stage.RUN, Stage.COMPARE)
_OUTCOMES: dict[str, tuple[Stage, ...]] = {
    "pass": (),
    "fail-import": (Stage.IMPORT,),
    "fail-compile": (Stage.COMPILE,),
    "fail-run": _RUN_FAILS,
}
# List of known failures -> their stages. The first is the one of tests without a run.
_FAILING = {
    "expected_compile_failures": (Stage.COMPILE,),
    "expected_run_failures": _RUN_FAILS,
}
_CPU = Target("llvm-cpu")  # a chip such as `host` says nothing
_SCOPE = "model"  # of the weights of every model of sharktank
_LIBRARY = "--iree-codegen-transform-dialect-library="


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
        suite = SuiteFile(folder, folder.absolute(), downloads)
        stems = Counter(path.stem for path in configs)
        cases: list[Case] = []
        for path in configs:
            paths = sorted(path.rglob("*.json")) if path.is_dir() else [path]
            files = list(map(suite.other_file, paths))
            tests = list(filter(_is_model_test, files))
            cases += [case for file in tests for case in _model_test(file)]
            if tests:
                continue
            if path.is_dir():
                raise BadInput(f"{path}: no JSON file below it is a test of a model")
            [file] = files
            listed = _operations(file)
            if "tests_and_expected_outcomes" in file.keys:
                listed = _onnx_models(file)
            config = path.stem
            if stems[config] > 1:
                config = f"{file.path.parent.name}/{config}"
            suffix = f"[config={config}]" if len(configs) > 1 else ""
            cases += [
                replace(case, recipe=config, name=f"{case.name}{suffix}")
                for case in listed
            ]
        return tuple(cases)

    def updated_config(self, path: Path, probes: Sequence[Probe]) -> UpdatedFile:
        """Return the text of a config that lists the failures that were seen of its
        cases.

        Raises BadFiles if the file is not a config with lists of failures.
        """
        file = SuiteFile(path, path.parent, path.parent)
        config = file.read(OperationsConfig)
        of_compile, of_run = _FAILING
        before = {test: key for key in _FAILING for test in getattr(config, key)}
        after = dict(before)
        changes = []
        for probe in probes:
            test = probe.case.name.partition("[config=")[0]
            failure = probe.outcome.failure
            old = after.pop(test, None)
            if failure:
                after[test] = of_run if failure.stage in _RUN_FAILS else of_compile
            if after.get(test) != old:
                changes.append(ExpectationChange(test, old, after.get(test)))
        lists = {
            key: sorted(test for test, named in after.items() if named == key)
            for key in _FAILING
        }
        return UpdatedFile(path, changes, text=file.text_with(lists))


def _case(
    file: SuiteFile,
    name: str,
    program: Library,
    run: RunSpec | None,
    failing: Sequence[Stage],
    limits: Limits = LIMITS,
    **thresholds: float | None,
) -> Case:
    """Return the case of a test.

    Args:
        file: Its config, or the test.
        name: Its name.
        program: What is compiled.
        run: How it is run; one that is measured is a benchmark, too.
        failing: The stages of its known failures.
        limits: Of the compile.
        thresholds: The largest accepted values of metrics; None for no limit.
    """
    target = named_target([flag.text for flag in program.flags])
    if target is None or target.backend == _CPU.backend:
        target = _CPU
    benchmarks: tuple[RunSpec, ...] = ()
    if run and run.measured:
        flags = [flag for flag in run.flags if not flag.startswith("--benchmark_")]
        benchmarks = (replace(run, flags=tuple(flags)),)
    return Case(
        recipe="",
        name=name,
        summary="",
        compiler=IREE.name,
        source=file.path,
        input=program.input,
        target=target,
        flags=program.flags,
        limits=limits,
        artifacts=program.artifacts,
        run=run,
        benchmarks=benchmarks,
        thresholds=tuple((key, limit) for key, limit in thresholds.items() if limit),
        expect=tuple(Expectation(None, stage=stage) for stage in failing),
    )


def _operations(file: SuiteFile) -> Iterator[Case]:
    """Yield the cases of a config whose tests are folders."""
    folder = file.folder
    tests = _tests_below(folder)
    if not tests:
        raise BadInput(f"{folder}: no {_VALUES} or {_TORCH_VALUES} below it")
    config = file.read(OperationsConfig)
    compiler_flags = tuple(map(Flag, config.iree_compile_flags))
    target = named_target(config.iree_compile_flags)
    run_of_all = file.complete(RunSpec(flags=config.iree_run_module_flags))
    for name, values in tests:
        if name in config.skip_compile_tests:
            continue
        program, run = _operation(file.other_file(values))
        run, golden = joined_runs(run_of_all, run), 0.0
        if run.measured:
            golden = config.golden_times_ms.get(name, 0.0)
            if target is None or target.backend == _CPU.backend:
                # where the runtime runs a program when nothing is said
                run = replace(run, device="local-task")
        lists = [key for key in _FAILING if name in getattr(config, key)]
        yield _case(
            file,
            name,
            Library(IREE.input_at(program), compiler_flags),
            None if name in config.skip_run_tests else run,
            [stage for key in lists for stage in _FAILING[key]],
            Limits(),
            run_ms=golden * config.tolerance_factor,
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


def _operation(values: SuiteFile) -> tuple[Path, RunSpec]:
    """Return the program of a test, and how to run it."""
    if values.path.name == _TORCH_VALUES:
        return _torch_test(values)
    folder = values.path.parent
    suffixes = (".mlir", ".mlirbc")
    programs = [path for path in folder.iterdir() if path.suffix in suffixes]
    if len(programs) != 1:
        message = f"a test has one program (*.mlir, *.mlirbc), not {len(programs)}."
        raise BadFiles([Problem(str(folder), None, None, message)])
    return programs[0], read_flagfile(values.path)


def _torch_test(file: SuiteFile) -> tuple[Path, RunSpec]:
    test = file.read(TorchTest)
    inputs: list[str] = []
    skipped = 0
    for argument in test.flat_args:
        drawn = vars(argument["Formula"])
        tensor = RandomTensor(**drawn, seed=test.seed, skipped=skipped)
        name = f"input_{len(inputs)}.npy"
        path = file.add_artifact(repr(tensor), name, tensor)
        inputs.append(f"@{path}")
        skipped += prod(tensor.shape)
    outputs = [
        file.locate(value.url or value.value or "")
        for value in test.expected_output or ()
    ]
    is_benchmark = test.mode == "benchmark"
    run = RunSpec(
        inputs=tuple(inputs),
        expected=tuple(f"@{path}" for path in outputs),
        function=test.function_name,
        measured=is_benchmark,
        closeness=None if is_benchmark else (test.rtol, test.atol, test.equal_nan),
    )
    return file.locate(test.file_name), file.complete(run)


def _onnx_models(file: SuiteFile) -> Iterator[Case]:
    """Yield the cases of a config of ONNX models, which are downloaded."""
    config = file.read(OnnxConfig)
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
        yield _case(file, name, program, file.complete(run), failing)


def _is_model_test(file: SuiteFile) -> bool:
    """Return whether a file is a test of a model, and not a module that tests name."""
    is_module = file.keys <= {"mlir", "compiler_flags"}
    return not is_module and not file.keys.isdisjoint(("type", "function_run", "mlir"))


def _model_test(file: SuiteFile) -> Iterator[Case]:
    """Yield the case of a test of a model, unless it is not for this chip."""
    test = file.read(ModelTest)
    machine = _Machine(file)
    if machine.chip in test.specific_chip_to_ignore:
        return
    names = test.modules or test.module or ("",)
    kind = test.type
    models = [file]
    if kind:
        models = [_module(file, name) for name in names]
    elif test.function_run:
        kind = "benchmark"
        models = [_quality_test(file, name) for name in names]
    programs = [_program(model) for model in models]
    pipeline = test.pipeline_mlir
    if test.mlir_file_name is not None:
        pipeline = str(file.file_below(test.mlir_file_name))
    if pipeline is not None:
        flags = (*test.pipeline_compiler_flags, *test.compile_flags, *machine.flags)
        programs.append(file.program(pipeline, flags))
    run = None
    if kind != "compstat" and not test.compile_only:
        run = RunSpec(
            inputs=tuple(map(file.value, test.inputs)),
            expected=tuple(map(file.value, (*test.outputs, *test.expected_outputs))),
            parameters=tuple(_weights_of(file, test, models)),
            flags=(*test.run_args, *test.threshold_args, *test.benchmark_flags),
            libraries=tuple(programs[1:]),
            device=test.device,
            function=test.run_function or test.function_run,
            measured=kind == "benchmark",
        )
        run = file.complete(run)
    golden = machine.golden(test.golden_time_ms) or 0.0
    factors = (test.tolerance_factor, test.golden_time_tolerance_multiplier)
    failing = list(_RUN_FAILS) if test.run_test_expecting_to_fail else []
    if machine.chip in test.compile_chip_expecting_to_fail:
        failing.append(Stage.COMPILE)
    case = _case(
        file,
        os.path.relpath(file.path.with_suffix(""), file.folder),
        programs[0],
        run,
        failing,
        run_ms=golden * (machine.golden(*factors) or 1.1),
        dispatches=machine.golden(test.golden_dispatch_count, test.golden_dispatch),
        artifact_bytes=machine.golden(test.golden_binary_size, test.golden_size),
    )
    yield replace(case, recipe=kind or "quality")


class _Machine:
    """The machine that a test is for. As in sharktank's own harness, the environment
    names its chip.
    """

    def __init__(self, file: SuiteFile) -> None:
        self.chip = ""
        self.name = "cpu"
        self.flags: list[str] = []
        if file.path.stem.endswith("_rocm"):
            self.chip = os.environ.get("ROCM_CHIP", "gfx942")
            self.name = os.environ.get("SKU", "mi300")
            self.flags = [f"--iree-rocm-target={self.chip}"]

    def golden(self, *numbers: GoldenNumber) -> float | None:
        """Return the first number for this machine, if there is one."""
        for number in numbers:
            if isinstance(number, dict):
                number = number.get(self.name)
            if number:
                return number
        return None


def _module(file: SuiteFile, name: str) -> SuiteFile:
    path = file.folder / f"{name.removesuffix('.json')}.json"
    if not path.is_file():
        raise file.mistake(f'there is no module "{name}": {path} does not exist.')
    return file.other_file(path)


def _quality_test(file: SuiteFile, module: str) -> SuiteFile:
    """Return the quality test that a benchmark names: by its folder and its file,
    joined by `_`. A benchmark without modules is named as its test.
    """
    name = f"{file.path.parent.name}_{file.path.stem}"
    if module:
        name = f"{module}_{file.path.stem.rpartition('_')[2]}"
    for path in sorted(file.folder.rglob("*.json")):
        if f"{path.parent.name}_{path.stem}" == name and path != file.path:
            test = file.other_file(path)
            if "mlir" in test.keys:
                return test
    folder = file.folder
    raise file.mistake(f'there is no quality test for "{name}" below {folder}.')


def _program(file: SuiteFile) -> Library:
    """Return the program of a module or of a quality test."""
    model = file.read(ModelTest)
    machine = _Machine(file)
    flags = list(model.compiler_flags)
    tuner = model.tuner_file.get(machine.name)
    if tuner is not None:
        flags.append(f"{_LIBRARY}{file.file_below(tuner)}")
    return file.program(model.mlir, [*flags, *machine.flags])


def _weights_of(
    file: SuiteFile, test: ModelTest, models: Sequence[SuiteFile]
) -> Iterator[tuple[str, Path]]:
    """Yield the scopes of the weights of a test, and their files."""
    for entry in test.weights:
        module = _module(file, entry.module) if entry.module else file
        url = entry.url if entry.type == "url" else None
        yield entry.scope, _weights(module, url, entry.seed)
    if not test.type:
        for model in models:
            url = model.read(ModelTest).real_weights
            yield _SCOPE, _weights(model, url or None, None)


def _weights(file: SuiteFile, url: str | None, seed: int | None) -> Path:
    """Return the weights at an address. Without one, return random weights of the
    program in a file, or zeros without a seed.
    """
    if url is not None:
        return file.locate(url)
    program = _program(file)
    path = program.input.path
    weights = RandomWeights(path, seed)
    name = "weights.safetensors"
    return file.add_artifact(f"{path}\0{seed}", name, weights, *program.artifacts)
