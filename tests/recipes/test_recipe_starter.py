"""The starter recipe and the schema for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.conftest import ROOT
from tests.recipes.loading import load_recipes
from triage.compilers.registry import recipe_families
from triage.model.case import InputKind, Target
from triage.recipes.family import RecipeStart, new_recipe
from triage.recipes.recipe import recipe_schema


def text_of(name: str, path: str, target: Target, **more: Any) -> str:
    return new_recipe(name, path, RecipeStart("iree", Path(path), target, **more))


@pytest.mark.parametrize(
    "target",
    [
        Target("cuda", "sm_86"),
        Target("llvm-cpu"),
        Target("rocm", "gfx942", 2),
        Target("cuda", "90"),
        Target("cuda", "no"),
    ],
)
def test_a_new_recipe_loads(folder, target):
    Path("new.yaml").write_text(
        text_of("my-case", "models/matmul.mlir", target, flags=["--a=b"], phase="hal")
    )
    (case,) = load_recipes([Path("new.yaml")])
    assert (case.name, case.target, case.input.kind) == (
        "my-case",
        target,
        InputKind.MLIR,
    )
    assert ([flag.text for flag in case.flags], case.phase) == (["--a=b"], "hal")


def test_the_schema_describes_every_key_and_fits_recipes():
    schema = recipe_schema(recipe_families())
    assert json.loads(json.dumps(schema)) == schema
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    objects = [found for found in schema["$defs"].values() if found["type"] == "object"]
    assert objects
    for found in objects:
        assert found["additionalProperties"] is False
        assert all(
            "description" in key or "$ref" in key
            for key in found["properties"].values()
        )
    for path in (ROOT / "recipes").glob("*.yaml"):
        recipe = yaml.safe_load(path.read_text())
        assert [error.message for error in validator.iter_errors(recipe)] == [], path
        for change in (
            {"target": {"backend": ""}},
            {"flgs": []},
            {"compiler": "gcc"},
            {"name": "A B"},
            {"matrix": {"a": "x"}},
        ):
            assert not validator.is_valid(recipe | change), (path, change)
