"""Read recipe files into cases, one for each combination of a matrix. All mistakes of
all files are reported together.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from triage.model.case import Case, Flag, Target
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
    ExpectFormat,
    RecipeFormat,
    Setting,
    is_pattern,
    keys_of,
    locate,
    matching,
)
from triage.recipes.values import closest, did_you_mean, unknown_word

_START = "`triage recipe new` writes a recipe to start from"
_INPUTS = frozenset({".mlir", ".mlirbc", ".onnx", ".py"})
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
    files: dict[str, Path] = {}  # by the real path
    problems: list[Problem] = []
    for path in paths:
        for file in _recipe_files(path, problems):
            files.setdefault(os.path.realpath(file), file)
    cases: list[Case] = []
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


def _recipe_files(path: Path, problems: list[Problem]) -> list[Path]:
    """Return the recipe files of a path: itself, or the sorted files below a folder,
    without hidden ones. Add what is wrong to `problems`.
    """
    unreadable: list[OSError] = []
    found: list[Path] = []
    message = ""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        mode, message = 0, why_unreadable(path, error)
    if stat.S_ISDIR(mode):
        for parent, folders, names in os.walk(path, onerror=unreadable.append):
            folders[:] = [name for name in folders if not name.startswith(".")]
            found += [
                Path(parent, name)
                for name in names
                if re.fullmatch(r"[^.].*\.ya?ml", name)
            ]
        found = sorted(file for file in found if not re.match(EXPECT_FILE, file.name))
        problems += [
            Problem(error.filename, None, None, why_unreadable(path, error))
            for error in unreadable
        ]
        if not found and not unreadable:
            message = (
                "this folder has no recipe: no *.yaml or *.yml file in it or below it."
            )
    elif path.suffix in _INPUTS and mode:
        new = f"triage recipe new {path.stem}.yaml --input {path}"
        message = (
            f"this is an input ({path.suffix}), not a recipe; `{new}` writes a recipe "
            "for it."
        )
    elif mode and not stat.S_ISREG(mode):
        message = "this is not a file or a folder; give a recipe file."
    elif mode:
        found = [path]
    if message:
        problems.append(Problem(str(path), None, None, message))
    return found


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
    cases = []
    for choice, filled in _combinations(document, (*SECTIONS, *family.sections)):
        recipe = checked(document, keys_of(family), filled, setting)
        if recipe is None:
            continue
        inputs: list[tuple[Choice, Path]] = [({}, locate(source.parent, recipe.input))]
        if is_pattern(recipe.input) and folder is not None:
            inputs = [
                ({FILE: name}, path) for name, path in matching(folder, recipe.input)
            ]
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
    brackets = ""
    if choice:
        pairs = (f"{key}={value}" for key, value in choice.items())
        brackets = f"[{','.join(pairs)}]"
    target = recipe.target
    expect = () if isinstance(recipe.expect, str) else recipe.expect
    return Case(
        recipe=recipe.name,
        name=f"{recipe.name}{brackets}",
        summary=recipe.summary,
        compiler=family.name,
        source=source.absolute(),
        input=family.input_at(path, tuple(recipe.args.items())),
        target=Target(target.backend, target.chip, target.devices),
        flags=tuple(
            Flag(entry)
            if isinstance(entry, str)
            else Flag(entry.flag, entry.since, entry.until)
            for entry in recipe.flags
        ),
        phase=recipe.phase,
        limits=recipe.limits.value(Limits()),
        expect=tuple(item.value() for item in expect),
        matrix=tuple(choice.items()),
        env=tuple(recipe.env.items()),
        reads=tuple((source.absolute().parent / text) for text in recipe.reads),
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
    lists = checked(document, dict[str, list[ExpectFormat]], context=setting) or {}
    labels = [label_of(case.name) for case in cases]
    for label in document.data if isinstance(document.data, dict) else ():
        if label not in labels:
            document.report(
                (label,),
                f'the recipe has no case "{label}"{did_you_mean(label, labels)}',
                at_key=True,
            )
    if document.problems:
        raise BadFiles(document.in_order())
    return [
        replace(case, expect=tuple(item.value() for item in lists.get(label, ())))
        for case, label in zip(cases, labels, strict=True)
    ]


def _combinations(
    document: ConfigDocument, sections: Sequence[str]
) -> list[tuple[Choice, dict[str, Any]]]:
    """Return every combination of the matrix, with the recipe's data in which its
    values replace the placeholders. Wrong placeholders are reported.

    The last key changes fastest. A recipe without a matrix has one empty combination.
    """
    filling = _Filling(document, sections)
    valid = {}
    for key, values in filling.keys.items():
        is_list = isinstance(values, list) and values
        # the check of the recipe reports other values
        if is_list and all(isinstance(value, str) for value in values):
            valid[key] = values
    count = prod(map(len, valid.values()))
    if count > MAX_CASES:
        document.report(
            ("matrix",),
            f"the matrix has {count} combinations; the limit is {MAX_CASES}.",
            at_key=True,
        )
        valid = {}
    combinations = []
    for values in product(*valid.values()):
        choice = dict(zip(valid, values, strict=True))
        recipe = filling.filled(document.data, choice, ())
        combinations.append((choice, recipe))
    filling.report_unused()
    return combinations


class _Filling:
    """Replaces the placeholders of a recipe by values of its matrix, and reports what
    is wrong with them.
    """

    def __init__(self, document: ConfigDocument, sections: Sequence[str]) -> None:
        matrix = document.data.get("matrix", {})
        self._document = document
        self._sections = sections
        self._is_mapping = isinstance(matrix, dict)
        self.keys: dict[str, Any] = matrix if self._is_mapping else {}
        self._used: set[str] = set()

    def filled(self, data: Any, choice: Choice, loc: Loc) -> Any:
        """Return a copy of the data at `loc`, in which the values of a choice replace
        the placeholders.
        """
        if isinstance(data, dict):
            return {
                key: self.filled(value, choice, (*loc, key))
                for key, value in data.items()
            }
        if isinstance(data, list):
            return [
                self.filled(value, choice, (*loc, number))
                for number, value in enumerate(data)
            ]
        if data is None or "${" not in data:
            return data
        is_version = loc[0] == "flags" and loc[-1] in {"since", "until"}
        if loc[0] not in self._sections or is_version:
            places = ", ".join(self._sections)
            problem = f'"{data}": placeholders are replaced only in {places}.'
            self._document.report(loc, problem)
            return data
        for name in _PLACEHOLDER.findall(data):
            self._check(name, loc)
        if "${" in _PLACEHOLDER.sub("", data):
            problem = f'"{data}" has a ${{ that is not closed; write ${{key}}.'
            self._document.report(loc, problem)
        return _PLACEHOLDER.sub(lambda found: choice.get(found[1], found[0]), data)

    def _check(self, name: str, loc: Loc) -> None:
        keys = self.keys
        # a mistyped name uses the key that it means
        self._used.add(name if name in keys else closest(name, keys) or name)
        if name in keys or not self._is_mapping:
            return
        known = "The recipe has no matrix."
        if keys:
            known = f"The matrix has {', '.join(keys)}."
        meant = did_you_mean(name, keys)
        self._document.report(loc, f'"${{{name}}}" is not a matrix key{meant} {known}')

    def report_unused(self) -> None:
        """Report the keys of the matrix that no placeholder names."""
        places = ", ".join(self._sections)
        for key in self.keys:
            if key not in self._used:
                advice = f"write ${{{key}}} in {places}, or remove the key."
                problem = f'nothing uses the matrix key "{key}": {advice}'
                self._document.report(("matrix", key), problem, at_key=True)
