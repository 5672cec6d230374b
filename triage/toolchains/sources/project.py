"""Read the project file `triage.yaml`, which says where the compilers of a project come
from. `sources_of` knows all sources.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from triage.compilers.base import Packaging
from triage.git_history.repository import Repository, read_tags, tags_for
from triage.model.case import Case, RunSpec
from triage.model.errors import BadInput
from triage.model.revision import FamilyRef
from triage.recipes.document import (
    Duration,
    MappingFormat,
    Text,
    Texts,
    Variables,
    content_of,
    parse_document,
    read_text,
)
from triage.toolchains.home import Workspace
from triage.toolchains.install import PLAIN_WHEEL, Package
from triage.toolchains.sources.base import (
    Source,
    Url,
    can_change,
)
from triage.toolchains.sources.builds import BuildSection, SourceBuilds
from triage.toolchains.sources.wheels import (
    NightliesSection,
    ReleasesSection,
    Wheels,
)

FILE = "triage.yaml"
_SOURCES = ("releases", "nightlies", "build")
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
            raise ValueError(
                f'nothing says what belongs to "{self.owner}": add files, passes, '
                "backends or suites."
            )
        return self


class SuitesSection(MappingFormat):
    """What the tests of a suite get besides what its files say."""

    timeout: Duration | None = Field(
        default=None,
        description="Time for each compile and each run of a test.",
        examples=["90s"],
    )
    env: Variables = Field(
        default={},
        description="Environment variables of compilers and programs: a list of names "
        "to pass on, or a mapping of names to values.",
    )

    def applied_to(self, case: Case) -> Case:
        """Return a test with these settings."""
        timeout = self.timeout
        run, benchmarks = case.run, case.benchmarks
        if timeout:
            case = replace(case, limits=replace(case.limits, timeout=timeout))
            benchmarks = tuple(_limited(benchmark, timeout) for benchmark in benchmarks)
            run = run and _limited(run, timeout)
        env = tuple(self.env.items())
        return replace(case, env=env, run=run, benchmarks=benchmarks)


def _limited(run: RunSpec, timeout: float) -> RunSpec:
    return replace(run, limits=replace(run.limits, timeout=timeout))


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
    # A source has its module, its key here, and a line in `sources_of`.
    releases: ReleasesSection | None = None
    nightlies: NightliesSection | None = None
    build: BuildSection | None = None
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

    suites: SuitesSection = Field(
        default=SuitesSection(), description="Settings for all tests of its suites."
    )

    def sections(self) -> list[str]:
        """Return the keys of the sources that there are."""
        return [key for key in _SOURCES if getattr(self, key)]

    def can_change(self, path: str) -> bool:
        """Whether a file of the repository can change what the compiler does."""
        return can_change(path, self.paths)

    @model_validator(mode="after")
    def _wheels_have_a_name(self) -> Self:
        for key in ("releases", "nightlies"):
            section = getattr(self, key)
            distribution = getattr(section, "distribution", None)
            if section and not (distribution or self.distribution):
                raise ValueError(
                    f"{key} need the name of the wheels: add `distribution: …` to the "
                    "project."
                )
        return self


def sources_of(
    project: Project,
    repository: Repository,
    workspace: Workspace,
    packaging: Packaging = PLAIN_WHEEL,
) -> tuple[Source, ...]:
    """Return the project's sources, usually the cheapest first. Nothing is listed yet.

    `packaging` says how its releases are installed.
    """
    sources: list[Source] = []
    package = Package(workspace, project.distribution or "", packaging)
    if project.releases:
        sources.append(Wheels(package, project.releases.tags))
    if project.nightlies:
        nightlies = project.nightlies.package(package)
        sources.append(Wheels(nightlies, project.nightlies.tags))
    if project.build:
        build = SourceBuilds(workspace, repository, project.name, project.build)
        sources.append(build)
    return tuple(sources)


def tagged_commit(project: Project, repository: Repository, version: str) -> str:
    """Return the commit of a version by its tags in a clone. Raises BadInput if no tag,
    or several commits, have that name.
    """
    patterns: list[str] = []
    for section in (project.releases, project.nightlies):
        if section:
            patterns += section.tags
    tags = tags_for(version, patterns, read_tags(repository))
    commits = set(tags.values())
    if len(commits) == 1:
        return commits.pop()
    raise BadInput(
        f"{version} does not report the commit that it was built from, and "
        f"{repository.path} has no tag of it, or tags of different commits; fetch tags "
        "with `git fetch --tags`, or name a commit with commit:SHA"
    )


def load_project(path: Path) -> Project:
    """Read a project file. Raises BadFiles with all its problems."""
    return parse_project(str(path), read_text(path))


def parse_project(path: str, text: str) -> Project:
    """Read the text of a project file. `path` names it in problems. Raises BadFiles
    with all problems.
    """
    return content_of(parse_document(path, text, _EMPTY), Project)


def shipped_projects() -> dict[str, Path]:
    """Return the project files that come with triage, by name."""
    folder = Path(str(files("triage")), "projects")
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def project_here(family: str) -> Project | None:
    """Return the project in the `triage.yaml` of the current folder, if there is one
    for a compiler family. Raises BadFiles if the file has mistakes.
    """
    path = Path(FILE)
    if not path.is_file():
        return None
    project = load_project(path)
    is_for_family = project.compiler in (family, FamilyRef.parse(family).kind)
    return project if is_for_family else None


def find_project(family: str, *folders: Path) -> Project:
    """Return the project of a compiler family: the `triage.yaml` for it in the first
    folder that has one, or else the shipped one.

    A project without sources, such as one that has only owners, gets the keys that it
    lacks from the shipped one.

    Raises:
        BadInput: There is no project for the family.
        BadFiles: The file has mistakes.
    """
    ref, shipped = FamilyRef.parse(family), shipped_projects()
    if ref.recipe:  # a compiler in a folder has no name of its own
        family = ref.kind
    for path in (*(folder / FILE for folder in folders), shipped.get(family)):
        if path and path.is_file():
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
    settings = {name: getattr(project, name) for name in project.model_fields_set}
    return load_project(shipped).model_copy(update=settings)
