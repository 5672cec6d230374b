"""Read recipe files into cases; report all mistakes of all files at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from triage.model.case import Case, Flag, Input, InputKind, Target
from triage.model.errors import BadFiles, BadInput, Problem
from triage.model.execution import Limits
from triage.recipes.document import ConfigDocument, FileKind, Loc, Written, read_document, read_text
from triage.recipes.expect_file import with_expectations
from triage.recipes.family import RecipeFamilies, RecipeFamily
from triage.recipes.fields import NAME, Setting
from triage.recipes.files import is_pattern, locate, matching, recipe_files
from triage.recipes.mapping import in_order, problems_of
from triage.recipes.matrix import (
    FILE,
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
from triage.recipes.schema import FlagFormat, RecipeFormat

_RECIPE = FileKind("recipe", "`triage recipe new` writes one to start from")


def load_recipes(
    paths: Sequence[Path], families: RecipeFamilies, failure_names: Collection[str] | None = None
) -> tuple[Case, ...]:
    """Every case of the recipes in `paths`: files, and folders searched for *.yaml and *.yml.

    The cases keep the order of the paths; a folder's files are sorted, and the last key of a matrix changes fastest.

    Args:
        paths: named in problems as they are given here.
        families: the compiler families of `compiler`.
        failure_names: the failure classes and families that `expect` may name; None accepts any.

    Raises:
        BadFiles: with the problems of all files.
        BadInput: `paths` is empty.
    """
    if not paths:
        raise BadInput("no recipe was named; give a recipe file or a folder of recipes.")
    files, problems = recipe_files(paths)
    cases: list[Case] = []
    names = _Names()
    for path in files:
        recipe = _read(path, families, failure_names)
        cases += recipe.cases
        problems += in_order([*recipe.problems, *names.add(recipe.document)])
    if problems:
        raise BadFiles(problems)
    return tuple(cases)


def check_recipe(families: RecipeFamilies, path: str, text: str) -> list[Problem]:
    """The problems of a recipe's text, without looking for its input. path: its name in the problems."""
    return _parse(path, text, Setting(families, None), Path()).problems


@dataclass(frozen=True, slots=True)
class _Recipe:
    """One file: its cases when it has no problems."""

    cases: Sequence[Case]
    problems: list[Problem]
    document: ConfigDocument | None = None


def _read(path: Path, families: RecipeFamilies, failure_names: Collection[str] | None) -> _Recipe:
    try:
        text = read_text(path, _RECIPE)
    except BadFiles as error:
        return _Recipe((), list(error.problems))
    return _parse(str(path), text, Setting(families, None, path.parent, failure_names), path)


def _parse(path: str, text: str, setting: Setting, source: Path) -> _Recipe:
    try:
        document = read_document(path, text, _RECIPE)
    except BadFiles as error:
        return _Recipe((), list(error.problems))
    data = document.data
    if not isinstance(data, dict):
        if not document.problems:
            document.report((), _not_a_mapping(data))
        return _Recipe((), document.problems)
    family = setting.families.get(str(data.get("compiler", next(iter(setting.families)))))
    known = None if "rules" in data else setting.failure_names  # the recipe's own rules define further classes
    cases = _cases(document, replace(setting, family=family, failure_names=known), source)
    return _Recipe(cases if not document.problems else (), in_order(document.problems), document)


def _not_a_mapping(data: Any) -> str:
    wanted = "a recipe is a mapping of keys, such as `name: cuda-matmul-f32`"
    if isinstance(data, Written):
        return f'{wanted}; this is the text "{_shortened(data)}". Write a colon and a space after a key.'
    if isinstance(data, list):
        return f"{wanted}; this is a list. Write each recipe into its own file."
    return f"the file has no value; {_RECIPE.start}."


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 40 else line[:39] + "…"


class _Names:
    """The recipe names so far, and their positions."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def add(self, document: ConfigDocument | None) -> list[Problem]:
        """A problem when another file uses this document's name."""
        loc: Loc = ("name",)
        name = document.data.get("name") if document is not None else None
        if document is None or not isinstance(name, Written) or not NAME.fullmatch(name):
            return []
        place = document.problem(loc, "")
        here = f"{place.path}:{place.line}:{place.column}"
        first = self._first.setdefault(name, here)
        if first == here:
            return []
        message = f'the name "{name}" is already used at {first}; give each recipe its own name.'
        return [document.problem(loc, message)]


