"""Tests of whole models as cases, and their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.compilers.iree.suite import IreeSuites
from triage.model.errors import BadFiles

MODULE = '{"mlir": "https://example.com/a/model.mlir", "compiler_flags": ["--iree-hal-target-backends=llvm-cpu"]}'
TEST = """{
  // how long it may take
  "type": "benchmark",
  "markers": ["cpu"],
  "modules": ["modules/model"],
  "weights": [{"type": "url", "scope": "model", "url": "https://example.com/real.irpa"}],
  "inputs": [{"value": "1x64xi64", "url": "https://example.com/input.0.bin"}, {"value": "2xf8E4M3FNUZ"}],
  "run_args": ["--device=local-task", "--benchmark_repetitions=10"],
  "golden_time_ms": 150.0,
}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "suite"
    (folder / "modules").mkdir(parents=True)
    (folder / "modules" / "model.json").write_text(MODULE)
    return folder


def test_a_test_names_what_it_downloads_and_its_golden_values(suite: Path, tmp_path: Path) -> None:
    (suite / "time.json").write_text(TEST)
    [case] = IreeSuites().cases(suite, [suite], tmp_path / "downloads")
    assert (case.name, case.recipe, case.target.backend) == ("time", "benchmark", "llvm-cpu")
    assert case.goldens == (("run_ms", pytest.approx(165.0)),)
    assert case.input.path.name == "model.mlir"
    assert [artifact.source for artifact in case.artifacts] == ["https://example.com/a/model.mlir"]
    assert case.run
    assert case.run.measured
    assert [artifact.source for artifact in case.run.artifacts] == [
        "https://example.com/input.0.bin",
        "https://example.com/real.irpa",
    ]
    assert case.run.inputs == (f"1x64xi64=@{case.run.artifacts[0].path}", "2xf8E4M3FNUZ")
    assert case.run.parameters == (("model", case.run.artifacts[1].path),)
    assert case.benchmarks[0].flags == ("--device=local-task",)
    assert all(artifact.path.is_relative_to(tmp_path / "downloads") for artifact in case.run.artifacts)


@pytest.mark.parametrize(
    ("before", "after", "line", "column", "word"),
    [
        ('"benchmark"', '"speed"', 3, 11, "quality"),
        ("150.0", "soon", 9, 21, "5.84"),
        ('"type": "url", ', '"type": "random", ', 6, 15, "seed"),
        ('"2xf8E4M3FNUZ"', '"2xf9"', 7, 89, "2x3xf32"),
        ('"https://example.com/real.irpa"', '"real.irpa"', 6, 56, "real.irpa"),
    ],
)
def test_a_mistake_has_its_position(
    suite: Path, tmp_path: Path, before: str, after: str, line: int, column: int, word: str
) -> None:
    assert before in TEST
    (suite / "time.json").write_text(TEST.replace(before, after, 1))
    with pytest.raises(BadFiles) as caught:
        IreeSuites().cases(suite, [suite / "time.json"], tmp_path)
    problem = caught.value.problems[0]
    assert (problem.line, problem.column, word in problem.message) == (line, column, True), problem
