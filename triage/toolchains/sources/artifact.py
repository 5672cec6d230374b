"""The source of artifacts: wheels that a GitHub Actions workflow keeps for each commit for some weeks."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import AwareDatetime, BaseModel, BeforeValidator, Field, ValidationError

from triage.git_history import Timeline
from triage.git_history.refs import links_of
from triage.model.errors import BadInput, EnvironmentFailure, Unobtainable
from triage.recipes.mapping import Text
from triage.recipes.values import as_text
from triage.toolchains.addresses import host_of, unusable
from triage.toolchains.archives import extract
from triage.toolchains.index import Release, newest_wheel
from triage.toolchains.install import unpack
from triage.toolchains.install_cache import fill_folder, is_intact
from triage.toolchains.sources.base import Offer, SourceContext, commit_offer
from triage.toolchains.sources.section import SourceSection, Url
from triage.toolchains.web import Web
from triage.toolchains.workspace import Workspace

_DEFAULT_SECONDS = 25.0  # until there are timings
_BEFORE = timedelta(hours=6)  # clocks differ
_AFTER = timedelta(days=3)  # a commit may wait before it is pushed, and a run before it is created
_PARALLEL = 8  # requests

PUBLIC_API = "https://api.github.com"
_JSON = "application/vnd.github+json"
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_PAGE_SIZE = 100
_MAX_RESULTS = 1000  # that the API lists for a search by date
_MAX_PAGES = 500  # of all searches for the commits of a range
_MAX_RUNS = 10  # of one commit


class ArtifactsSection(SourceSection):
    """Wheels of a GitHub Actions workflow."""

    noun: ClassVar[str] = "artifacts"

    workflow: Text = Field(description="The workflow's file.", examples=["pkgci.yml"])
    artifact: Text = Field(description="The artifact's name.", examples=["linux_x86_64_release_packages"])
    wheel: Text = Field(default="*.whl", description="A pattern for the wheel inside.")
    branch: Text | None = Field(default=None, description="Only runs of this branch (default: all branches).")
    repository: Text | None = Field(default=None, description="owner/name, where it differs from the repository's.")
    api: Url | None = Field(default=None, description="The REST API of a GitHub Enterprise server.")
    runs: Annotated[Literal["success", "any"], BeforeValidator(as_text)] = Field(
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
        actions = WorkflowRuns(context.workspace, slug, api)
        return CommitArtifacts(context.workspace, actions, context.distribution or "", self)


class CommitArtifacts:
    """Artifacts of a workflow by head commit."""

    name = "artifacts"

    def __init__(self, workspace: Workspace, actions: WorkflowRuns, distribution: str, settings: ArtifactsSection) -> None:
        self._workspace = workspace
        self._actions = actions
        self._distribution = distribution
        self._settings = settings
        self._kind = f"artifacts:{actions.slug}"
        self._known = workspace.state.section("artifacts")

    def offers(self, timeline: Timeline, indices: range) -> Sequence[Offer]:
        """One for each commit that the workflow ran on. Expired, failed and running ones are untestable."""
        if not indices:
            return ()
        index_by_sha = {timeline.commits[index].sha: index for index in indices}
        runs = self._runs(timeline, indices, index_by_sha)
        ready = [run for attempts in runs.values() for run in attempts if self._is_ready(run)]
        artifacts = self._artifacts_of(ready)
        return [self._offer(timeline, index, runs[sha], artifacts) for sha, index in index_by_sha.items() if sha in runs]

    def obtain(self, offer: Offer, package: str | None = None) -> Path:
        if offer.untestable is not None:
            raise Unobtainable(offer.untestable)
        name = f"{self._settings.artifact} of {offer.revision.name[:10]}"
        folder = self._folder(offer.item).name if package is None else f"{self._folder(offer.item).name}-{package}"

        def fill(root: Path, scratch: Path) -> None:
            with self._workspace.costs.timing(self._kind):
                archive = scratch / "artifact.zip"
                self._actions.download(int(offer.item), archive, name)
                release = self._extract(archive, scratch, name, package)
                archive.unlink()
                unpack(scratch / release.wheel, name, release, root, scratch, self._workspace)

        return fill_folder(self._workspace, folder, name, fill)

    def _folder(self, artifact: str) -> Path:
        return self._workspace.toolchains / f"artifact-{self._actions.slug.replace('/', '-')}-{artifact}"

    def _runs(self, timeline: Timeline, indices: range, shas: Mapping[str, int]) -> dict[str, list[WorkflowRun]]:
        """The runs by commit of the range, the newest first."""
        times = [datetime.fromisoformat(timeline.commits[index].date).astimezone(UTC) for index in indices]
        since, until = min(times) - _BEFORE, max(times) + _AFTER
        runs: dict[str, list[WorkflowRun]] = {}
        for run in self._actions.runs(self._settings.workflow, since, until, self._settings.branch):
            if run.sha in shas:
                known = runs.setdefault(run.sha, [])
                if run not in known and len(known) < _MAX_RUNS:
                    known.append(run)
        return runs

    def _is_ready(self, run: WorkflowRun) -> bool:
        return run.status == "completed" and (self._settings.runs == "any" or run.conclusion == "success")

    def _artifacts_of(self, runs: Sequence[WorkflowRun]) -> dict[int, WorkflowArtifact]:
        """The artifact by run. Stored ones are not requested again: they change only by expiring."""
        key = f"{self._actions.slug} {self._settings.artifact}"
        known: dict[str, WorkflowArtifact] = {}
        for attempt, entry in (self._known.get(key) or {}).items():
            with suppress(ValidationError):  # stored by another version of the program
                known[attempt] = WorkflowArtifact.model_validate(entry)
        missing = [run for run in runs if run.attempt not in known]
        if missing:
            task = self._workspace.progress.task("artifacts", total=len(missing))
            with self._workspace.threads(_PARALLEL) as pool:
                for run, artifact in zip(missing, pool.map(self._request, missing), strict=True):
                    if artifact is not None:
                        known[run.attempt] = artifact
                    task.advance()
            task.finish()
            with suppress(EnvironmentFailure):
                self._known.put(key, {attempt: artifact.model_dump(mode="json") for attempt, artifact in known.items()})
        return {run.id: known[run.attempt] for run in runs if run.attempt in known}

    def _request(self, run: WorkflowRun) -> WorkflowArtifact | None:
        try:
            artifacts = self._actions.artifacts(run.id, self._settings.artifact)
        except Unobtainable:  # the run was deleted
            return None
        return max(artifacts, key=lambda artifact: artifact.id, default=None)

    def _offer(
        self, timeline: Timeline, index: int, runs: Sequence[WorkflowRun], known: Mapping[int, WorkflowArtifact]
    ) -> Offer:
        artifacts = [artifact for run in runs if self._is_ready(run) and (artifact := known.get(run.id))]
        for artifact in artifacts:
            is_installed = is_intact(self._folder(str(artifact.id)))
            if is_installed or not artifact.is_expired:
                seconds = 0.0 if is_installed else self._workspace.costs.seconds(self._kind, _DEFAULT_SECONDS)
                return commit_offer(self.name, timeline, index, seconds, str(artifact.id))
        return commit_offer(self.name, timeline, index, 0.0, "", self._why_not(runs, artifacts))

    def _why_not(self, runs: Sequence[WorkflowRun], expired: Sequence[WorkflowArtifact]) -> str:
        workflow, artifact = self._settings.workflow, self._settings.artifact
        if expired:
            when = expired[0].expires_at
            return f"its {artifact} expired" + (f" on {when:%Y-%m-%d}" if when else "")
        newest = runs[0]
        if newest.status != "completed":
            return f"its run of {workflow} is not finished ({(newest.status or 'unknown').replace('_', ' ')})"
        if not self._is_ready(newest):
            return f"its run of {workflow} ended as {newest.conclusion}"
        return f"its run of {workflow} left no {artifact}"

    def _extract(self, archive: Path, scratch: Path, name: str, package: str | None) -> Release:
        """Extract the wheel for this platform: the compiler's, or that of another package."""
        pattern, releases = "*.whl" if package else self._settings.wheel, []

        def choose(members: list[str]) -> str:
            named = (member for member in members if fnmatchcase(member, pattern))
            release = newest_wheel(named, package or self._distribution)
            if release is None:
                listed = ", ".join(members[:5]) or "nothing"
                raise Unobtainable(f"{name} has no {package or pattern} for this platform; it contains {listed}")
            releases.append(release)
            return release.wheel

        extract(archive, scratch, name, choose)
        return releases[0]


