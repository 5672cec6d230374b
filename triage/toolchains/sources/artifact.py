"""The source of artifacts: wheels that a GitHub Actions workflow keeps for each commit for some weeks."""

from __future__ import annotations

import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import AwareDatetime, BaseModel, Field, ValidationError

from triage.git_history import Timeline
from triage.git_history.refs import links_of
from triage.model.errors import BadInput, EnvironmentFailure, Unobtainable
from triage.recipes.mapping import Text
from triage.toolchains.home import disk_errors
from triage.toolchains.index import Release, newest_wheel
from triage.toolchains.install import install_wheel
from triage.toolchains.install_cache import fill_folder, is_intact
from triage.toolchains.sources.base import Offer, SourceContext, commit_offer
from triage.toolchains.sources.section import SourceSection, Url
from triage.toolchains.web import Web, host_of, unusable
from triage.toolchains.workspace import Workspace

_DEFAULT_SECONDS = 25.0  # until there are timings
_BEFORE = timedelta(hours=6)  # clocks differ
_AFTER = timedelta(days=3)  # a commit may wait before it is pushed, and a run before it is created
_SEARCHED = timedelta(days=7)  # by one search, because the API lists at most _MAX_RESULTS for each
_PARALLEL = 8  # requests

PUBLIC_API = "https://api.github.com"
_JSON = "application/vnd.github+json"
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_PAGE_SIZE = 100
_MAX_RESULTS = 1000
_MAX_RUNS = 10  # of one commit
# What zipfile raises for archives that are cut off or changed.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, NotImplementedError)


class ArtifactsSection(SourceSection):
    """Wheels of a GitHub Actions workflow."""

    workflow: Text = Field(description="The workflow's file.", examples=["pkgci.yml"])
    artifact: Text = Field(description="The artifact's name.", examples=["linux_x86_64_release_packages"])
    wheel: Text = Field(default="*.whl", description="A pattern for the wheel inside.")
    branch: Text | None = Field(default=None, description="Only runs of this branch (default: all branches).")
    repository: Text | None = Field(default=None, description="owner/name, where it differs from the repository's.")
    api: Url | None = Field(default=None, description="The REST API of a GitHub Enterprise server.")
    runs: Literal["success", "any"] = Field(
        default="success", description="Which completed runs count: successful ones, or any that left the artifact."
    )

    @property
    def needs_distribution(self) -> bool:
        return True

    def open(self, context: SourceContext) -> CommitArtifacts:
        links = links_of(context.web_page or context.repository.remote)
        slug = self.repository or (links.slug if links else None)
        if slug is None:
            raise BadInput(
                f"the artifacts of {context.project} need a repository: add `repository: ...` to the project, or a remote to "
                f"the clone {context.repository.path}"
            )
        api = self.api
        if api is None and links is not None and urlsplit(links.web).hostname != "github.com" and self.repository is None:
            api = f"{links.web.removesuffix(links.slug).rstrip('/')}/api/v3"  # of a GitHub Enterprise server
        return CommitArtifacts(context.workspace, slug, context.distribution or "", self, api)


Id = Annotated[int, Field(gt=0, lt=1 << 63)]
Name = Annotated[str, Field(max_length=300)]


class WorkflowRun(BaseModel, frozen=True):
    """One run of a workflow."""

    id: Id
    sha: Name = Field(alias="head_sha")
    status: Name | None
    """`queued`, `in_progress`, `completed` and so on."""
    conclusion: Name | None = None
    """`success`, `failure` and so on, once it is completed."""
    run_attempt: Id = 1
    """A new attempt removes the artifacts of the one before."""


class WorkflowArtifact(BaseModel, frozen=True):
    """The files that a run left under a name."""

    id: Id
    name: Name
    expired: bool
    expires_at: AwareDatetime | None = None

    @property
    def is_expired(self) -> bool:
        """Whether it can no longer be downloaded."""
        return self.expired or (self.expires_at is not None and self.expires_at <= datetime.now(UTC))


class RunsPage(BaseModel):
    """A page of a list of runs; `total_count` runs are on all pages together."""

    total_count: int
    entries: list[WorkflowRun] = Field(alias="workflow_runs")


class ArtifactsPage(BaseModel):
    """A page of a list of artifacts; `total_count` artifacts are on all pages together."""

    total_count: int
    entries: list[WorkflowArtifact] = Field(alias="artifacts")


Page = TypeVar("Page", RunsPage, ArtifactsPage)


