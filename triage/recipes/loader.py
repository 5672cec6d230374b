"""Recipe files read into cases, every mistake of every file told at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from triage.config.document import Document, FileKind, Loc, Written, read_document, read_text
from triage.config.schema import in_order, problems_of
from triage.model.case import Case, Expectation, Flag, Input, InputKind, Target
from triage.model.errors import BadFiles, BadInput, Problem
from triage.model.execution import Limits
from triage.recipes.by_family import FORMATS
from triage.recipes.fields import NAME, Setting
from triage.recipes.files import locate, recipe_files
from triage.recipes.format import FlagFormat, RecipeFormat
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
from triage.recipes.words import FAMILIES, IREE, Family

_RECIPE = FileKind("recipe", "`triage recipe new` writes one to start from")


def load_recipes(paths: Sequence[Path], failure_names: Collection[str] | None = None) -> tuple[Case, ...]:
    """Every case of the recipes in `paths`: files, and folders searched for *.yaml and *.yml.

    Cases stand in the order of the paths, a folder's files sorted, a recipe's matrix with its last key turning fastest.
    failure_names: the failure classes and families that `expect` may name; None accepts any.
    Raises BadFiles with the problems of all files, their paths as given here; BadInput when `paths` is empty.
    """
    if not paths:
        raise BadInput("no recipe was named; give a recipe file or a folder of recipes.")
    files, problems = recipe_files(paths)
    cases: list[Case] = []
    names = _Names()
    for path in files:
        recipe = _read(path, failure_names)
        cases += recipe.cases
        problems += in_order([*recipe.problems, *names.add(recipe.document)])
    if problems:
        raise BadFiles(problems)
    return tuple(cases)


def check_recipe(path: str, text: str) -> list[Problem]:
    """What is wrong with a recipe's text, its input not looked for; `path` names it in the problems."""
    return _parse(path, text, None, None, Path()).problems


@dataclass(frozen=True, slots=True)
class _Recipe:
    """One file read: its cases when nothing is wrong with it."""

    cases: Sequence[Case]
    problems: list[Problem]
    document: Document | None = None


def _read(path: Path, failure_names: Collection[str] | None) -> _Recipe:
    try:
        text = read_text(path, _RECIPE)
    except BadFiles as error:
        return _Recipe((), list(error.problems))
    return _parse(str(path), text, failure_names, path.parent, path)


def _parse(path: str, text: str, failure_names: Collection[str] | None, folder: Path | None, source: Path) -> _Recipe:
    try:
        document = read_document(path, text, _RECIPE)
    except BadFiles as error:
        return _Recipe((), list(error.problems))
    data = document.data
    if not isinstance(data, dict):
        if not document.problems:
            document.report((), _not_a_mapping(data))
        return _Recipe((), document.problems)
    family = FAMILIES.get(str(data.get("compiler", IREE.name)))
    known = None if "rules" in data else failure_names  # rules of its own have classes of their own
    cases = read_cases(document, Setting(family, folder, known), source)
    return _Recipe(cases if not document.problems else (), in_order(document.problems), document)


def _not_a_mapping(data: Any) -> str:
    wanted = "a recipe is a mapping of keys, such as `name: cuda-matmul-f32`"
    if isinstance(data, Written):
        return f'{wanted}; this is the text "{_shortened(data)}". A key needs a colon and a blank behind it.'
    if isinstance(data, list):
        return f"{wanted}; this is a list. Write each recipe into a file of its own."
    return "the file holds no value; `triage recipe new` writes a recipe to start from."


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 40 else line[:39] + "…"


class _Names:
    """The recipe names met so far and where they stand."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def add(self, document: Document | None) -> list[Problem]:
        """A problem when another file has this document's name."""
        loc: Loc = ("name",)
        name = document.data.get("name") if document is not None else None
        if document is None or not isinstance(name, Written) or not NAME.fullmatch(name):
            return []
        place = document.problem(loc, "")
        here = f"{place.path}:{place.line}:{place.column}"
        first = self._first.setdefault(name, here)
        if first == here:
            return []
        message = f'the name "{name}" is already used at {first}; every recipe needs a name of its own.'
        return [document.problem(loc, message)]


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
        rules=recipe.failure_rules(source.parent),
        spec=recipe.spec(),
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
