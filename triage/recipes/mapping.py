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
    WithJsonSchema,
)
from pydantic_core import ErrorDetails

from triage.model.checks import SCALAR, fits
from triage.model.checks import Duration as Duration
from triage.model.checks import Text as Text
from triage.model.errors import BadFiles
from triage.recipes.document import ConfigDocument, Loc
from triage.recipes.values import closest, did_you_mean, yaml_text

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


class AtKey(ValueError):
    """A mistake in the value of one key of a mapping."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_mapping(value: Any) -> Any:
    names = _as_list(value)
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return dict.fromkeys(names)
    return value


Scalar = Annotated[str, WithJsonSchema(SCALAR)]
"""Any scalar, as the text in the file."""
OneOrMore = BeforeValidator(_as_list, json_schema_input_type=Text | list[Text])
"""Lets one text stand for a list of one."""
Texts = Annotated[tuple[Text, ...], OneOrMore]
_NAME_ADVICE = (
    '"{text}" cannot be set: write a name of letters, digits and _, but not TMPDIR.'
)
_Name = Annotated[str, fits(r"(?!TMPDIR$)[A-Za-z_][A-Za-z0-9_]*", _NAME_ADVICE)]
Variables = Annotated[
    dict[_Name, Scalar | None],
    BeforeValidator(
        _as_mapping, json_schema_input_type=list[_Name] | dict[_Name, Scalar]
    ),
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
    """Report pydantic's errors, except those with problems of their own: about mistyped
    keys, and values that are left out or have placeholders.
    """
    errors = error.errors(include_url=False)
    mistyped = set()
    for details in errors:
        if details["type"] in _UNKNOWN_KEY:
            *place, key = document.resolve(details["loc"])
            mistyped.add(closest(str(key), _keys_at(tuple(place), kind)))
    for details in errors:
        loc, value = document.resolve(details["loc"]), details["input"]
        cause = details.get("ctx", {}).get("error")
        is_missing = details["type"] == "missing"
        at_key = details["type"] in _UNKNOWN_KEY or details["loc"][-1:] == ("[key]",)
        is_empty = value is None and not document.nulls
        is_open = isinstance(value, str) and "${" in value and not at_key
        # its entries have mistakes
        is_shortened = details["type"] == "too_short" and value
        is_mistyped = is_missing and details["loc"][-1] in mistyped
        if is_empty or is_open or is_shortened or is_mistyped:
            continue
        if isinstance(cause, AtKey):
            loc = (*loc, cause.key)
        if is_missing:
            loc = (*loc, details["loc"][-1])
        document.report(loc, _message(details, loc, kind), at_key=at_key)


def _message(details: ErrorDetails, loc: Loc, kind: Any) -> str:
    """Return a sentence that says what is wrong, and what to write."""
    value = details["input"]
    place = loc
    while place and isinstance(place[-1], int):  # an entry of a list
        place = place[:-1]
    key = str(place[-1]) if place else ""
    keys = _keys_at(place[:-1], kind)
    subject = f'an entry of "{key}"' if place != loc else f'"{key}"'
    shape = f'"{value}"'
    if isinstance(value, list | Mapping):
        shape = "a mapping" if isinstance(value, Mapping) else "a list"
    shown, advice = key or next(iter(keys), ""), "."
    examples = [[value]] if isinstance(value, str) else []  # of the user's own key
    if shown in keys:
        examples = keys[shown].get("examples")
    if examples:
        advice = f": write `{shown}: {yaml_text(examples[0])}`."
    sentence = _SENTENCES.get(details["type"], "{subject}: {msg}.")
    return sentence.format(
        **{"expected": "", **details.get("ctx", {})},
        key=key,
        subject=subject if key else "the file",
        value=value,
        shape=shape,
        advice=advice,
        msg=details["msg"],
        keys=", ".join(keys),
        guess=did_you_mean(key, keys),
    )


# pydantic's errors for models and for dataclasses
_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
_NO_KEY = '"{key}" is not a key here{guess} Keys: {keys}.'
_NO_LIST = "{subject} must be a list, not {shape}{advice}"
_NO_MAPPING = "{subject} must be a mapping, not {shape}{advice}"
_NO_NUMBER = "{subject} must be a whole number, not {shape}{advice}"
_NO_CHOICE = '"{value}" is not one of the choices: write {expected}.'
# pydantic's type of an error -> what is said of it
_SENTENCES = {
    "value_error": "{error}",
    "missing": 'the key "{key}" is missing{advice}',
    "extra_forbidden": _NO_KEY,
    "unexpected_keyword_argument": _NO_KEY,
    "literal_error": _NO_CHOICE,
    "enum": _NO_CHOICE,
    "too_short": 'the list of "{key}" is empty: give it values or remove the key.',
    "string_type": "{subject} must be a single value, not {shape}{advice}",
    "list_type": _NO_LIST,
    "tuple_type": _NO_LIST,
    "dict_type": _NO_MAPPING,
    "model_type": _NO_MAPPING,
    "dataclass_type": _NO_MAPPING,
    "int_parsing": _NO_NUMBER,
    "int_parsing_size": _NO_NUMBER,
    "int_type": _NO_NUMBER,
    "float_parsing": "{subject} must be a number, not {shape}{advice}",
    "finite_number": "{subject} must be a finite number, not {shape}{advice}",
    "bool_parsing": "{subject} must be true or false, not {shape}{advice}",
    "greater_than": "{subject} must be more than {gt}, not {shape}{advice}",
    "greater_than_equal": "{subject} must be at least {ge}, not {shape}{advice}",
    "less_than_equal": "{subject} must be at most {le}, not {shape}{advice}",
}


@cache
def _schema(kind: Any) -> dict[str, Any]:
    return _adapter(kind).json_schema()


def _keys_at(loc: Loc, kind: Any) -> dict[str, Any]:
    """Return the JSON schemas of the keys of the mapping at a location. Indices and the
    user's own keys are skipped.
    """
    schema = _schema(kind)
    keys = _keys_in(schema, schema)
    for part in loc:
        keys = _keys_in(keys.get(str(part)), schema) or keys
    return keys


def _keys_in(part: Any, schema: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(part, dict):
        return {}
    if "$ref" in part:
        part = schema["$defs"][part["$ref"].rpartition("/")[2]]
    keys = dict(part.get("properties", {}))
    inner = (part.get("items"), part.get("additionalProperties"))
    for other in (*inner, *part.get("anyOf", ()), *part.get("oneOf", ())):
        keys |= _keys_in(other, schema)
    return keys
