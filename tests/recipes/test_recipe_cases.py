"""The cases of a recipe: every key, matrices, patterns of files, kernels, and which
files are recipes.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.conftest import ROOT
from tests.recipes.conftest import BASE, Loaded
from tests.recipes.loading import load_recipes
from triage.compilers.registry import RecipesByFamily
from triage.model.errors import BadFiles
from triage.recipes.recipe import recipe_json_schema

CASES = yaml.safe_load((Path(__file__).parent / "golden" / "cases.yaml").read_text())


@pytest.mark.parametrize("example", CASES, ids=["every key", "placeholders"])
def test_every_key_and_placeholder_reaches_the_case(
    loaded: Loaded, folder: Path, example: dict[str, Any]
) -> None:
    def data_of(recipe: str) -> dict[str, Any]:
        [case] = loaded(recipe)
        text = json.dumps(asdict(case), default=str).replace(f"{folder}/", "")
        return dict(json.loads(text))

    assert data_of(example["recipe"]) == data_of(BASE) | example["case"]


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
    zoo = folder / "zoo"
    for name in ("resnet/model", "bert/model", "bert/small", ".git/model"):
        path = zoo / f"{name}.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (zoo / "a.mlir").touch()
    (zoo / "zoo").symlink_to(zoo)
    return zoo


@pytest.mark.parametrize(
    ("recipe", "pattern", "names"),
    [
        ("r.yaml", "zoo/**/*.onnx", ["bert/model", "bert/small", "resnet/model"]),
        ("r.yaml", "zoo/*/model.onnx", ["bert", "resnet"]),
        ("models/r.yaml", "../zoo/zoo/*.mlir", ["a"]),
    ],
)
@pytest.mark.usefixtures("zoo")
def test_a_case_has_the_name_of_its_file(
    recipe: str, pattern: str, names: list[str]
) -> None:
    Path(recipe).write_text(f"{PATTERN}'{pattern}'\n")
    cases = load_recipes([Path(recipe)])
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
    schema = recipe_json_schema(RecipesByFamily())
    assert json.loads(json.dumps(schema)) == schema
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    objects = [part for part in schema["$defs"].values() if part["type"] == "object"]
    assert objects
    for part in objects:
        assert part["additionalProperties"] is False
        for key in part["properties"].values():
            assert "description" in key or "$ref" in key
    mistakes = yaml.safe_load("[{flgs: []}, {compiler: gcc}, {matrix: {a: x}}]")
    for path in (ROOT / "recipes").glob("*.yaml"):
        recipe = yaml.safe_load(path.read_text())
        assert [error.message for error in validator.iter_errors(recipe)] == [], path
        for mistake in mistakes:
            assert not validator.is_valid(recipe | mistake), (path, mistake)
