"""Read IREE's test suites: a folder of programs with their values, and config files
with flags and known failures.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from triage.compilers.iree.devices import IREE
from triage.compilers.iree.suite_files import Suite, SuiteFile
from triage.compilers.iree.suite_models import is_model_test, model_case
from triage.model.case import Case, Expectation, Flag, Library, RunSpec
from triage.model.errors import BadFiles, BadInput, Problem
from triage.model.execution import Limits, Stage
from triage.recipes.expectations import (
    ExpectationChange,
    ObservedCase,
    UpdatedFile,
)
from triage.recipes.mapping import MappingFormat, Text, Texts
from triage.recipes.run_keys import read_flagfile, without_tolerances

_VALUES = "run_module_io_flags.txt"
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
        cases: list[Case] = []
        for path in configs:
            for file in _files_of(suite, path):
                with suite.collecting():
                    if is_model_test(file.data):
                        cases.append(model_case(file))
                    else:
                        cases += _cases(file, len(configs) > 1)
        if suite.problems:
            raise BadFiles(suite.problems)
        return tuple(cases)

    def updated_config(
        self, path: Path, observed: Sequence[ObservedCase]
    ) -> UpdatedFile:
        """Return the text of a config that lists the failures of `observed`, which are
        cases of this config.

        Raises:
            BadFiles: The config cannot be read or edited.
            BadInput: It is a test of a model.
        """
        file = SuiteFile(Suite(path.parent, path.parent), path)
        if is_model_test(file.data):
            raise BadInput(f"{path} has no lists of failures; edit it by hand")
        config = file.content(SuiteConfig)
        old = {key: list(getattr(config, key)) for key in (_COMPILE, _RUN)}
        ends: dict[str, str | None] = {}
        for entry in observed:
            test = entry.case.name.partition("[config=")[0]
            was_run = entry.case.run is not None
            ends[test] = None if was_run or test not in old[_RUN] else _RUN
            if entry.failure is not None:
                is_run = entry.failure.stage in (Stage.RUN, Stage.COMPARE)
                ends[test] = _RUN if is_run else _COMPILE
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


def _files_of(suite: Suite, path: Path) -> list[SuiteFile]:
    """Return a config or a test of a model; all such tests below a folder, whose other
    files are modules.
    """
    files = []
    for place in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
        with suite.collecting():
            files.append(SuiteFile(suite, place))
    if not path.is_dir():
        return files
    tests = [file for file in files if is_model_test(file.data)]
    if not tests:
        raise BadInput(
            f'{path}: no file below it is a test: a JSON file with the key "type"'
        )
    return tests


def _cases(file: SuiteFile, is_one_of_several: bool) -> Iterator[Case]:
    """Yield the cases of a config, named for its file: several have one `config_name`.
    The name is part of the cases' names if it is one of several.
    """
    suite, name = file.suite, file.path.stem
    programs = []
    for test, folder in _tests(suite.folder):
        with suite.collecting():
            programs.append((test, _program(folder), read_flagfile(folder / _VALUES)))
    config = file.content(SuiteConfig)
    for test, program, values in programs:
        if test in config.skip_compile_tests:
            continue
        case = _case(file, config, test, program, values)
        if is_one_of_several:
            case = replace(case, name=f"{test}[config={name}]")
        yield case


def _program(test: Path) -> Path:
    programs = [path for path in test.iterdir() if path.suffix in (".mlir", ".mlirbc")]
    if len(programs) != 1:
        message = f"a test has one program (*.mlir, *.mlirbc), not {len(programs)}."
        raise BadFiles([Problem(str(test), None, None, message)])
    return programs[0]


def _case(
    file: SuiteFile, config: SuiteConfig, test: str, program: Path, values: RunSpec
) -> Case:
    flags = tuple(map(Flag, config.iree_compile_flags))
    library = Library(IREE.input_at(program), flags)
    case = file.case(file.path.stem, test, library, Limits())
    stages = [stage for key, stage in _STAGES if test in getattr(config, key)]
    expect = tuple(Expectation(None, stage=stage) for stage in stages)
    if test in config.skip_run_tests:
        return replace(case, expect=expect)
    run_flags, tolerances = without_tolerances(config.iree_run_module_flags)
    run = replace(
        values,
        flags=(*run_flags, *values.flags),
        tolerances=tuple({**dict(tolerances), **dict(values.tolerances)}.items()),
    )
    return replace(case, expect=expect, run=run)


def _tests(folder: Path) -> list[tuple[str, Path]]:
    """Return the names and folders of the tests below a folder. The name is the path
    below the folder with `conftest.py`.
    """
    above = (folder, *folder.parents)
    roots = (path for path in above if (path / "conftest.py").is_file())
    root = next(roots, folder)
    tests = sorted(
        Path(place) for place, _, files in os.walk(folder) if _VALUES in files
    )
    if not tests:
        raise BadInput(
            f"{folder}: no folder below it holds a program (*.mlir) and {_VALUES}"
        )
    return [(path.relative_to(root).as_posix(), path) for path in tests]
