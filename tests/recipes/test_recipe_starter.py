"""The starter recipe and the schema for editors."""

from __future__ import annotations

import json

import yaml
from jsonschema import Draft202012Validator

from tests.conftest import ROOT
from triage.compilers.registry import recipe_families
from triage.recipes.recipe import recipe_json_schema


def test_the_schema_describes_every_key_and_fits_recipes():
    schema = recipe_json_schema(recipe_families())
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
