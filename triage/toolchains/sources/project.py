"""The project file `triage.yaml`: where the compilers of a project come from. Its
fields are the registry of sources.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from triage.compilers.base import Packaging
from triage.compilers.family_ref import FamilyRef
from triage.git_history.refs import read_tags, tags_for
from triage.git_history.repository import Repository
from triage.model.errors import BadInput
from triage.recipes.document import parse_document, read_text
from triage.recipes.mapping import AtKey, MappingFormat, Text, Texts, content_of
from triage.toolchains.home import Workspace
from triage.toolchains.install import PLAIN_WHEEL
from triage.toolchains.sources.artifact import ArtifactsSection
from triage.toolchains.sources.base import (
    Source,
    SourceContext,
    SourceSection,
    Url,
    can_change,
)
from triage.toolchains.sources.commands import BuildSection, ScriptSection
from triage.toolchains.sources.wheels import NightliesSection, ReleasesSection

FILE = "triage.yaml"
_EMPTY = "a project has at least a name and a compiler"


class OwnerRule(MappingFormat):
    """Who looks after the failures of some files, passes, backends or suites."""

    owner: Text = Field(description="A person or a team.", examples=["@ann"])
    files: Texts = Field(
        default=(),
        description="Shell patterns of files that the culprit changes, or of the pass.",
    )
    passes: Texts = Field(default=(), description="Shell patterns of passes.")
    backends: Texts = Field(default=(), description="Shell patterns of backends.")
    suites: Texts = Field(default=(), description="Shell patterns of suites.")

    @model_validator(mode="after")
    def _says_of_what(self) -> Self:
        if not (self.files or self.passes or self.backends or self.suites):
            raise AtKey(
                "owner",
                f'nothing says what belongs to "{self.owner}": add files, passes, '
                "backends or suites.",
            )
        return self


class Project(MappingFormat):
    """One compiler project: its repository and its sources."""

    name: Text = Field(
        description="What the project is called.", examples=["my-compiler"]
    )
    compiler: Text = Field(description="Compiler family.", examples=["my-compiler"])
    repository: Url | None = Field(
        default=None, description="The repository's page on the web."
    )
    distribution: Text | None = Field(
        default=None, description="Name of the wheels.", examples=["my-compiler"]
    )
    # The sources, usually the cheapest first. A new one needs its module and a line
    # here.
    releases: ReleasesSection | None = None
    nightlies: NightliesSection | None = None
    artifacts: ArtifactsSection | None = None
    command: ScriptSection | None = None
    build: BuildSection | None = None
    llvm: Text | None = Field(
        default=None, description="Submodule, or file with a sha, that pins LLVM."
    )
    paths: Texts = Field(
        default=(),
        description="Shell patterns of the files that can change what the compiler "
        "does, or with ! of those that cannot (default: all can). A "
        "commit bisect leaves out commits that change no such file.",
        examples=["!docs/*"],
    )
    owners: tuple[OwnerRule, ...] = Field(
        default=(),
        description="Who looks after which failures; the last rule that fits holds.",
    )

    def sections(self) -> dict[str, SourceSection]:
        """Return the sections of sources by their keys."""
        values = ((key, getattr(self, key)) for key in type(self).model_fields)
        return {key: value for key, value in values if isinstance(value, SourceSection)}

    def can_change(self, path: str) -> bool:
        """Whether a file of the repository can change what the compiler does."""
        return can_change(path, self.paths)

    @model_validator(mode="after")
    def _wheels_have_a_name(self) -> Self:
        for key, section in self.sections().items():
            if section.of_wheels and not (
                self.distribution or getattr(section, "distribution", None)
            ):
                raise AtKey(
                    key,
                    (
                        f"{key} need the name of the wheels: add `distribution: …` to "
                        "the project."
                    ),
                )
        return self


def sources_of(
    project: Project,
    repository: Repository,
    workspace: Workspace,
    folder: Path,
    packaging: Packaging = PLAIN_WHEEL,
) -> tuple[Source, ...]:
    """Return the project's sources, usually the cheapest first. They are not asked yet.
    `folder`: see `SourceContext`.
    packaging: how releases are installed.

    BadInput when neither the project nor the clone's remote names the repository of
    artifacts.
    """
    context = SourceContext(
        workspace,
        repository,
        folder,
        project.name,
        project.distribution,
        project.repository,
        packaging,
        project.paths,
    )
    return tuple(section.open(context) for section in project.sections().values())


def tagged_commit(project: Project, repository: Repository, version: str) -> str:
    """Return the commit that the tags of a clone name for a version. BadInput without a
    tag, or when two tags disagree.
    """
    patterns = [
        pattern
        for section in (project.releases, project.nightlies)
        if section
        for pattern in section.tags
    ]
    tags = tags_for(version, dict.fromkeys(patterns), read_tags(repository))
    if len(set(tags.values())) == 1:
        return next(iter(tags.values()))
    if tags:
        names = " and ".join(f"{name} ({sha[:10]})" for name, sha in tags.items())
        raise BadInput(
            f"the tags {names} of {version} in {repository.path} name different "
            "commits; name one with commit:SHA"
        )
    names = " or ".join(pattern.format(version=version) for pattern in patterns)
    if names:
        looked = f", and {repository.path} has no tag {names}"
    else:
        looked = ""
    raise BadInput(
        f"{version} does not report the commit that it was built from{looked}; fetch "
        "tags with `git fetch --tags`, or name a commit instead"
    )


def load_project(path: Path) -> Project:
    """Return the project of a file. BadFiles with all its problems."""
    return parse_project(str(path), read_text(path))


def parse_project(path: str, text: str) -> Project:
    """Return the project of a file's text. BadFiles with all its problems, in which
    `path` names the file.
    """
    return content_of(parse_document(path, text, _EMPTY), Project)


def shipped_projects() -> dict[str, Path]:
    """Return the files of the projects that come with the program by their names."""
    return {
        path.stem: path
        for path in sorted((Path(str(files("triage"))) / "projects").glob("*.yaml"))
    }


def find_project(family: str, *folders: Path) -> Project:
    """Return the project for a compiler family: of the first folder with a
    `triage.yaml` for it, else the shipped one. One that names no source, such as one
    that has only owners, has the other keys of the shipped one.

    Raises:
        BadInput: there is none.
        BadFiles: the file has mistakes.
    """
    ref = FamilyRef.parse(family)
    if ref.recipe:  # a compiler in a folder has no name of its own
        family = ref.kind
    for path in (*(folder / FILE for folder in folders), *shipped_projects().values()):
        if path.is_file():
            project = load_project(path)
            if project.compiler == family:
                return _with_sources(project)
    paths = " or ".join(str(folder / FILE) for folder in folders) or FILE
    raise BadInput(
        f"no project file says where {family} compilers come from: write {paths} with "
        f"`compiler: {family}`"
    )


def _with_sources(project: Project) -> Project:
    shipped = shipped_projects().get(project.compiler)
    if project.sections() or shipped is None:
        return project
    own = {name: getattr(project, name) for name in project.model_fields_set}
    return load_project(shipped).model_copy(update=own)
