"""Compilers built from source, one commit after the other in the same build folder."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from filelock import FileLock

from triage.execution.process import kill_all_with, run_logged
from triage.execution.streams import Log
from triage.git_history import CommitPosition, Repository, Timeline
from triage.model.errors import EnvironmentFailure, TriageError
from triage.model.execution import Ending
from triage.model.revision import Revision
from triage.toolchains.home import disk_errors, write_whole
from triage.toolchains.install import is_whole, kept
from triage.toolchains.sources.base import Offer, Prices, Unobtainable, Workplace
from triage.toolchains.sources.elf import library_paths

_FIRST_SECONDS = 3600.0
_NEXT_SECONDS = 600.0
_MACHINE = ("No space left on device", "Cannot allocate memory", "out of memory", "Killed signal terminated program")


@dataclass(frozen=True, slots=True)
class Steps:
    """How a commit is built: shell commands, run in the source folder with the variables of `SourceBuilds`. `configure`
    runs before each build. `timeout`: seconds for all commands of one commit together. `env`: variables beside the
    inherited ones.
    """

    build: tuple[str, ...]
    configure: tuple[str, ...] = ()
    submodules: bool = True
    timeout: float = 4 * 3600.0
    env: Mapping[str, str] = field(default_factory=dict)

    def digest(self) -> str:
        """What tells apart two ways to build the same commit."""
        told = json.dumps([self.configure, self.build, self.submodules, sorted(self.env.items())])
        return blake2b(told.encode(), digest_size=4).hexdigest()


class SourceBuilds:
    """Builds every commit of the range. The commands find TRIAGE_SOURCE (the checked-out commit), TRIAGE_BUILD (a folder
    that is kept for the next commit), TRIAGE_COMMIT and TRIAGE_JOBS, and put the toolchain into TRIAGE_OUT. That folder
    is moved afterwards, and TRIAGE_BUILD changes: the toolchain must not refer to either.
    """

    name = "builds"

    def __init__(self, place: Workplace, prices: Prices, repository: Repository, project: str, steps: Steps) -> None:
        self._place = place
        self._prices = prices
        self._repository = repository
        self._project = project
        self._steps = steps
        self._jobs = len(os.sched_getaffinity(0))

    def offers(self, timeline: Timeline, indices: range) -> Sequence[Offer]:
        """One for each commit of the range; a build that failed before is told beforehand."""
        if has_builder(self._repository, self._place):
            seconds = self._prices.seconds(f"builds:{self._project}:next", _NEXT_SECONDS)
        else:
            seconds = self._prices.seconds(f"builds:{self._project}:first", _FIRST_SECONDS)
        return [self._offer(timeline, index, seconds) for index in indices]

    def obtain(self, offer: Offer) -> Path:
        """See the port. A failed build is remembered with its log, and not tried again with the same steps."""
        sha = offer.item
        failed = self._failed(sha)
        if failed is not None:
            raise failed
        if is_whole(self._place.toolchains / self._named(sha)):
            return self._place.toolchains / self._named(sha)
        with disk_errors("keep the log of a build"):
            self._log(sha).parent.mkdir(parents=True, exist_ok=True)
        task = self._place.progress.task(f"build {sha[:10]}")
        try:
            return kept(
                self._place.toolchains,
                self._named(sha),
                f"the build of {sha[:10]}",
                self._place.progress,
                lambda root, _: self._fill(root, sha),
            )
        finally:
            task.finish()

    def _offer(self, timeline: Timeline, index: int, seconds: float) -> Offer:
        commit = timeline.commits[index]
        revision = Revision(commit.sha, commit=commit.sha, date=commit.date[:10], subject=commit.subject)
        failed = self._failed(commit.sha)
        here = is_whole(self._place.toolchains / self._named(commit.sha))
        reason = None if failed is None else str(failed)
        return Offer(self.name, revision, CommitPosition(index, commit.sha), 0.0 if here else seconds, commit.sha, reason)

    def _named(self, sha: str) -> str:
        return f"build-{self._project}-{sha[:16]}-{self._steps.digest()}"

    def _log(self, sha: str) -> Path:
        return self._place.home / "logs" / f"{self._named(sha)}.log"

    def _failed(self, sha: str) -> Unobtainable | None:
        try:
            kept_reason = json.loads(self._log(sha).with_suffix(".json").read_text())["reason"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return Unobtainable(str(kept_reason), self._log(sha))

    def _fill(self, root: Path, sha: str) -> None:
        with Log(self._log(sha)) as log, builder(self._repository, self._place) as mine:
            env = self._environment(mine, root, sha)
            mine.check_out(sha, log, env, submodules=self._steps.submodules)
            used = mine.is_used
            with self._prices.timing(f"builds:{self._project}:{'next' if used else 'first'}"):
                reason = self._build(mine, root, log, env)
                if reason is not None and used:
                    # What earlier commits left in the build folder can break a build that is sound.
                    log.write(b"\n=== failed in a used build folder; again in an empty one ===\n")
                    mine.empty()
                    _empty(root)
                    reason = self._build(mine, root, log, env)
        if reason is not None:
            raise self._refused(sha, reason)

    def _refused(self, sha: str, reason: str) -> EnvironmentFailure:
        """The error for a failed build; remembered, unless it is the machine's fault."""
        text = self._log(sha).read_text("utf-8", "replace")
        for sign in _MACHINE:
            if sign in text:
                return EnvironmentFailure(f"cannot build {sha[:10]}: {sign} (log: {self._log(sha)})")
        note = self._log(sha).with_suffix(".json")
        with disk_errors("remember a failed build"):
            write_whole(note, json.dumps({"reason": f"{sha[:10]} does not build: {reason}"}))
        return Unobtainable(f"{sha[:10]} does not build: {reason}", self._log(sha))

    def _build(self, mine: Builder, root: Path, log: Log, env: Mapping[str, str]) -> str | None:
        """Why it failed; None when it did not."""
        limit = self._steps.timeout
        for command in (*self._steps.configure, *self._steps.build):
            log.write(f"\n$ {command}\n".encode())
            begun = self._clock()
            shell = ["sh", "-c", command]
            execution = run_logged(shell, log, mine.source, env=env, stop=self._place.stop, timeout=limit)
            if execution.ending is Ending.TIMED_OUT:
                # How long a build takes is the machine's doing: another day or another machine may be faster.
                raise EnvironmentFailure(
                    f"the build took more than {self._steps.timeout:.0f} s and was stopped (log: {log.path})"
                )
            limit -= self._clock() - begun
            if execution.signal is not None or execution.exit_code == 137:
                raise EnvironmentFailure(f"the build was killed by a signal (log: {log.path})")
            if not execution.ok:
                return f"`{command.strip().splitlines()[0][:80]}` ended with {execution.exit_code}"
        if not any(root.iterdir()):
            return "the commands put nothing into TRIAGE_OUT"
        _refuse_ties(root, mine)
        return None

    @staticmethod
    def _clock() -> float:
        return os.times().elapsed

    def _environment(self, mine: Builder, root: Path, sha: str) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if name not in _GIT_VARIABLES}
        env |= {"LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0"}
        if shutil.which("ccache"):
            env = {
                "CMAKE_C_COMPILER_LAUNCHER": "ccache",
                "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
                "CCACHE_DIR": str(self._place.home / "ccache"),
                # Builders share what they compiled although each has a path of its own.
                "CCACHE_BASEDIR": str(mine.folder),
                "CCACHE_NOHASHDIR": "1",
            } | env
        env |= self._steps.env
        return env | {
            "TRIAGE_SOURCE": str(mine.source),
            "TRIAGE_BUILD": str(mine.build),
            "TRIAGE_OUT": str(root),
            "TRIAGE_COMMIT": sha,
            "TRIAGE_JOBS": str(self._jobs),
        }


