"""Read IREE's test suites: a folder of programs with their values, and config files with flags and known failures."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from triage.compilers.iree.devices import target_of
from triage.compilers.iree.flagfile import read_flagfile
from triage.compilers.iree.recipe import IREE
from triage.compilers.iree.suite_files import KIND, SuiteFiles
from triage.compilers.iree.suite_models import SharktankTests, is_model_test, is_onnx_models, onnx_cases, torch_test, typed_case
from triage.model.case import Case, Expectation, Flag, Input, RunSpec, Target
from triage.model.errors import BadFiles, BadInput, Problem
from triage.model.execution import Limits, Stage
from triage.recipes.document import ConfigDocument, read_text
from triage.recipes.json_lists import ListEdit, edit_lists
from triage.recipes.mapping import MappingFormat, Positive, Text
from triage.recipes.observed import ExpectationChange, ObservedCase, UpdatedFile

VALUES = "run_module_io_flags.txt"
TORCH_VALUES = "run_module_io.json"
_RUN_LIMITS = Limits(timeout=120.0)
_SKIPPED = ("skip_compile_tests", "skip_run_tests")
_COMPILE, _RUN = _EXPECTED = ("expected_compile_failures", "expected_run_failures")
_STAGES = ((_COMPILE, Stage.COMPILE), (_RUN, Stage.RUN), (_RUN, Stage.COMPARE))  # a wrong result is a failed run there

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
    """A config file."""

    path: Path
    name: str
    compile_flags: tuple[str, ...]
    run_flags: tuple[str, ...]
    listed: dict[str, frozenset[str]]
    """Key -> the tests that it lists."""
    goldens: dict[str, float]
    """Test -> largest run time in ms."""
    document: ConfigDocument


def suite_cases(
    folder: Path, configs: Sequence[Path], downloads: Path, note: Callable[[str], None] = lambda _: None
) -> tuple[Case, ...]:
    """The cases of a suite: each test below `folder` with each config that does not skip it, in the order of their names.

    A config that is a test of a whole model itself names its modules by their path in `folder`. A folder stands for the tests
    of this kind below it.

    downloads: where files from URLs are kept; note: receives which listed tests do not exist.

    Raises:
        BadFiles: With every mistake of the configs and of the tests' files.
        BadInput: There is no test below a folder.
    """
    files = SuiteFiles(folder, downloads)
    sharktank = SharktankTests(files)
    cases: list[Case] = []
    known: list[SuiteConfig] = []
    documents = {path: None if path.is_dir() else files.document(path) for path in configs}
    lists = [document for document in documents.values() if document and is_onnx_models(document.data)]
    for path, document in documents.items():
        if path.is_dir() or (document and is_model_test(document.data)):
            cases += _model_cases(files, sharktank, path)
        elif document and document in lists:
            cases += onnx_cases(files, document, only=len(lists) == 1)
        elif document and (config := _config(files, path, document)):
            known.append(config)
    own = [path for path, document in documents.items() if document is None and not path.is_dir()]
    if known or own or any(document and _is_config(document.data) for document in documents.values()):
        cases += _folder_cases(files, known)
    if files.problems:
        raise BadFiles(list(dict.fromkeys(files.problems)))  # a quality test is read for its benchmark as well
    _note_unknown(known, _names([folder]) if known else frozenset(), note)
    return tuple(cases)


def _note_unknown(configs: Sequence[SuiteConfig], tests: frozenset[str], note: Callable[[str], None]) -> None:
    for config in configs:
        for key in (*_SKIPPED, *_EXPECTED):
            for index, name in enumerate(config.document.data.get(key, ())):
                if name not in tests:
                    problem = config.document.problem((key, index), f'there is no test "{name}"')
                    note(f"{problem}; `triage expect update --prune` removes it")


def _model_cases(files: SuiteFiles, sharktank: SharktankTests, path: Path) -> list[Case]:
    """The cases of a test of a model, or of those below a folder, whose other files are modules."""
    cases: list[Case] = []
    for file in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
        test = files.document(file)
        if test and is_model_test(test.data):
            case = typed_case(files, test) if "type" in test.data else sharktank.case(test)
            cases += [case] if case else []
    if not cases and not files.problems:
        raise BadInput(f'{path}: no file below it is a test: a test is a JSON file with the key "type" or "run_function"')
    return cases


def _is_config(data: Any) -> bool:
    return not is_onnx_models(data) and not is_model_test(data)


def _folder_cases(files: SuiteFiles, known: Sequence[SuiteConfig]) -> Iterator[Case]:
    """Yield the cases of the tests that are folders."""
    root, tests = _root(files.folder), sorted(_tests(files.folder))
    if not tests:
        raise BadInput(f"{files.folder}: no folder below it holds a program (*.mlir) and {VALUES} or {TORCH_VALUES}")
    for test in tests:
        name = _name(test, root)
        read = _program(files, test)
        if read is None:
            continue
        for config in known:
            if name not in config.listed["skip_compile_tests"]:
                yield _case(config, name if len(known) == 1 else f"{name}[config={config.name}]", name, *read)


def _program(files: SuiteFiles, test: Path) -> tuple[Path, RunSpec] | None:
    """The program of a test, and how to run it; None if it has mistakes."""
    if (test / TORCH_VALUES).is_file():
        return torch_test(files, test / TORCH_VALUES)
    programs = sorted(path for path in test.iterdir() if path.suffix in (".mlir", ".mlirbc"))
    try:
        values = read_flagfile(test / VALUES)
    except BadFiles as error:
        files.problems += error.problems
        return None
    if len(programs) != 1:
        files.problems.append(
            Problem(str(test), None, None, f"a test has one program (*.mlir, *.mlirbc), not {len(programs)}.")
        )
        return None
    return programs[0], values


def updated_config(folders: Sequence[Path], path: Path, observed: Sequence[ObservedCase], *, prune: bool) -> UpdatedFile:
    """Update the lists of expected failures in a config.

    observed: of cases with this config; prune: remove tests that exist in none of the folders from the lists.

    Raises:
        BadFiles: the file cannot be read, or the comments in a list cannot be kept.
        BadInput: the file has no lists.
    """
    files = SuiteFiles(path.parent, path.parent)
    document = files.document(path)
    if document and not _is_config(document.data):
        raise BadInput(f"{path}: only configs with {' and '.join(_EXPECTED)} can be updated; edit this file by hand")
    config = _config(files, path, document) if document else None
    if config is None:
        raise BadFiles(files.problems)
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
    text = read_text(path, KIND)
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
        expect=tuple(Expectation(None, stage=stage) for key, stage in _STAGES if test in config.listed[key]),
        run=None if test in config.listed["skip_run_tests"] else run,
        benchmarks=(run,) if run.measured else (),
        goldens=(("run_ms", golden),) if golden is not None and run.measured else (),
    )


def _config(files: SuiteFiles, path: Path, document: ConfigDocument) -> SuiteConfig | None:
    values = files.content(document, SuiteFormat)
    if values is None:
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
