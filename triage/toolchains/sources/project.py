"""What `triage.yaml` says: where the compilers of a project come from. Its keys, and what each may hold."""

from __future__ import annotations

import string
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from triage.config.quantities import parse_duration
from triage.config.suggestions import did_you_mean
from triage.config.yaml_document import Document, Loc, build_document, compose
from triage.model.errors import BadFiles, BadInput, Problem
from triage.recipes.fields import advice, as_text, as_written
from triage.recipes.files import read_recipe


def _text(value: Any) -> str:
    return as_text(value)


def _url(value: Any) -> str:
    text = as_text(value)
    if not text.startswith(("https://", "http://")):
        raise advice(f'"{text}" is no address: write one that begins with https://.')
    return text


def _tag(value: Any) -> str:
    text = as_text(value)
    names = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None] if _balanced(text) else []
    if names != ["version"]:
        raise advice(f'"{text}" is no pattern for a tag: it holds {{version}} once, such as "v{{version}}".')
    return text


def _balanced(text: str) -> bool:
    try:
        list(string.Formatter().parse(text))
    except ValueError:
        return False
    return True


def _duration(value: Any) -> float:
    try:
        return parse_duration(as_written(value))
    except ValueError as error:
        raise advice(str(error)) from error


def _bool(value: Any) -> bool:
    text = as_written(value).lower()
    if text not in ("true", "false"):
        raise advice(f'"{text}" is neither true nor false.')
    return text == "true"


def _listed(value: Any) -> Any:
    """One text may stand for a list of one."""
    return [value] if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_text)]
Written = Annotated[str, BeforeValidator(as_written)]
Url = Annotated[str, BeforeValidator(_url)]
Duration = Annotated[float, BeforeValidator(_duration)]
Truth = Annotated[bool, BeforeValidator(_bool)]
Tags = Annotated[tuple[Annotated[str, BeforeValidator(_tag)], ...], BeforeValidator(_listed)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_listed)]


class _Mapping(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class ReleasesFormat(_Mapping):
    """Releases of the package index."""

    tags: Tags = Field(description="Which tags mark a release's commit.", examples=["v{version}"])


class NightliesFormat(_Mapping):
    """Nightly wheels."""

    find_links: Url | None = Field(default=None, alias="find-links", description="A page of links to wheels.")
    index: Url | None = Field(default=None, description="A simple index that holds the wheels.")
    distribution: Text | None = Field(default=None, description="The wheels' name where it differs from the releases'.")
    tags: Tags = Field(default=(), description="Which tags mark a nightly's commit.", examples=["iree-{version}"])

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.find_links is None) == (self.index is None):
            raise advice("nightlies come from one place: give either find-links (a page of links) or index.")
        return self


class ArtifactsFormat(_Mapping):
    """Wheels of a GitHub Actions workflow."""

    workflow: Text = Field(description="The workflow's file.", examples=["pkgci.yml"])
    artifact: Text = Field(description="The artifact's name.", examples=["linux_x86_64_release_packages"])
    wheel: Text = Field(default="*.whl", description="A pattern for the wheel inside.")
    branch: Text | None = Field(default=None, description="Only runs of this branch; left out: of all.")
    repository: Text | None = Field(default=None, description="owner/name, where it differs from the repository's.")
    api: Url | None = Field(default=None, description="The REST API of a GitHub Enterprise server.")
    runs: Annotated[Literal["success", "any"], BeforeValidator(_text)] = Field(
        default="success", description="Which completed runs count: successful ones, or any that left the artifact."
    )


class BuildFormat(_Mapping):
    """Builds from source: shell commands."""

    configure: Texts = Field(default=(), description="Run before each build.")
    commands: Texts = Field(min_length=1, description="Build and put the toolchain into $TRIAGE_OUT.")
    submodules: Truth = Field(default=True, description="Whether submodules are updated.")
    timeout: Duration = Field(default=4 * 3600.0, description="For all commands of one commit together.")
    env: dict[str, Written] = Field(default={}, description="Variables beside the inherited ones.")


class ScriptFormat(_Mapping):
    """A script of your own."""

    run: Text = Field(description="Given a commit, prints the path of its toolchain.")
    timeout: Duration = Field(default=3600.0)


class ProjectFormat(_Mapping):
    """One compiler project: its repository and its sources."""

    name: Text = Field(description="What the project is called.", examples=["iree"])
    compiler: Text = Field(description="Compiler family.", examples=["iree"])
    repository: Url | None = Field(default=None, description="The repository's page on the web.")
    distribution: Text | None = Field(default=None, description="Name of the wheels.", examples=["iree-base-compiler"])
    releases: ReleasesFormat | None = None
    nightlies: NightliesFormat | None = None
    artifacts: ArtifactsFormat | None = None
    build: BuildFormat | None = None
    command: ScriptFormat | None = None
    llvm: Text | None = Field(default=None, description="Submodule, or file with a sha, that pins LLVM.")
    paths: Texts = Field(default=(), description="Folders that can change what the compiler does; left out: all.")

    @model_validator(mode="after")
    def _wheels_have_a_name(self) -> Self:
        for key in ("releases", "nightlies", "artifacts"):
            part = getattr(self, key)
            if part is not None and self.distribution is None and getattr(part, "distribution", None) is None:
                raise advice(f"{key} need the name of the wheels: add `distribution: …` to the project.", key)
        return self


FILE = "triage.yaml"

_PARTS: Mapping[str, type[BaseModel]] = {
    "releases": ReleasesFormat,
    "nightlies": NightliesFormat,
    "artifacts": ArtifactsFormat,
    "build": BuildFormat,
    "command": ScriptFormat,
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
