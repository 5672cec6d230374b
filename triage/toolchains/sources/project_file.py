"""Project files read: every mistake told at once, with its place."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from triage.model.errors import BadFiles, BadInput, Problem
from triage.recipes.document import Document, Loc, build_document
from triage.recipes.files import read_recipe
from triage.recipes.suggestions import did_you_mean
from triage.recipes.syntax import compose
from triage.toolchains.sources.project import (
    ArtifactsFormat,
    BuildFormat,
    CommandFormat,
    NightliesFormat,
    ProjectFormat,
    ReleasesFormat,
)

FILE = "triage.yaml"

_PARTS: Mapping[str, type[BaseModel]] = {
    "releases": ReleasesFormat,
    "nightlies": NightliesFormat,
    "artifacts": ArtifactsFormat,
    "build": BuildFormat,
    "command": CommandFormat,
}


def load_project(path: Path) -> ProjectFormat:
    """The project of a file. BadFiles with all its problems, its path as given here."""
    return parse_project(str(path), read_recipe(path))


def parse_project(path: str, text: str) -> ProjectFormat:
    """The project of a file's text; `path` names it in problems. BadFiles with all of them."""
    if not text.strip():
        raise BadFiles([Problem(path, None, None, "the file is empty; a project has at least a name and a compiler.")])
    document = build_document(path, compose(path, text))
    if not isinstance(document.data, dict):
        if not document.problems:
            document.report((), "a project is a mapping of keys, such as `name: iree`.")
        raise BadFiles(document.problems)
    try:
        project = ProjectFormat.model_validate(document.data)
    except ValidationError as error:
        problems = [found for details in error.errors(include_url=False) if (found := _problem(details, document))]
        raise BadFiles(_in_order([*document.problems, *problems])) from error
    if document.problems:
        raise BadFiles(_in_order(document.problems))
    return project


def shipped_projects() -> tuple[str, ...]:
    """The names of the projects that come with the program."""
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in _folder().iterdir() if entry.name.endswith(".yaml")))


def find_project(family: str, *folders: Path) -> ProjectFormat:
    """The project for a compiler family: of the first folder with a `triage.yaml` for it, else the one shipped.

    BadInput when there is none, BadFiles when the file found has mistakes.
    """
    for folder in folders:
        if (folder / FILE).is_file():
            project = load_project(folder / FILE)
            if project.compiler == family:
                return project
    for name in shipped_projects():
        project = parse_project(f"{name}.yaml", (_folder() / f"{name}.yaml").read_text("utf-8"))
        if project.compiler == family:
            return project
    places = ", ".join(str(folder / FILE) for folder in folders) or FILE
    raise BadInput(f"nothing says where {family} compilers come from: write {places} with `compiler: {family}`")


def _folder() -> Any:
    return files("triage").joinpath("projects")


def _in_order(problems: list[Problem]) -> list[Problem]:
    return sorted(dict.fromkeys(problems), key=lambda problem: (problem.line or 0, problem.column or 0))


def _problem(details: ErrorDetails, document: Document) -> Problem | None:
    raw = tuple(part for part in details["loc"] if not str(part).startswith("function-"))
    loc = document.resolve(raw)
    if loc in document.settled or details["type"] == "none_required":
        return None
    context = details.get("ctx", {})
    match details["type"]:
        case "missing":
            where = f" of {loc[-1]}" if loc else ""
            return document.problem(loc, f'the key "{raw[-1]}"{where} is missing.')
        case "extra_forbidden":
            return document.problem(loc, _unknown_key(loc), at_key=True)
        case "advice":
            if context.get("key") is not None:
                loc = (*loc, str(context["key"]))
            return document.problem(loc, str(context["message"]))
        case "literal_error":
            return document.problem(loc, f'"{details["input"]}" is no choice: write {context.get("expected")}.')
        case "too_short":
            return document.problem(loc, f'the list of "{loc[-1]}" is empty: give it values or remove the key.')
        case "model_type" | "dict_type" | "model_attributes_type":
            return document.problem(loc, f'"{loc[-1]}" holds a mapping of keys.' if loc else "a project is a mapping of keys.")
        case "tuple_type" | "list_type":
            return document.problem(loc, f'"{loc[-1]}" holds a text or a list of them.')
        case _:
            return document.problem(loc, f"{details['msg'].lower()}.")


def _unknown_key(loc: Loc) -> str:
    key = str(loc[-1])
    model: type[BaseModel] = _PARTS.get(str(loc[0]), ProjectFormat) if len(loc) > 1 else ProjectFormat
    known = [field.alias or name for name, field in model.model_fields.items()]
    noun = str(loc[0]) if len(loc) > 1 else "a project"
    return f'"{key}" is no key of {noun}{did_you_mean(key, known)} Keys: {", ".join(known)}.'
