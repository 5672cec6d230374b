"""Wheels that a repository's packaging workflow leaves behind for each commit, as long as they are kept."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from triage.git_history import CommitPosition, Timeline
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.revision import Revision
from triage.toolchains.home import disk_errors, write_whole
from triage.toolchains.index import Release
from triage.toolchains.install import is_whole, kept
from triage.toolchains.sources.base import Offer, Prices, Unobtainable, Workplace
from triage.toolchains.sources.http import Sign, Web
from triage.toolchains.sources.wheel_file import fitting, unpack

if TYPE_CHECKING:
    import requests


_DEFAULT_SECONDS = 25.0
_BEFORE = timedelta(hours=6)  # clocks differ
_AFTER = timedelta(days=3)  # a commit may wait before it is pushed, and a run before it is created
_TOGETHER = 8  # requests at once


class CommitArtifacts:
    """Artifacts of a GitHub Actions workflow by head commit.

    `artifact`: its name; `wheel`: a shell pattern for the wheel inside; `any_conclusion`: whether a run counts whose
    tests failed after its packages were built. Only runs of `branch` are looked at; None for all.
    """

    name = "artifacts"

    def __init__(
        self,
        place: Workplace,
        prices: Prices,
        actions: Actions,
        *,
        distribution: str,
        workflow: str,
        artifact: str,
        wheel: str = "*.whl",
        branch: str | None = None,
        any_conclusion: bool = False,
    ) -> None:
        self._place = place
        self._prices = prices
        self._actions = actions
        self._distribution = distribution
        self._workflow = workflow
        self._artifact = artifact
        self._wheel = wheel
        self._branch = branch
        self._any_conclusion = any_conclusion
        self._kind = f"artifacts:{actions.slug}"

    def offers(self, timeline: Timeline, indices: range) -> Sequence[Offer]:
        """One for each commit of the range that the workflow ran on. What expired, failed, or still runs is told beforehand."""
        if not indices:
            return ()
        at = {timeline.commits[index].sha: index for index in indices}
        runs = self._runs(timeline, indices, at)
        ready = [run for tried in runs.values() for run in tried if self._is_ready(run)]
        left = self._left_behind(ready)
        return [self._offer(timeline, index, runs[sha], left) for sha, index in at.items() if sha in runs]

    def obtain(self, offer: Offer) -> Path:
        """See the port."""
        if offer.untestable is not None:
            raise Unobtainable(offer.untestable)
        folder = self._folder(offer.item)
        if is_whole(folder):
            return folder
        what = f"{self._artifact} of {offer.revision.name[:10]}"

        def fill(root: Path, scratch: Path) -> None:
            archive = scratch / "artifact.zip"
            self._actions.download(int(offer.item), archive, what)
            release = self._extract(archive, scratch, what)
            archive.unlink()
            unpack(scratch / release.wheel, release, root, scratch, self._place)

        with self._prices.timing(self._kind):
            return kept(self._place.toolchains, folder.name, what, self._place.progress, fill)

    def _folder(self, artifact: str) -> Path:
        return self._place.toolchains / f"artifact-{self._actions.slug.replace('/', '-')}-{artifact}"

    def _runs(self, timeline: Timeline, indices: range, at: Mapping[str, int]) -> dict[str, list[Run]]:
        """The runs by commit of the range, the newest first."""
        times = [datetime.fromisoformat(timeline.commits[index].date).astimezone(UTC) for index in indices]
        found: dict[str, list[Run]] = {}
        for run in self._actions.runs(self._workflow, min(times) - _BEFORE, max(times) + _AFTER, self._branch):
            if run.sha in at:
                found.setdefault(run.sha, []).append(run)
        return found

    def _is_ready(self, run: Run) -> bool:
        return run.status == "completed" and (self._any_conclusion or run.conclusion == "success")

    def _left_behind(self, runs: Sequence[Run]) -> dict[int, Artifact]:
        """The artifact by run. One that was read before is not asked for again: only time changes it."""
        known = self._recall()
        missing = [run for run in runs if _mark(run) not in known]
        if missing:
            task = self._place.progress.task("artifacts", total=len(missing))
            with ThreadPoolExecutor(_TOGETHER) as pool:
                for run, artifact in zip(missing, pool.map(self._ask, missing), strict=True):
                    if artifact is not None:
                        known[_mark(run)] = artifact
                    task.advance()
            task.finish()
            self._remember(known)
        return {run.id: known[_mark(run)] for run in runs if _mark(run) in known}

    def _ask(self, run: Run) -> Artifact | None:
        try:
            return max(self._actions.artifacts(run.id, self._artifact), key=lambda one: one.id, default=None)
        except Unobtainable:  # the run itself was deleted
            return None

    def _offer(self, timeline: Timeline, index: int, runs: Sequence[Run], left: Mapping[int, Artifact]) -> Offer:
        commit = timeline.commits[index]
        revision = Revision(commit.sha, commit=commit.sha, date=commit.date[:10], subject=commit.subject)
        placement = CommitPosition(index, commit.sha)
        artifacts = [artifact for run in runs if self._is_ready(run) and (artifact := left.get(run.id))]
        for artifact in artifacts:
            here = is_whole(self._folder(str(artifact.id)))
            if here or not _has_expired(artifact):
                seconds = 0.0 if here else self._prices.seconds(self._kind, _DEFAULT_SECONDS)
                return Offer(self.name, revision, placement, seconds, str(artifact.id))
        return Offer(self.name, revision, placement, 0.0, "", untestable=self._why_not(runs, artifacts))

    def _why_not(self, runs: Sequence[Run], expired: Sequence[Artifact]) -> str:
        if expired:
            when = expired[0].expires
            return f"its {self._artifact} expired" + (f" on {when[:10]}" if when else "")
        newest = runs[0]
        if newest.status != "completed":
            return f"its run of {self._workflow} is not over ({newest.status.replace('_', ' ')})"
        if not self._is_ready(newest):
            return f"its run of {self._workflow} ended as {newest.conclusion}"
        return f"its run of {self._workflow} left no {self._artifact}"

    def _extract(self, archive: Path, scratch: Path, what: str) -> Release:
        """Take the one wheel out of an archive. Nothing else is unpacked, and names in it lead nowhere."""
        try:
            with zipfile.ZipFile(archive) as inside:
                members = {Path(member.filename).name: member for member in inside.infolist() if not member.is_dir()}
                release = fitting((name for name in members if fnmatchcase(name, self._wheel)), self._distribution)
                if release is None:
                    listed = ", ".join(sorted(members)[:5]) or "nothing"
                    raise Unobtainable(f"{what} holds no {self._wheel} for this platform, but {listed}")
                member = members[release.wheel]
                if shutil.disk_usage(scratch).free < member.file_size:
                    raise EnvironmentFailure(f"cannot unpack {what}: no space left on the disk of {scratch}")
                with disk_errors(f"unpack {what}"), inside.open(member) as source, (scratch / release.wheel).open("wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise Unobtainable(f"{what} is damaged: {error}") from error
        return release

    def _note(self) -> Path:
        slug = f"{self._actions.slug}-{self._artifact}".replace("/", "-")
        return self._place.home / "index" / f"artifacts-{slug}.json"

    def _recall(self) -> dict[str, Artifact]:
        try:
            return {run: Artifact(**told) for run, told in json.loads(self._note().read_text()).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def _remember(self, known: Mapping[str, Artifact]) -> None:
        note = self._note()
        with suppress(OSError):
            write_whole(note, json.dumps({run: asdict(artifact) for run, artifact in known.items()}))


def _mark(run: Run) -> str:
    """What a run started again loses: its earlier artifacts are gone."""
    return f"{run.id}.{run.attempt}"


def _has_expired(artifact: Artifact) -> bool:
    if artifact.expired:
        return True
    return artifact.expires is not None and datetime.fromisoformat(artifact.expires) <= datetime.now(UTC)


PUBLIC = "https://api.github.com"
_JSON = "application/vnd.github+json"
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_PAGE = 100
_CAP = 1000  # of a search by date the API shows no more results than these


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the workflow: `status` queued, in_progress, completed, …; `conclusion` success, failure, …, None before
    its end. `attempt` counts how often it was started.
    """

    id: int
    sha: str
    status: str
    conclusion: str | None
    attempt: int


