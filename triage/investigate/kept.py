"""Keep what is known of a cluster in TRIAGE_HOME, so that a later run continues and knows which failures are new."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from triage.report.night_record import ClusterRecord
from triage.report.shapes import as_json
from triage.toolchains.home import disk_errors, write_whole

_READER: TypeAdapter[ClusterRecord] = TypeAdapter(ClusterRecord)


class KeptClusters:
    """A folder with a file for each cluster and pair of toolchains."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "investigations"

    def path(self, cluster: str, key: Sequence[object]) -> Path:
        """Return the file of a cluster. key: its representative, both toolchains and the input."""
        return self._folder / f"{cluster}-{blake2b(repr(tuple(key)).encode(), digest_size=8).hexdigest()}.json"

    def is_new(self, path: Path) -> bool:
        """Return whether no other night had the failure of this file."""
        cluster = path.name.partition("-")[0]
        return all(other == path for other in self._folder.glob(f"{cluster}-*.json"))

    def load(self, path: Path) -> ClusterRecord | None:
        """Return what is kept; None where there is nothing, or the file is damaged."""
        try:
            return _READER.validate_python(json.loads(path.read_bytes()))
        except (OSError, ValueError, ValidationError):
            return None

    def save(self, path: Path, cluster: ClusterRecord) -> None:
        """Replace the file."""
        with disk_errors("keep the investigation"):
            write_whole(path, json.dumps(as_json(cluster)))
