"""Read recipe files into cases, one for each combination of a matrix. All mistakes of
all files are reported together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from triage.model.case import Case
from triage.model.errors import BadFiles, BadInput, Problem
from triage.model.execution import Limits
from triage.recipes.document import (
    ConfigDocument,
    Loc,
    parse_document,
    read_document,
    read_text,
    why_unreadable,
)
from triage.recipes.expectations import label_of
from triage.recipes.family import SECTIONS, RecipeFamilies, RecipeFamily
from triage.recipes.mapping import checked
from triage.recipes.recipe import (
    EXPECT_FILE,
    FILE,
    MAX_CASES,
    Entries,
    RecipeFormat,
    Setting,
    is_pattern,
    keys_of,
    locate,
    matching,
)
from triage.recipes.values import closest, did_you_mean, unknown_word

_START = "`triage recipe new` writes a recipe to start from"
_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")

Choice = dict[str, str]
"""Key of a matrix -> the chosen value."""


def load_recipes(
    paths: Sequence[Path], families: RecipeFamilies, failure_names: Collection[str] = ()
) -> tuple[Case, ...]:
    """Read the cases of recipe files, and of all *.yaml and *.yml files in folders.

    The cases have the order of the paths. The files of a folder are sorted, and the
    last key of a matrix changes fastest.

    Args:
        paths: Files and folders.
        families: What recipes of each compiler family may contain.
        failure_names: The failure classes and families that `expect` may name (default:
            any).

    Raises:
        BadFiles: With the problems of all files.
        BadInput: `paths` is empty.
    """
    if not paths:
        raise BadInput(
            "no recipe was named; give a recipe file or a folder of recipes."
        )
    cases: list[Case] = []
    problems: list[Problem] = []
    files: dict[str, Path] = {}  # by the real path
    for path in paths:
        try:
            for file in _recipe_files(path):
                files.setdefault(os.path.realpath(file), file)
        except BadFiles as error:
            problems += error.problems
    names: dict[str, str] = {}
    for path in files.values():
        try:
            document = read_document(path, _START)
            own = _cases(document, path, families, path.parent, failure_names)
        except BadFiles as error:
            problems += error.problems
            continue
        cases += own
        if own:
            here = str(document.problem(("name",), "")).removesuffix(": ")
            first = names.setdefault(own[0].recipe, here)
            if first != here:
                message = (
                    f'the name "{own[0].recipe}" is already used at {first}; give '
                    "each recipe its own name."
                )
                document.report(("name",), message)
        problems += document.in_order()
    if problems:
        raise BadFiles(problems)
    return tuple(cases)


def check_recipe(families: RecipeFamilies, text: str) -> None:
    """Check the text of a recipe; its input need not exist. Raises BadFiles with every
    mistake.
    """
    document = parse_document("new recipe", text, _START)
    _cases(document, Path(), families, None, ())
    if document.problems:
        raise BadFiles(document.in_order())


def _recipe_files(path: Path) -> list[Path]:
    """Return the recipe files of a path: itself, or the sorted files below a folder,
    without hidden ones. Raises BadFiles if there are none.
    """

    def refuse(error: OSError) -> None:
        message = why_unreadable(path, error)
        raise BadFiles([Problem(error.filename, None, None, message)])

    try:
        if not path.is_dir():
            return [path]
    except OSError as error:
        refuse(error)
    found: list[Path] = []
    for parent, folders, names in os.walk(path, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [
            Path(parent, name)
            for name in names
            if re.fullmatch(r"[^.].*\.ya?ml", name) and not re.match(EXPECT_FILE, name)
        ]
    if not found:
        message = (
            "this folder has no recipe: no *.yaml or *.yml file in it or below it."
        )
        raise BadFiles([Problem(str(path), None, None, message)])
    return sorted(found)


def _cases(
    document: ConfigDocument,
    source: Path,
    families: RecipeFamilies,
    folder: Path | None,
    failure_names: Collection[str],
) -> list[Case]:
    """Return the cases of a recipe, and report problems to the document. With a
    `folder`, check that the recipe's files are there.
    """
    data = document.data
    if not isinstance(data, dict):
        checked(document, RecipeFormat)
        return []
    compiler = str(data.get("compiler", next(iter(families))))
    family = families.get(compiler, RecipeFamily(compiler, any_input=True))
    if compiler not in families:
        nicknames = {
            nickname: each.name
            for each in families.values()
            for nickname in each.nicknames
        }
        document.report(
            ("compiler",), unknown_word(compiler, "compiler", families, nicknames)
        )
    # The recipe's own rules define further classes.
    setting = Setting(family, folder, () if "rules" in data else failure_names)
    _check_placeholders(document, (*SECTIONS, *family.sections))
    cases: list[Case] = []
    for choice in _choices(document):
        recipe = checked(document, keys_of(family), _filled(data, choice), setting)
        if recipe is None:
            continue
        inputs: list[tuple[Choice, Path]] = [({}, locate(source.parent, recipe.input))]
        if is_pattern(recipe.input) and folder is not None:
            files = matching(folder, recipe.input)
            inputs = [({FILE: name}, path) for name, path in files]
        for label, path in inputs:
            case = _case(recipe, family, source, path, choice | label)
            cases.append(recipe.complete(case, source.parent))
    expect = data.get("expect")
    if isinstance(expect, str) and folder is not None and not document.problems:
        return _with_expectations(cases, folder / expect, setting)
    return cases


def _case(
    recipe: RecipeFormat, family: RecipeFamily, source: Path, path: Path, choice: Choice
) -> Case:
    """Return the case of a recipe for one combination, with the input at `path`."""
    brackets = ",".join(f"{key}={value}" for key, value in choice.items())
    place = source.absolute()
    return Case(
        recipe=recipe.name,
        name=f"{recipe.name}[{brackets}]" if choice else recipe.name,
        summary=recipe.summary,
        compiler=family.name,
        source=place,
        input=family.input_at(path, tuple(recipe.args.items())),
        target=recipe.target,
        flags=tuple(recipe.flags),
        phase=recipe.phase,
        limits=recipe.limits.value(Limits()),
        expect=() if isinstance(recipe.expect, str) else tuple(recipe.expect),
        matrix=tuple(choice.items()),
        env=tuple(recipe.env.items()),
        reads=tuple(place.parent / text for text in recipe.reads),
    )


def _with_expectations(
    cases: Sequence[Case], path: Path, setting: Setting
) -> list[Case]:
    """Return the cases with the known failures in a file, which has a list like
    `expect` for each case.
    """
    # all entries were removed, or none was written yet
    if re.fullmatch(r"(\s*(#.*)?\n?)*", read_text(path)):
        return list(cases)
    document = read_document(path, "write `CASE: [{failure: timeout}]`")
    lists = checked(document, dict[str, Entries], context=setting) or {}
    labels = [label_of(case.name) for case in cases]
    for label in lists:
        if label not in labels:
            message = f'the recipe has no case "{label}"{did_you_mean(label, labels)}'
            document.report((label,), message, at_key=True)
    if document.problems:
        raise BadFiles(document.in_order())
    return [
        replace(case, expect=tuple(lists.get(label, ())))
        for case, label in zip(cases, labels, strict=True)
    ]


def _choices(document: ConfigDocument) -> list[Choice]:
    """Return every combination of the matrix. The last key changes fastest. A recipe
    without a matrix has one empty combination.
    """
    matrix = document.data.get("matrix")
    if not isinstance(matrix, dict):
        return [{}]
    # the check of the recipe reports other values
    valid = {
        key: values
        for key, values in matrix.items()
        if isinstance(values, list)
        and values
        and all(isinstance(value, str) for value in values)
    }
    count = prod(map(len, valid.values()))
    if count > MAX_CASES:
        message = f"the matrix has {count} combinations; the limit is {MAX_CASES}."
        document.report(("matrix",), message, at_key=True)
        return [{}]
    choices = product(*valid.values())
    return [dict(zip(valid, values, strict=True)) for values in choices]


def _changed(data: Any, change: Callable[[Loc, str], str], loc: Loc = ()) -> Any:
    """Return a copy of the data in which every text is changed."""
    if isinstance(data, dict):
        pairs = data.items()
        return {key: _changed(value, change, (*loc, key)) for key, value in pairs}
    if isinstance(data, list):
        entries = enumerate(data)
        return [_changed(value, change, (*loc, number)) for number, value in entries]
    return change(loc, data) if isinstance(data, str) else data


def _filled(data: Any, choice: Choice) -> Any:
    """Return the data with the values of a choice in place of the placeholders."""

    def fill(_: Loc, text: str) -> str:
        return _PLACEHOLDER.sub(lambda found: choice.get(found[1], found[0]), text)

    return _changed(data, fill) if choice else data


def _check_placeholders(document: ConfigDocument, sections: Sequence[str]) -> None:
    """Report placeholders that stand in a wrong place or name no key of the matrix, and
    keys that no placeholder names.
    """
    matrix, places = document.data.get("matrix"), ", ".join(sections)
    keys: dict[str, Any] = matrix if isinstance(matrix, dict) else {}
    used = set()

    def check(loc: Loc, text: str) -> str:
        for name in _PLACEHOLDER.findall(text):
            # a mistyped name uses the key that it means
            used.add(closest(name, keys))
            if name not in keys:
                known = f"{did_you_mean(name, keys)} Keys: {', '.join(keys) or 'none'}."
                document.report(loc, f'"${{{name}}}" is not a matrix key{known}')
        if "${" in text and (loc[0] not in sections or loc[-1] in {"since", "until"}):
            message = f'"{text}": placeholders are replaced only in {places}.'
            document.report(loc, message)
        elif "${" in _PLACEHOLDER.sub("", text):
            message = f'"{text}" has a ${{ that is not closed; write ${{key}}.'
            document.report(loc, message)
        return text

    _changed(document.data, check)
    for key in keys:
        if key not in used:
            message = (
                f'nothing uses the matrix key "{key}": write ${{{key}}} in {places}, '
                "or remove the key."
            )
            document.report(("matrix", key), message, at_key=True)