@dataclass(frozen=True, slots=True)
class Artifact:
    """`size` in bytes of the zip archive; `expires` ISO, None where it is not told."""

    id: int
    name: str
    size: int
    expired: bool
    expires: str | None


class Actions:
    """One repository's workflows. `api`: the base of the REST API; None for GITHUB_API_URL, else the public one."""

    def __init__(self, place: Workplace, slug: str, api: str | None = None) -> None:
        self.slug = slug
        self.api = (api or os.environ.get("GITHUB_API_URL") or PUBLIC).rstrip("/")
        self._token = token_for(self.api, os.environ)
        self._web = Web(place, _bearer(self._token) if self._token else None)

    def runs(self, workflow: str, since: datetime, until: datetime, branch: str | None = None) -> Iterator[Run]:
        """The runs created between two times, the newest first. EnvironmentFailure when they cannot be listed."""
        span = f"{since.astimezone(UTC):{_TIME}}..{until.astimezone(UTC):{_TIME}}"
        asked: Mapping[str, str] = {"created": span, "branch": branch} if branch else {"created": span}
        path = f"actions/workflows/{quote(workflow, safe='')}/runs"
        first = self._page(path, asked, 1)
        total = int(first.get("total_count", 0))
        if total > _CAP and until - since > timedelta(minutes=1):
            middle = since + (until - since) / 2
            yield from self.runs(workflow, middle, until, branch)
            yield from self.runs(workflow, since, middle - timedelta(seconds=1), branch)
            return
        page, number = first, 1
        while entries := page.get("workflow_runs"):
            for entry in entries:
                yield Run(int(entry["id"]), entry["head_sha"], entry["status"], entry.get("conclusion"), entry["created_at"])
            if number * _PAGE >= total:
                return
            number += 1
            page = self._page(path, asked, number)

    def artifacts(self, run: int, name: str) -> list[Artifact]:
        """What a run left behind under one name."""
        found: list[Artifact] = []
        number = 1
        while True:
            page = self._page(f"actions/runs/{run}/artifacts", {"name": name}, number)
            for entry in page.get("artifacts", ()):
                if entry["name"] == name:  # a server too old for the filter sends all
                    size = int(entry.get("size_in_bytes", 0))
                    found.append(Artifact(int(entry["id"]), name, size, bool(entry["expired"]), entry.get("expires_at")))
            if number * _PAGE >= int(page.get("total_count", 0)) or not page.get("artifacts"):
                return found
            number += 1

    def download(self, artifact: int, target: Path, what: str) -> None:
        """Fetch an artifact's zip archive. Unobtainable when it expired, EnvironmentFailure without permission."""
        if self._token is None:
            raise EnvironmentFailure(
                f"{urlsplit(self.api).netloc} hands artifacts only to those it knows: set GITHUB_TOKEN (or GH_TOKEN)"
            )
        self._web.download(f"{self.api}/repos/{self.slug}/actions/artifacts/{artifact}/zip", target, what)

    def _page(self, path: str, asked: Mapping[str, str], number: int) -> dict[str, Any]:
        url = f"{self.api}/repos/{self.slug}/{path}"
        answer = self._web.get(url, {**asked, "per_page": _PAGE, "page": number}, accept=_JSON)
        match answer.status_code:
            case 200:
                return _object(answer)
            case 401:
                raise EnvironmentFailure(f"{urlsplit(self.api).netloc} refuses the token that GITHUB_TOKEN or GH_TOKEN holds")
            case 404 if path.startswith("actions/workflows/"):
                raise BadInput(f"{self.slug} has no workflow {path.split('/')[2]}, or the token may not see it ({url})")
            case 404:
                raise Unobtainable(f"there is no {path} in {self.slug}")
            case status:
                raise EnvironmentFailure(f"{url} answered {status} {answer.reason}")


def token_for(api: str, env: Mapping[str, str]) -> str | None:
    """The token to show to this API. A project file can name any API, so that GITHUB_TOKEN goes only to GitHub itself
    and to the server that GITHUB_API_URL names; others get GH_ENTERPRISE_TOKEN.
    """
    host = urlsplit(api).netloc
    if host in (urlsplit(PUBLIC).netloc, urlsplit(env.get("GITHUB_API_URL", "")).netloc):
        names = ("GITHUB_TOKEN", "GH_TOKEN")
    else:
        names = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
    return next((env[name] for name in names if env.get(name)), None)


def _bearer(token: str) -> Sign:
    def sign(request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {token}"
        return request

    return sign


def _object(answer: requests.Response) -> dict[str, Any]:
    try:
        told = answer.json()
    except ValueError as error:
        raise EnvironmentFailure(f"{answer.url} did not answer in JSON") from error
    if not isinstance(told, dict):
        raise EnvironmentFailure(f"{answer.url} answered something else than an object")
    return told
