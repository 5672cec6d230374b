"""The recipe format for editors."""

from __future__ import annotations

from typing import Any

from triage.recipes.format import PLACEHOLDER, RecipeFormat
from triage.recipes.words import FAMILIES, IREE, Family

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def recipe_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a recipe file, its definitions inside.

    It knows shapes and words, and which words belong to which compiler. What lies between keys, such as the order of
    since and until or a matrix key that nothing uses, only the loader knows.
    """
    schema: dict[str, Any] = _trimmed(RecipeFormat.model_json_schema(mode="validation"))
    words = [_words_of(family) for family in FAMILIES.values()]
    return {"$schema": DIALECT, "title": "triage recipe", **schema, "allOf": [rule for rule in words if rule]}


def _words_of(family: Family) -> dict[str, Any] | None:
    """The backends and phases of one compiler, as a condition on `compiler`; None for one that takes any."""
    then: dict[str, Any] = {}
    if family.backends:
        backend = {"anyOf": [{"enum": list(family.backends)}, PLACEHOLDER]}
        then["target"] = {"properties": {"backend": backend}}
    if family.phases:
        then["phase"] = {"enum": list(family.phases)}
    if not then:
        return None
    condition: dict[str, Any] = {"properties": {"compiler": {"const": family.name}}}
    if family is not IREE:  # the family of a recipe that names none
        condition["required"] = ["compiler"]
    return {"if": condition, "then": {"properties": then}}


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
