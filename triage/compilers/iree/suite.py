"""Read IREE's test suites: a folder of programs with their values, and config files
with flags and known failures.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field, PositiveFloat

from triage.compilers.iree.devices import IREE, target_of
from triage.compilers.iree.suite_files import EMPTY, Suite, SuiteFile
from triage.compilers.iree.suite_models import (
    is_onnx_models,
    onnx_cases,
    reader_of,
    torch_test,
)
from triage.model.case import Case, Flag, Library, RunSpec
from triage.model.errors import BadFiles, BadInput, Problem
from triage.model.execution import Limits, Stage
from triage.recipes.document import read_document
from triage.recipes.expectations import (
    ExpectationChange,
    ObservedCase,
    UpdatedFile,
)
from triage.recipes.mapping import MappingFormat, Text, Texts
from triage.recipes.run_keys import read_flagfile, without_tolerances

_VALUES, _TORCH_VALUES = "run_module_io_flags.txt", "run_module_io.json"
_COMPILE, _RUN = "expected_compile_failures", "expected_run_failures"
# a wrong result is a failed run there
_STAGES = ((_COMPILE, Stage.COMPILE), (_RUN, Stage.RUN), (_RUN, Stage.COMPARE))


class SuiteConfig(MappingFormat):
    """A config file of the suites whose tests are folders."""

    config_name: Text
    iree_compile_flags: Texts
    iree_run_module_flags: Texts
    skip_compile_tests: Texts = ()
    skip_run_tests: Texts = ()
    expected_compile_failures: Texts = ()
    expected_run_failures: Texts = ()
    golden_times_ms: dict[str, PositiveFloat] = Field(default={})
    tolerance_factor: PositiveFloat = Field(default=1.1, examples=[1.1])


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
            BadFiles: With the mistakes of all configs and tests.
            BadInput: The folder has no test.
        """
        suite = Suite(folder, downloads)
        names = config_names([path for path in configs if path.is_file()])
        cases: list[Case] = []
        for path in configs:
            with suite.collecting():
                if path.is_dir():
                    files = _model_tests(suite, path)
                else:
                    files = [SuiteFile(suite, path)]
                for file in files:
                    with suite.collecting():
                        name = names.get(file.path, "")
                        cases += _cases(file, name, several=len(configs) > 1)
        if suite.problems:
            # a quality test is read for its benchmark as well
            raise BadFiles(list(dict.fromkeys(suite.problems)))
        return tuple(cases)

    def updated_config(
        self, path: Path, observed: Sequence[ObservedCase]
    ) -> UpdatedFile:
        """Return the text of a config that lists the failures of `observed`, which are
        cases of this config.

        Raises:
            BadFiles: The config cannot be read or edited.
            BadInput: It is not a config with lists of failures.
        """
        file = SuiteFile(Suite(path.parent, path.parent), path)
        if is_onnx_models(file.data) or reader_of(file.data):
            raise BadInput(f"{path} has no lists of failures; edit it by hand")
        config = file.content(SuiteConfig)
        old = {key: list(getattr(config, key)) for key in (_COMPILE, _RUN)}
        ends: dict[str, str | None] = {}
        for entry in observed:
            test = entry.case.name.partition("[config=")[0]
            ends[test] = None
            if entry.failure is not None:
                ends[test] = _COMPILE
                if entry.failure.stage in (Stage.RUN, Stage.COMPARE):
                    ends[test] = _RUN
            elif entry.case.run is None and test in old[_RUN]:  # nothing was run
                ends[test] = _RUN
        lists = {}
        for key, tests in old.items():
            left = [test for test in tests if ends.get(test, key) == key]
            left += [test for test in ends if ends[test] == key and test not in tests]
            if tests == sorted(tests):
                left.sort()
            if left != tests:
                lists[key] = left
        listed = {test: key for key, tests in old.items() for test in tests}
        changes = [
            ExpectationChange(test, listed.get(test), end)
            for test, end in ends.items()
            if listed.get(test) != end
        ]
        text = json.dumps({**file.data, **lists}, indent=2)
        return UpdatedFile(path, changes, text=f"{text}\n")


def _model_tests(suite: Suite, folder: Path) -> list[SuiteFile]:
    """Return the tests of models below a folder, whose other files are modules."""
    files = [SuiteFile(suite, file) for file in sorted(folder.rglob("*.json"))]
    tests = [file for file in files if reader_of(file.data)]
    if not tests:
        raise BadInput(
            f"{folder}: no file below it is a test: a test is a JSON file with the "
            'key "type" or "run_function"'
        )
    return tests