class CommitArtifacts:
    """Artifacts of a workflow by head commit."""

    name = "artifacts"

    def __init__(
        self, workspace: Workspace, slug: str, distribution: str, settings: ArtifactsSection, api: str | None = None
    ) -> None:
        """`api`: the base of the REST API (default: GITHUB_API_URL, else the public one)."""
        self._workspace = workspace
        self._slug = slug
        self._distribution = distribution
        self._settings = settings
        self._api = (api or os.environ.get("GITHUB_API_URL") or PUBLIC_API).rstrip("/")
        self._token = token_for(self._api, os.environ)
        self._web = Web(workspace, self._token)
        self._kind = f"artifacts:{slug}"
        self._known = workspace.state("artifacts")

    def offers(self, timeline: Timeline, indices: range) -> Sequence[Offer]:
        """Return one for each commit that the workflow ran on. Expired, failed and running ones are untestable."""
        if not indices:
            return ()
        index_by_sha = {timeline.commits[index].sha: index for index in indices}
        times = [datetime.fromisoformat(timeline.commits[index].date).astimezone(UTC) for index in indices]
        runs: dict[str, list[WorkflowRun]] = {}  # of each commit, the newest first
        for run in self.runs(min(times) - _BEFORE, max(times) + _AFTER):
            if run.sha in index_by_sha:
                known = runs.setdefault(run.sha, [])
                if run not in known and len(known) < _MAX_RUNS:
                    known.append(run)
        ready = [run for attempts in runs.values() for run in attempts if self._is_ready(run)]
        task = self._workspace.progress.task("artifacts", total=len(ready))
        artifacts: dict[int, WorkflowArtifact] = {}
        with self._workspace.threads(_PARALLEL) as pool:
            for run, artifact in zip(ready, pool.map(self._artifact, ready), strict=True):
                if artifact is not None:
                    artifacts[run.id] = artifact
                task.advance()
        task.finish()
        return [self._offer(timeline, index, runs[sha], artifacts) for sha, index in index_by_sha.items() if sha in runs]

    def obtain(self, offer: Offer, package: str | None = None) -> Path:
        if offer.untestable is not None:
            raise Unobtainable(offer.untestable)
        name = f"{self._settings.artifact} of {offer.revision.name[:10]}"

        def fill(root: Path, scratch: Path) -> None:
            with self._workspace.costs.timing(self._kind):
                archive = scratch / "artifact.zip"
                self._download(offer.item, archive, name)
                release = self._extract(archive, scratch, name, package)
                archive.unlink()
                requirement = f"{package or self._distribution} @ {(scratch / release.wheel).as_uri()}"
                install_wheel(self._workspace, requirement, release, root, scratch, name)

        folder = self._folder(offer.item).name
        return fill_folder(self._workspace, f"{folder}-{package}" if package else folder, name, fill)

    def _folder(self, artifact: str) -> Path:
        return self._workspace.toolchains / f"artifact-{self._slug.replace('/', '-')}-{artifact}"

    def _is_ready(self, run: WorkflowRun) -> bool:
        return run.status == "completed" and (self._settings.runs == "any" or run.conclusion == "success")

    def _offer(
        self, timeline: Timeline, index: int, runs: Sequence[WorkflowRun], known: Mapping[int, WorkflowArtifact]
    ) -> Offer:
        artifacts = [artifact for run in runs if (artifact := known.get(run.id))]
        for artifact in artifacts:
            is_installed = is_intact(self._folder(str(artifact.id)))
            if is_installed or not artifact.is_expired:
                seconds = 0.0 if is_installed else self._workspace.costs.seconds(self._kind, _DEFAULT_SECONDS)
                return commit_offer(self.name, timeline, index, seconds, str(artifact.id))
        workflow, newest = self._settings.workflow, runs[0]
        if artifacts:
            when = artifacts[0].expires_at
            reason = f"its {self._settings.artifact} expired" + (f" on {when:%Y-%m-%d}" if when else "")
        elif newest.status != "completed":
            reason = f"its run of {workflow} is not finished ({(newest.status or 'unknown').replace('_', ' ')})"
        elif not self._is_ready(newest):
            reason = f"its run of {workflow} ended as {newest.conclusion}"
        else:
            reason = f"its run of {workflow} left no {self._settings.artifact}"
        return commit_offer(self.name, timeline, index, 0.0, "", reason)

    def runs(self, since: datetime, until: datetime) -> Iterator[WorkflowRun]:
        """Yield the runs created between two times, the newest first. EnvironmentFailure when they cannot be listed."""
        workflow, branch = self._settings.workflow, self._settings.branch
        while since < until:
            begin = max(since, until - _SEARCHED)
            filters = {"created": f"{begin:{_TIME}}..{until:{_TIME}}"} | ({"branch": branch} if branch else {})
            for page in self._pages(f"actions/workflows/{quote(workflow, safe='')}/runs", filters, RunsPage):
                if page.total_count > _MAX_RESULTS:
                    days = _SEARCHED.days
                    raise unusable(self._api, f"{workflow} has more than {_MAX_RESULTS} runs in {days} days; set `branch:`")
                yield from page.entries
            until = begin

    def _artifact(self, run: WorkflowRun) -> WorkflowArtifact | None:
        """Return the artifact of a run. It is stored, because it changes only by expiring."""
        name = self._settings.artifact
        key = f"{self._slug} {name} {run.id}.{run.run_attempt}"
        with suppress(ValidationError):  # not stored, or by another version of the program
            return WorkflowArtifact.model_validate(self._known.get(key))
        try:
            pages = list(self._pages(f"actions/runs/{run.id}/artifacts", {"name": name}, ArtifactsPage))
        except Unobtainable:  # the run was deleted
            return None
        artifacts = [one for page in pages for one in page.entries if one.name == name]  # old servers do not filter
        if not artifacts:
            return None
        newest = max(artifacts, key=lambda artifact: artifact.id)
        self._known.put(key, newest.model_dump(mode="json"))
        return newest

    def _pages(self, path: str, filters: Mapping[str, str], form: type[Page]) -> Iterator[Page]:
        url = f"{self._api}/repos/{self._slug}/{path}"
        for number in range(1, _MAX_RESULTS // _PAGE_SIZE + 1):
            answer = self._web.get(url, {**filters, "per_page": _PAGE_SIZE, "page": number}, accept=_JSON)
            match answer.status:
                case 200:
                    page = answer.parse(form)
                case 401:
                    raise EnvironmentFailure(f"{host_of(self._api)} rejects the token in GITHUB_TOKEN or GH_TOKEN")
                case 404 if form is RunsPage:
                    workflow = self._settings.workflow
                    raise BadInput(f"{self._slug} has no workflow {workflow}, or the token may not read it ({url})")
                case 404:
                    raise Unobtainable(f"{self._slug} has no {path}")
                case _:
                    raise EnvironmentFailure(f"{url} answered {answer}")
            yield page
            if not page.entries or number * _PAGE_SIZE >= page.total_count:
                return

    def _download(self, artifact: str, target: Path, name: str) -> None:
        """Download an artifact's zip archive. Unobtainable when it expired, EnvironmentFailure without permission."""
        if self._token is None:
            raise EnvironmentFailure(
                f"{host_of(self._api)} gives artifacts only to users with a token: set GITHUB_TOKEN (or GH_TOKEN)"
            )
        self._web.download(f"{self._api}/repos/{self._slug}/actions/artifacts/{int(artifact)}/zip", target, name)

    def _extract(self, archive: Path, scratch: Path, name: str, package: str | None) -> Release:
        """Extract the wheel for this platform: the compiler's, or that of another package."""
        pattern = "*.whl" if package else self._settings.wheel
        try:
            with zipfile.ZipFile(archive) as inside:
                members = {PurePosixPath(member).name: member for member in inside.namelist()}
                named = [member for member in members if fnmatchcase(member, pattern)]
                release = newest_wheel(named, package or self._distribution)
                if release is None:
                    listed = ", ".join(sorted(filter(None, members))[:5]) or "nothing"
                    raise Unobtainable(f"{name} has no {package or pattern} for this platform; it contains {listed}")
                target = scratch / release.wheel
                with disk_errors(f"extract {name}"), inside.open(members[release.wheel]) as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
        except _DAMAGE as error:
            raise Unobtainable(f"{name} is damaged: {error}") from error
        return release


def token_for(api: str, env: Mapping[str, str]) -> str | None:
    """Return the token to send to this API.

    A project file can name any API. Therefore GITHUB_TOKEN goes only to GitHub itself and to the server of GITHUB_API_URL;
    others get GH_ENTERPRISE_TOKEN.
    """
    host = urlsplit(api).netloc
    if host in (urlsplit(PUBLIC_API).netloc, urlsplit(env.get("GITHUB_API_URL", "")).netloc):
        names = ("GITHUB_TOKEN", "GH_TOKEN")
    else:
        names = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
    return next((env[name] for name in names if env.get(name)), None)
