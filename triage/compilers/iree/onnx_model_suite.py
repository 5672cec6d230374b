"""Read the config files of IREE's tests of ONNX models: the tests to run, and what becomes of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from triage.compilers.iree.model_suite import LIMITS, checked_test, download, suite_case
from triage.compilers.iree.weights import RandomArgument
from triage.config.document import ConfigDocument
from triage.config.schema import MappingFormat, Text
from triage.model.case import Artifact, Case, Expectation, Flag, Input, InputKind, Library, Reference, RunSpec
from triage.model.errors import Problem
from triage.model.execution import Stage

_OUTCOMES = "tests_and_expected_outcomes"
_MODELS = "https://huggingface.co/onnxmodelzoo/legacy_models/resolve/main/"
_TEST = re.compile(r"tests/model_zoo/(?P<folder>[\w./-]+)_models_test\.py::test_models\[(?P<model>[^\]]+\.onnx)\]\Z")
_STAGES: dict[str, tuple[Stage, ...]] = {
    "pass": (),
    "fail-import": (Stage.IMPORT,),
    "fail-compile": (Stage.COMPILE,),
    "fail-run": (Stage.RUN, Stage.COMPARE),  # a wrong result is a failed run in these files
}


class OnnxModelsFormat(MappingFormat):
    """The keys of a config file."""

    noun: ClassVar[str] = "a config of ONNX models"

    config_name: Text = Field(examples=["cpu_llvm_task"])
    iree_compile_flags: list[Text] = Field(examples=[["--iree-hal-target-backends=llvm-cpu"]])
    iree_run_module_flags: list[Text] = Field(examples=[["--device=local-task"]])
    tests_and_expected_outcomes: dict[str, Literal["pass", "skip", "fail-import", "fail-compile", "fail-run"]] = Field(
        examples=[{"default": "skip"}]
    )


@dataclass(frozen=True, slots=True)
class ModelArguments:
    """Random arguments for a model, whose number and types it says itself."""

    model: Path
    folder: Path

    def artifacts(self) -> tuple[Artifact, ...]:
        """A file for each argument. ValueError when the model cannot be read."""
        import onnx

        try:
            graph = onnx.load(self.model, load_external_data=False).graph
        except Exception as error:  # protobuf's own class is no public name
            raise ValueError(f"{self.model}: it cannot be read as an ONNX model: {error}") from error
        weights = {tensor.name for tensor in graph.initializer}
        arguments: list[Artifact] = []
        for value in graph.input:
            if value.name in weights:
                continue
            tensor = value.type.tensor_type
            if not value.type.HasField("tensor_type"):
                raise ValueError(f'{self.model}: the argument "{value.name}" is not a tensor')
            shape = tuple(size.dim_value or 1 for size in tensor.shape.dim)  # a size that is not fixed is 1
            dtype = str(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
            index = len(arguments)
            name = "-".join(["random", str(index), dtype, *map(str, shape)])
            arguments.append(Artifact(self.folder / f"{name}.npy", RandomArgument(shape, dtype, index)))
        return tuple(arguments)


def is_onnx_models(data: Any) -> bool:
    """Whether a JSON file is a config of this kind."""
    return isinstance(data, dict) and _OUTCOMES in data


def onnx_model_cases(folder: Path, documents: Sequence[ConfigDocument], downloads: Path, problems: list[Problem]) -> list[Case]:
    """The cases of configs. folder: has models by their path in the model zoo; others are downloaded."""
    cases = []
    for document in documents:
        config = checked_test(document, OnnxModelsFormat, problems)
        if config is None:
            continue
        for test, outcome in config.tests_and_expected_outcomes.items():
            if test == "default":
                if outcome != "skip":
                    message = 'only tests that are listed are run: write "skip", and list the others.'
                    problems.append(document.problem((_OUTCOMES, test), message))
            elif (match := _TEST.match(test)) is None:
                message = f'"{test}" is not a test: write "tests/model_zoo/…_models_test.py::test_models[….onnx]".'
                problems.append(document.problem((_OUTCOMES, test), message, at_key=True))
            elif outcome != "skip":
                case = _case(folder.absolute(), config, f"{match['folder']}/{match['model']}", downloads)
                name = case.name if len(documents) == 1 else f"{case.name}[config={config.config_name}]"
                expect = tuple(Expectation(None, stage=stage) for stage in _STAGES[outcome])
                cases.append(replace(case, name=name, source=Path(document.path).absolute(), expect=expect))
    return cases


def _case(folder: Path, config: OnnxModelsFormat, place: str, downloads: Path) -> Case:
    model = folder / place
    artifacts: tuple[Artifact, ...] = ()
    downloaded = download(downloads, f"{_MODELS}{place}")
    if not model.is_file():
        model, artifacts = downloaded.path, (downloaded,)
    run = RunSpec(
        flags=tuple(config.iree_run_module_flags),
        arguments=ModelArguments(model, downloaded.path.parent),
        reference=Reference(onnxruntime=True),
        limits=LIMITS,
    )
    if model.is_file():
        with suppress(ValueError):  # the import reports it
            run = run.with_arguments()
    program = Library(Input(model, InputKind.ONNX), tuple(map(Flag, config.iree_compile_flags)), artifacts)
    return replace(suite_case(config.config_name, place.removesuffix(".onnx"), folder, program), run=run)
