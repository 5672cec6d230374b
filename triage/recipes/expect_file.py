"""A file of known failures beside a recipe: a list for each case, in the form of the recipe's own `expect`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, ValidationError

from triage.model.case import Case
from triage.model.errors import BadFiles
from triage.recipes.document import ConfigDocument, FileKind, read_document, read_text
from triage.recipes.expect_update import label_of
from triage.recipes.fields import Setting
from triage.recipes.mapping import MappingFormat, in_order, problems_of
from triage.recipes.schema import ExpectFormat
from triage.recipes.suggestions import did_you_mean

_KIND = FileKind(
    "file of known failures", 'write `CASE: [{failure: timeout, since: "3.5.0"}]`, or remove its name from the recipe'
)
_NO_KEYS = re.compile(r"(?:\s|#[^\n]*\n?)*\Z")


class _ListFormat(MappingFormat):
    """The list of one case."""

    noun: ClassVar[str] = "a file of known failures"

    entries: list[ExpectFormat] = Field(examples=[[{"failure": "timeout"}]])


def with_expectations(cases: Sequence[Case], path: Path, setting: Setting) -> list[Case]:
    """The cases with the known failures in a file.

    Raises:
        BadFiles: with every mistake in the file, such as the name of a case that the recipe does not have.
    """
    text = read_text(path, _KIND)
    if _NO_KEYS.match(text):  # all entries were removed, or none was written yet
        return list(cases)
    document = read_document(str(path), text, _KIND)
    data: Any = document.data
    if not isinstance(data, dict):
        document.report((), f"{_KIND.noun} is a mapping; {_KIND.start}.")
        raise BadFiles(document.problems)
    labels = {label_of(case.name): case for case in cases}
    expect = {}
    for label, entries in data.items():
        if label not in labels:
            guess = did_you_mean(label, labels)
            document.report((label,), f'the recipe has no case "{label}"{guess}', at_key=True)
        expect[label] = _checked(document, label, entries, setting)
    if document.problems:
        raise BadFiles(in_order(document.problems))
    return [replace(case, expect=tuple(item.value() for item in expect.get(label_of(case.name), ()))) for case in cases]


def _checked(document: ConfigDocument, label: str, entries: Any, setting: Setting) -> list[ExpectFormat]:
    inner = ConfigDocument(document.path, document.kind, {"entries": entries}, settled=set())
    for positions, target in ((document.values, inner.values), (document.keys, inner.keys)):
        target |= {("entries", *loc[1:]): position for loc, position in positions.items() if loc[:1] == (label,)}
    inner.settled = {("entries", *loc[1:]) for loc in document.settled if loc[:1] == (label,)}
    try:
        return _ListFormat.model_validate(inner.data, context=setting).entries
    except ValidationError as error:
        document.problems += problems_of(error, inner, _ListFormat)
        return []
