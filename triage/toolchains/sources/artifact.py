"""A source of wheels that GitHub Actions keeps for each commit for some weeks."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, Field, ValidationError

from triage.git_history.timeline import Timeline
from triage.model.address import Address
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.recipes.mapping import MappingFormat, Text
from triage.toolchains.home import Workspace
from triage.toolchains.index import Release, wheels_named
from triage.toolchains.install import Uv, fill_folder, is_intact
from triage.toolchains.sources.base import (
    Build,
    commit_build,
)
from triage.toolchains.web import Web, host_of

_PAGE_SIZE = 100
_MAX_PAGES = 500
_BEFORE = timedelta(hours=6)  # clocks differ
_SECONDS = 25.0  # of a download and an install
_PART = 1 << 20  # bytes
_MOST_INFLATED = 10  # a wheel is packed already, so that an archive hardly packs it
# What zipfile raises for archives that are cut off or changed.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,
    RuntimeError,
    NotImplementedError,
)


class ArtifactsSection(MappingFormat):
    """Wheels of a GitHub Actions workflow."""

    artifact: Text = Field(
        description="The artifact's name.", examples=["linux_x86_64_release_packages"]
    )
    wheel: Text = Field(default="*.whl", description="A pattern for the wheel inside.")
    branch: Text | None = Field(
        default=None,
        description="Only artifacts of this branch (default: all branches).",
    )
    repository: Text | None = Field(
        default=None, description="owner/name, where it differs from the repository's."
    )


class WorkflowRun(BaseModel, frozen=True):
    """The run of a workflow that made an artifact. For a pull request from a fork, its
    head repository is another one.
    """

    head_sha: str
    head_branch: str | None = None
    repository_id: int | None = None
    head_repository_id: int | None = None


class WorkflowArtifact(BaseModel, frozen=True):
    """The files that a run keeps under a name."""

    id: Annotated[int, Field(gt=0, lt=1 << 63)]
    name: str
    expired: bool
    created_at: AwareDatetime
    workflow_run: WorkflowRun | None = None


class ArtifactsPage(BaseModel):
    """A page of a list of artifacts."""

    artifacts: list[WorkflowArtifact]


@dataclass(frozen=True)
class CommitArtifacts:
    """Artifacts by the head commit of their run."""

    workspace: Workspace
    slug: str
    distribution: str
    settings: ArtifactsSection
    api: Address = field(
        default_factory=lambda: Address(
            os.environ.get("GITHUB_API_URL") or "https://api.github.com"
        )
    )
    token: str | None = field(
        default_factory=lambda: (
            os.environ.get("GITHUB_TOKEN") or os.environ.get("GH_TOKEN")
        ),
        repr=False,
    )
    name = "artifacts"

    @property
    def _url(self) -> str:
        return f"{self.api.full.rstrip('/')}/repos/{self.slug}/actions/artifacts"

    def builds(self, timeline: Timeline, indices: range) -> Sequence[Build]:
        """Return one build for each commit that has artifacts. It is untestable if they
        are expired.
        """
        if not indices:
            return ()
        dates = [timeline.commits[index].date for index in indices]
        oldest = min(map(datetime.fromisoformat, dates))
        by_sha: dict[str, list[WorkflowArtifact]] = {}
        for artifact in self.listed(oldest - _BEFORE):
            run = artifact.workflow_run
            if run is None or run.head_repository_id != run.repository_id:
                continue
            if self.settings.branch in (None, run.head_branch):
                by_sha.setdefault(run.head_sha, []).append(artifact)
        builds = []
        for index in indices:
            artifacts = by_sha.get(timeline.commits[index].sha)
            if artifacts:
                builds.append(self._build(timeline, index, artifacts))
        return builds

    def _build(
        self, timeline: Timeline, index: int, artifacts: Sequence[WorkflowArtifact]
    ) -> Build:
        """Return the build of a commit from the newest of its artifacts that is
        installed or can be downloaded. If none can, return an untestable build.
        """
        for artifact in artifacts:
            item = str(artifact.id)
            if is_intact(self.workspace.home.toolchains / self._folder(item)):
                return commit_build(self.name, timeline, index, 0.0, item)
            if not artifact.expired:
                return commit_build(self.name, timeline, index, _SECONDS, item)
        reason = f"its {self.settings.artifact} expired"
        return commit_build(self.name, timeline, index, 0.0, "", reason)

    def _folder(self, artifact: str) -> str:
        return f"artifact-{self.slug.replace('/', '-')}-{artifact}"

    def obtain(self, build: Build, package: str | None = None) -> Path:
        if build.untestable is not None:
            raise Unobtainable(build.untestable)
        name = f"{self.settings.artifact} of {build.revision.name[:10]}"

        def fill(root: Path, scratch: Path) -> None:
            if self.token is None:
                raise EnvironmentFailure(
                    f"{host_of(self.api)} gives artifacts only to users with a token: "
                    "set GITHUB_TOKEN (or GH_TOKEN)"
                )
            archive = scratch / "artifact.zip"
            url = Address(f"{self._url}/{int(build.item)}/zip")
            Web(self.workspace, self.token).download(url, archive, name)
            try:
                release = self._extract(archive, name, package)
            except _DAMAGE as error:
                raise Unobtainable(f"{name} is damaged: {error}") from error
            wheel = (scratch / release.wheel).as_uri()
            uv = Uv(self.workspace, name, root, scratch)
            uv.unpack(f"{release.distribution} @ {wheel}", release.python)

        folder = self._folder(build.item)
        if package:
            folder += f"-{package}"
        return fill_folder(self.workspace, folder, f"install {name}", fill)

    def listed(self, since: datetime) -> Iterator[WorkflowArtifact]:
        """Yield the artifacts since a time, the newest first. Raises EnvironmentFailure
        if they cannot be listed.
        """
        with self.workspace.progress.task("list artifacts"):
            for number in range(1, _MAX_PAGES + 1):
                page = self._page(number)
                for artifact in page.artifacts:
                    if artifact.name == self.settings.artifact:
                        yield artifact
                is_last = len(page.artifacts) < _PAGE_SIZE
                if is_last or page.artifacts[-1].created_at < since:
                    return
        raise EnvironmentFailure(
            f"{host_of(self.api)} lists more than {_MAX_PAGES} pages of "
            f"{self.settings.artifact} of {self.slug}"
        )

    def _page(self, number: int) -> ArtifactsPage:
        query: dict[str, str | int] = {
            "name": self.settings.artifact,
            "per_page": _PAGE_SIZE,
            "page": number,
        }
        web, accept = Web(self.workspace, self.token), "application/vnd.github+json"
        try:
            answer = web.get(Address(self._url), query, accept)
            return ArtifactsPage.model_validate_json(answer.content)
        except (EnvironmentFailure, ValidationError) as error:
            reason = " ".join(str(error).splitlines()[:3])
            raise EnvironmentFailure(
                f"cannot list the artifacts of {self.slug} at {host_of(self.api)}: "
                f"{reason}"
            ) from error

    def _extract(self, archive: Path, name: str, package: str | None) -> Release:
        """Extract the wheel for this platform from an archive: that of `package`
        (default: the compiler's).
        """
        pattern = "*.whl" if package else self.settings.wheel
        with zipfile.ZipFile(archive) as inside:
            members = {
                PurePosixPath(member).name: member for member in inside.namelist()
            }
            named = [member for member in members if fnmatchcase(member, pattern)]
            releases = wheels_named(named, package or self.distribution)
            if not releases:
                listed = ", ".join(sorted(filter(None, members))[:5]) or "nothing"
                raise Unobtainable(
                    f"{name} has no {package or pattern} for this platform; it "
                    f"contains {listed}"
                )
            left = _MOST_INFLATED * archive.stat().st_size
            wheel = releases[-1].wheel
            with (
                inside.open(members[wheel]) as source,
                archive.with_name(wheel).open("wb") as sink,
            ):
                while part := source.read(_PART):
                    left -= len(part)
                    if left < 0:
                        raise Unobtainable(
                            f"{name} is damaged: {wheel} has more than "
                            f"{_MOST_INFLATED} times the archive's size"
                        )
                    sink.write(part)
        return releases[-1]
