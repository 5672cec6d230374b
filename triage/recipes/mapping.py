"""Check mappings of YAML files with pydantic. The types also describe the values to
editors.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, TypeVar, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import ErrorDetails

from triage.model.checks import Duration as Duration
from triage.model.checks import Text as Text
from triage.model.checks import fits
from triage.model.errors import BadFiles
from triage.recipes.document import ConfigDocument, Loc
from triage.recipes.values import did_you_mean, yaml_text

Content = TypeVar("Content")
STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
"""For the mapping of a file, whose keys are the fields of a class. A message about a
key shows the first example of its field.
"""


class MappingFormat(BaseModel):
    """A mapping whose keys are the fields of the model."""

    model_config = ConfigDict(
        **STRICT, frozen=True, populate_by_name=True, defer_build=True
    )


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_mapping(value: Any) -> Any:
    names = _as_list(value)
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return dict.fromkeys(names)
    return value


OneOrMore = BeforeValidator(_as_list, json_schema_input_type=Text | list[Text])
"""Lets one text stand for a list of one."""
Texts = Annotated[tuple[Text, ...], OneOrMore]
_NAME_ADVICE = (
    '"{text}" cannot be set: write a name of letters, digits and _, but not TMPDIR.'
)
_Name = Annotated[str, fits(r"(?!TMPDIR$)[A-Za-z_][A-Za-z0-9_]*", _NAME_ADVICE)]
Variables = Annotated[
    dict[_Name, str | None],
    BeforeValidator(_as_mapping, json_schema_input_type=list[_Name] | dict[_Name, str]),
]
"""Environment variables: a list of names to pass on, whose values are None, or a
mapping of names to values.
"""


def checked(
    document: ConfigDocument,
    kind: type[Content],
    data: Any = None,
    context: object = None,
) -> Content | None:
    """Return the content of a file. If it has mistakes, add them to the document and
    return None.

    Args:
        document: The file.
        kind: The type of its content.
        data: Is checked in place of the document's data, with the same positions.
        context: Is passed to the checks.
    """
    hashable: Any = kind
    adapter: TypeAdapter[Content] = _adapter(hashable)
    try:
        content = adapter.validate_python(
            document.data if data is None else data, context=context
        )
    except ValidationError as error:
        _report(error, document, kind)
        return None
    return None if document.problems else content


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    if get_origin(kind) is None:  # a class has its own configuration
        return TypeAdapter(kind)
    return TypeAdapter(kind, config=STRICT)


def content_of(document: ConfigDocument, kind: type[Content]) -> Content:
    """Return the content of a file. Raises BadFiles with every mistake."""
    content = checked(document, kind)
    if content is None:
        raise BadFiles(document.in_order())
    return content


def _report(error: ValidationError, document: ConfigDocument, kind: Any) -> None:
    """Report pydantic's errors, except those of values that have problems of their own:
    empty ones and those with placeholders.
    """
    for details in error.errors(include_url=False):
        loc, value = document.resolve(details["loc"]), details["input"]
        type_ = details["type"]
        at_key = type_ in _UNKNOWN_KEY or details["loc"][-1:] == ("[key]",)
        is_empty = value is None and not document.nulls
        is_open = loc and isinstance(value, str) and "${" in value and not at_key
        is_of_items = type_ == "too_short" and value  # which have mistakes
        if is_empty or is_open or is_of_items:
            continue
        if type_ == "missing":
            loc = (*loc, details["loc"][-1])
        document.report(loc, _message(details, loc, kind), at_key=at_key)


def _message(details: ErrorDetails, loc: Loc, kind: Any) -> str:
    """Return a sentence that says what is wrong, and what to write."""
    value = details["input"]
    names = [part for part in loc if isinstance(part, str)]
    keys, advice = _keys_in(_schema(kind), kind), "."
    for number, name in enumerate(names):
        schema = keys.get(name, {})
        if schema.get("examples"):  # of the innermost key that has one
            example = yaml_text(schema["examples"][0])
            advice = f": write `{name}: {example}`."
        if number < len(names) - 1:
            keys = _keys_in(schema, kind) or keys  # those of the user are skipped
    shape = f'"{value}"'
    if isinstance(value, list | Mapping):
        shape = "a mapping" if isinstance(value, Mapping) else "a list"
    noun = _NOUNS.get(details["type"].partition("_")[0])
    default = details["msg"].replace("Input should be", "{key} must be") + "{advice}"
    if noun:
        default = "{key} must be {noun}, not {shape}{advice}"
    key = names[-1] if names else ""
    return _SENTENCES.get(details["type"], default).format(
        error=details.get("ctx", {}).get("error"),
        key=f'"{key}"' if key else "the file",
        noun=noun,
        shape=shape,
        advice=advice,
        keys=", ".join(keys),
        guess=did_you_mean(key, keys),
    )


# pydantic's errors for models and for dataclasses
_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
# pydantic's type of an error -> what is said of it
_SENTENCES = {
    "value_error": "{error}",
    "missing": "the key {key} is missing{advice}",
    **dict.fromkeys(_UNKNOWN_KEY, "{key} is not a key here{guess} Keys: {keys}."),
    "too_short": "the list of {key} is empty: give it values or remove the key.",
}
# the beginning of the type of other errors -> what the value must be
_NOUNS = {
    "string": "a single value",
    **dict.fromkeys(("list", "tuple"), "a list"),
    **dict.fromkeys(("dict", "model", "dataclass"), "a mapping"),
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
}


@cache
def _schema(kind: Any) -> dict[str, Any]:
    return _adapter(kind).json_schema()


def _keys_in(part: Any, kind: Any) -> dict[str, Any]:
    """Return the JSON schemas of the keys of a mapping by its own schema."""
    if not isinstance(part, dict):
        return {}
    if "$ref" in part:
        part = _schema(kind)["$defs"][part["$ref"].rpartition("/")[2]]
    keys = dict(part.get("properties", {}))
    inner = (part.get("items"), part.get("additionalProperties"))
    for other in (*inner, *part.get("anyOf", ()), *part.get("oneOf", ())):
        keys |= _keys_in(other, kind)
    return keys
