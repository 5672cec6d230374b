"""IREE's test suites are read with their config files: flags, skipped tests, known failures, and mistakes with positions."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.compilers.iree.suite import IreeSuites
from triage.model.errors import BadFiles
from triage.model.execution import Stage

CONFIG = """{
  // flags of this machine
  "config_name": "cpu",
  "iree_compile_flags": ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"],
  "iree_run_module_flags": ["--device=local-sync"], /* one
  device */
  "skip_compile_tests": ["ops/never",],
  "skip_run_tests": ["ops/compiled"],
  "expected_compile_failures": ["ops/broken"],
  "expected_run_failures": ["ops/wrong"],
}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "suite"
    for name in ("broken", "compiled", "fine", "never", "wrong"):
        test = folder / "ops" / name
        test.mkdir(parents=True)
        (test / "model.mlir").write_text("module {}")
        (test / "input_0.bin").write_bytes(b"1234")
        (test / "run_module_io_flags.txt").write_text("--input=f32=@input_0.bin\n--expected_output=f32=1\n")
    (folder / "conftest.py").write_text("")
    (tmp_path / "cpu.json").write_text(CONFIG)
    return folder


def test_a_case_has_the_flags_of_the_config_and_the_values_of_the_test(suite: Path, tmp_path: Path) -> None:
    cases = {case.name: case for case in IreeSuites().cases(suite, [tmp_path / "cpu.json"], tmp_path)}
    assert list(cases) == ["ops/broken", "ops/compiled", "ops/fine", "ops/wrong"]
    fine = cases["ops/fine"]
    assert (fine.recipe, fine.target.backend, fine.input.path) == ("cpu", "llvm-cpu", suite / "ops/fine/model.mlir")
    assert fine.flags[0].text == "--iree-hal-target-device=local"
    assert fine.run is not None
    assert fine.run.inputs == (f"f32=@{suite}/ops/fine/input_0.bin",)
    assert fine.run.expected == ("f32=1",)
    assert fine.run.flags == ("--device=local-sync",)
    assert fine.expect == ()
    assert cases["ops/compiled"].run is None
    assert [item.stage for item in cases["ops/broken"].expect] == [Stage.COMPILE]
    assert [item.stage for item in cases["ops/wrong"].expect] == [Stage.RUN, Stage.COMPARE]


def test_every_mistake_has_its_position(suite: Path, tmp_path: Path) -> None:
    (tmp_path / "cpu.json").write_text(CONFIG.replace("skip_run_tests", "skip_runs").replace('"config_name": "cpu",', ""))
    (suite / "ops/fine/run_module_io_flags.txt").write_text("--input=f32=@gone.bin\n")
    (suite / "ops/wrong/other.mlir").write_text("module {}")
    with pytest.raises(BadFiles) as caught:
        IreeSuites().cases(suite, [tmp_path / "cpu.json", tmp_path / "gone.json"], tmp_path)
    places = [(Path(problem.path).name, problem.line, problem.column) for problem in caught.value.problems]
    assert ("cpu.json", 8, 3) in places
    assert ("gone.json", None, None) in places
    assert ("run_module_io_flags.txt", 1, 9) in places
    assert ("wrong", None, None) in places
    assert any("config_name" in problem.message for problem in caught.value.problems)


def test_a_mistake_in_a_torch_test_has_its_position(tmp_path: Path) -> None:
    folder = tmp_path / "suite" / "generated" / "Add" / "f32"
    folder.mkdir(parents=True)
    (folder / "run_module_io.json").write_text('{\n  "flat_args": [{"Formula": {"shape": [2, "x"]}}],\n  "mode": "look"\n}')
    (tmp_path / "cpu.json").write_text('{"config_name": "cpu", "iree_compile_flags": [], "iree_run_module_flags": []}')
    with pytest.raises(BadFiles) as caught:
        IreeSuites().cases(tmp_path / "suite", [tmp_path / "cpu.json"], tmp_path)
    assert [(problem.line, problem.column) for problem in caught.value.problems] == [(2, 43), (3, 11)]
    (folder / "test.mlir").write_text("module {}")
    (folder / "run_module_io.json").write_text('{"flat_args": [],\n "expected_output": [{"value": "gone.npy"}]\n}')
    with pytest.raises(BadFiles) as caught:
        IreeSuites().cases(tmp_path / "suite", [tmp_path / "cpu.json"], tmp_path)
    assert [(problem.line, problem.column) for problem in caught.value.problems] == [(2, 32)]
