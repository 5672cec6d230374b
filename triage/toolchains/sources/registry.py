"""The sources that a project names, put together."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from triage.git_history import Repository
from triage.git_history.refs import links_of
from triage.model.errors import BadInput
from triage.toolchains.sources.artifact import Actions, CommitArtifacts
from triage.toolchains.sources.base import Prices, Source, Workplace
from triage.toolchains.sources.build import SourceBuilds, Steps
from triage.toolchains.sources.nightly import Nightlies
from triage.toolchains.sources.project import ArtifactsFormat, NightliesFormat, ProjectFormat
from triage.toolchains.sources.release import Releases
from triage.toolchains.sources.script import ScriptedToolchains


def sources_of(project: ProjectFormat, repository: Repository, place: Workplace, folder: Path) -> tuple[Source, ...]:
    """The project's sources, usually the cheapest first. `folder`: where a relative command is run. Nothing is asked yet.

    BadInput when artifacts are named and neither the project nor the clone's remote tells whose.
    """
    prices = Prices(place.home / "prices.json")
    found: list[Source] = []
    if project.releases is not None and project.distribution is not None:
        found.append(Releases(place, prices, project.distribution, project.releases.tags))
    if project.nightlies is not None:
        found.append(nightlies_of(project.nightlies, project, place, prices))
    if project.artifacts is not None and project.distribution is not None:
        found.append(_artifacts(project.artifacts, project, repository, place, prices))
    if project.command is not None:
        found.append(ScriptedToolchains(place, prices, project.command.run, folder, project.command.timeout))
    if project.build is not None:
        build = project.build
        steps = Steps(build.commands, build.configure, build.submodules, build.timeout, build.env)
        found.append(SourceBuilds(place, prices, repository, project.name, steps))
    return tuple(found)


def nightlies_of(part: NightliesFormat, project: ProjectFormat, place: Workplace, prices: Prices) -> Nightlies:
    """The nightlies that a project names."""
    distribution = part.distribution or project.distribution or ""
    page = part.index or part.find_links or ""
    return Nightlies(place, prices, distribution, page, part.tags, simple=part.index is not None)


def _artifacts(
    part: ArtifactsFormat, project: ProjectFormat, repository: Repository, place: Workplace, prices: Prices
) -> Source:
    links = links_of(project.repository or repository.remote)
    slug = part.repository or (links.slug if links else None)
    if slug is None:
        raise BadInput(f"whose artifacts? {project.name} names no repository, and the clone at {repository.path} no remote")
    api = part.api
    if api is None and links is not None and urlsplit(links.web).hostname != "github.com" and part.repository is None:
        api = f"{links.web.removesuffix(links.slug).rstrip('/')}/api/v3"  # where GitHub Enterprise servers have it
    return CommitArtifacts(
        place,
        prices,
        Actions(place, slug, api),
        distribution=project.distribution or "",
        workflow=part.workflow,
        artifact=part.artifact,
        wheel=part.wheel,
        branch=part.branch,
        any_conclusion=part.runs == "any",
    )
