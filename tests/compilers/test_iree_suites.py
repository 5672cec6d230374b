"""IREE's own suites as cases: folders of operations, tests of models, lists of ONNX
models; and the places of mistakes.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.conftest import ROOT, Triage
from tests.fake_releases import install
from triage.cli.context import cases_in
from triage.compilers.iree.suite import IreeSuites
from triage.model.case import Case
from triage.model.errors import BadFiles
from triage.model.execution import Stage
from triage.model.outcome import Failure
from triage.recipes.expectations import ObservedCase

#: The suite that each test gets a copy of.
SUITE = ROOT / "tests" / "data" / "iree_suite"
TORCH = '{"flat_args": [{"Formula": {"shape": [2, "x"]}}],\n  "mode": "look"\n}'
OUTCOMES = {
    "a/one": "pass",
    "a/two": "fail-import",
    "b/three": "fail-compile",
    "b/four": "fail-run",
    "b/five": "skip",
}


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ROCM_CHIP", raising=False)
    monkeypatch.delenv("SKU", raising=False)
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


def test_a_benchmark_compiles_the_program_of_its_quality_test(suite: Path) -> None:
    measured, compared = cases(suite, suite / "shark").values()
    assert (measured.name, compared.name) == (
        "shark/benchmarks/a/clip_rocm",
        "shark/quality/a/clip_rocm",
    )
    flags = [flag.text for flag in compared.flags]
    assert flags[0] == "--iree-hal-target-device=hip"
    assert flags[1].endswith(str(suite / "shark" / "spec.mlir"))
    assert flags[2:] == ["--iree-rocm-target=gfx942"]
    assert (measured.input, measured.flags, measured.artifacts) == (
        compared.input,
        compared.flags,
        compared.artifacts,
    )
    assert (compared.target.backend, compared.target.chip) == ("rocm", "gfx942")
    assert compared.run
    assert measured.run
    assert (compared.run.device, compared.run.function, compared.run.tolerances) == (
        "hip",
        "main",
        (("f16", 0.5),),
    )
    names = [
        str(artifact.source).rpartition("/")[2] for artifact in compared.run.artifacts
    ]
    assert names == ["in.bin", "out.npy", "real.irpa"]
    assert (
        compared.run.parameters
        == measured.run.parameters
        == (("model", compared.run.artifacts[2].path),)
    )
    assert measured.thresholds == (("run_ms", 15.0), ("dispatches", 7.0))
    assert measured.benchmarks[0].flags == ("--device_allocator=caching",)


def test_expected_failures_and_skipped_tests_depend_on_the_chip(
    suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCM_CHIP", "gfx90a")
    monkeypatch.setenv("SKU", "mi250")
    file = suite / "shark" / "quality" / "a" / "clip_rocm.json"
    quality = file.read_text()
    file.write_text(
        quality.replace('"device"', '"run_test_expecting_to_fail": true, "device"')
    )
    [case] = cases(suite, suite / "shark").values()
    assert [entry.stage for entry in case.expect] == [
        Stage.RUN,
        Stage.COMPARE,
        Stage.COMPILE,
    ]
    assert [flag.text for flag in case.flags] == [
        "--iree-hal-target-device=hip",
        "--iree-rocm-target=gfx90a",
    ]
    file.write_text(quality.replace('"device"', '"compile_only": true, "device"'))
    [case] = cases(suite, file).values()
    assert case.run is None


def test_a_pipeline_is_loaded_behind_the_modules_that_it_calls(suite: Path) -> None:
    pipeline = '"modules": ["a_clip"], "mlir_file_name": "spec.mlir", "compile_flags": ["--x"], "inputs"'
    file = suite / "shark" / "benchmarks" / "a" / "e2e_rocm.json"
    time = (file.parent / "clip_rocm.json").read_text()
    file.write_text(time.replace('"inputs"', pipeline))
    [case] = cases(suite, file).values()
    assert case.input.path.name == "model.mlir"
    assert case.run
    [library] = case.run.libraries
    flags = [flag.text for flag in library.flags]
    assert (library.input.path.name, flags) == (
        "spec.mlir",
        ["--x", "--iree-rocm-target=gfx942"],
    )


def write_model(path: Path) -> None:
    """A model with a free dimension and a weight that is also an argument."""
    free, weight = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3])
        for name in ("x", "w")
    )
    result = helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 3])
    zeros = numpy_helper.from_array(np.zeros((1, 3), "f4"), "w")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["z"])],
        "main",
        [weight, free],
        [result],
        [zeros],
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        ),
        path,
    )


def test_outcomes_of_onnx_models_become_expected_failures(suite: Path) -> None:
    tests = [
        f'"tests/model_zoo/zoo/kind_models_test.py::test_models[{name}.onnx]": "{end}"'
        for name, end in OUTCOMES.items()
    ]
    flags = '"iree_compile_flags": ["--iree-hal-target-backends=llvm-cpu"], "iree_run_module_flags": ["--device=local-sync"]'
    config = suite / "onnx.json"
    config.write_text(
        f'{{"config_name": "c", {flags}, "tests_and_expected_outcomes": {{"default": "skip", {", ".join(tests)}}}}}'
    )
    write_model(suite / "zoo" / "kind" / "a" / "one.onnx")
    found = cases(suite, config)
    assert {
        name: [entry.stage for entry in case.expect] for name, case in found.items()
    } == {
        "zoo/kind/a/one": [],
        "zoo/kind/a/two": [Stage.IMPORT],
        "zoo/kind/b/three": [Stage.COMPILE],
        "zoo/kind/b/four": [Stage.RUN, Stage.COMPARE],
    }
    local, remote = found["zoo/kind/a/one"], found["zoo/kind/a/two"]
    assert (local.artifacts, local.input.path) == (
        (),
        suite / "zoo" / "kind" / "a" / "one.onnx",
    )
    assert local.run
    assert len(local.run.inputs) == 1
    assert [
        str(artifact.source).partition("/main/")[2] for artifact in remote.artifacts
    ] == ["zoo/kind/a/two.onnx"]
    assert remote.run
    write_model(remote.input.path)  # as the download does
    assert len(remote.run.with_arguments().inputs) == 1


def test_mistakes_of_all_files_are_reported_at_once(suite: Path) -> None:
    config = suite / "cpu.json"
    config.write_text(
        config.read_text()
        .replace("skip_run_tests", "skip_runs")
        .replace('"config_name": "cpu",', "")
    )
    (suite / "ops/fine/run_module_io_flags.txt").write_text("--input=f32=@gone.bin\n")
    (suite / "ops/wrong/other.mlir").write_text("module {}")
    torch = suite / "generated" / "Add" / "f32" / "run_module_io.json"
    torch.parent.mkdir(parents=True)
    torch.write_text(TORCH)
    found = problems(suite, config, suite / "gone.json")
    places = {(name, line, column) for name, line, column, _ in found}
    assert {
        ("cpu.json", 8, 3),
        ("gone.json", None, None),
        ("run_module_io_flags.txt", 1, 9),
        ("wrong", None, None),
    } <= places
    assert {("run_module_io.json", 1, 42), ("run_module_io.json", 2, 11)} <= places
    assert any("config_name" in message for *_, message in found)


@pytest.mark.parametrize(
    ("name", "before", "after", "line", "column", "word"),
    [
        ("tests/time", '"benchmark"', '"speed"', 2, 11, "quality"),
        (
            "tests/time",
            '"https://example.com/real.irpa"',
            '"real.irpa"',
            5,
            56,
            "real.irpa",
        ),
        (
            "shark/benchmarks/a/clip_rocm",
            '"inputs"',
            '"modules": ["a_vae"], "inputs"',
            3,
            15,
            "a_vae",
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


@pytest.mark.usefixtures("home")
def test_the_project_limits_each_test_and_passes_variables_on(
    suite: Path, triage: Triage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "triage.yaml").write_text(
        "name: iree\ncompiler: iree\n"
        "suites: {timeout: 0.3s, env: [HIP_HOME, OMP_NUM_THREADS]}\n"
    )
    monkeypatch.chdir(tmp_path)
    configs = [suite / "cpu.json", suite / "tests"]
    for case in cases_in([suite], configs):
        assert dict(case.env) == dict.fromkeys(("HIP_HOME", "OMP_NUM_THREADS"))
        runs = [case.run] if case.run else []
        for limited in (case, *runs, *case.benchmarks):
            assert limited.limits.timeout == pytest.approx(0.3)
    (suite / "ops" / "fine" / "model.mlir").write_text("module {} // sleeps-0")
    built = f"path:{install(tmp_path / 'built', 5)}"
    words = [suite, "--suite-config", configs[0], "-t", built, "--case", "ops/fine"]
    done = triage("run", *words, "--format", "json", cwd=tmp_path)
    [result] = json.loads(done.stdout)["results"]
    assert result["failure"]["class"] == "timeout"


def test_a_torch_benchmark_runs_where_the_runtime_would(suite: Path) -> None:
    torch = suite / "generated" / "AB" / "small_bench" / "run_module_io.json"
    torch.parent.mkdir(parents=True)
    formula = '{"Formula": {"shape": [2, 3], "offset": 1.0}}'
    torch.write_text(f'{{"flat_args": [{formula}, {formula}], "mode": "benchmark"}}')
    (torch.parent / "test.mlir").write_text("module {}")
    flags = '"iree_compile_flags": ["--iree-hal-target-backends=llvm-cpu"]'
    config = suite / "torch.json"
    config.write_text(
        f'{{"config_name": "t", {flags}, "iree_run_module_flags": [],\n'
        '"golden_times_ms": {"AB/small_bench": 2.0}, "tolerance_factor": 1.5}'
    )
    case = cases(suite, config)["AB/small_bench"]
    assert case.run
    assert case.run.measured
    assert (case.run.device, case.thresholds) == ("local-task", (("run_ms", 3.0),))
    first, second = case.run.artifacts
    for artifact in (first, second):
        assert not isinstance(artifact.source, str)
        artifact.path.parent.mkdir(parents=True, exist_ok=True)
        artifact.source.write(artifact.path)
    drawn = np.random.RandomState(0).rand(12).astype("f4").reshape(2, 2, 3) + 1
    assert np.load(first.path) == pytest.approx(drawn[0])
    assert np.load(second.path) == pytest.approx(drawn[1])
