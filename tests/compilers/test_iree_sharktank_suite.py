"""Tests of models in the form of sharktank as cases, and their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.compilers.iree.suite import IreeSuites
from triage.model.errors import BadFiles
from triage.model.execution import Stage

QUALITY = """{
  "mlir": "https://example.com/model.mlir",
  "compiler_flags": ["--iree-hal-target-device=hip", "--iree-scheduling-dump-statistics-file=a.json"],
  "inputs": [{"source": "https://example.com/in.bin", "value": "1x4xi64"}],
  "outputs": [{"source": "https://example.com/out.npy"}],
  "real_weights": "https://example.com/real.irpa",
  "device": "hip", "run_function": "main",
  "threshold_args": ["--expected_f16_threshold=0.5f"],
  "compile_chip_expecting_to_fail": ["gfx90a"],
  "tuner_file": {"mi300": "spec.mlir"}
}
"""
TIME = """{
  "function_run": "main",
  "inputs": ["1x4xi64"],
  "device": "hip",
  "benchmark_flags": ["--benchmark_repetitions=3", "--device_allocator=caching"],
  "golden_time_ms": {"mi250": 9, "mi300": 10},
  "golden_time_tolerance_multiplier": {"mi250": 1.3, "mi300": 1.5},
  "golden_dispatch": {"mi300": 7},
  "golden_size": {"mi300": 900},
  "specific_chip_to_ignore": ["gfx90a"]
}
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ROCM_CHIP", raising=False)
    monkeypatch.delenv("SKU", raising=False)
    folder = tmp_path / "suite"
    for name, content in (("quality_tests/a/clip_rocm", QUALITY), ("benchmarks/a/clip_rocm", TIME)):
        file = folder / f"{name}.json"
        file.parent.mkdir(parents=True)
        file.write_text(content)
    (folder / "files").mkdir()
    (folder / "files" / "spec.mlir").write_text("module {}")
    return folder


def test_a_benchmark_compiles_the_program_of_its_quality_test(suite: Path, tmp_path: Path) -> None:
    measured, compared = IreeSuites().cases(suite, [suite], tmp_path / "downloads")
    assert (measured.name, compared.name) == ("benchmarks/a/clip_rocm", "quality_tests/a/clip_rocm")
    flags = [flag.text for flag in compared.flags]
    assert flags[0] == "--iree-hal-target-device=hip"
    assert flags[1].endswith(str(suite / "files" / "spec.mlir"))
    assert flags[2:] == ["--iree-rocm-target=gfx942"]
    assert (measured.input, measured.flags, measured.artifacts) == (compared.input, compared.flags, compared.artifacts)
    assert (compared.target.backend, compared.target.chip) == ("rocm", "gfx942")
    assert compared.run
    assert measured.run
    assert (compared.run.device, compared.run.function, compared.run.tolerances) == ("hip", "main", (("f16", 0.5),))
    assert [str(artifact.source).rpartition("/")[2] for artifact in compared.run.artifacts] == [
        "in.bin",
        "out.npy",
        "real.irpa",
    ]
    assert compared.run.inputs == (f"1x4xi64=@{compared.run.artifacts[0].path}",)
    assert compared.run.parameters == measured.run.parameters == (("model", compared.run.artifacts[2].path),)
    assert measured.goldens == (("run_ms", 15.0), ("dispatches", 7.0), ("artifact_bytes", 900.0))
    assert measured.benchmarks[0].flags == ("--device_allocator=caching",)
    assert measured.run.measured


def test_expected_failures_and_skipped_tests_depend_on_the_chip(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCM_CHIP", "gfx90a")
    monkeypatch.setenv("SKU", "mi250")
    file = suite / "quality_tests" / "a" / "clip_rocm.json"
    file.write_text(QUALITY.replace('"device"', '"run_test_expecting_to_fail": true, "device"'))
    [case] = IreeSuites().cases(suite, [suite], tmp_path)
    assert [(entry.failure, entry.stage) for entry in case.expect] == [
        (None, Stage.RUN),
        (None, Stage.COMPARE),
        (None, Stage.COMPILE),
    ]
    assert [flag.text for flag in case.flags] == ["--iree-hal-target-device=hip", "--iree-rocm-target=gfx90a"]
    file.write_text(QUALITY.replace('"device"', '"compile_only": true, "device"'))
    [case] = IreeSuites().cases(suite, [file], tmp_path)
    assert case.run is None


def test_a_pipeline_is_loaded_behind_the_modules_that_it_calls(suite: Path, tmp_path: Path) -> None:
    pipeline = '"modules": ["a_clip"], "mlir_file_name": "spec.mlir", "compile_flags": ["--x"], "inputs"'
    (suite / "benchmarks" / "a" / "e2e_rocm.json").write_text(TIME.replace('"inputs"', pipeline))
    case = next(case for case in IreeSuites().cases(suite, [suite], tmp_path) if case.name.endswith("e2e_rocm"))
    assert case.input.path.name == "model.mlir"
    assert case.run
    [library] = case.run.libraries
    assert (library.input.path.name, [flag.text for flag in library.flags]) == (
        "spec.mlir",
        ["--x", "--iree-rocm-target=gfx942"],
    )


@pytest.mark.parametrize(
    ("name", "before", "after", "line", "column", "word"),
    [
        ("quality_tests", '"run_function"', '"function"', 7, 20, "run_function"),
        ("quality_tests", '"https://example.com/real.irpa"', '"real.irpa"', 6, 19, "real.irpa"),
        ("quality_tests", '"spec.mlir"', '"gone.mlir"', 10, 27, "gone.mlir"),
        ("benchmarks", '"mi300": 7', '"mi300": "many"', 8, 32, "many"),
        ("benchmarks", '"inputs"', '"modules": ["a_vae"], "mlir_file_name": "spec.mlir", "inputs"', 3, 15, "a_vae"),
    ],
)
def test_a_mistake_has_its_position(
    suite: Path, tmp_path: Path, name: str, before: str, after: str, line: int, column: int, word: str
) -> None:
    file = suite / name / "a" / "clip_rocm.json"
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after, 1))
    with pytest.raises(BadFiles) as caught:
        IreeSuites().cases(suite, [suite], tmp_path)
    problem = caught.value.problems[0]
    assert (Path(problem.path), problem.line, problem.column) == (file, line, column), problem
    assert word in problem.message
