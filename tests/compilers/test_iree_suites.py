"""IREE's own suites as cases: folders of operations, tests of models, lists of ONNX
models; and the places of mistakes.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT
from triage.compilers.iree.suite import IreeSuites
from triage.model.case import Case
from triage.model.errors import BadFiles
from triage.model.execution import Stage
from triage.model.outcome import Failure
from triage.recipes.expectations import ObservedCase

#: The suite that each test gets a copy of.
SUITE = ROOT / "tests" / "data" / "iree_suite"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = shutil.copytree(SUITE, tmp_path / "suite")
    (folder / "conftest.py").touch()
    for name in ("broken", "compiled", "fine", "never", "wrong"):
        operation = folder / "ops" / name
        operation.mkdir(parents=True)
        (operation / "model.mlir").write_text("module {}")
        (operation / "input_0.bin").write_text("1234")
        (operation / "run_module_io_flags.txt").write_text(
            "# made by hand\n\n--input=f32=@input_0.bin\n--expected_output=f32=1\n"
        )
    return folder


def cases(folder: Path, *configs: Path) -> dict[str, Case]:
    found = IreeSuites().cases(folder, configs, folder.parent / "downloads")
    return {case.name: case for case in found}


def problems(
    folder: Path, *configs: Path
) -> list[tuple[str, int | None, int | None, str]]:
    with pytest.raises(BadFiles) as caught:
        cases(folder, *configs)
    return [
        (Path(each.path).name, each.line, each.column, each.message)
        for each in caught.value.problems
    ]


def test_failures_move_between_the_lists_of_a_config(suite: Path) -> None:
    config = suite / "cpu.json"
    found = cases(suite, config)
    ends = {
        "ops/broken": None,
        "ops/fine": Failure("timeout", "timeout", "timeout", "slow"),
        "ops/wrong": Failure(
            "wrong-result", "run", "wrong-result", "", stage=Stage.COMPARE
        ),
    }
    observed = [ObservedCase(found[name], "3.9.0", end) for name, end in ends.items()]
    update = IreeSuites().updated_config(config, observed)
    config.write_text(update.text)
    again = cases(suite, config)
    assert {
        name: [item.stage for item in case.expect] for name, case in again.items()
    } == {
        "ops/broken": [],
        "ops/compiled": [],
        "ops/fine": [Stage.COMPILE],
        "ops/wrong": [Stage.RUN, Stage.COMPARE],
    }


def test_an_operation_has_the_flags_of_the_config_and_its_own_values(
    suite: Path,
) -> None:
    found = cases(suite, suite / "cpu.json")
    assert list(found) == ["ops/broken", "ops/compiled", "ops/fine", "ops/wrong"]
    fine = found["ops/fine"]
    assert (fine.recipe, fine.target.backend, fine.input.path) == (
        "cpu",
        "llvm-cpu",
        suite / "ops/fine/model.mlir",
    )
    assert fine.flags[0].text == "--iree-hal-target-device=local"
    assert fine.run is not None
    assert fine.run.inputs == (f"f32=@{suite}/ops/fine/input_0.bin",)
    assert (fine.run.expected, fine.run.flags, fine.expect) == (
        ("f32=1",),
        ("--device=local-sync",),
        (),
    )
    assert found["ops/compiled"].run is None
    assert [item.stage for item in found["ops/broken"].expect] == [Stage.COMPILE]
    assert [item.stage for item in found["ops/wrong"].expect] == [
        Stage.RUN,
        Stage.COMPARE,
    ]


def test_configs_with_one_name_are_told_apart_by_their_files(suite: Path) -> None:
    """IREE's configs for O0 and O2 have one `config_name`."""
    text = (suite / "cpu.json").read_text()
    paths = [suite / "cpu_O0.json", suite / "cpu_O2.json"]
    for path in paths:
        path.write_text(text.replace('"cpu"', '"cpu_sync"'))
    both = IreeSuites().cases(suite, paths, suite.parent / "downloads")
    names = [case.name for case in both]
    assert len(set(names)) == len(names) == 8
    assert "ops/fine[config=cpu_O0]" in names
    alone = [*cases(suite, paths[0]).values(), *cases(suite, paths[1]).values()]
    assert {case.recipe for case in alone} == {"cpu_O0", "cpu_O2"}


def test_a_test_of_a_model_names_what_it_downloads_and_its_limits(suite: Path) -> None:
    [case] = cases(suite, suite / "tests").values()
    assert (case.name, case.recipe, case.target.backend) == (
        "tests/time",
        "benchmark",
        "llvm-cpu",
    )
    assert case.thresholds == (("run_ms", pytest.approx(165.0)),)
    assert [artifact.source for artifact in case.artifacts] == [
        "https://example.com/a/model.mlir"
    ]
    assert case.run
    assert case.run.measured
    data, weights = case.run.artifacts
    assert (data.source, weights.source) == (
        "https://example.com/input.0.bin",
        "https://example.com/real.irpa",
    )
    assert case.run.inputs == (f"1x64xi64=@{data.path}", "2xf8E4M3FNUZ")
    assert case.run.parameters == (("model", weights.path),)
    assert case.benchmarks[0].flags == ("--device=local-task",)
    assert data.path.is_relative_to(suite.parent / "downloads")


def test_mistakes_of_all_files_are_reported_at_once(suite: Path) -> None:
    config = suite / "cpu.json"
    config.write_text(
        config.read_text()
        .replace("skip_run_tests", "skip_runs")
        .replace('"config_name": "cpu",', "")
    )
    (suite / "ops/fine/run_module_io_flags.txt").write_text("--input=f32=@gone.bin\n")
    (suite / "ops/wrong/other.mlir").write_text("module {}")
    found = problems(suite, config, suite / "gone.json")
    places = {(name, line, column) for name, line, column, _ in found}
    assert {
        ("cpu.json", 8, 3),
        ("gone.json", None, None),
        ("run_module_io_flags.txt", 1, 9),
        ("wrong", None, None),
    } <= places
    assert any("config_name" in message for *_, message in found)


@pytest.mark.parametrize(
    ("name", "before", "after", "line", "column", "word"),
    [
        ("tests/time", '"benchmark"', '"speed"', 2, 11, "quality"),
        ("tests/time", "150.0", "soon", 8, 21, "number"),
        ("tests/time", '"type": "url", ', '"type": "random", ', 5, 24, "url"),
        ("tests/time", '"2xf8E4M3FNUZ"', '"2xf9"', 6, 89, "2x3xf32"),
        (
            "tests/time",
            '"https://example.com/real.irpa"',
            '"real.irpa"',
            5,
            56,
            "real.irpa",
        ),
    ],
)
def test_a_mistake_has_its_place(
    suite: Path, name: str, before: str, after: str, line: int, column: int, word: str
) -> None:
    file = suite / f"{name}.json"
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after, 1))
    place = problems(suite, file)[0]
    assert place[:3] == (file.name, line, column), place
    assert word in place[3], place
