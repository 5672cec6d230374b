"""Obtain files that are not part of a suite: download them, or generate them, once for each URL or generator."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import urlsplit

from triage.execution.claims import Claims
from triage.execution.inputs import write_checksum
from triage.model.case import Artifact
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.outcome import Cause, Untestable
from triage.toolchains.home import disk_errors, temporary_folder

Download = Callable[[str, Path], None]  # a URL and the file to write; EnvironmentFailure when it cannot be downloaded


class Artifacts:
    """Obtains files. Safe for several threads and processes."""

    def __init__(self, download: Download, claims: Claims) -> None:
        self._download, self._claims = download, claims
        self._unreachable: dict[str, str] = {}  # host -> reason, so that a suite waits for a dead host once
        self._lock = threading.Lock()

    def obtain(self, artifacts: Iterable[Artifact]) -> Untestable | None:
        """Obtain the missing files; return why the first one cannot be obtained."""
        for artifact in artifacts:
            if artifact.path.is_file():
                continue
            with self._claims.claim(str(artifact.path)):
                if not artifact.path.is_file() and (problem := self._make(artifact)) is not None:
                    return problem
        return None

    def _make(self, artifact: Artifact) -> Untestable | None:
        folder = artifact.path.parent
        with disk_errors("keep a file of a suite"):
            folder.mkdir(parents=True, exist_ok=True)
            with temporary_folder(folder, prefix=".making-") as scratch:
                draft = Path(scratch) / artifact.path.name
                try:
                    if isinstance(artifact.source, str):
                        self._fetch(artifact.source, draft)
                    else:
                        artifact.source.write(draft)
                except EnvironmentFailure as error:
                    return Untestable(Cause.ENVIRONMENT, f"{artifact.source}: {error}")
                except ValueError as error:
                    return Untestable(Cause.RECIPE, str(error))
                write_checksum(artifact.path, draft)
                draft.replace(artifact.path)
        return None

    def _fetch(self, url: str, draft: Path) -> None:
        host = urlsplit(url).netloc
        with self._lock:
            reason = self._unreachable.get(host)
        if reason is not None:
            raise EnvironmentFailure(reason)
        try:
            self._download(url, draft)
        except Unobtainable:  # the host answers
            raise
        except EnvironmentFailure as error:
            with self._lock:
                self._unreachable[host] = str(error)
            raise