def _cases(document: ConfigDocument, setting: Setting, source: Path) -> list[Case]:
    """The cases of a document with a mapping, in the matrix's order; meaningless when the document gets problems.

    source: the recipe file; inputs are relative to it.
    """
    data: Mapping[str, Any] = document.data
    matrix = read_matrix(data)
    sections = (*SECTIONS, *(setting.family.sections if setting.family else ()))
    check_placeholders(document, matrix.keys, sections)
    _check_distinct(document, matrix.values)
    _check_args(document, data, setting.family)
    if FILE in matrix.values and is_pattern(str(data.get("input"))):
        message = f'"{FILE}" names the files of the input\'s pattern; give the matrix key another name.'
        document.report(("matrix", FILE), message, at_key=True)
    expandable = matrix.values if check_product(document, matrix.values) else {}
    model = RecipeFormat if setting.family is None else setting.family.model()
    cases, problems = [], []
    for choice in choices(expandable):
        try:
            recipe = model.model_validate(fill(data, choice, sections), context=setting)
        except ValidationError as error:
            problems += problems_of(error, document, model)
            continue
        try:
            for label, path in _inputs(recipe, setting, source):
                cases.append(_case(recipe, (*choice, *label), setting.family, source, path))
        except BadFiles as error:  # of a file that the recipe names
            problems += error.problems
    written = data.get("expect")
    if isinstance(written, str) and setting.folder is not None and not (problems or document.problems):
        try:
            cases = with_expectations(cases, source.parent / written, setting)
        except BadFiles as error:
            problems += error.problems
    # A problem of every case is reported once, a wrong value of the matrix for each value.
    document.problems += dict.fromkeys(problems)
    return cases


def _inputs(recipe: RecipeFormat, setting: Setting, source: Path) -> list[tuple[Choice, Path]]:
    """The input files of a recipe, each with its part of the case's name, which is empty for an input that is one file."""
    if not is_pattern(recipe.input) or setting.folder is None:
        return [((), locate(source.parent, recipe.input))]
    return [(((FILE, name),), path) for name, path in matching(source.parent, recipe.input)]


def _case(recipe: RecipeFormat, choice: Choice, family: RecipeFamily | None, source: Path, path: Path) -> Case:
    kind = family.kind_of(path.suffix) if family is not None else None
    return Case(
        recipe=recipe.name,
        name=case_name(recipe.name, choice),
        summary=recipe.summary,
        compiler=recipe.toolchain_family(family.name if family else recipe.compiler),
        source=source.absolute(),
        input=Input(path, kind or InputKind.OTHER, tuple(recipe.args.items())),
        target=Target(recipe.target.backend, recipe.target.chip, recipe.target.devices),
        flags=tuple(_flag(entry) for entry in recipe.flags),
        phase=recipe.phase,
        limits=recipe.limits.value(Limits()),
        expect=() if isinstance(recipe.expect, str) else tuple(item.value() for item in recipe.expect),
        matrix=choice,
        rules=recipe.failure_rules(source.parent),
        spec=recipe.spec(),
        run=recipe.run_spec(source.parent, path),
        env=tuple(recipe.env.items()),
        benchmarks=recipe.benchmarks(source.parent),
    )


def _flag(entry: str | FlagFormat) -> Flag:
    return Flag(entry) if isinstance(entry, str) else Flag(entry.flag, entry.since, entry.until)


def _check_distinct(document: ConfigDocument, matrix: Mapping[str, Sequence[str]]) -> None:
    """A repeated value would make two cases of the same name."""
    for key, values in matrix.items():
        seen: set[str] = set()
        for index, value in enumerate(values):
            if value in seen:
                message = f'"{value}" is repeated among the values of "{key}"; remove one.'
                document.report(("matrix", key, index), message)
            seen.add(value)


def _check_args(document: ConfigDocument, data: Mapping[str, Any], family: RecipeFamily | None) -> None:
    """Only a generator takes arguments."""
    written = data.get("input")
    if "args" not in data or not isinstance(written, Written) or family is None:
        return
    suffix = Path(written).suffix
    if has_placeholder(suffix) or family.kind_of(suffix) in {None, InputKind.GENERATOR}:
        return
    if family.kind_of(".py") is InputKind.GENERATOR:
        message = f'only a .py generator takes args, and the input "{written}" is not one; remove them.'
    else:
        message = f"only a generator takes args, and {family.name} runs none; remove them."
    document.report(("args",), message, at_key=True)
