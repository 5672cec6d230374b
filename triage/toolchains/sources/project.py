"""What `triage.yaml` says: where the compilers of a project come from. Its keys, and what each may hold."""

from __future__ import annotations

import string
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from triage.config.document import FileKind, read_document, read_text
from triage.config.schema import MappingFormat, in_order, problems_of
from triage.config.values import advice, as_duration, as_list, as_text, as_written
from triage.model.errors import BadFiles, BadInput


def _url(value: Any) -> str:
    text = as_text(value)
    if not text.startswith(("https://", "http://")):
        raise advice(f'"{text}" is not an address: write one that begins with https://.')
    return text


def _tag(value: Any) -> str:
    text = as_text(value)
    names = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None] if _balanced(text) else []
    if names != ["version"]:
        raise advice(f'"{text}" is not a pattern for tags: write {{version}} once, such as "v{{version}}".')
    return text


def _balanced(text: str) -> bool:
    try:
        list(string.Formatter().parse(text))
    except ValueError:
        return False
    return True


def _bool(value: Any) -> bool:
    text = as_written(value).lower()
    if text not in ("true", "false"):
        raise advice(f'"{text}" is neither true nor false.')
    return text == "true"


Text = Annotated[str, BeforeValidator(as_text)]
Written = Annotated[str, BeforeValidator(as_written)]
Url = Annotated[str, BeforeValidator(_url)]
Duration = Annotated[float, BeforeValidator(as_duration)]
Truth = Annotated[bool, BeforeValidator(_bool)]
Tags = Annotated[tuple[Annotated[str, BeforeValidator(_tag)], ...], BeforeValidator(as_list)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(as_list)]


class ReleasesFormat(MappingFormat):
    """Releases of the package index."""

    noun: ClassVar[str] = "releases"

    tags: Tags = Field(description="Which tags mark a release's commit.", examples=["v{version}"])


class NightliesFormat(MappingFormat):
    """Nightly wheels."""

    noun: ClassVar[str] = "nightlies"

    find_links: Url | None = Field(default=None, alias="find-links", description="A page of links to wheels.")
    index: Url | None = Field(default=None, description="A simple index that holds the wheels.")
    distribution: Text | None = Field(default=None, description="The wheels' name where it differs from the releases'.")
    tags: Tags = Field(default=(), description="Which tags mark a nightly's commit.", examples=["iree-{version}"])

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.find_links is None) == (self.index is None):
            raise advice("nightlies come from one place: give either find-links (a page of links) or index.")
        return self


class ArtifactsFormat(MappingFormat):
    """Wheels of a GitHub Actions workflow."""

    noun: ClassVar[str] = "artifacts"

    workflow: Text = Field(description="The workflow's file.", examples=["pkgci.yml"])
    artifact: Text = Field(description="The artifact's name.", examples=["linux_x86_64_release_packages"])
    wheel: Text = Field(default="*.whl", description="A pattern for the wheel inside.")
    branch: Text | None = Field(default=None, description="Only runs of this branch; left out: of all.")
    repository: Text | None = Field(default=None, description="owner/name, where it differs from the repository's.")
    api: Url | None = Field(default=None, description="The REST API of a GitHub Enterprise server.")
    runs: Annotated[Literal["success", "any"], BeforeValidator(as_text)] = Field(
        default="success", description="Which completed runs count: successful ones, or any that left the artifact."
    )


class BuildFormat(MappingFormat):
    """Builds from source: shell commands."""

    noun: ClassVar[str] = "build"

    configure: Texts = Field(default=(), description="Run before each build.")
    commands: Texts = Field(min_length=1, description="Build and put the toolchain into $TRIAGE_OUT.")
    submodules: Truth = Field(default=True, description="Whether submodules are updated.")
    timeout: Duration = Field(default=4 * 3600.0, description="For all commands of one commit together.")
    env: dict[str, Written] = Field(default={}, description="Variables beside the inherited ones.")


class ScriptFormat(MappingFormat):
    """A script of your own."""

    noun: ClassVar[str] = "command"

    run: Text = Field(description="Given a commit, prints the path of its toolchain.")
    timeout: Duration = Field(default=3600.0)


class ProjectFormat(MappingFormat):
    """One compiler project: its repository and its sources."""

    noun: ClassVar[str] = "a project"

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

_PROJECT = FileKind("project", "a project has at least a name and a compiler")


def load_project(path: Path) -> ProjectFormat:
    """The project of a file. BadFiles with all its problems, its path as given here."""
    return parse_project(str(path), read_text(path, _PROJECT))


def parse_project(path: str, text: str) -> ProjectFormat:
    """The project of a file's text; `path` names it in problems. BadFiles with all of them."""
    document = read_document(path, text, _PROJECT)
    try:
        project = ProjectFormat.model_validate(document.data)
    except ValidationError as error:
        raise BadFiles(in_order([*document.problems, *problems_of(error, document, ProjectFormat)])) from error
    if document.problems:
        raise BadFiles(in_order(document.problems))
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
