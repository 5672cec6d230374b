"""One file's document turned into its cases, or into what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from triage.model.case import Case, Expectation, Flag, Input, InputKind, Target
from triage.model.execution import Limits
from triage.recipes.by_family import FORMATS
from triage.recipes.document import Document, Written
from triage.recipes.fields import Setting
from triage.recipes.format import FlagFormat, RecipeFormat
from triage.recipes.inputs import locate
from triage.recipes.matrix import (
    SECTIONS,
    Choice,
    case_name,
    check_placeholders,
    check_product,
    choices,
    fill,
    has_placeholder,
    read_matrix,
)
from triage.recipes.wording import problems_of
from triage.recipes.words import Family


def read_cases(document: Document, setting: Setting, source: Path) -> list[Case]:
    """The cases of a document whose data is a mapping, in the matrix's order; what is wrong is noted in the document.

    source: the recipe file, which relative inputs start from. With problems in the document the list is of no use.
    """
    data: Mapping[str, Any] = document.data
    matrix = read_matrix(data)
    sections = (*SECTIONS, *(setting.family.sections if setting.family else ()))
    check_placeholders(document, matrix.keys, sections)
    _check_distinct(document, matrix.values)
    _check_args(document, data, setting.family)
    expandable = matrix.values if check_product(document, matrix.values) else {}
    model = RecipeFormat if setting.family is None else FORMATS[setting.family.name]
    cases, problems = [], []
    for choice in choices(expandable):
        try:
            recipe = model.model_validate(fill(data, choice, sections), context=setting)
        except ValidationError as error:
            problems += problems_of(error, document, model)
        else:
            cases.append(_case(recipe, choice, setting.family, source))
    # What is wrong in every case is told once; a value filled in wrongly is told for each value.
    document.problems += dict.fromkeys(problems)
    return cases


def _case(recipe: RecipeFormat, choice: Choice, family: Family | None, source: Path) -> Case:
    path = locate(source.parent, recipe.input)
    kind = family.kind_of(path.suffix) if family is not None else None
    default = Limits()
    return Case(
        recipe=recipe.name,
        name=case_name(recipe.name, choice),
        summary=recipe.summary,
        compiler=recipe.family(),
        source=source.absolute(),
        input=Input(path, kind or InputKind.OTHER, tuple(recipe.args.items())),
        target=Target(recipe.target.backend, recipe.target.chip, recipe.target.devices),
        flags=tuple(_flag(entry) for entry in recipe.flags),
        phase=recipe.phase,
        limits=Limits(recipe.limits.timeout or default.timeout, recipe.limits.memory or default.memory),
        expect=tuple(Expectation(item.failure, item.since, item.until, item.issue) for item in recipe.expect),
        matrix=choice,
        how=recipe.how(source.parent),
    )


def _flag(entry: str | FlagFormat) -> Flag:
    return Flag(entry) if isinstance(entry, str) else Flag(entry.flag, entry.since, entry.until)


def _check_distinct(document: Document, matrix: Mapping[str, Sequence[str]]) -> None:
    """A value that stands twice would make two cases of one name."""
    for key, values in matrix.items():
        seen: set[str] = set()
        for index, value in enumerate(values):
            if value in seen:
                message = f'"{value}" stands twice among the values of "{key}"; remove one.'
                document.report(("matrix", key, index), message)
            seen.add(value)


def _check_args(document: Document, data: Mapping[str, Any], family: Family | None) -> None:
    """Only a generator takes arguments."""
    written = data.get("input")
    if "args" not in data or not isinstance(written, Written) or family is None:
        return
    suffix = Path(written).suffix
    if has_placeholder(suffix) or family.kind_of(suffix) in {None, InputKind.GENERATOR}:
        return
    if family.kind_of(".py") is InputKind.GENERATOR:
        message = f'args are handed to a .py generator, and the input "{written}" is none; remove them.'
    else:
        message = f"args are handed to a generator, and {family.name} takes none; remove them."
    document.report(("args",), message, at_key=True)
