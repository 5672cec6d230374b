"""Check mappings of YAML files with pydantic models. Their types also describe the
values to editors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from triage.model.errors import BadFiles
from triage.recipes.document import ConfigDocument, Loc
from triage.recipes.values import (
    closest,
    did_you_mean,
    parse_duration,
    parse_size,
    yaml_text,
)

Content = TypeVar("Content")


class MappingFormat(BaseModel):
    """A mapping whose keys are the fields of the model. A message about a key shows the
    first example of its field.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        defer_build=True,
        allow_inf_nan=False,
    )


class AtKey(ValueError):
    """A mistake in the value of one key of a mapping."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class Matching:
    """A pattern that a text must match, for `Annotated`."""

    regex: str
    advice: str
    """The message for another text. `{text}` in it stands for the text."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Check the text."""
        return core_schema.no_info_after_validator_function(
            self._check, handler(source)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Add the pattern."""
        # or a placeholder
        return {**handler(schema), "pattern": rf"^({self.regex})$|\$\{{"}

    def _check(self, text: str) -> str:
        if not re.fullmatch(self.regex, text):
            raise ValueError(self.advice.replace("{text}", text))
        return text


def _not_empty(text: str) -> str:
    if not text.strip():
        raise ValueError("the text is empty; give it a value or remove the key.")
    return text


def _one_value(value: Any) -> Any:
    if isinstance(value, str):
        return value
    shape = "a list" if isinstance(value, list) else "a mapping"
    raise ValueError(f"expected one value here, not {shape}.")


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_mapping(value: Any) -> Any:
    names = _as_list(value)
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return dict.fromkeys(names)
    return value


PLACEHOLDER = {"type": "string", "pattern": r"\$\{[^{}]+\}"}
SCALAR = {"type": ["string", "number", "boolean"]}
Scalar = Annotated[str, WithJsonSchema(SCALAR)]
"""Any scalar, as the text in the file."""
Text = Annotated[
    str, AfterValidator(_not_empty), WithJsonSchema({**SCALAR, "pattern": r"\S"})
]
"""A scalar that is not empty, as the text in the file."""
OneOrMore = BeforeValidator(_as_list, json_schema_input_type=Text | list[Text])
"""Lets one text stand for a list of one."""
Texts = Annotated[tuple[Text, ...], OneOrMore]
Word = Annotated[
    Text, Matching(r"\S+", '"{text}" contains white space; write one word.')
]
OneValue = BeforeValidator(_one_value)
"""Runs before the validators in front of it."""
Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    OneValue,
    WithJsonSchema({"type": ["string", "number"], "pattern": "^[0-9]"}),
]
Size = Annotated[
    int,
    BeforeValidator(parse_size),
    OneValue,
    WithJsonSchema({"type": "string", "pattern": r"^[0-9.]+ ?([kKMGT]i?)B$"}),
]
_NAME_ADVICE = (
    '"{text}" cannot be set: write a name of letters, digits and _, but not TMPDIR.'
)
_Name = Annotated[str, Matching(r"(?!TMPDIR$)[A-Za-z_][A-Za-z0-9_]*", _NAME_ADVICE)]
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
    return TypeAdapter(kind)


def content_of(document: ConfigDocument, kind: type[Content]) -> Content:
    """Return the content of a file. Raises BadFiles with every mistake."""
    content = checked(document, kind)
    if content is None:
        raise BadFiles(document.in_order())
    return content


def _report(error: ValidationError, document: ConfigDocument, kind: Any) -> None:
    """Report pydantic's errors, except those that follow from others."""
    errors = [
        (details, document.resolve(details["loc"]))
        for details in error.errors(include_url=False)
    ]
    mistyped = set()  # keys that are there, but mistyped
    for details, loc in errors:
        if details["type"] in _UNKNOWN_KEY:
            known = _fields_at(loc[:-1], kind)
            mistyped.add((*loc[:-1], closest(str(loc[-1]), known)))
    for details, loc in errors:
        value, cause = details["input"], details.get("ctx", {}).get("error")
        at_key = details["type"] in _UNKNOWN_KEY or details["loc"][-1:] == ("[key]",)
        if details["type"] == "missing":
            loc = (*loc, details["loc"][-1])
            is_reported = loc in mistyped
        else:
            is_reported = details["type"] == "too_short" and bool(value)
        is_empty = value is None and not document.nulls
        is_placeholder = isinstance(value, str) and "${" in value
        # All of these have problems of their own.
        if (is_reported or is_empty or is_placeholder) and not at_key:
            continue
        place = (*loc, cause.key) if isinstance(cause, AtKey) else loc
        document.report(place, _message(details, loc, kind), at_key=at_key)


def _message(details: ErrorDetails, loc: Loc, kind: Any) -> str:
    """Return a sentence that says what is wrong, and what to write."""
    value, context = details["input"], details.get("ctx", {})
    place = loc
    while place and isinstance(place[-1], int):  # an entry of a list
        place = place[:-1]
    key = str(place[-1]) if place else ""
    known = _fields_at(place[:-1], kind)
    examples = known[key].examples if key in known else None
    advice = f": write `{key}: {yaml_text(examples[0])}`." if examples else "."
    match details["type"]:
        case "value_error":
            return str(context["error"])
        case "missing":
            return f'the key "{key}" is missing{advice.replace("write", "add")}'
        case "extra_forbidden" | "unexpected_keyword_argument":
            keys = f" Keys: {', '.join(known)}." if known else ""
            return f'"{key}" is not a key here{did_you_mean(key, known)}{keys}'
        case "literal_error" | "enum":
            return f'"{value}" is not one of the choices: write {context["expected"]}.'
        case "too_short":
            return f'the list of "{key}" is empty: give it values or remove the key.'
    if isinstance(value, list):
        shape = "a list"
    elif isinstance(value, Mapping):
        shape = "a mapping"
    else:
        shape = f'"{value}"'
    wanted = re.split(",| or instance", details["msg"])[0]
    wanted = wanted.removeprefix("Input should be ")
    for pydantic_word, word in _WORDS.items():
        wanted = wanted.replace(pydantic_word, word)
    if not key:
        return (
            f"the file must be {wanted} of keys such as `{next(iter(known), 'key')}: "
            f"…`, not {shape}."
        )
    if key not in known and wanted == "a list":  # a key of the user's own
        advice = f": write `{key}: [{value}]`."
    subject = f'an entry of "{key}"' if isinstance(loc[-1], int) else f'"{key}"'
    return f"{subject} must be {wanted}, not {shape}{advice}"


# pydantic's errors for models and for dataclasses
_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
_WORDS = {
    "valid ": "",
    "dictionary": "mapping",
    "string": "single value",
    "a integer": "a whole number",
    "a boolean": "true or false",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
}


def _fields_at(loc: Loc, kind: Any) -> dict[str, FieldInfo]:
    """Return the fields of the mapping at a location, by their keys. Indices and keys
    that are not fields are skipped.
    """
    known = _fields(kind, {})
    for part in loc:
        if part in known:
            known = _fields(known[str(part)].annotation, known)
    return known


def _fields(annotation: Any, outer: dict[str, FieldInfo]) -> dict[str, FieldInfo]:
    """Return the fields of the model or dataclass in a type, by their keys. Returns no
    fields if the type has several, and `outer` if it has none.
    """
    waiting, models = [annotation], set()
    while waiting:
        part = waiting.pop()
        waiting += get_args(part)
        if isinstance(part, type) and (
            issubclass(part, BaseModel) or is_dataclass(part)
        ):
            models.add(part)
    if len(models) != 1:
        return {} if models else outer
    [model] = models
    if issubclass(model, BaseModel):
        known = model.model_fields
    else:
        hints = get_type_hints(model, include_extras=True)
        known = {
            each.name: FieldInfo.from_annotation(hints[each.name])
            for each in fields(model)
        }
    return {info.alias or name: info for name, info in known.items()}
