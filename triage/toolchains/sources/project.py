"""What `triage.yaml` says: where the compilers of a project come from. Its keys, and what each may hold."""

from __future__ import annotations

import string
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from triage.recipes.fields import advice, as_text, as_written
from triage.recipes.quantities import parse_duration


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


class CommandFormat(_Mapping):
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
    command: CommandFormat | None = None
    llvm: Text | None = Field(default=None, description="Submodule, or file with a sha, that pins LLVM.")
    paths: Texts = Field(default=(), description="Folders that can change what the compiler does; left out: all.")

    @model_validator(mode="after")
    def _wheels_have_a_name(self) -> Self:
        for key in ("releases", "nightlies", "artifacts"):
            part = getattr(self, key)
            if part is not None and self.distribution is None and getattr(part, "distribution", None) is None:
                raise advice(f"{key} need the name of the wheels: add `distribution: …` to the project.", key)
        return self
