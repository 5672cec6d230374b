"""What pydantic found wrong, said as advice at the place in the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from triage.config.suggestions import closest, did_you_mean
from triage.config.yaml_document import Document, Loc
from triage.model.errors import Problem
from triage.recipes.format import ExpectFormat, FlagFormat, LimitsFormat, RecipeFormat, TargetFormat

_INSIDE: Mapping[str, tuple[type[BaseModel], str]] = {
    "target": (TargetFormat, "a target"),
    "flags": (FlagFormat, "a flag"),
    "limits": (LimitsFormat, "limits"),
    "expect": (ExpectFormat, "an expect entry"),
}

# What to write, shown where a key is missing or holds the wrong shape.
_EXAMPLES: Mapping[str, str] = {
    "name": "name: cuda-matmul-f32",
    "input": "input: models/matmul.mlir",
    "args": "args: {n: 4096}",
    "target": "target: {backend: cuda, chip: sm_86}",
    "backend": "backend: cuda",
    "flags": 'flags: ["--iree-opt-level=O3"]',
    "flag": 'flag: "--iree-opt-level=O3"',
    "matrix": "matrix: {dtype: [f16, f32]}",
    "limits": "limits: {timeout: 120s, memory: 8GiB}",
    "expect": "expect: [{failure: shared-memory-overflow}]",
    "failure": "failure: shared-memory-overflow",
}


def problems_of(error: ValidationError, document: Document, model: type[RecipeFormat]) -> list[Problem]:
    """The problems behind one failed validation, those at settled places left out."""
    errors = error.errors(include_url=False)
    meant = {_meant(details["loc"], model) for details in errors if details["type"] == "extra_forbidden"}
    # A key that was mistyped is not missing as well.
    told = (details for details in errors if not (details["type"] == "missing" and details["loc"] in meant))
    found = (_problem(details, document, model) for details in told)
    return [problem for problem in found if problem is not None]


def _meant(loc: Loc, model: type[RecipeFormat]) -> Loc:
    """Where an unknown key would stand had it been spelled as the nearest key."""
    inside = _inside(loc, model)[0]
    return (*loc[:-1], closest(str(loc[-1]), inside.model_fields) or "")


def _inside(loc: Loc, model: type[RecipeFormat]) -> tuple[type[BaseModel], str]:
    """The mapping that a key stands in, and what to call it."""
    return _INSIDE[str(loc[0])] if len(loc) > 1 else (model, "a recipe")


def _problem(details: ErrorDetails, document: Document, model: type[RecipeFormat]) -> Problem | None:
    raw = details["loc"]
    loc = document.resolve(raw)
    # The other branch of an optional key, told of every wrong value, has nothing to say.
    if loc in document.settled or details["type"] == "none_required":
        return None
    context = details.get("ctx", {})
    match details["type"]:
        case "missing":
            return document.problem(loc, _missing(str(raw[-1]), loc))
        case "extra_forbidden":
            return document.problem(loc, _unknown_key(loc, model), at_key=True)
        case "advice":
            at_key = raw[-1:] == ("[key]",)
            if context.get("key") is not None:
                loc = (*loc, context["key"])
            return document.problem(loc, str(context["message"]), at_key=at_key)
        case "too_short":
            return document.problem(loc, f'the list of "{loc[-1]}" is empty: give it values or remove the key.')
        case "model_type" | "dict_type" | "model_attributes_type":
            return document.problem(loc, _wrong_shape(loc, "a mapping", details["input"]))
        case "list_type":
            return document.problem(loc, _wrong_shape(loc, "a list", details["input"]))
        case _:
            return document.problem(loc, f"{details['msg'].lower()}.")


def _missing(key: str, loc: Loc) -> str:
    where = f" of {_INSIDE[str(loc[0])][1]}" if loc else " of the recipe"
    return f'the key "{key}"{where} is missing: add `{_EXAMPLES.get(key, key + ": …")}`.'


def _unknown_key(loc: Loc, model: type[RecipeFormat]) -> str:
    key = str(loc[-1])
    if key == "<<":
        return "merge keys (<<) are not supported; write the keys out."
    inside, noun = _inside(loc, model)
    known = tuple(inside.model_fields)
    return f'"{key}" is no key of {noun}{did_you_mean(key, known)} Keys: {", ".join(known)}.'


def _wrong_shape(loc: Loc, wanted: str, got: Any) -> str:
    key = next((part for part in reversed(loc) if isinstance(part, str)), None)
    if key is None:
        return f"a recipe is {wanted} of keys such as `{_EXAMPLES['name']}`, not {_shape(got)}."
    if isinstance(loc[-1], int):
        return f'an entry of "{key}" is {wanted}, not {_shape(got)}: write `{_EXAMPLES.get(key, key + ": …")}`.'
    if loc[0] == "matrix" and len(loc) > 1:
        value = f"[{got}]" if isinstance(got, str) else "[f16, f32]"
        return f'the matrix key "{key}" holds {wanted}, not {_shape(got)}: write `{key}: {value}`.'
    return f'"{key}" holds {wanted}, not {_shape(got)}: write `{_EXAMPLES.get(key, key + ": …")}`.'


def _shape(value: Any) -> str:
    match value:
        case str():
            return f'"{value}"'
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return "nothing"