def config_names(configs: Sequence[Path]) -> dict[Path, str]:
    """Return the name of each config: its `config_name`, or that of its file where
    another config next to it, or among these, has the same one.
    """
    configs = [path.absolute() for path in configs]
    near = {
        *configs,
        *(file for path in configs for file in path.parent.glob("*.json")),
    }
    declared = {path: _own_name(path) for path in near}
    shared = Counter(declared.values())
    stems = Counter(path.stem for path in configs)
    names = {}
    for path in configs:
        name = declared[path]
        if shared[name] > 1:
            name = (
                path.stem
                if stems[path.stem] == 1
                else f"{path.parent.name}/{path.stem}"
            )
        names[path] = name
    return names


def _own_name(path: Path) -> str:
    """Return the `config_name` of a file; empty if it has none."""
    try:
        data = read_document(path, EMPTY, json=True).data
    except BadFiles:
        return ""
    return str(data.get("config_name", ""))


def _cases(file: SuiteFile, name: str, *, several: bool) -> Iterator[Case]:
    """Yield the cases of a JSON file. The name of the config is part of the cases'
    names if there are `several`.
    """
    suite = file.suite
    reader = reader_of(file.data)
    if reader:
        yield from reader(file)
        return
    if is_onnx_models(file.data):
        yield from onnx_cases(file, name, several=several)
        return
    tests = [
        (test_name, test)
        for test_name, test in _tests(suite.folder)
        if test.is_relative_to(suite.folder)
    ]
    if not tests:
        raise BadInput(
            f"{suite.folder}: no folder below it holds a program (*.mlir) and "
            f"{_VALUES} or {_TORCH_VALUES}"
        )
    programs = []
    for test_name, test in tests:
        with suite.collecting():
            programs.append((test_name, *_program(suite, test)))
    config = file.content(SuiteConfig)
    for test_name, program, values in programs:
        if test_name in config.skip_compile_tests:
            continue
        case = replace(_case(file, config, test_name, program, values), recipe=name)
        if several:
            case = replace(case, name=f"{test_name}[config={name}]")
        yield case


def _program(suite: Suite, test: Path) -> tuple[Path, RunSpec]:
    """Return the program of a test, and how to run it."""
    if (test / _TORCH_VALUES).is_file():
        return torch_test(SuiteFile(suite, test / _TORCH_VALUES))
    programs = [path for path in test.iterdir() if path.suffix in (".mlir", ".mlirbc")]
    if len(programs) != 1:
        message = f"a test has one program (*.mlir, *.mlirbc), not {len(programs)}."
        raise BadFiles([Problem(str(test), None, None, message)])
    return programs[0], read_flagfile(test / _VALUES)


def _case(
    file: SuiteFile, config: SuiteConfig, test: str, program: Path, values: RunSpec
) -> Case:
    flags, tolerances = without_tolerances(config.iree_run_module_flags)
    run = replace(
        values,
        flags=(*flags, *values.flags),
        tolerances=tuple({**dict(tolerances), **dict(values.tolerances)}.items()),
    )
    backend, _ = target_of(config.iree_compile_flags)
    if values.measured and backend in (None, "llvm-cpu"):
        # where the runtime runs a program when nothing is said
        run = replace(run, device="local-task")
    thresholds = {}
    if values.measured and test in config.golden_times_ms:
        golden = config.golden_times_ms[test]
        thresholds["run_ms"] = config.tolerance_factor * golden
    return file.case(
        config.config_name,
        Library(IREE.input_at(program), tuple(map(Flag, config.iree_compile_flags))),
        None if test in config.skip_run_tests else run,
        name=test,
        limits=Limits(),
        thresholds=thresholds,
        failing=[stage for key, stage in _STAGES if test in getattr(config, key)],
    )


def _tests(folder: Path) -> list[tuple[str, Path]]:
    """Return the names and folders of the tests of the suite that a folder belongs to.

    The name is the path below the folder with `conftest.py`, and the last two folders
    of a Torch test.
    """
    folder = folder.absolute()
    root = next(
        (
            path
            for path in (folder, *folder.parents)
            if (path / "conftest.py").is_file()
        ),
        folder,
    )
    tests = {}
    for place, _, files in os.walk(root):
        path = Path(place)
        if _TORCH_VALUES in files:
            tests[path] = "/".join(path.parts[-2:])
        elif _VALUES in files:
            tests[path] = path.relative_to(root).as_posix()
    return [(tests[path], path) for path in sorted(tests)]
