"""IREE's own suites as cases: folders of operations, tests of models, lists of ONNX models; and the places of mistakes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from triage.compilers.iree.suite import IreeSuites
from triage.model.case import Case, Reference
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
TORCH = '{"flat_args": [{"Formula": {"shape": [2, "x"]}}],\n  "mode": "look"\n}'
MODULE = '{"mlir": "https://example.com/a/model.mlir", "compiler_flags": ["--iree-hal-target-backends=llvm-cpu"]}'
BENCHMARK = """{
  "type": "benchmark",
  "markers": ["cpu"],
  "modules": ["modules/model"],
  "weights": [{"type": "url", "scope": "model", "url": "https://example.com/real.irpa"}],
  "inputs": [{"value": "1x64xi64", "url": "https://example.com/input.0.bin"}, {"value": "2xf8E4M3FNUZ"}],
  "run_args": ["--device=local-task", "--benchmark_repetitions=10"],
  "golden_time_ms": 150.0,
}
"""
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
  "specific_chip_to_ignore": ["gfx90a"]
}
"""
OUTCOMES = {"a/one": "pass", "a/two": "fail-import", "b/three": "fail-compile", "b/four": "fail-run", "b/five": "skip"}
FILES = {
    "cpu.json": CONFIG,
    "modules/model.json": MODULE,
    "tests/time.json": BENCHMARK,
    "shark/quality/a/clip_rocm.json": QUALITY,
    "shark/benchmarks/a/clip_rocm.json": TIME,
    "shark/spec.mlir": "module {}",
    "conftest.py": "",
}


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ROCM_CHIP", raising=False)
    monkeypatch.delenv("SKU", raising=False)
    folder = tmp_path / "suite"
    files = dict(FILES)
    for name in ("broken", "compiled", "fine", "never", "wrong"):
        files[f"ops/{name}/model.mlir"] = "module {}"
        files[f"ops/{name}/input_0.bin"] = "1234"
        files[f"ops/{name}/run_module_io_flags.txt"] = "--input=f32=@input_0.bin\n--expected_output=f32=1\n"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def cases(folder: Path, *configs: Path) -> dict[str, Case]:
    found = IreeSuites().cases(folder, configs, folder.parent / "downloads")
    return {case.name: case for case in found}


def problems(folder: Path, *configs: Path) -> list[tuple[str, int | None, int | None, str]]:
    with pytest.raises(BadFiles) as caught:
        cases(folder, *configs)
    return [(Path(each.path).name, each.line, each.column, each.message) for each in caught.value.problems]


def test_an_operation_has_the_flags_of_the_config_and_its_own_values(suite: Path) -> None:
    found = cases(suite, suite / "cpu.json")
    assert list(found) == ["ops/broken", "ops/compiled", "ops/fine", "ops/wrong"]
    fine = found["ops/fine"]
    assert (fine.recipe, fine.target.backend, fine.input.path) == ("cpu", "llvm-cpu", suite / "ops/fine/model.mlir")
    assert fine.flags[0].text == "--iree-hal-target-device=local"
    assert fine.run is not None
    assert fine.run.inputs == (f"f32=@{suite}/ops/fine/input_0.bin",)
    assert (fine.run.expected, fine.run.flags, fine.expect) == (("f32=1",), ("--device=local-sync",), ())
    assert found["ops/compiled"].run is None
    assert [item.stage for item in found["ops/broken"].expect] == [Stage.COMPILE]
    assert [item.stage for item in found["ops/wrong"].expect] == [Stage.RUN, Stage.COMPARE]


