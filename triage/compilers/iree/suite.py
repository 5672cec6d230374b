"""Read IREE's test suites: a folder of programs with their values, and config files with flags and known failures."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from triage.compilers.iree.devices import target_of
from triage.compilers.iree.flagfile import read_flagfile
from triage.compilers.iree.model_suite import ModelTests, checked_test, document_in, model_tests
from triage.compilers.iree.onnx_model_suite import is_onnx_models, onnx_model_cases
from triage.compilers.iree.recipe import IREE
from triage.compilers.iree.sharktank_suite import SharktankTests, is_sharktank
from triage.compilers.iree.torch_suite import TORCH_VALUES, read_torch_test
from triage.config.document import ConfigDocument, FileKind, read_json5, read_text
from triage.config.json_lists import ListEdit, edit_lists
from triage.config.schema import MappingFormat, Positive, Text
from triage.model.case import Case, Expectation, Flag, Input, RunSpec, Target
from triage.model.errors import BadFiles, BadInput, Problem
from triage.model.execution import Limits, Stage
from triage.recipes.observed import ExpectationChange, ObservedCase, UpdatedFile

VALUES = "run_module_io_flags.txt"
_KIND = FileKind("suite config", 'write {"config_name": …, "iree_compile_flags": […], "iree_run_module_flags": […]}')
_RUN_LIMITS = Limits(timeout=120.0)
_SKIPPED = ("skip_compile_tests", "skip_run_tests")
_COMPILE, _RUN = _EXPECTED = ("expected_compile_failures", "expected_run_failures")

_Texts = list[Text]


class SuiteFormat(MappingFormat):
    """The keys of a config file of the suites whose tests are folders."""

    noun: ClassVar[str] = "a suite config"

    config_name: Text
    iree_compile_flags: _Texts
    iree_run_module_flags: _Texts
    skip_compile_tests: _Texts = Field(default=[])
    skip_run_tests: _Texts = Field(default=[])
    expected_compile_failures: _Texts = Field(default=[])
    expected_run_failures: _Texts = Field(default=[])
    golden_times_ms: dict[str, Positive] = Field(default={})
    tolerance_factor: Positive = Field(default=1.1, examples=[1.1])


@dataclass(frozen=True, slots=True)
class SuiteConfig:
    """A config file. listed: key -> the tests that it lists; goldens: test -> largest run time in ms; document: where."""

    path: Path
    name: str
    compile_flags: tuple[str, ...]
    run_flags: tuple[str, ...]
    listed: dict[str, frozenset[str]]
    goldens: dict[str, float]
    document: ConfigDocument

    def missing(self, tests: Collection[str]) -> Iterator[Problem]:
        """Yield the listed tests that are not among those of the suites, each with its position."""
        for key in (*_SKIPPED, *_EXPECTED):
            for index, test in enumerate(self.document.data.get(key, ())):
                if test not in tests:
                    yield self.document.problem((key, index), f'there is no test "{test}"')

    def expectations(self, test: str) -> Iterator[Expectation]:
        """The known failures of a test. A wrong result is a failed run in these files."""
        if test in self.listed[_COMPILE]:
            yield Expectation(None, stage=Stage.COMPILE)
        if test in self.listed[_RUN]:
            yield from (Expectation(None, stage=stage) for stage in (Stage.RUN, Stage.COMPARE))


def suite_cases(
    folder: Path, configs: Sequence[Path], downloads: Path, note: Callable[[str], None] = lambda _: None
) -> tuple[Case, ...]:
    """The cases of a suite: each test below `folder` with each config that does not skip it, in the order of their names.

    A config that is a test of a whole model itself names its modules by their path in `folder`. A folder stands for the tests
    of this kind below it.

    downloads: where files from URLs are kept; note: receives which listed tests do not exist.

    Raises:
        BadFiles: with every mistake of the configs and of the tests' files.
        BadInput: there is no test below a folder.
    """
    problems: list[Problem] = []
    models = [path for path in configs if path.is_dir() or _is_model_test(_data(path))]
    typed = ModelTests(folder.absolute(), downloads, problems)
    sharktank = SharktankTests(folder.absolute(), typed, problems)
    cases = []
    for file, document in model_tests(models, _is_model_test, problems):
        case = (sharktank if is_sharktank(document.data) else typed).case(file, document)
        cases += [case] if case else []
    if models and not cases and not problems:
        raise BadInput(f'{models[0]}: no file below it is a test: a test is a JSON file with the key "type" or "run_function"')
    lists = [path for path in configs if path not in models and is_onnx_models(_data(path))]
    documents = [read_json5(path, _KIND) for path in lists]
    cases += onnx_model_cases(folder, documents, downloads, problems)
    own = [path for path in configs if path not in (*models, *lists)]
    known = [config for path in own if (config := _read(path, problems)) is not None]
    if own:
        cases += _folder_cases(folder, known, downloads, problems)
    if problems:
        raise BadFiles(list(dict.fromkeys(problems)))  # a quality test is read for its benchmark as well
    for config in known:
        for problem in config.missing(_names([folder])):
            note(f"{problem}; `triage expect update --prune` removes it")
    return tuple(cases)


def _data(path: Path) -> Any:
    try:
        return read_json5(path, _KIND).data
    except BadFiles:  # reported where the file is read as a config
        return None


def _is_model_test(data: Any) -> bool:
    return is_sharktank(data) or (isinstance(data, dict) and "type" in data)


def _folder_cases(folder: Path, known: Sequence[SuiteConfig], downloads: Path, problems: list[Problem]) -> Iterator[Case]:
    """Yield the cases of the tests that are folders."""
    root, tests = _root(folder), sorted(_tests(folder))
    if not tests:
        raise BadInput(f"{folder}: no folder below it holds a program (*.mlir) and {VALUES} or {TORCH_VALUES}")
    for test in tests:
        name = _name(test, root)
        try:
            program, values = _program(test, downloads)
        except BadFiles as error:
            problems += error.problems
            continue
        yield from (
            _case(config, name if len(known) == 1 else f"{name}[config={config.name}]", name, program, values)
            for config in known
            if name not in config.listed["skip_compile_tests"]
        )


def _program(test: Path, downloads: Path) -> tuple[Path, RunSpec]:
    """The program of a test, and how to run it. BadFiles with every mistake."""
    if (test / TORCH_VALUES).is_file():
        return read_torch_test(test / TORCH_VALUES, downloads)
    programs = sorted(path for path in test.iterdir() if path.suffix in (".mlir", ".mlirbc"))
    if len(programs) != 1:
        raise BadFiles([Problem(str(test), None, None, f"a test has one program (*.mlir, *.mlirbc), not {len(programs)}.")])
    return programs[0], read_flagfile(test / VALUES)


def updated_config(folders: Sequence[Path], path: Path, observed: Sequence[ObservedCase], *, prune: bool) -> UpdatedFile:
    """Update the lists of expected failures in a config.

    observed: of cases with this config; prune: remove tests that exist in none of the folders from the lists.

    Raises:
        BadFiles: the file cannot be read, or the comments in a list cannot be kept.
        BadInput: the file has no lists.
    """
    if is_onnx_models(data := _data(path)) or _is_model_test(data):
        raise BadInput(f"{path}: only configs with {' and '.join(_EXPECTED)} can be updated; edit this file by hand")
    problems: list[Problem] = []
    config = _read(path, problems)
    if config is None:
        raise BadFiles(problems)
    remove: dict[str, set[str]] = {key: set() for key in _EXPECTED}
    add: dict[str, set[str]] = {key: set() for key in _EXPECTED}
    changes = []
    for entry in observed:
        test = entry.case.name.removesuffix(f"[config={config.name}]")
        fails = None if entry.failure is None else _RUN if entry.failure.stage in (Stage.RUN, Stage.COMPARE) else _COMPILE
        before = [key for key in _EXPECTED if test in config.listed[key]]
        wrong = [key for key in before if key != fails and (entry.case.run is not None or fails is not None or key == _COMPILE)]
        for key in wrong:
            remove[key].add(test)
        if fails is not None and fails not in before:
            add[fails].add(test)
        if wrong or (fails is not None and fails not in before):
            changes.append(ExpectationChange(test, before[0] if before else None, fails))
    tests = _names(folders) if prune else frozenset()
    for key in _EXPECTED if prune else ():
        gone = set(config.listed[key] - tests)
        remove[key] |= gone
        changes += [ExpectationChange(test, key, None) for test in sorted(gone)]
    text = read_text(path, _KIND)
    edits = {key: ListEdit(remove[key], add[key]) for key in _EXPECTED}
    return UpdatedFile(path, text, edit_lists(str(path), text, edits), tuple(changes))


def _case(config: SuiteConfig, name: str, test: str, program: Path, values: RunSpec) -> Case:
    backend, _ = target_of(config.compile_flags)
    run = replace(values, flags=(*config.run_flags, *values.flags), limits=_RUN_LIMITS)
    if run.measured and backend in (None, "llvm-cpu") and not any(flag.startswith("--device=") for flag in run.flags):
        run = replace(run, device="local-task")  # where the runtime runs a program when nothing is said
    golden = config.goldens.get(test)
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
        benchmarks=(run,) if run.measured else (),
        goldens=(("run_ms", golden),) if golden is not None and run.measured else (),
    )


def _read(path: Path, problems: list[Problem]) -> SuiteConfig | None:
    document = document_in(path, _KIND, problems)
    values = checked_test(document, SuiteFormat, problems) if document else None
    if document is None or values is None:
        return None
    return SuiteConfig(
        path.absolute(),
        values.config_name,
        tuple(values.iree_compile_flags),
        tuple(values.iree_run_module_flags),
        {key: frozenset(getattr(values, key)) for key in (*_SKIPPED, *_EXPECTED)},
        {test: values.tolerance_factor * time for test, time in values.golden_times_ms.items()},
        document,
    )


def _root(folder: Path) -> Path:
    """The folder that names of tests are relative to: the nearest one with the suite's `conftest.py`, else `folder`."""
    folder = folder.absolute()
    return next((path for path in (folder, *folder.parents) if (path / "conftest.py").is_file()), folder)


def _name(test: Path, root: Path) -> str:
    """The name of a test: its path, and the last two folders of a Torch test."""
    return "/".join(test.parts[-2:]) if (test / TORCH_VALUES).is_file() else test.relative_to(root).as_posix()


def _names(folders: Sequence[Path]) -> frozenset[str]:
    """The names of all tests of the suites that folders belong to."""
    return frozenset(_name(test, root) for root in {_root(folder) for folder in folders} for test in _tests(root))


def _tests(folder: Path) -> Iterator[Path]:
    """The folders of tests below a folder."""
    for path, folders, files in os.walk(folder.absolute()):
        folders[:] = [name for name in folders if not name.startswith(".")]
        if VALUES in files or TORCH_VALUES in files:
            yield Path(path)
