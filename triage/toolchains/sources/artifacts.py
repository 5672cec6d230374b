"""Wheels that a repository's packaging workflow leaves behind for each commit, as long as they are kept."""

from __future__ import annotations

import json
import shutil
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path

from triage.model.errors import EnvironmentFailure
from triage.model.revision import Revision
from triage.timeline import Placement, Timeline
from triage.toolchains.home import disk_errors, write_whole
from triage.toolchains.index import Release
from triage.toolchains.kept import is_whole, kept
from triage.toolchains.sources.actions import Actions, Artifact, Run
from triage.toolchains.sources.port import Offer, Unobtainable, Workplace
from triage.toolchains.sources.prices import Prices
from triage.toolchains.sources.wheels import fitting, unpack

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
        placement = Placement(index, commit.sha)
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
