"""A user's own script that is given a commit and prints where its toolchain lies."""

from __future__ import annotations

import json
import os
import shlex
import threading
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG

from triage.execution.process import run_logged
from triage.execution.streams import Log
from triage.git_history import CommitPosition, Timeline
from triage.model.errors import EnvironmentFailure
from triage.model.execution import Ending
from triage.model.revision import Revision
from triage.toolchains.home import disk_errors, write_whole
from triage.toolchains.sources.base import Offer, Prices, Unobtainable, Workplace

_DEFAULT_SECONDS = 120.0
_NO_SUCH_COMMAND = (126, 127)


class ScriptedToolchains:
    """Runs a shell command with the commit as its argument and in TRIAGE_COMMIT. The last line on its stdout is the
    toolchain's folder or binary, relative to `folder` where it is not absolute. An exit other than 0 means that there
    is none for the commit. `timeout`: seconds. A path is kept, and the script not run again for it, as long as neither what
    lies there nor the script changes.
    """

    name = "command"

    def __init__(self, place: Workplace, prices: Prices, command: str, folder: Path, timeout: float = 3600.0) -> None:
        self._place = place
        self._prices = prices
        self._command = command
        self._folder = folder
        self._timeout = timeout
        self._printed = PrintedPaths(place.home / "commands" / f"{_digest(command, folder)}.json")

    def offers(self, timeline: Timeline, indices: range) -> Sequence[Offer]:
        """One for each commit: what the script cannot bring is only known when it is asked."""
        seconds = self._prices.seconds(f"command:{self._command}", _DEFAULT_SECONDS)
        commits = [(index, timeline.commits[index]) for index in indices]
        return [
            Offer(
                self.name,
                Revision(commit.sha, commit=commit.sha, date=commit.date[:10], subject=commit.subject),
                CommitPosition(index, commit.sha),
                0.0 if self._printed.is_kept(commit.sha) else seconds,
                commit.sha,
            )
            for index, commit in commits
        ]

    def obtain(self, offer: Offer) -> Path:
        """See the port."""
        if (known := self._printed.find(offer.item)) is not None:
            return known
        path = self._place.home / "logs" / f"command-{offer.item[:16]}.log"
        with disk_errors("keep the log of the command"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with Log(path) as log, self._prices.timing(f"command:{self._command}"):
                found = self._ask(offer.item, log)
        self._printed.keep(offer.item, found)
        return found

    def _ask(self, sha: str, log: Log) -> Path:
        # The words behind the script become its "$@".
        command = ["sh", "-c", f'{self._command} "$@"', "sh", sha]
        env = os.environ | {"TRIAGE_COMMIT": sha}
        execution = run_logged(command, log, self._folder, env=env, stop=self._place.stop, timeout=self._timeout)
        if execution.ending is Ending.TIMED_OUT:
            raise EnvironmentFailure(f"`{self._command}` took more than {self._timeout:.0f} s (log: {log.path})")
        if execution.exit_code in _NO_SUCH_COMMAND or execution.ending is Ending.NOT_STARTED:
            raise EnvironmentFailure(f"`{self._command}` cannot be run (log: {log.path})")
        if execution.signal is not None:
            raise EnvironmentFailure(f"`{self._command}` was killed by signal {execution.signal} (log: {log.path})")
        if not execution.ok:
            raise Unobtainable(
                f"`{self._command}` has no toolchain of {sha[:10]}: it ended with {execution.exit_code}", log.path
            )
        printed = execution.stdout.last_line
        if not printed:
            raise Unobtainable(f"`{self._command}` printed no path for {sha[:10]}", log.path)
        found = self._folder / printed
        if not found.exists():
            raise Unobtainable(f"`{self._command}` printed {printed}, which does not exist", log.path)
        return found


def _digest(command: str, folder: Path) -> str:
    """What makes it another script: its words, where they are run, and the bytes of the files among them."""
    whole = blake2b(f"{folder}\0{command}\0".encode(), digest_size=10)
    with suppress(ValueError, OSError):  # no words of a shell, or a file that may not be read
        for word in shlex.split(command):
            if (folder / word).is_file():
                whole.update((folder / word).read_bytes())
    return whole.hexdigest()


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
