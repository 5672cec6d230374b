"""The starter recipe and the schema for editors."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.recipes.loading import load_recipes
from triage.compilers.registry import recipe_families
from triage.model.case import InputKind, Target
from triage.recipes.family import RecipeStart
from triage.recipes.schema import RecipeFormat, recipe_schema
from triage.recipes.starter import new_recipe


def text_of(name: str, path: str, target: Target, **more: Any) -> str:
    return new_recipe(recipe_families(), name, path, RecipeStart("iree", Path(path), target, **more))


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
    Path("new.yaml").write_text(text_of("my-case", "models/matmul.mlir", target, flags=["--a=b"], phase="hal"))
    (case,) = load_recipes([Path("new.yaml")])
    assert (case.name, case.target, case.input.kind) == ("my-case", target, InputKind.MLIR)
    assert ([flag.text for flag in case.flags], case.phase) == (["--a=b"], "hal")


def test_the_commented_keys_load_as_well(folder):
    text = text_of("a", "models/matmul.mlir", Target("cuda"))
    lines = [re.sub(r"^# (?=(flags|phase|matrix|expect|  -))", "", line) for line in text.splitlines()]
    opened = "\n".join(lines).replace("models/matmul.mlir", "models/matmul_${dtype}.mlir")
    Path("new.yaml").write_text(opened + "\n")
    cases = load_recipes([Path("new.yaml")])
    assert [case.name for case in cases] == ["a[dtype=f16]", "a[dtype=f32]"]
    assert all(case.flags and case.expect and case.phase for case in cases)


def objects(schema: Any) -> list[dict[str, Any]]:
    """Every object schema with named properties."""
    match schema:
        case dict():
            here = [schema] if schema.get("type") == "object" and "properties" in schema else []
            return here + [found for value in schema.values() for found in objects(value)]
        case list():
            return [found for value in schema for found in objects(value)]
        case _:
            return []


def test_the_schema_names_every_key_and_says_what_it_is():
    schema = recipe_schema(recipe_families())
    assert json.loads(json.dumps(schema)) == schema
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "triage recipe"
    assert list(schema["properties"])[: len(RecipeFormat.model_fields)] == list(RecipeFormat.model_fields)
    assert schema["required"] == ["name", "input"]
    assert schema["allOf"][0]["then"]["required"] == ["target"]
    assert len(objects(schema)) == 9
    for found in objects(schema):
        assert found["additionalProperties"] is False
        assert all("description" in key or "$ref" in key for key in found["properties"].values())
