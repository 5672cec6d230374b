"""Read IREE's test suites: a folder of programs with their values, and config files with flags and known failures."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, ValidationError

from triage.compilers.iree.devices import target_of
from triage.compilers.iree.flagfile import read_flagfile
from triage.compilers.iree.recipe import IREE
from triage.config.document import ConfigDocument, FileKind, read_json5, read_text
from triage.config.schema import MappingFormat, problems_of
from triage.config.values import as_text
from triage.model.case import Case, Expectation, Flag, Input, RunSpec, Target
from triage.model.errors import BadFiles, BadInput, Problem
from triage.model.execution import Limits, Stage

VALUES = "run_module_io_flags.txt"
_KIND = FileKind("suite config", 'write {"config_name": …, "iree_compile_flags": […], "iree_run_module_flags": […]}')
_RUN_LIMITS = Limits(timeout=120.0)

_Texts = list[Annotated[str, BeforeValidator(as_text)]]


class SuiteFormat(MappingFormat):
    """The keys of a config file of the suites whose tests are folders."""

    noun: ClassVar[str] = "a suite config"

    config_name: Annotated[str, BeforeValidator(as_text)]
    iree_compile_flags: _Texts
    iree_run_module_flags: _Texts
    skip_compile_tests: _Texts = Field(default=[])
    skip_run_tests: _Texts = Field(default=[])
    expected_compile_failures: _Texts = Field(default=[])
    expected_run_failures: _Texts = Field(default=[])


@dataclass(frozen=True, slots=True)
class SuiteConfig:
    """A config file. listed: key -> the tests that it lists."""

    path: Path
    name: str
    compile_flags: tuple[str, ...]
    run_flags: tuple[str, ...]
    listed: dict[str, frozenset[str]]

    def expectations(self, test: str) -> Iterator[Expectation]:
        """The known failures of a test. A wrong result is a failed run in these files."""
        if test in self.listed["expected_compile_failures"]:
            yield Expectation(None, stage=Stage.COMPILE)
        if test in self.listed["expected_run_failures"]:
            yield from (Expectation(None, stage=stage) for stage in (Stage.RUN, Stage.COMPARE))


def suite_cases(folder: Path, configs: Sequence[Path]) -> tuple[Case, ...]:
    """The cases of a suite: each test below `folder` with each config that does not skip it, in the order of their names.

    Raises:
        BadFiles: with every mistake of the configs and of the tests' files.
        BadInput: there is no test below the folder.
    """
    problems: list[Problem] = []
    known = [config for path in configs if (config := _read(path, problems)) is not None]
    root, tests = _root(folder), sorted(_tests(folder))
    if not tests:
        raise BadInput(f"{folder}: no folder below it holds a program (*.mlir) and {VALUES}")
    cases: list[Case] = []
    for test in tests:
        name = test.relative_to(root).as_posix()
        programs = sorted(path for path in test.iterdir() if path.suffix in (".mlir", ".mlirbc"))
        if len(programs) != 1:
            problems.append(Problem(str(test), None, None, f"a test has one program (*.mlir, *.mlirbc), not {len(programs)}."))
            continue
        try:
            values = read_flagfile(test / VALUES)
        except BadFiles as error:
            problems += error.problems
            continue
        cases += (
            _case(config, name if len(known) == 1 else f"{name}[config={config.name}]", name, programs[0], values)
            for config in known
            if name not in config.listed["skip_compile_tests"]
        )
    if problems:
        raise BadFiles(problems)
    return tuple(cases)


def _case(config: SuiteConfig, name: str, test: str, program: Path, values: RunSpec) -> Case:
    backend, _ = target_of(config.compile_flags)
    run = replace(values, flags=(*config.run_flags, *values.flags), limits=_RUN_LIMITS)
    return Case(
        recipe=config.name,
        name=name,
        summary="",
        compiler=IREE.name,
        source=config.path,
        input=Input(program, IREE.inputs[program.suffix]),
        target=Target(backend or "llvm-cpu"),
        flags=tuple(map(Flag, config.compile_flags)),
        expect=tuple(config.expectations(test)),
        run=None if test in config.listed["skip_run_tests"] else run,
    )


def _read(path: Path, problems: list[Problem]) -> SuiteConfig | None:
    try:
        document = read_json5(str(path), read_text(path, _KIND), _KIND)
    except BadFiles as error:
        problems += error.problems
        return None
    values = _checked(document)
    problems += document.problems
    if values is None or document.problems:
        return None
    lists = ("skip_compile_tests", "skip_run_tests", "expected_compile_failures", "expected_run_failures")
    return SuiteConfig(
        path.absolute(),
        values.config_name,
        tuple(values.iree_compile_flags),
        tuple(values.iree_run_module_flags),
        {key: frozenset(getattr(values, key)) for key in lists},
    )


def _checked(document: ConfigDocument) -> SuiteFormat | None:
    data: Any = document.data
    try:
        return SuiteFormat.model_validate(data)
    except ValidationError as error:
        document.problems += problems_of(error, document, SuiteFormat)
        return None


def _root(folder: Path) -> Path:
    """The folder that names of tests are relative to: the nearest one with the suite's `conftest.py`, else `folder`."""
    folder = folder.absolute()
    return next((path for path in (folder, *folder.parents) if (path / "conftest.py").is_file()), folder)


def _tests(folder: Path) -> Iterator[Path]:
    """The folders of tests below a folder."""
    for path, folders, files in os.walk(folder.absolute()):
        folders[:] = [name for name in folders if not name.startswith(".")]
        if VALUES in files:
            yield Path(path)
