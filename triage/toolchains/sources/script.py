"""The source of a user's own script, which gets a commit and prints the path of its toolchain."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG

from pydantic import Field

from triage.execution.environment import Purpose
from triage.execution.process import run_logged
from triage.execution.streams import Log
from triage.git_history import Timeline
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.execution import Ending
from triage.recipes.mapping import Duration, Text, Variables
from triage.toolchains.home import disk_errors
from triage.toolchains.sources.base import Offer, SourceContext, SourceSection, commit_offer
from triage.toolchains.workspace import Workspace

_DEFAULT_SECONDS = 120.0  # until there are timings
_NO_SUCH_COMMAND = (126, 127)


class ScriptSection(SourceSection):
    """A script of your own."""

    run: Text = Field(description="Shell command that gets a commit and prints the path of its toolchain.")
    timeout: Duration = Field(default=3600.0, description="Limit of one run.")
    env: Variables = Field(default={}, description="Further variables: names to pass on, or names with values.")

    def open(self, context: SourceContext) -> ScriptedToolchains:
        return ScriptedToolchains(context.workspace, self, context.folder)


class ScriptedToolchains:
    """Runs a shell command with the commit as its argument and in TRIAGE_COMMIT. The last line on its stdout is the
    toolchain's folder or binary, relative to `folder` or absolute. Another exit code than 0 means that there is none.

    A path is stored, and the script is not run again for its commit, as long as neither the script nor the files there change.
    """

    name = "command"

    def __init__(self, workspace: Workspace, settings: ScriptSection, folder: Path) -> None:
        self._workspace = workspace
        self._settings = settings
        self._folder = folder
        self._state = workspace.state("printed paths")
        self._digest = _digest(settings, folder)

    def offers(self, timeline: Timeline, indices: range) -> Sequence[Offer]:
        """Return one for each commit: only running the script shows whether it has a toolchain."""
        seconds = self._workspace.seconds(f"command:{self._settings.run}", _DEFAULT_SECONDS)
        here = {sha for sha, (path, _) in self._printed().items() if Path(path).exists()}
        shas = ((index, timeline.commits[index].sha) for index in indices)
        return [commit_offer(self.name, timeline, index, 0.0 if sha in here else seconds, sha) for index, sha in shas]

    def obtain(self, offer: Offer, package: str | None = None) -> Path:  # noqa: ARG002 - the path has everything
        sha = offer.item
        path, stamp = self._printed().get(sha, ("", ""))
        if path and Path(path).exists() and _stamp(Path(path)) == stamp:
            return Path(path)
        log_path = self._workspace.home / "logs" / f"command-{sha[:16]}.log"
        with disk_errors("write the log of the command"):
            log_path.parent.mkdir(parents=True, exist_ok=True)
            with Log(log_path) as log, self._workspace.timing(f"command:{self._settings.run}"):
                found = self._run(sha, log)
        stamp, known = _stamp(found), self._printed()
        for other, (path, other_stamp) in known.items():
            if other != sha and path == str(found) and other_stamp != stamp:  # results of one would be those of the other
                raise EnvironmentFailure(
                    f"the script printed {found} for {other[:10]} and now for {sha[:10]}, with other files in it: "
                    "print another path for each commit, and never change the files of a commit"
                )
        self._state.put(self._digest, {**known, sha: (str(found), stamp)})
        return found

    def _printed(self) -> dict[str, tuple[str, str]]:
        """Return the paths that the script printed, by commit, with a stamp of the files there."""
        return self._state.get(self._digest) or {}

    def _run(self, sha: str, log: Log) -> Path:
        run, timeout = self._settings.run, self._settings.timeout
        # The words behind the script become its "$@".
        command = ["sh", "-c", f'{run} "$@"', "sh", sha]
        env = {**self._settings.env, "TRIAGE_COMMIT": sha}
        stop = self._workspace.stop
        execution = run_logged(command, log, self._folder, purpose=Purpose.BUILD, env=env, stop=stop, timeout=timeout)
        if execution.ending is Ending.TIMED_OUT:
            raise EnvironmentFailure(f"`{run}` took more than {timeout:.0f} s (log: {log.path})")
        if execution.exit_code in _NO_SUCH_COMMAND or execution.ending is Ending.NOT_STARTED:
            raise EnvironmentFailure(f"`{run}` cannot be run (log: {log.path})")
        if execution.signal is not None:
            raise EnvironmentFailure(f"`{run}` was killed by signal {execution.signal} (log: {log.path})")
        if not execution.ok:
            raise Unobtainable(f"`{run}` has no toolchain of {sha[:10]}: its exit code is {execution.exit_code}", log.path)
        printed = execution.stdout.last_line
        if not printed:
            raise Unobtainable(f"`{run}` printed no path for {sha[:10]}", log.path)
        if not (self._folder / printed).exists():
            raise Unobtainable(f"`{run}` printed {printed}, which does not exist", log.path)
        return self._folder / printed


def _digest(settings: ScriptSection, folder: Path) -> str:
    """Return a digest of the command, its folder and variables, and the contents of the files that the command names."""
    whole = blake2b(repr((str(folder), settings.run, sorted(settings.env.items()))).encode(), digest_size=10)
    with suppress(ValueError, OSError):  # the shell understands more than shlex, and a file may be unreadable
        for word in shlex.split(settings.run):
            if (folder / word).is_file():
                whole.update((folder / word).read_bytes())
    return whole.hexdigest()


def _stamp(path: Path) -> str:
    """Return a digest of the names, sizes and times of change of a file, or of all files in a folder."""
    whole = blake2b(digest_size=16)
    for entry in [path] if path.is_file() else sorted(path.rglob("*")):
        with suppress(OSError):  # removed meanwhile, or a link to nothing
            stat = entry.stat()
            if S_ISREG(stat.st_mode):
                text = f"{entry}\0{stat.st_size}\0{stat.st_mtime_ns}\0{stat.st_ino}\0"
                whole.update(text.encode("utf-8", "surrogateescape"))
    return whole.hexdigest()
