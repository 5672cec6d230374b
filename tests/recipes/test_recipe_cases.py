"""The cases of a recipe: every key, matrices, patterns of files, kernels, and which
files are recipes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.conftest import ROOT
from tests.recipes.conftest import Loaded
from tests.recipes.loading import load_recipes
from triage.compilers.registry import recipe_families
from triage.model.case import Case, Expectation, Flag, Input, InputKind, Target
from triage.model.errors import BadFiles
from triage.model.execution import Limits
from triage.recipes.recipe import recipe_json_schema

FULL = """\
name: cuda-matmul-f32
summary: a matmul — with ümlauts
compiler: iree
input: models/make.py
args: {n: 4096, exact: no, scale: 1.10, day: 2025-06-04, mask: 0x1F, at: 1:30}
target: {backend: cuda, chip: sm_86, devices: 2}
flags: ["--iree-opt-level=O3", {flag: "--iree-x=y", since: "3.5.0", until: "3.9.0"}]
phase: executable-targets
env: {A: 1}
limits: {timeout: 1h30m, memory: 2GB}
expect:
  - {failure: shared-memory-overflow, since: "3.1.0", until: "3.8.0", issue: "iree-org/iree#19575"}
  - failure: crash
    issue: https://github.com/iree-org/iree/issues/1
"""
BASE = "name: a\ninput: models/matmul.mlir\ntarget: {backend: cuda}\n"


def test_every_key_reaches_the_case(loaded: Loaded, folder: Path) -> None:
    args = [
        "n",
        "4096",
        "exact",
        "no",
        "scale",
        "1.10",
        "day",
        "2025-06-04",
        "mask",
        "0x1F",
        "at",
        "1:30",
    ]
    issue = "https://github.com/iree-org/iree/issues/1"
    assert loaded(FULL) == (
        Case(
            "cuda-matmul-f32",
            "cuda-matmul-f32",
            "a matmul — with ümlauts",
            "iree",
            folder / "r.yaml",
            Input(
                folder / "models/make.py",
                InputKind.GENERATOR,
                tuple(zip(args[::2], args[1::2], strict=True)),
            ),
            Target("cuda", "sm_86", 2),
            (Flag("--iree-opt-level=O3"), Flag("--iree-x=y", "3.5.0", "3.9.0")),
            "executable-targets",
            Limits(timeout=5400.0, memory=2 * 10**9),
            (
                Expectation(
                    "shared-memory-overflow", "3.1.0", "3.8.0", "iree-org/iree#19575"
                ),
                Expectation("crash", issue=issue),
            ),
            env=(("A", "1"),),
        ),
    )


def test_placeholders_are_filled_in_everywhere_they_may_stand(loaded: Loaded) -> None:
    text = """\
name: a
input: models/${file}.py
args: {n: "${n}", fixed: 1}
target: {backend: "${backend}", chip: "sm_${n}", devices: "${d}"}
flags: ["-n=${n}-${d}", {flag: "--x=${n}", since: "3.5.0"}, "${flag}"]
env: {A: "${n}"}
matrix: {file: [make], n: [86], backend: [cuda], d: [2], flag: ["--y=z"]}
"""
    (case,) = loaded(text)
    assert case.input.path.name == "make.py"
    assert case.input.args == (("n", "86"), ("fixed", "1"))
    assert case.target == Target("cuda", "sm_86", 2)
    assert case.flags == (Flag("-n=86-2"), Flag("--x=86", since="3.5.0"), Flag("--y=z"))
    assert case.env == (("A", "86"),)


def test_folders_are_searched_in_sorted_order_without_hidden_ones(
    folder: Path,
) -> None:
    names = ("b.yaml", "a/z.yml", "a.yaml", ".git/x.yaml", ".hidden.yaml", "note.txt")
    for number, name in enumerate(names):
        path = Path("s", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = BASE.replace("models", str(folder / "models"))
        path.write_text(text.replace("name: a", f"name: r{number}"))
    assert [case.name for case in load_recipes([Path("s")])] == ["r1", "r2", "r0"]


PATTERN = "name: n\ntarget: {backend: llvm-cpu}\ninput: "


@pytest.fixture
def zoo(folder: Path) -> Path:
    for name in ("resnet/model", "bert/model", "bert/small", ".git/model"):
        path = folder / "zoo" / f"{name}.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (folder / "zoo" / "a.mlir").touch()
    return folder / "zoo"


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("zoo/**/*.onnx", ["bert/model", "bert/small", "resnet/model"]),
        ("zoo/*/model.onnx", ["bert", "resnet"]),
        ("../zoo/zoo/*.mlir", ["a"]),
    ],
)
def test_a_case_has_the_name_of_its_file(
    zoo: Path, pattern: str, names: list[str]
) -> None:
    (zoo / "zoo").symlink_to(zoo)
    recipe = zoo.parent / "r.yaml"
    if pattern.startswith(".."):
        recipe = zoo.parent / "r" / "r.yaml"
        recipe.parent.mkdir()
    recipe.write_text(f"{PATTERN}'{pattern}'\n")
    cases = load_recipes([recipe])
    assert [case.name for case in cases] == [f"n[file={name}]" for name in names]
    assert [case.matrix for case in cases] == [(("file", name),) for name in names]
    assert all(case.input.path.is_file() for case in cases)


def test_test_data_beside_a_model_is_run(zoo: Path, loaded: Loaded) -> None:
    data = zoo / "bert" / "data"
    data.mkdir()
    for name in ("input_0.pb", "input_1.npy", "output_0.pb"):
        (data / name).touch()
    text = f"{PATTERN}zoo/*/model.onnx\nrun: {{data: data}}\n"
    bert, resnet = loaded(text)
    assert bert.run is not None
    assert bert.run.inputs == (f"@{data}/input_0.pb", f"@{data}/input_1.npy")
    assert bert.run.expected == (f"@{data}/output_0.pb",)
    assert resnet.run is None
    (data / "input_1.npy").rename(data / "input_2.pb")
    with pytest.raises(BadFiles, match="one a number"):
        loaded(text)


def test_the_schema_describes_every_key_and_fits_recipes() -> None:
    schema = recipe_json_schema(recipe_families())
    assert json.loads(json.dumps(schema)) == schema
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    objects = [found for found in schema["$defs"].values() if found["type"] == "object"]
    assert objects
    for found in objects:
        assert found["additionalProperties"] is False
        for key in found["properties"].values():
            assert "description" in key or "$ref" in key
    changes: list[dict[str, object]] = [
        {"flgs": []},
        {"compiler": "gcc"},
        {"matrix": {"a": "x"}},
    ]
    for path in (ROOT / "recipes").glob("*.yaml"):
        recipe = yaml.safe_load(path.read_text())
        assert [error.message for error in validator.iter_errors(recipe)] == [], path
        for change in changes:
            assert not validator.is_valid(recipe | change), (path, change)
