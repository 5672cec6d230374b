"""Read IREE's test suites: a folder of programs with their values, and config files with flags and known failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field, PositiveFloat

from triage.compilers.iree.devices import IREE
from triage.compilers.iree.run_files import read_flagfile
from triage.compilers.iree.suite_files import EMPTY, SuiteFiles, SuiteMapping
from triage.compilers.iree.suite_models import is_model_test, is_onnx_models, model_cases, onnx_cases, torch_test
from triage.model.case import Case, Expectation, Flag, Input, Library, RunSpec
from triage.model.errors import BadFiles, BadInput, Problem
from triage.model.execution import Limits, Stage
from triage.recipes.document import ConfigDocument, read_document, read_text
from triage.recipes.expectations import ExpectationChange, ObservedCase, UpdatedFile, edited_json_lists
from triage.recipes.mapping import Text, Texts, content_of

_VALUES, _TORCH_VALUES = "run_module_io_flags.txt", "run_module_io.json"
_LISTS = ("skip_compile_tests", "skip_run_tests", "expected_compile_failures", "expected_run_failures")
_COMPILE, _RUN = _EXPECTED = _LISTS[2:]
_STAGES = ((_COMPILE, Stage.COMPILE), (_RUN, Stage.RUN), (_RUN, Stage.COMPARE))  # a wrong result is a failed run there


class SuiteConfig(SuiteMapping):
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

    def cases(self, folder: Path, configs: Sequence[Path], downloads: Path) -> tuple[Case, ...]:
        """The cases of a suite: for each config the tests below `folder` that it does not skip, in the order of their names.

        A config that is a test of a whole model itself names its modules by their path in `folder`. A folder stands for the
        tests of this kind below it.
        """
        files = SuiteFiles(folder, downloads)
        cases: list[Case] = []
        for path in configs:
            with files.collecting():
                for document in _model_tests(files, path) if path.is_dir() else [files.document(path)]:
                    with files.collecting():
                        cases += _cases(files, document, several=len(configs) > 1)
        if files.problems:
            raise BadFiles(list(dict.fromkeys(files.problems)))  # a quality test is read for its benchmark as well
        return tuple(cases)

    def updated_config(
        self, folders: Sequence[Path], path: Path, observed: Sequence[ObservedCase], *, prune: bool
    ) -> UpdatedFile:
        document = read_document(path, EMPTY, json=True)
        if is_onnx_models(document.data) or is_model_test(document.data):
            raise BadInput(f"{path}: only configs with {' and '.join(_EXPECTED)} can be updated; edit this file by hand")
        config = content_of(document, SuiteConfig)
        edits = {key: (set[str](), set[str]()) for key in _EXPECTED}  # tests to remove, and to add
        changes = []
        for entry in observed:
            test = entry.case.name.removesuffix(f"[config={config.config_name}]")
            fails = None if entry.failure is None else _RUN if entry.failure.stage in (Stage.RUN, Stage.COMPARE) else _COMPILE
            listed = [key for key in _EXPECTED if test in getattr(config, key)]
            if fails is None and entry.case.run is None and _RUN in listed:
                listed.remove(_RUN)  # nothing was run
            wanted = [] if fails is None else [fails]
            for key in set(listed) - set(wanted):
                edits[key][0].add(test)
            for key in set(wanted) - set(listed):
                edits[key][1].add(test)
            if listed != wanted:
                changes.append(ExpectationChange(test, listed[0] if listed else None, fails))
        existing = {name for folder in folders for name, _ in _tests(folder)}
        for key in _EXPECTED if prune else ():
            gone = set(getattr(config, key)) - existing
            edits[key][0].update(gone)
            changes += [ExpectationChange(test, key, None) for test in sorted(gone)]
        text = read_text(path)
        new = edited_json_lists(path, text, edits)
        return UpdatedFile(path, text, new, tuple(changes))


def _model_tests(files: SuiteFiles, folder: Path) -> list[ConfigDocument]:
    """The tests of models below a folder, whose other files are modules."""
    documents = [files.document(file) for file in sorted(folder.rglob("*.json"))]
    tests = [document for document in documents if is_model_test(document.data)]
    if not tests:
        raise BadInput(f'{folder}: no file below it is a test: a test is a JSON file with the key "type" or "run_function"')
    return tests


def _cases(files: SuiteFiles, document: ConfigDocument, *, several: bool) -> Iterator[Case]:
    """The cases of one JSON file. several: whether there are other configs, so that its name is part of the cases' names."""
    if is_model_test(document.data):
        return model_cases(files, document)
    if is_onnx_models(document.data):
        return onnx_cases(files, document, several=several)
    return _folder_cases(files, document, several=several)


def _folder_cases(files: SuiteFiles, document: ConfigDocument, *, several: bool) -> Iterator[Case]:
    """Yield the cases of the tests that are folders, with one config."""
    tests = [(name, test) for name, test in _tests(files.folder) if test.is_relative_to(files.folder)]
    if not tests:
        raise BadInput(f"{files.folder}: no folder below it holds a program (*.mlir) and {_VALUES} or {_TORCH_VALUES}")
    programs = []
    for name, test in tests:
        with files.collecting():
            programs.append((name, *_program(files, test)))
    config = content_of(document, SuiteConfig)
    for name, program, values in programs:
        if name not in config.skip_compile_tests:
            case = _case(files, document, config, name, program, values)
            yield replace(case, name=f"{name}[config={config.config_name}]") if several else case


def _program(files: SuiteFiles, test: Path) -> tuple[Path, RunSpec]:
    if (test / _TORCH_VALUES).is_file():
        return torch_test(files, test / _TORCH_VALUES)
    programs = [path for path in test.iterdir() if path.suffix in (".mlir", ".mlirbc")]
    if len(programs) != 1:
        message = f"a test has one program (*.mlir, *.mlirbc), not {len(programs)}."
        raise BadFiles([Problem(str(test), None, None, message)])
    return programs[0], read_flagfile(test / _VALUES)


def _case(files: SuiteFiles, document: ConfigDocument, config: SuiteConfig, test: str, program: Path, values: RunSpec) -> Case:
    library = Library(Input(program, IREE.inputs[program.suffix]), tuple(map(Flag, config.iree_compile_flags)))
    case = files.case(config.config_name, library, document, test, Limits())
    run = replace(values, flags=(*config.iree_run_module_flags, *values.flags), limits=Limits(timeout=120.0))
    if run.measured and case.target.backend == "llvm-cpu" and not any(flag.startswith("--device=") for flag in run.flags):
        run = replace(run, device="local-task")  # where the runtime runs a program when nothing is said
    golden = config.golden_times_ms.get(test) if run.measured else None
    return replace(
        case,
        expect=tuple(Expectation(None, stage=stage) for key, stage in _STAGES if test in getattr(config, key)),
        run=None if test in config.skip_run_tests else run,
        benchmarks=(run,) if run.measured else (),
        goldens=() if golden is None else (("run_ms", config.tolerance_factor * golden),),
    )


def _tests(folder: Path) -> list[tuple[str, Path]]:
    """The names and folders of the tests of the suite that a folder belongs to.

    The name is the path below the folder with `conftest.py`, and the last two folders of a Torch test.
    """
    folder = folder.absolute()
    root = next((path for path in (folder, *folder.parents) if (path / "conftest.py").is_file()), folder)
    tests = {file.parent: file.parent.relative_to(root).as_posix() for file in root.rglob(_VALUES)}
    tests |= {file.parent: "/".join(file.parts[-3:-1]) for file in root.rglob(_TORCH_VALUES)}
    return [(tests[path], path) for path in sorted(tests)]