Id = Annotated[int, Field(gt=0, lt=1 << 63)]
Name = Annotated[str, Field(max_length=300)]


class WorkflowRun(BaseModel, frozen=True):
    """One run of a workflow. `status` is `queued`, `completed` and so on; `conclusion` is `success` and so on, None before the
    end.
    """

    id: Id
    sha: Name = Field(alias="head_sha")
    status: Name | None
    conclusion: Name | None = None
    run_attempt: Id = 1

    @property
    def attempt(self) -> str:
        """Unique among the attempts of all runs: a new attempt removes the artifacts of the one before."""
        return f"{self.id}.{self.run_attempt}"


class WorkflowArtifact(BaseModel, frozen=True):
    """What a run left under a name."""

    id: Id
    name: Name
    expired: bool
    expires_at: AwareDatetime | None = None

    @property
    def is_expired(self) -> bool:
        """Whether it cannot be downloaded any more."""
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


class WorkflowRuns:
    """The workflow runs of one GitHub repository. `api`: the base of the REST API; None for GITHUB_API_URL, else the public
    one.
    """

    def __init__(self, workspace: Workspace, slug: str, api: str | None = None) -> None:
        self.slug = slug
        self.api = (api or os.environ.get("GITHUB_API_URL") or PUBLIC_API).rstrip("/")
        self._token = token_for(self.api, os.environ)
        self._web = Web(workspace, self._token)

    def runs(self, workflow: str, since: datetime, until: datetime, branch: str | None = None) -> Iterator[WorkflowRun]:
        """The runs created between two times, the newest first. EnvironmentFailure when they cannot be listed."""
        return self._runs(workflow, since, until, branch, itertools.count(1))

    def _runs(
        self, workflow: str, since: datetime, until: datetime, branch: str | None, requests: Iterator[int]
    ) -> Iterator[WorkflowRun]:
        span = f"{since.astimezone(UTC):{_TIME}}..{until.astimezone(UTC):{_TIME}}"
        filters: Mapping[str, str] = {"created": span, "branch": branch} if branch else {"created": span}
        path = f"actions/workflows/{quote(workflow, safe='')}/runs"
        for page in self._pages(path, filters, RunsPage):
            if next(requests) > _MAX_PAGES:
                raise unusable(self.api, f"{workflow} has more than {_MAX_PAGES} pages of runs in this range; set `branch:`")
            if page.total_count > _MAX_RESULTS and until - since > timedelta(minutes=1):
                middle = since + (until - since) / 2
                yield from self._runs(workflow, middle, until, branch, requests)
                yield from self._runs(workflow, since, middle - timedelta(seconds=1), branch, requests)
                return
            yield from page.entries

    def artifacts(self, run: int, name: str) -> list[WorkflowArtifact]:
        """The artifacts of a run with this name."""
        pages = self._pages(f"actions/runs/{run}/artifacts", {"name": name}, ArtifactsPage)
        return [artifact for page in pages for artifact in page.entries if artifact.name == name]  # old servers do not filter

    def download(self, artifact: int, target: Path, name: str) -> None:
        """Download an artifact's zip archive. Unobtainable when it expired, EnvironmentFailure without permission."""
        if self._token is None:
            raise EnvironmentFailure(
                f"{host_of(self.api)} gives artifacts only to users with a token: set GITHUB_TOKEN (or GH_TOKEN)"
            )
        self._web.download(f"{self.api}/repos/{self.slug}/actions/artifacts/{artifact}/zip", target, name)

    def _pages(self, path: str, filters: Mapping[str, str], form: type[Page]) -> Iterator[Page]:
        for number in range(1, _MAX_RESULTS // _PAGE_SIZE + 1):
            page = self._page(path, filters, number, form)
            yield page
            if not page.entries or number * _PAGE_SIZE >= page.total_count:
                return

    def _page(self, path: str, filters: Mapping[str, str], number: int, form: type[Page]) -> Page:
        url = f"{self.api}/repos/{self.slug}/{path}"
        answer = self._web.get(url, {**filters, "per_page": _PAGE_SIZE, "page": number}, accept=_JSON)
        match answer.status:
            case 200:
                try:
                    return answer.parse(form)
                except EnvironmentFailure as error:
                    raise EnvironmentFailure(f"{error}; releases and nightlies need no such answer") from error
            case 401:
                raise EnvironmentFailure(f"{host_of(self.api)} rejects the token in GITHUB_TOKEN or GH_TOKEN")
            case 404 if path.startswith("actions/workflows/"):
                raise BadInput(f"{self.slug} has no workflow {path.split('/')[2]}, or the token may not read it ({url})")
            case 404:
                raise Unobtainable(f"{self.slug} has no {path}")
            case _:
                raise EnvironmentFailure(f"{url} answered {answer}{answer.message}")


def token_for(api: str, env: Mapping[str, str]) -> str | None:
    """The token to send to this API. A project file can name any API, so that GITHUB_TOKEN goes only to GitHub itself
    and to the server of GITHUB_API_URL; others get GH_ENTERPRISE_TOKEN.
    """
    host = urlsplit(api).netloc
    if host in (urlsplit(PUBLIC_API).netloc, urlsplit(env.get("GITHUB_API_URL", "")).netloc):
        names = ("GITHUB_TOKEN", "GH_TOKEN")
    else:
        names = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
    return next((env[name] for name in names if env.get(name)), None)