def test_a_test_of_a_model_names_what_it_downloads_and_its_limits(suite: Path) -> None:
    [case] = cases(suite, suite / "tests").values()
    assert (case.name, case.recipe, case.target.backend) == ("tests/time", "benchmark", "llvm-cpu")
    assert case.goldens == (("run_ms", pytest.approx(165.0)),)
    assert [artifact.source for artifact in case.artifacts] == ["https://example.com/a/model.mlir"]
    assert case.run
    assert case.run.measured
    data, weights = case.run.artifacts
    assert (data.source, weights.source) == ("https://example.com/input.0.bin", "https://example.com/real.irpa")
    assert case.run.inputs == (f"1x64xi64=@{data.path}", "2xf8E4M3FNUZ")
    assert case.run.parameters == (("model", weights.path),)
    assert case.benchmarks[0].flags == ("--device=local-task",)
    assert data.path.is_relative_to(suite.parent / "downloads")


def test_a_benchmark_compiles_the_program_of_its_quality_test(suite: Path) -> None:
    measured, compared = cases(suite, suite / "shark").values()
    assert (measured.name, compared.name) == ("shark/benchmarks/a/clip_rocm", "shark/quality/a/clip_rocm")
    flags = [flag.text for flag in compared.flags]
    assert flags[0] == "--iree-hal-target-device=hip"
    assert flags[1].endswith(str(suite / "shark" / "spec.mlir"))
    assert flags[2:] == ["--iree-rocm-target=gfx942"]
    assert (measured.input, measured.flags, measured.artifacts) == (compared.input, compared.flags, compared.artifacts)
    assert (compared.target.backend, compared.target.chip) == ("rocm", "gfx942")
    assert compared.run
    assert measured.run
    assert (compared.run.device, compared.run.function, compared.run.tolerances) == ("hip", "main", (("f16", 0.5),))
    names = [str(artifact.source).rpartition("/")[2] for artifact in compared.run.artifacts]
    assert names == ["in.bin", "out.npy", "real.irpa"]
    assert compared.run.parameters == measured.run.parameters == (("model", compared.run.artifacts[2].path),)
    assert measured.goldens == (("run_ms", 15.0), ("dispatches", 7.0))
    assert measured.benchmarks[0].flags == ("--device_allocator=caching",)


def test_expected_failures_and_skipped_tests_depend_on_the_chip(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_CHIP", "gfx90a")
    monkeypatch.setenv("SKU", "mi250")
    file = suite / "shark" / "quality" / "a" / "clip_rocm.json"
    file.write_text(QUALITY.replace('"device"', '"run_test_expecting_to_fail": true, "device"'))
    [case] = cases(suite, suite / "shark").values()
    assert [entry.stage for entry in case.expect] == [Stage.RUN, Stage.COMPARE, Stage.COMPILE]
    assert [flag.text for flag in case.flags] == ["--iree-hal-target-device=hip", "--iree-rocm-target=gfx90a"]
    file.write_text(QUALITY.replace('"device"', '"compile_only": true, "device"'))
    [case] = cases(suite, file).values()
    assert case.run is None


def test_a_pipeline_is_loaded_behind_the_modules_that_it_calls(suite: Path) -> None:
    pipeline = '"modules": ["a_clip"], "mlir_file_name": "spec.mlir", "compile_flags": ["--x"], "inputs"'
    file = suite / "shark" / "benchmarks" / "a" / "e2e_rocm.json"
    file.write_text(TIME.replace('"inputs"', pipeline))
    [case] = cases(suite, file).values()
    assert case.input.path.name == "model.mlir"
    assert case.run
    [library] = case.run.libraries
    flags = [flag.text for flag in library.flags]
    assert (library.input.path.name, flags) == ("spec.mlir", ["--x", "--iree-rocm-target=gfx942"])


def write_model(path: Path) -> None:
    """A model with a free dimension and a weight that is also an argument."""
    free, weight = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in ("x", "w"))
    result = helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 3])
    zeros = numpy_helper.from_array(np.zeros((1, 3), "f4"), "w")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["z"])], "main", [weight, free], [result], [zeros])
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_outcomes_of_onnx_models_become_expected_failures(suite: Path) -> None:
    tests = [f'"tests/model_zoo/zoo/kind_models_test.py::test_models[{name}.onnx]": "{end}"' for name, end in OUTCOMES.items()]
    flags = '"iree_compile_flags": ["--iree-hal-target-backends=llvm-cpu"], "iree_run_module_flags": ["--device=local-sync"]'
    config = suite / "onnx.json"
    config.write_text(
        f'{{"config_name": "c", {flags}, "tests_and_expected_outcomes": {{"default": "skip", {", ".join(tests)}}}}}'
    )
    write_model(suite / "zoo" / "kind" / "a" / "one.onnx")
    found = cases(suite, config)
    assert {name: [entry.stage for entry in case.expect] for name, case in found.items()} == {
        "zoo/kind/a/one": [],
        "zoo/kind/a/two": [Stage.IMPORT],
        "zoo/kind/b/three": [Stage.COMPILE],
        "zoo/kind/b/four": [Stage.RUN, Stage.COMPARE],
    }
    local, remote = found["zoo/kind/a/one"], found["zoo/kind/a/two"]
    assert (local.artifacts, local.input.path) == ((), suite / "zoo" / "kind" / "a" / "one.onnx")
    assert local.run
    assert len(local.run.inputs) == 1
    assert [str(artifact.source).partition("/main/")[2] for artifact in remote.artifacts] == ["zoo/kind/a/two.onnx"]
    assert remote.run
    assert remote.run.reference == Reference(onnxruntime=True)
    write_model(remote.input.path)  # as the download does
    assert len(remote.run.with_arguments().inputs) == 1


