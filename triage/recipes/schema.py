"""The recipe format for editors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from triage.recipes.by_family import FORMATS
from triage.recipes.format import PLACEHOLDER, RecipeFormat
from triage.recipes.words import FAMILIES, IREE, Family

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def recipe_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a recipe file, its definitions inside.

    It knows shapes and words, and which keys and words belong to which compiler. What lies between keys, such as the
    order of since and until or a matrix key that nothing uses, only the loader knows.
    """
    whole = RecipeFormat.model_json_schema(mode="validation")
    properties, definitions = whole["properties"], whole["$defs"]
    required = set(whole["required"])
    for model in FORMATS.values():
        schema = model.model_json_schema(mode="validation")
        for key, value in schema["properties"].items():
            properties.setdefault(key, value)
        definitions |= schema["$defs"]
        required &= set(schema["required"])  # a key that one family can do without is asked for by the others
    whole["required"] = [key for key in whole["required"] if key in required]
    rules = [_of_family(family, list(properties), whole["required"]) for family in FAMILIES.values()]
    return {"$schema": DIALECT, "title": "triage recipe", **_trimmed(whole), "allOf": rules}


def _of_family(family: Family, properties: Sequence[str], required: Sequence[str]) -> dict[str, Any]:
    """The keys, backends and phases of one compiler, as a condition on `compiler`."""
    own = FORMATS[family.name]
    then: dict[str, Any] = {key: False for key in properties if key not in own.model_fields}
    if family.backends:
        backend = {"anyOf": [{"enum": list(family.backends)}, PLACEHOLDER]}
        then["target"] = {"properties": {"backend": backend}}
    if family.phases:
        then["phase"] = {"enum": list(family.phases)}
    condition: dict[str, Any] = {"properties": {"compiler": {"const": family.name}}}
    if family is not IREE:  # the family of a recipe that names none
        condition["required"] = ["compiler"]
    asked = [key for key, field in own.model_fields.items() if field.is_required() and key not in required]
    return {"if": condition, "then": {"properties": then, "required": asked}}


def _trimmed(schema: Any) -> Any:
    """The schema without the titles made from key names and without defaults that mean `left out`."""
    match schema:
        case dict():
            return {
                key: _trimmed(value)
                for key, value in schema.items()
                if not (key == "title" and isinstance(value, str)) and not (key == "default" and value is None)
            }
        case list():
            return [_trimmed(item) for item in schema]
        case _:
            return schema
