"""Which path a user's script printed for which commit, and whether what lies there is still what it was."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG

from triage.model.errors import EnvironmentFailure
from triage.toolchains.home import write_whole


class PrintedPaths:
    """One small file. Losing it costs calls of the script and nothing else."""

    def __init__(self, note: Path) -> None:
        self._note = note
        self._lock = threading.Lock()
        self._seen: set[str] | None = None

    def is_kept(self, sha: str) -> bool:
        """Whether something still lies where it was printed; whether that is the same is not looked at."""
        if self._seen is None:
            self._seen = {one for one, (path, _) in self._read().items() if Path(path).exists()}
        return sha in self._seen

    def find(self, sha: str) -> Path | None:
        """The path of a commit, if all that lies there is as it was when it was printed."""
        kept = self._read().get(sha)
        if kept is None:
            return None
        path, mark = Path(kept[0]), kept[1]
        return path if path.exists() and _mark(path) == mark else None

    def keep(self, sha: str, path: Path) -> None:
        """Remember. EnvironmentFailure when the same path was printed for another commit and held something else then: what
        was compiled with the one may have been compiled with the other.
        """
        mark = _mark(path)
        with self._lock:
            known = self._read()
            for other, (place, was) in known.items():
                if other != sha and place == str(path) and was != mark:
                    raise EnvironmentFailure(
                        f"{path} was printed for {other[:10]} and now for {sha[:10]}, and holds something else: each commit "
                        "needs a path of its own, which no other commit's compiler is ever written to"
                    )
            with suppress(OSError):
                write_whole(self._note, json.dumps(known | {sha: (str(path), mark)}))

    def _read(self) -> dict[str, tuple[str, str]]:
        try:
            kept = json.loads(self._note.read_text())
            return {str(sha): (str(path), str(mark)) for sha, (path, mark) in kept.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}


def _mark(path: Path) -> str:
    """Names, sizes and times of change of a file or of all files in a folder."""
    whole = blake2b(digest_size=16)
    for entry in [path] if path.is_file() else sorted(path.rglob("*")):
        with suppress(OSError):  # gone meanwhile, or a link to nothing
            stat = entry.stat()
            if S_ISREG(stat.st_mode):
                told = f"{entry}\0{stat.st_size}\0{stat.st_mtime_ns}\0{stat.st_ino}\0"
                whole.update(told.encode("utf-8", "surrogateescape"))
    return whole.hexdigest()
