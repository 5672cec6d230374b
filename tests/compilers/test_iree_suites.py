"""IREE's own suites as cases: folders of operations, tests of models, lists of ONNX
models; and the places of mistakes.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

from tests.conftest import ROOT, Asked
from tests.fake_releases import install
from tests.recipes.loading import ended
from triage.classify.rules import read_yaml
from triage.cli.cases import cases_in
from triage.compilers.iree.suite import IreeSuites
from triage.model.case import Case
from triage.model.errors import BadFiles
from triage.model.execution import Stage
from triage.model.outcome import Failure

#: The suite that each test gets a copy of.
SUITE = ROOT / "tests" / "data" / "iree_suite"
#: Config, and variables that name a machine -> its cases.
CASES = read_yaml(SUITE / "cases.yaml")
#: It has a free dimension and a weight that is also an argument.
MODEL = """<ir_version: 8, opset_import: ["": 17]>
main (float[1, 3] w, float[n, 3] x) => (float[n, 3] z) <float[1, 3] w = {0, 0, 0}> { z = Add(x, w) }
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ROCM_CHIP", raising=False)
    monkeypatch.delenv("SKU", raising=False)
    folder = shutil.copytree(SUITE, tmp_path / "suite")
    (folder / "conftest.py").touch()
    return folder


def cases(folder: Path, *configs: Path) -> dict[str, Case]:
    found = IreeSuites().cases(folder, configs, folder.parent / "downloads")
    return {case.name: case for case in found}


def told(value: Any, suite: Path) -> Any:
    """Return a value as YAML has it: a mapping of the fields that are not defaults."""
    if is_dataclass(value):
        entries = {}
        for field in fields(value):
            entry, default = getattr(value, field.name), field.default
            if field.default_factory is not MISSING:
                default = field.default_factory()
            if entry != default:
                entries[field.name] = told(entry, suite)
        return entries
    if isinstance(value, (tuple, list)):
        return [told(entry, suite) for entry in value]
    if isinstance(value, (str, Path)):
        text = str(value).replace(f"{suite}/", "")
        return re.sub(rf"{suite.parent}/downloads/\w+", "DOWNLOADS", text)
    return value


@pytest.mark.parametrize("config", CASES)
def test_each_form_of_a_test_becomes_the_cases_that_it_says(
    suite: Path, monkeypatch: pytest.MonkeyPatch, config: str
) -> None:
    name, *variables = config.split()
    for variable in variables:
        monkeypatch.setenv(*variable.split("="))
    found = cases(suite, suite / name)
    assert {name: told(case, suite) for name, case in found.items()} == CASES[config]


def test_failures_move_between_the_lists_of_a_config(suite: Path) -> None:
    config = suite / "cpu.json"
    found = cases(suite, config)
    ends = {
        "ops/broken": None,
        "ops/fine": Failure("timeout", "timeout", "", ""),
        "ops/wrong": Failure("wrong-result", "run", "", "", stage=Stage.COMPARE),
    }
    seen = [ended(found[name], failure) for name, failure in ends.items()]
    update = IreeSuites().updated_config(config, seen)
    config.write_text(update.text)
    assert {
        name: " ".join(item.stage for item in case.expect)
        for name, case in cases(suite, config).items()
    } == {
        "ops/broken": "",
        "ops/compiled": "",
        "ops/fine": "compile",
        "ops/wrong": "run compare",
    }


def test_cases_of_several_configs_have_the_names_of_their_files(suite: Path) -> None:
    """IREE's configs for O0 and O2 have one `config_name`."""
    (suite / "other").mkdir()
    names = ("cpu_O0", "cpu_O2", "other/cpu_O0")
    configs = [suite / f"{name}.json" for name in names]
    for path in configs:
        shutil.copy(suite / "cpu.json", path)
    both = cases(suite, *configs[:2])
    assert len(both) == 8
    assert both["ops/fine[config=cpu_O0]"].recipe == "cpu_O0"
    equal = cases(suite, configs[0], configs[2])
    recipes = {case.recipe for case in equal.values()}
    assert recipes == {f"{suite.name}/cpu_O0", "other/cpu_O0"}


def test_a_model_has_an_argument_for_each_input(suite: Path) -> None:
    case = cases(suite, suite / "onnx.json")["zoo/kind/a/one"]
    case.input.path.parent.mkdir(parents=True)
    onnx.save(onnx.parser.parse_model(MODEL), case.input.path)  # as the download does
    assert case.run
    [argument] = case.run.with_arguments().artifacts
    argument.source.write(argument.path)
    assert np.load(argument.path).shape == (1, 3)


@pytest.mark.parametrize("mistake", read_yaml(SUITE / "mistakes.yaml"))
def test_a_mistake_has_its_place(suite: Path, mistake: list[str]) -> None:
    config, file, before, after, place, word = mistake
    path = suite / file
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after, 1))
    with pytest.raises(BadFiles) as caught:
        cases(suite, suite / config)
    problem = caught.value.problems[0]
    assert (problem.path, f"{problem.line}:{problem.column}") == (str(path), place)
    assert word in problem.message


def test_a_test_has_one_program(suite: Path) -> None:
    (suite / "ops" / "wrong" / "other.mlir").touch()
    with pytest.raises(BadFiles, match="not 2"):
        cases(suite, suite / "cpu.json")


@pytest.mark.usefixtures("home")
def test_the_project_limits_each_test_and_passes_variables_on(
    suite: Path, asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "triage.yaml").write_text(
        "name: iree\ncompiler: iree\n"
        "suites: {timeout: 0.3s, env: [HIP_HOME, OMP_NUM_THREADS]}\n"
    )
    monkeypatch.chdir(tmp_path)
    configs = [suite / "cpu.json", suite / "tests"]
    for case in cases_in([suite], configs):
        assert dict(case.env) == dict.fromkeys(("HIP_HOME", "OMP_NUM_THREADS"))
        for limited in filter(None, (case, case.run, *case.benchmarks)):
            assert limited.limits.timeout == pytest.approx(0.3)
    (suite / "ops" / "fine" / "model.mlir").write_text("module {} // sleeps-0")
    built = f"path:{install(tmp_path / 'built', 5)}"
    words = ("run", suite, "--suite-config", configs[0], "-t", built)
    answer = asked(*words, "--case", "ops/fine", cwd=tmp_path, code=1)
    assert answer["results"][0]["failure"]["class"] == "timeout"


def test_tensors_of_one_test_are_drawn_from_one_seed(suite: Path) -> None:
    run = cases(suite, suite / "torch.json")["AB/small_bench"].run
    assert run
    drawn = np.random.RandomState(0).rand(12).astype("f4").reshape(2, 2, 3) + 1
    for artifact, numbers in zip(run.artifacts, drawn, strict=True):
        artifact.path.parent.mkdir(parents=True, exist_ok=True)
        artifact.source.write(artifact.path)
        assert np.load(artifact.path) == pytest.approx(numbers)
