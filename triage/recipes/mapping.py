"""Mappings of configuration files as pydantic models, and pydantic's errors as problems with a position and advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from triage.model.errors import BadFiles, Problem
from triage.recipes.document import ConfigDocument, Loc
from triage.recipes.suggestions import closest, did_you_mean
from triage.recipes.values import as_list, as_natural, as_positive, as_text, as_truth, yaml_text

Text = Annotated[str, BeforeValidator(as_text)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(as_list)]  # one text stands for a list of one
Truth = Annotated[bool, BeforeValidator(as_truth)]
Natural = Annotated[int, BeforeValidator(as_natural)]
Positive = Annotated[float, BeforeValidator(as_positive)]


class MappingFormat(BaseModel):
    """A mapping with these keys and no others. The first example of each field is shown when its key is missing or wrong."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)

    noun: ClassVar[str]  # what messages call it, such as "a target"


Format = TypeVar("Format", bound=MappingFormat)


def checked(document: ConfigDocument, model: type[Format]) -> Format | None:
    """The content of a file; None when it has mistakes, which are added to those of the document."""
    try:
        content = model.model_validate(document.data)
    except ValidationError as error:
        document.problems += problems_of(error, document, model)
        content = None
    return None if document.problems else content


def content_of(document: ConfigDocument, model: type[Format]) -> Format:
    """The content of a file. BadFiles with every mistake."""
    content = checked(document, model)
    if content is None:
        raise BadFiles(in_order(document.problems))
    return content


def problems_of(error: ValidationError, document: ConfigDocument, model: type[MappingFormat]) -> list[Problem]:
    """The problems behind a failed validation, except at positions that already have one."""
    errors = error.errors(include_url=False)
    meant = {_meant(details["loc"], model) for details in errors if details["type"] == "extra_forbidden"}
    # A mistyped key is not reported as missing too.
    relevant = (details for details in errors if not (details["type"] == "missing" and details["loc"] in meant))
    problems = (_problem(details, document, model) for details in relevant)
    return [problem for problem in problems if problem is not None]


def in_order(problems: Sequence[Problem]) -> list[Problem]:
    """Problems of one file by position, each once."""
    return sorted(dict.fromkeys(problems), key=lambda problem: (problem.line or 0, problem.column or 0))


def _problem(details: ErrorDetails, document: ConfigDocument, model: type[MappingFormat]) -> Problem | None:
    raw = details["loc"]
    loc = document.resolve(raw)
    # `none_required` comes from the other branch of an optional key.
    if loc in document.settled or details["type"] == "none_required":
        return None
    context = details.get("ctx", {})
    match details["type"]:
        case "missing":
            owner, key = _mapping_at(raw, model), str(raw[-1])
            message = f'the key "{key}" of {owner.noun} is missing: add `{_example(key, _field(owner, key))}`.'
            return document.problem(loc, message)
        case "extra_forbidden":
            return document.problem(loc, _unknown_key(raw, model), at_key=True)
        case "advice":
            at_key = raw[-1:] == ("[key]",)
            if context.get("key") is not None:
                loc = (*loc, context["key"])
            return document.problem(loc, str(context["message"]), at_key=at_key)
        case "literal_error" | "enum":
            return document.problem(loc, f'"{details["input"]}" is not one of the choices: write {context.get("expected")}.')
        case "too_short":
            return document.problem(loc, f'the list of "{loc[-1]}" is empty: give it values or remove the key.')
        case "model_type" | "dict_type" | "model_attributes_type":
            return document.problem(loc, _wrong_shape(loc, "a mapping", details["input"], model))
        case "list_type" | "tuple_type":
            return document.problem(loc, _wrong_shape(loc, "a list", details["input"], model))
        case _:
            return document.problem(loc, f"{details['msg'].lower()}.")


def _meant(loc: Loc, model: type[MappingFormat]) -> Loc:
    """The place of an unknown key, spelled as the nearest known key."""
    return (*loc[:-1], closest(str(loc[-1]), _keys(_mapping_at(loc, model))) or "")


def _mapping_at(loc: Loc, model: type[MappingFormat]) -> type[MappingFormat]:
    """The model of the mapping that the last part of `loc` is a key of."""
    for part in loc[:-1]:
        field = _field(model, str(part))
        inner = next(_models_in(field.annotation), None) if field else None
        model = inner or model
    return model


def _models_in(annotation: Any) -> Iterator[type[MappingFormat]]:
    if isinstance(annotation, type) and issubclass(annotation, MappingFormat):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _field(model: type[MappingFormat], key: str) -> FieldInfo | None:
    return next((field for name, field in model.model_fields.items() if key in (field.alias, name)), None)


def _keys(model: type[MappingFormat]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _example(key: str, field: FieldInfo | None) -> str:
    return f"{key}: {yaml_text(field.examples[0])}" if field and field.examples else f"{key}: …"


def _unknown_key(loc: Loc, model: type[MappingFormat]) -> str:
    key, owner = str(loc[-1]), _mapping_at(loc, model)
    if key == "<<":
        return "merge keys (<<) are not supported; write the keys out."
    keys = _keys(owner)
    return f'"{key}" is not a key of {owner.noun}{did_you_mean(key, keys)} Keys: {", ".join(keys)}.'


def _wrong_shape(loc: Loc, wanted: str, value: Any, model: type[MappingFormat]) -> str:
    keys = [part for part in loc if isinstance(part, str)]
    if not keys:
        first = next(iter(model.model_fields))
        return f"{model.noun} is {wanted} of keys such as `{_example(first, _field(model, first))}`, not {_shape(value)}."
    key = keys[-1]
    at = max(index for index, part in enumerate(loc) if part == key)
    field = _field(_mapping_at(loc[: at + 1], model), key)
    example = _example(key, field)
    if field is None and wanted == "a list":  # a key of the user's own
        example = f"{key}: [{_shape(value).strip(chr(34))}]" if isinstance(value, str) else f"{key}: [a, b]"
    if isinstance(loc[-1], int):
        return f'an entry of "{key}" must be {wanted}, not {_shape(value)}: write `{example}`.'
    return f'"{key}" must be {wanted}, not {_shape(value)}: write `{example}`.'


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
