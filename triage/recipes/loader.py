"""Read recipe files into cases, one for each combination of a matrix. All mistakes of
all files are reported together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from triage.model.case import Case, InputKind
from triage.model.errors import BadFiles, Problem
from triage.recipes.document import (
    ConfigDocument,
    position_text,
    read_document,
    validate_document,
)
from triage.recipes.expectations import label_of
from triage.recipes.recipe import (
    EXPECT_FILE,
    FILE,
    MAX_CASES,
    SECTIONS,
    Entries,
    Recipe,
    RecipeContext,
    RecipeFamilies,
    RecipeFamily,
    matching_files,
)
from triage.recipes.values import closest, did_you_mean, unknown_word

_START = "`triage recipe new` writes a recipe to start from"
_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")
_BOUNDS = ("since", "until")

Choice = dict[str, str]
"""Key of a matrix -> the chosen value."""


def load_recipes(
    paths: Sequence[Path],
    families: RecipeFamilies,
    failure_names: Callable[[], Collection[str]] = tuple,
) -> tuple[Case, ...]:
    """Read the cases of recipe files, and of all *.yaml and *.yml files in folders.

    The cases have the order of the paths. The files of a folder are sorted, and the
    last key of a matrix changes fastest.

    Args:
        paths: Files and folders.
        families: What recipes of each compiler family may contain.
        failure_names: Returns the failure classes and families that `expect` may name
            (default: any).

    Raises:
        BadFiles: With the problems of all files.
    """
    cases: list[Case] = []
    problems: list[Problem] = []
    named_in: dict[str, ConfigDocument] = {}
    for path in _recipe_files(paths, problems):
        try:
            document = read_document(path, _START)
            cases_of_file = _cases_of_document(document, path, families, failure_names)
        except BadFiles as error:
            problems += error.problems
            continue
        for case in cases_of_file[:1]:
            first = named_in.setdefault(case.recipe, document)
            if first is not document:
                position = position_text(first.marks["name",][1])
                message = (
                    f'the name "{case.recipe}" is already used at '
                    f"{first.path}:{position}; give each recipe its own name."
                )
                document.report(("name",), message)
        cases += cases_of_file
        problems += document.in_order()
    if problems:
        raise BadFiles(problems)
    return tuple(cases)


def _recipe_files(paths: Sequence[Path], problems: list[Problem]) -> Collection[Path]:
    """Return the files, and the sorted recipes below the folders without hidden ones,
    each file once.
    """
    files: dict[str, Path] = {}
    for path in paths:
        below = [path]
        if path.is_dir():
            below = sorted(filter(partial(_is_recipe, path), path.rglob("*.y*ml")))
        if not below:
            message = "this folder has no recipe, *.yaml or *.yml, in it or below it."
            problems.append(Problem(str(path), None, None, message))
        for file in below:
            files.setdefault(os.path.realpath(file), file)
    return files.values()


def _is_recipe(folder: Path, file: Path) -> bool:
    names = file.relative_to(folder).parts
    is_hidden = any(name.startswith(".") for name in names)
    return not is_hidden and not EXPECT_FILE.match(file.name)


def _cases_of_document(
    document: ConfigDocument,
    source: Path,
    families: RecipeFamilies,
    failure_names: Callable[[], Collection[str]],
) -> list[Case]:
    """Return the cases of a recipe, and report problems to the document."""
    data = document.data
    folder = source.parent
    if not isinstance(data, dict):
        validate_document(document, Recipe)
        return []
    compiler = str(data.get("compiler") or next(iter(families)))
    family = families.get(compiler, RecipeFamily(compiler, any_input=True))
    if compiler not in families:
        document.report(("compiler",), unknown_word(compiler, "compiler", families))
    # The recipe's own rules define further classes.
    context = RecipeContext(family, folder, tuple if "rules" in data else failure_names)
    matrix = data.get("matrix")
    if not isinstance(matrix, dict):
        matrix = {}
    _check_placeholders(document, matrix, (*SECTIONS, *family.sections))
    cases: list[Case] = []
    for choice in _choices(document, matrix):
        filled = _with_choice(data, choice) if choice else data
        recipe = validate_document(document, family.keys, filled, context)
        if recipe is None:
            continue
        for name, path in matching_files(folder, recipe.input):
            label = {**choice, FILE: name} if name else choice
            case = _case(recipe, family, source.absolute(), path, label)
            if recipe.args and case.input.kind is not InputKind.GENERATOR:
                problem = f'only a generator takes args, not "{recipe.input}"'
                document.report(("args",), f"{problem}; remove them.")
            for key, message in recipe.mistakes():
                document.report((key,), message)
            if not document.problems:
                cases.append(recipe.complete(case, folder))
    expect = data.get("expect")
    if isinstance(expect, str):
        try:
            context.file(expect)
        except ValueError as error:
            document.report(("expect",), str(error))
        if not document.problems:
            return _with_expectations(cases, folder / expect, context)
    return cases


def _case(
    recipe: Recipe, family: RecipeFamily, source: Path, path: Path, choice: Choice
) -> Case:
    """Return the case of a recipe for one combination, with the input at `path`."""
    label = ",".join(map("=".join, choice.items()))
    return Case(
        recipe.name,
        f"{recipe.name}[{label}]" if choice else recipe.name,
        recipe.summary,
        family.name,
        source,
        family.input_at(path, recipe.args),
        recipe.target,
        recipe.flags,
        recipe.phase,
        recipe.limits,
        recipe.expect,
        tuple(choice.items()),
        env=recipe.env,
        reads=tuple(source.parent / text for text in recipe.reads),
    )


def _with_expectations(
    cases: Sequence[Case], path: Path, context: RecipeContext
) -> list[Case]:
    """Return the cases with the known failures in a file, which has a list like
    `expect` for each case.
    """
    document = read_document(path, None)
    if document.data is None:
        return list(cases)
    lists = validate_document(document, dict[str, Entries], context=context) or {}
    labels = [label_of(case.name) for case in cases]
    for label in lists.keys() - set(labels):
        message = f'the recipe has no case "{label}"{did_you_mean(label, labels)}'
        document.report((label,), message, at_key=True)
    if document.problems:
        raise BadFiles(document.in_order())
    return [
        replace(case, expect=lists.get(label, ()))
        for case, label in zip(cases, labels, strict=True)
    ]


def _choices(document: ConfigDocument, matrix: Mapping[str, Any]) -> list[Choice]:
    """Return every combination of a matrix. The last key changes fastest. A matrix
    without keys has one empty combination, as one with other values than lists of
    texts, which the check of the recipe reports.
    """
    lists = [values for values in matrix.values() if isinstance(values, list)]
    are_texts = all(isinstance(value, str) for values in lists for value in values)
    if len(lists) < len(matrix) or not are_texts:
        return [{}]
    count = prod(map(len, lists))
    if count > MAX_CASES:
        message = f"the matrix has {count} combinations; the limit is {MAX_CASES}."
        document.report(("matrix",), message, at_key=True)
    if not 0 < count <= MAX_CASES:
        return [{}]
    return [dict(zip(matrix, values, strict=True)) for values in product(*lists)]


def _with_choice(data: Any, choice: Choice) -> Any:
    """Return the data with the values of a choice in place of the placeholders."""
    if isinstance(data, dict):
        return {key: _with_choice(value, choice) for key, value in data.items()}
    if isinstance(data, list):
        return [_with_choice(value, choice) for value in data]
    if isinstance(data, str):
        return _PLACEHOLDER.sub(lambda match: choice.get(match[1], match[0]), data)
    return data


def _check_placeholders(
    document: ConfigDocument, matrix: Collection[str], sections: Sequence[str]
) -> None:
    """Report placeholders that stand in a wrong place or name no key of the matrix, and
    keys that no placeholder names.
    """
    places = ", ".join(sections)
    used = set[str | None]()
    for loc, text in document.texts.items():
        names = _PLACEHOLDER.findall(text)
        # a mistyped name uses the key that it means
        used.update(closest(name, matrix) for name in names)
        for name in {*names}.difference(matrix):
            document.report(loc, unknown_word(name, "matrix key", matrix))
        unread = text
        if loc[0] in sections and loc[-1] not in _BOUNDS:
            unread = _PLACEHOLDER.sub("", text)
        if "${" in unread:
            form = "placeholders are written ${key}"
            message = f'"{text}": {form}, and replaced only in {places}.'
            document.report(loc, message)
    for key in {*matrix} - used:
        message = f'nothing uses the matrix key "{key}": write ${{{key}}} in {places}.'
        document.report(("matrix", key), message, at_key=True)
