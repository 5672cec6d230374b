"""Builders: work trees of a repository, each with a build folder that is used again for the next commit."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

import psutil
from filelock import FileLock

from triage.model.errors import EnvironmentFailure, TriageError
from triage.timeline import Repository
from triage.toolchains.home import disk_errors
from triage.toolchains.sources.port import Workplace
from triage.toolchains.sources.running import Log, TimedOut, run

_GIT_LIMIT = 3600.0  # seconds; the first fetch of large submodules is slow
_MOST = 64


class Builder:
    """One work tree and its build folder, held by this process until `leave`."""

    def __init__(self, folder: Path, repository: Repository, place: Workplace) -> None:
        self.folder = folder
        self.source = folder / "source"
        self.build = folder / "build"
        self._repository = repository
        self._place = place

    @property
    def is_used(self) -> bool:
        """Whether the build folder holds what an earlier build left."""
        return self.build.is_dir() and any(self.build.iterdir())

    def check_out(self, sha: str, log: Log, env: Mapping[str, str], *, submodules: bool) -> None:
        """Make the source the commit's, submodules with it, and drop what earlier builds left in it unless git ignores
        it. EnvironmentFailure when git fails.
        """
        common = str(self._repository.common_dir)
        if not (self.source / ".git").exists():
            shutil.rmtree(self.source, ignore_errors=True)
            with FileLock(self.folder.parent / ".worktrees.lock"):  # git itself does not survive two of these at once
                self._git(log, env, "--git-dir", common, "worktree", "prune")
                self._git(log, env, "--git-dir", common, "worktree", "add", "--detach", "--force", str(self.source), sha)
        else:
            self._unlock()
            self._git(log, env, "-C", str(self.source), "checkout", "--detach", "--force", "--quiet", sha)
        self._git(log, env, "-C", str(self.source), "clean", "-ffdq")
        if submodules:
            here = ("-C", str(self.source), "submodule")
            self._git(log, env, *here, "sync", "--quiet", "--recursive")
            self._git(log, env, *here, "update", "--init", "--recursive", "--force")

    def empty(self) -> None:
        """Begin the build folder anew."""
        with disk_errors(f"empty {self.build}"):
            shutil.rmtree(self.build, ignore_errors=True)
            self.build.mkdir(parents=True)

    def _unlock(self) -> None:
        """Remove the index lock of a git that was killed: the builder is ours, so no other git works in it."""
        pointed = (self.source / ".git").read_text().removeprefix("gitdir:").strip()
        (Path(pointed) / "index.lock").unlink(missing_ok=True)

    def _git(self, log: Log, env: Mapping[str, str], *words: str) -> None:
        command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", *words]
        log.write(f"$ {' '.join(command)}\n".encode())
        try:
            done = run(command, log, self._place, env=env, cwd=self.folder, timeout=_GIT_LIMIT)
        except FileNotFoundError as error:
            raise EnvironmentFailure("there is no git program on the PATH") from error
        except TimedOut as error:
            raise EnvironmentFailure(f"git {words[2]} took more than {_GIT_LIMIT:.0f} s (log: {log.path})") from error
        if done.status != 0:
            raise EnvironmentFailure(f"git {words[2]} failed with {done.status} (log: {log.path})")


@contextmanager
def builder(repository: Repository, place: Workplace) -> Iterator[Builder]:
    """A builder that nobody else uses: the first free one, or a new one. What a killed user of it left running is ended,
    and its build folder emptied, for nobody knows what state it is in.
    """
    with disk_errors("make a builder"):
        for number in range(_MOST):
            folder = _builders(repository, place) / str(number)
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / ".lock").open("ab") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                mine = Builder(folder, repository, place)
                busy = folder / ".busy"
                if busy.exists():
                    _end_left_behind(mine.build)
                    mine.empty()
                mine.build.mkdir(exist_ok=True)
                busy.touch()
                try:
                    yield mine
                except TriageError:  # whatever ran was ended in good order
                    busy.unlink()
                    raise
                busy.unlink()  # not after anything unforeseen: then the build folder is in doubt
                return
    raise EnvironmentFailure(f"all {_MOST} builders of {repository.path} are in use")


def has_builder(repository: Repository, place: Workplace) -> bool:
    """Whether something of the repository was built here before."""
    return any(_builders(repository, place).glob("*/build/*"))


def _builders(repository: Repository, place: Workplace) -> Path:
    return place.home / "builders" / blake2b(str(repository.common_dir).encode(), digest_size=6).hexdigest()


def _end_left_behind(build: Path) -> None:
    """Kill the processes of a build whose leader was killed: they have its folder in their environment."""
    left = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get("TRIAGE_BUILD") == str(build) and process.pid != os.getpid():
                left.append(process)
    for process in left:
        with suppress(psutil.Error):
            process.send_signal(signal.SIGKILL)
    psutil.wait_procs(left, timeout=5)