def test_mistakes_of_all_files_are_reported_at_once(suite: Path) -> None:
    (suite / "cpu.json").write_text(CONFIG.replace("skip_run_tests", "skip_runs").replace('"config_name": "cpu",', ""))
    (suite / "ops/fine/run_module_io_flags.txt").write_text("--input=f32=@gone.bin\n")
    (suite / "ops/wrong/other.mlir").write_text("module {}")
    torch = suite / "generated" / "Add" / "f32" / "run_module_io.json"
    torch.parent.mkdir(parents=True)
    torch.write_text(TORCH)
    found = problems(suite, suite / "cpu.json", suite / "gone.json")
    places = {(name, line, column) for name, line, column, _ in found}
    assert {("cpu.json", 8, 3), ("gone.json", None, None), ("run_module_io_flags.txt", 1, 9), ("wrong", None, None)} <= places
    assert {("run_module_io.json", 1, 42), ("run_module_io.json", 2, 11)} <= places
    assert any("config_name" in message for *_, message in found)


@pytest.mark.parametrize(
    ("name", "before", "after", "line", "column", "word"),
    [
        ("tests/time", '"benchmark"', '"speed"', 2, 11, "quality"),
        ("tests/time", "150.0", "soon", 8, 21, "number"),
        ("tests/time", '"type": "url", ', '"type": "random", ', 5, 15, "seed"),
        ("tests/time", '"2xf8E4M3FNUZ"', '"2xf9"', 6, 89, "2x3xf32"),
        ("tests/time", '"https://example.com/real.irpa"', '"real.irpa"', 5, 56, "real.irpa"),
        ("shark/quality/a/clip_rocm", '"run_function"', '"function"', 7, 20, "run_function"),
        ("shark/quality/a/clip_rocm", '"https://example.com/real.irpa"', '"real.irpa"', 6, 19, "real.irpa"),
        ("shark/quality/a/clip_rocm", '"spec.mlir"', '"gone.mlir"', 10, 27, "gone.mlir"),
        ("shark/benchmarks/a/clip_rocm", '"mi300": 7', '"mi300": "many"', 8, 32, "number"),
        ("shark/benchmarks/a/clip_rocm", '"inputs"', '"modules": ["a_vae"], "inputs"', 3, 15, "a_vae"),
    ],
)
def test_a_mistake_has_its_place(suite: Path, name: str, before: str, after: str, line: int, column: int, word: str) -> None:
    file = suite / f"{name}.json"
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after, 1))
    place = problems(suite, file)[0]
    assert place[:3] == (file.name, line, column), place
    assert word in place[3], place
