"""Tests of whole models as cases, and their mistakes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from triage.compilers.iree.random_values import RandomWeights
from triage.compilers.iree.suite import suite_cases
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
    [case] = suite_cases(suite, [suite], tmp_path / "downloads")
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
        ('"golden_time_ms": 150.0', '"golden_times_ms": 150.0', 9, 3, "golden_time_ms"),
        ("150.0", "soon", 9, 21, "5.84"),
        ('"modules/model"', '"modules/modle"', 5, 15, "modle.json"),
        ('"type": "url", ', '"type": "random", ', 6, 15, "seed"),
        ('"value": "2xf8E4M3FNUZ"', '"valeu": "2xf8E4M3FNUZ"', 7, 80, "value"),
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
        suite_cases(suite, [suite / "time.json"], tmp_path)
    problem = caught.value.problems[0]
    assert (problem.line, problem.column, word in problem.message) == (line, column, True), problem


def test_a_mistake_in_a_module_is_named_once(suite: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (suite / f"{name}.json").write_text(TEST)
    (suite / "modules" / "model.json").write_text('{\n  "mlri": "model.mlir"}')
    with pytest.raises(BadFiles) as caught:
        suite_cases(suite, [suite], tmp_path)
    assert [(Path(problem.path).name, problem.line, problem.column) for problem in caught.value.problems] == [
        ("model.json", 2, 3)
    ]


def test_random_weights_depend_on_the_seed_alone(tmp_path: Path) -> None:
    program = tmp_path / "model.mlir"
    program.write_text(
        'util.global @a = #stream.parameter.named<"model"::"a.w"> : tensor<2x3xf16>\n'
        'util.global @b = #flow.parameter.named<"b"> : tensor<4xi8>\n'
        'util.global @c = #stream.parameter.named<"model"::"c"> : tensor<bf16>\n'
    )
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        RandomWeights(program, seed).write(tmp_path / name)
    contents = [(tmp_path / name).read_bytes() for name in ("one", "again", "two")]
    assert contents[0] == contents[1] != contents[2]
    size = int.from_bytes(contents[0][:8], "little")
    assert len(contents[0]) == 8 + size + 12 + 4 + 2
    values = np.frombuffer(contents[0], "f2", 6, 8 + size)
    assert (values == np.random.default_rng(1).normal(0.0, 0.01, 6).astype("f2")).all()
    program.write_text("module {}")
    with pytest.raises(ValueError, match="names no parameters"):
        RandomWeights(program, 1).write(tmp_path / "none")
