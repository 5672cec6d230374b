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

from triage.compilers.iree.suite_files import Suite, SuiteFile
from triage.compilers.iree.suite_forms import (
    RUN_FAILS,
    Config,
    is_list_of_models,
    is_model_test,
    model_test,
    onnx_models,
    torch_test,
)
from triage.compilers.iree.targets import IREE, target_of
from triage.model.case import Case, Flag, Library, RunSpec
from triage.model.errors import BadFiles, BadInput, Problem
from triage.model.execution import Limits, Stage
from triage.recipes.document import Texts
from triage.recipes.expectations import (
    ExpectationChange,
    ObservedCase,
    UpdatedFile,
)
from triage.recipes.run_keys import read_flagfile, without_tolerances

_VALUES, _TORCH_VALUES = "run_module_io_flags.txt", "run_module_io.json"
# List of known failures -> their stages. The first is the one of tests without a run.
_FAILING = {
    "expected_compile_failures": (Stage.COMPILE,),
    "expected_run_failures": RUN_FAILS,
}


class SuiteConfig(Config):
    """A config file of the suites whose tests are folders."""

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
            BadFiles: With the mistakes of the first file that has any.
            BadInput: The folder has no test.
        """
        suite = Suite(folder.absolute(), downloads)
        stems = Counter(path.stem for path in configs)
        cases: list[Case] = []
        for path in configs:
            name = path.stem
            if stems[name] > 1:
                name = f"{path.absolute().parent.name}/{name}"
            for file in _files(suite, path):
                cases += _cases(file, name, several=len(configs) > 1)
        return tuple(cases)

    def updated_config(
        self, path: Path, observed: Sequence[ObservedCase]
    ) -> UpdatedFile:
        """Return the text of a config that lists the failures of `observed`, which are
        cases of this config.

        Raises BadFiles if the file is not a config with lists of failures.
        """
        file = SuiteFile(Suite(path.parent, path.parent), path)
        config = file.content(SuiteConfig)
        of_compile, of_run = _FAILING
        lists = {key: set(getattr(config, key)) for key in _FAILING}
        changes = []
        for entry in observed:
            test = entry.case.name.partition("[config=")[0]
            old = next((key for key, tests in lists.items() if test in tests), None)
            new = None
            if entry.failure:
                new = of_compile
                if entry.failure.stage in RUN_FAILS:
                    new = of_run
            if new == old:
                continue
            changes.append(ExpectationChange(test, old, new))
            if old:
                lists[old].remove(test)
            if new:
                lists[new].add(test)
        updated = {key: sorted(tests) for key, tests in lists.items()}
        text = json.dumps({**file.data, **updated}, indent=2)
        return UpdatedFile(path, changes, text=f"{text}\n")


def _files(suite: Suite, path: Path) -> list[SuiteFile]:
    """Return a file, or the tests of models below a folder, whose other files are
    modules.
    """
    if not path.is_dir():
        return [SuiteFile(suite, path)]
    files = [SuiteFile(suite, file) for file in sorted(path.rglob("*.json"))]
    tests = [file for file in files if is_model_test(file)]
    if not tests:
        raise BadInput(f"{path}: no JSON file below it is a test of a model")
    return tests


def _cases(file: SuiteFile, config: str, *, several: bool) -> Iterator[Case]:
    """Yield the cases of a JSON file. The name of the config is part of the cases'
    names if there are `several`.
    """
    if is_model_test(file):
        yield from model_test(file)
        return
    read_config = _operations
    if is_list_of_models(file):
        read_config = onnx_models
    for case in read_config(file):
        name = f"{case.name}[config={config}]" if several else case.name
        yield replace(case, recipe=config, name=name)


def _operations(file: SuiteFile) -> Iterator[Case]:
    """Yield the cases of a config whose tests are folders."""
    suite = file.suite
    tests = _tests(suite.folder)
    if not tests:
        raise BadInput(f"{suite.folder}: no {_VALUES} or {_TORCH_VALUES} below it")
    programs = {name: _program(suite, test) for name, test in tests}
    config = file.content(SuiteConfig)
    compiler_flags = tuple(map(Flag, config.iree_compile_flags))
    backend, _ = target_of(config.iree_compile_flags)
    flags, tolerances = without_tolerances(config.iree_run_module_flags)
    for name, (program, run) in programs.items():
        if name in config.skip_compile_tests:
            continue
        tolerances_of_both = dict(tolerances + run.tolerances)
        run = replace(
            run,
            flags=(*flags, *run.flags),
            tolerances=tuple(tolerances_of_both.items()),
        )
        if run.measured and backend in (None, "llvm-cpu"):
            # where the runtime runs a program when nothing is said
            run = replace(run, device="local-task")
        golden = 0.0
        if run.measured:
            golden = config.golden_times_ms.get(name, 0.0)
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


def _program(suite: Suite, test: Path) -> tuple[Path, RunSpec]:
    """Return the program of a test, and how to run it."""
    if (test / _TORCH_VALUES).is_file():
        return torch_test(SuiteFile(suite, test / _TORCH_VALUES))
    programs = [path for path in test.iterdir() if path.suffix in (".mlir", ".mlirbc")]
    if len(programs) != 1:
        message = f"a test has one program (*.mlir, *.mlirbc), not {len(programs)}."
        raise BadFiles([Problem(str(test), None, None, message)])
    return programs[0], read_flagfile(test / _VALUES)


def _tests(folder: Path) -> list[tuple[str, Path]]:
    """Return the names and folders of the tests below a folder.

    The name is the path below the folder of the suite, which has `conftest.py`, and the
    last two folders of a Torch test.
    """
    parents = (folder, *folder.parents)
    suites = (path for path in parents if (path / "conftest.py").is_file())
    suite = next(suites, folder)
    tests = []
    for root, _, files in os.walk(folder):
        path = Path(root)
        if _TORCH_VALUES in files:
            tests.append(("/".join(path.parts[-2:]), path))
        elif _VALUES in files:
            tests.append((path.relative_to(suite).as_posix(), path))
    return sorted(tests)
