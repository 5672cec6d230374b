"""A user's own script that is given a commit and prints where its toolchain lies."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from triage.model.errors import EnvironmentFailure
from triage.model.revision import Revision
from triage.timeline import Placement, Timeline
from triage.toolchains.home import disk_errors
from triage.toolchains.sources.port import Offer, Unobtainable, Workplace
from triage.toolchains.sources.prices import Prices
from triage.toolchains.sources.printed import PrintedPaths
from triage.toolchains.sources.running import Log, TimedOut, run

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
                Placement(index, commit.sha),
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
        try:
            done = run(command, log, self._place, env=env, cwd=self._folder, timeout=self._timeout)
        except TimedOut as error:
            raise EnvironmentFailure(f"`{self._command}` took more than {self._timeout:.0f} s (log: {log.path})") from error
        if done.status in _NO_SUCH_COMMAND:
            raise EnvironmentFailure(f"`{self._command}` cannot be run (log: {log.path})")
        if done.status < 0:
            raise EnvironmentFailure(f"`{self._command}` was killed by signal {-done.status} (log: {log.path})")
        if done.status != 0:
            raise Unobtainable(f"`{self._command}` has no toolchain of {sha[:10]}: it ended with {done.status}", log.path)
        if not done.last_line:
            raise Unobtainable(f"`{self._command}` printed no path for {sha[:10]}", log.path)
        found = self._folder / done.last_line
        if not found.exists():
            raise Unobtainable(f"`{self._command}` printed {done.last_line}, which does not exist", log.path)
        return found


def _digest(command: str, folder: Path) -> str:
    """What makes it another script: its words, where they are run, and the bytes of the files among them."""
    whole = blake2b(f"{folder}\0{command}\0".encode(), digest_size=10)
    with suppress(ValueError, OSError):  # no words of a shell, or a file that may not be read
        for word in shlex.split(command):
            if (folder / word).is_file():
                whole.update((folder / word).read_bytes())
    return whole.hexdigest()
