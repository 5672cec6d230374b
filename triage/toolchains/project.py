"""Read the project file `triage.yaml`, which says where the compilers of a project come
from. `sources_of` knows all sources.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

from triage.git_history.repository import Repository, read_tags, tagged_commits
from triage.model.case import Case, RunSpec
from triage.model.errors import BadInput
from triage.model.fields import REQUIRED, Duration, Text, file_key, file_keys
from triage.model.revision import FamilyRef
from triage.recipes.document import (
    STRICT,
    Texts,
    Variables,
    content_of,
    read_document,
)
from triage.toolchains.install import Package
from triage.toolchains.sources import (
    BuildSection,
    NightliesSection,
    ReleasesSection,
    Source,
    SourceBuilds,
    Url,
    wheel_builds,
)

FILE = "triage.yaml"
_SOURCES = ("releases", "nightlies", "build")
_EMPTY = "a project has at least a name and a compiler"


@dataclass(frozen=True)
class OwnerRule:
    """Who looks after the failures of some files, passes, backends or suites."""

    owner: Text = file_key(REQUIRED, "A person or a team.", "@ann")
    files: Texts = file_key(
        (),
        "Shell patterns of files that the culprit changes, or of the pass.",
    )
    passes: Texts = file_key((), "Shell patterns of passes.")
    backends: Texts = file_key((), "Shell patterns of backends.")
    suites: Texts = file_key((), "Shell patterns of suites.")


@dataclass(frozen=True)
class SuitesSection:
    """What the tests of a suite get besides what its files say."""

    timeout: Duration | None = file_key(
        None, "Time for each compile and each run of a test.", "90s"
    )
    env: Variables = file_key(
        (),
        "Environment variables of compilers and programs: a list of names to pass on, "
        "or a mapping of names to values.",
    )

    def applied_to(self, case: Case) -> Case:
        """Return a test with these settings."""
        case = replace(case, env=self.env)
        timeout = self.timeout
        if timeout is None:
            return case

        def limited(run: RunSpec) -> RunSpec:
            return replace(run, limits=replace(run.limits, timeout=timeout))

        return replace(
            case,
            limits=replace(case.limits, timeout=timeout),
            run=case.run and limited(case.run),
            benchmarks=tuple(map(limited, case.benchmarks)),
        )


@dataclass(frozen=True, kw_only=True)
class Project:
    """One compiler project: its repository and its sources."""

    __pydantic_config__: ClassVar = STRICT

    name: Text = file_key(REQUIRED, "What the project is called.", "my-compiler")
    compiler: Text = file_key(REQUIRED, "Compiler family.", "my-compiler")
    repository: Url | None = file_key(None, "The repository's page on the web.")
    distribution: Text | None = file_key(None, "Name of the wheels.", "my-compiler")
    # A source has its module, its key here, and a line in `sources_of`.
    releases: ReleasesSection | None = None
    nightlies: NightliesSection | None = None
    build: BuildSection | None = None
    paths: Texts = file_key(
        (),
        "Shell patterns of the files that can change what the compiler does, or with ! "
        "of those that cannot (default: all can). A commit bisect leaves out commits "
        "that change no such file.",
        "!docs/*",
    )
    owners: tuple[OwnerRule, ...] = file_key(
        (), "Who looks after which failures; the last rule that fits holds."
    )
    suites: SuitesSection = file_key(
        SuitesSection(), "Settings for all tests of its suites."
    )

    def source_keys(self) -> list[str]:
        """Return the keys of the sources that there are."""
        return [key for key in _SOURCES if getattr(self, key)]

    def can_change(self, path: str) -> bool:
        """Whether a file of the repository can change what the compiler does."""
        unwanted = [pattern[1:] for pattern in self.paths if pattern.startswith("!")]
        wanted = [pattern for pattern in self.paths if not pattern.startswith("!")]
        is_wanted = not wanted or matches_any(path, wanted)
        return is_wanted and not matches_any(path, unwanted)


def matches_any(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a path fits a shell pattern, or is in a folder that does."""
    return any(
        fnmatchcase(path, pattern) or path.startswith(f"{pattern.rstrip('/')}/")
        for pattern in patterns
    )


def sources_of(
    project: Project, repository: Repository, package: Package
) -> tuple[Source, ...]:
    """Return the project's sources, usually the cheapest first. Nothing is listed yet.

    `package` says how its releases are installed.
    """
    sources: list[Source] = []
    package = replace(package, distribution=project.distribution or "")
    if project.releases:
        sources.append(partial(wheel_builds, package, project.releases.tags))
    if project.nightlies:
        nightlies = project.nightlies.package(package)
        sources.append(partial(wheel_builds, nightlies, project.nightlies.tags))
    if project.build:
        steps = project.build
        workspace = package.workspace
        builds = SourceBuilds(workspace, repository, project.name, steps)
        sources.append(builds.builds)
    return tuple(sources)


def tagged_commit(project: Project, repository: Repository, version: str) -> str:
    """Return the commit of a version by its tags in a clone. Raises BadInput if no tag,
    or several commits, have that name.
    """
    patterns: list[str] = []
    for section in (project.releases, project.nightlies):
        if section:
            patterns += section.tags
    commits = tagged_commits(version, patterns, read_tags(repository))
    if len(commits) == 1:
        return commits.pop()
    raise BadInput(
        f"{version} does not report the commit that it was built from, and "
        f"{repository.path} has no tag of it, or tags of different commits; fetch tags "
        "with `git fetch --tags`, or name a commit with commit:SHA"
    )


def load_project(path: Path) -> Project:
    """Read a project file. Raises BadFiles with all its problems."""
    return content_of(read_document(path, _EMPTY), Project)


def shipped_projects() -> dict[str, Path]:
    """Return the project files that come with triage, by name."""
    folder = Path(str(files("triage")), "projects")
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_project(family: str, *folders: Path) -> Project:
    """Return the project of a compiler family: the `triage.yaml` for it in the first
    folder that has one, or else the shipped one.

    A project without sources, such as one that has only owners, gets the keys that it
    lacks from the shipped one.

    Raises:
        BadInput: There is no project for the family.
        BadFiles: The file has mistakes.
    """
    files = [folder / FILE for folder in folders]
    for path in (*filter(Path.is_file, files), *shipped_projects().values()):
        project = load_project(path)
        if project.compiler in (family, FamilyRef.parse(family).kind):
            return _with_sources(project)
    paths = " or ".join(str(folder / FILE) for folder in folders) or FILE
    raise BadInput(
        f"no project file says where {family} compilers come from: write {paths} with "
        f"`compiler: {family}`"
    )


def _with_sources(project: Project) -> Project:
    shipped = shipped_projects().get(project.compiler)
    if project.source_keys() or shipped is None:
        return project
    return replace(load_project(shipped), **file_keys(project))