# A git hook that started this program would lead the builds' git to its own repository.
_GIT_VARIABLES = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"})


def _refuse_ties(root: Path, mine: Builder) -> None:
    """EnvironmentFailure when a binary would load libraries from the builder, where the next build replaces them: its
    verdicts would be those of other commits.
    """
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            tied = [one for one in library_paths(path) if Path(one).is_relative_to(mine.folder)]
            if tied:
                raise EnvironmentFailure(
                    f"{path.relative_to(root)} in TRIAGE_OUT loads its libraries from the build folder ({tied[0]}), which the "
                    "next build changes: use `cmake --install`, or configure with -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON"
                )


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


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
        execution = run_logged(command, log, self.folder, env=env, stop=self._place.stop, timeout=_GIT_LIMIT)
        if execution.ending is Ending.NOT_STARTED:
            raise EnvironmentFailure("there is no git program on the PATH")
        if execution.ending is Ending.TIMED_OUT:
            raise EnvironmentFailure(f"git {words[2]} took more than {_GIT_LIMIT:.0f} s (log: {log.path})")
        if not execution.ok:
            raise EnvironmentFailure(f"git {words[2]} failed with {execution.status} (log: {log.path})")


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
                    kill_all_with("TRIAGE_BUILD", str(mine.build))
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
