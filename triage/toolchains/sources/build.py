"""The source of builds: compilers built from source, one commit after the other in the same build folder."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from triage.execution.environment import Purpose
from triage.execution.process import kill_all_with, run_logged
from triage.execution.streams import Log
from triage.git_history import Repository, Timeline
from triage.git_history.checkout import Checkout, GitRunner
from triage.model.errors import EnvironmentFailure, TriageError, Unobtainable
from triage.model.execution import Ending
from triage.model.progress import Task
from triage.recipes.mapping import Texts, Truth
from triage.toolchains.home import disk_errors, remove_tree
from triage.toolchains.install_cache import USE, fill_folder, is_intact
from triage.toolchains.sources.base import Offer, SourceContext, commit_offer
from triage.toolchains.sources.section import Duration, SourceSection, Variables
from triage.toolchains.workspace import Workspace

_FIRST_SECONDS = 3600.0  # of a build in an empty folder, until there are timings
_NEXT_SECONDS = 600.0
# Texts in a log that show that the machine, not the commit, made the build fail.
_MACHINE_ERRORS = ("No space left on device", "Cannot allocate memory", "out of memory", "Killed signal terminated program")
_MAX_BUILDERS = 64


class BuildSection(SourceSection):
    """Builds from source: shell commands."""

    noun: ClassVar[str] = "build"

    configure: Texts = Field(default=(), description="Run before each build.")
    commands: Texts = Field(min_length=1, description="Build and put the toolchain into $TRIAGE_OUT.")
    submodules: Truth = Field(default=True, description="Whether submodules are updated.")
    timeout: Duration = Field(default=4 * 3600.0, description="For all commands of one commit together.")
    env: Variables = Field(default={}, description="Further variables: names to pass on, or names with values.")

    def open(self, context: SourceContext) -> SourceBuilds:
        return SourceBuilds(context.workspace, context.repository, context.project, self)

    def digest(self) -> str:
        """A digest that differs between two ways to build the same commit."""
        steps = json.dumps([self.configure, self.commands, self.submodules, sorted(self.env.items())])
        return blake2b(steps.encode(), digest_size=4).hexdigest()


class SourceBuilds:
    """Builds any commit.

    The commands run in the checked-out sources. They get these folders in variables: TRIAGE_SOURCE (the sources),
    TRIAGE_BUILD (kept for the next commit) and TRIAGE_OUT (for the toolchain); also TRIAGE_COMMIT and TRIAGE_JOBS. TRIAGE_OUT
    is moved afterwards, and TRIAGE_BUILD changes, so that the toolchain must not refer to either.
    """

    name = "builds"

    def __init__(
        self,
        workspace: Workspace,
        repository: Repository,
        project: str,
        steps: BuildSection,
    ) -> None:
        self._workspace = workspace
        self._repository = repository
        self._project = project
        self._steps = steps
        self._failures = workspace.state.section("failed builds")
        self._refused: dict[str, str] = {}  # addresses that could not be fetched from, and why

    def offers(self, timeline: Timeline, indices: range) -> Sequence[Offer]:
        """One for each commit; those whose build failed before are untestable."""
        folders = builder_folders(self._workspace, self._repository)
        if any(folders.glob("*/build/*")):
            seconds = self._workspace.costs.seconds(f"builds:{self._project}:next", _NEXT_SECONDS)
        else:
            seconds = self._workspace.costs.seconds(f"builds:{self._project}:first", _FIRST_SECONDS)
        offers = []
        for index in indices:
            sha = timeline.commits[index].sha
            failure, is_installed = self._failure(sha), is_intact(self._workspace.toolchains / self._folder_name(sha))
            reason = None if failure is None else str(failure)
            offers.append(commit_offer(self.name, timeline, index, 0.0 if is_installed else seconds, sha, reason))
        return offers

    def obtain(self, offer: Offer, package: str | None = None) -> Path:  # noqa: ARG002 - a build holds all there is
        """A failed build is stored with its log, and not tried again with the same steps."""
        sha = offer.item
        if (failure := self._failure(sha)) is not None:
            raise failure
        try:
            return self.make(sha)
        except Unobtainable as error:
            self._failures.put(self._folder_name(sha), {"reason": error.reason})
            raise

    def make(self, sha: str) -> Path:
        """Build a commit that is not installed. Unobtainable when it does not build, which is not stored."""
        name = self._folder_name(sha)
        if is_intact(self._workspace.toolchains / name):
            return self._workspace.toolchains / name
        with disk_errors("write the log of a build"):
            self._log(sha).parent.mkdir(parents=True, exist_ok=True)
        task = self._workspace.progress.task(f"build {sha[:10]}")
        try:
            return fill_folder(self._workspace, name, f"the build of {sha[:10]}", lambda root, _: self._fill(root, sha, task))
        finally:
            task.finish()

    def _folder_name(self, sha: str) -> str:
        return f"build-{self._project}-{sha[:16]}-{self._steps.digest()}"

    def _log(self, sha: str) -> Path:
        return self._workspace.home / "logs" / f"{self._folder_name(sha)}.log"

    def _failure(self, sha: str) -> Unobtainable | None:
        """The failure of an earlier build; forgotten when its log is removed."""
        stored = self._failures.get(self._folder_name(sha))
        return Unobtainable(stored["reason"], self._log(sha)) if stored and self._log(sha).exists() else None

    def _fill(self, root: Path, sha: str, task: Task) -> None:
        with Log(self._log(sha)) as log, builder(self._workspace, self._repository) as mine:
            env = self._environment(mine, root, sha)
            git = GitRunner(
                log, mine.checkout.environment(), self._workspace.stop, task, self._workspace.progress, self._refused
            )
            mine.checkout.check_out(git, sha, submodules=self._steps.submodules)
            task.describe(f"build {sha[:10]}")
            is_used = mine.is_used
            with self._workspace.costs.timing(f"builds:{self._project}:{'next' if is_used else 'first'}"):
                reason = self._build(mine, root, log, env)
                if reason is not None and is_used:
                    # Files of earlier commits in the build folder can break the build of a good commit.
                    log.write(b"\n=== failed in a used build folder; trying again in an empty one ===\n")
                    mine.empty()
                    remove_tree(root)
                    root.mkdir()
                    reason = self._build(mine, root, log, env)
        if reason is not None:
            raise self._error(sha, reason)

    def _error(self, sha: str, reason: str) -> EnvironmentFailure:
        """The error for a failed build: Unobtainable, unless the machine caused it."""
        text = self._log(sha).read_text("utf-8", "replace")
        for sign in _MACHINE_ERRORS:
            if sign in text:
                return EnvironmentFailure(f"cannot build {sha[:10]}: {sign} (log: {self._log(sha)})")
        return Unobtainable(f"{sha[:10]} does not build: {reason}", self._log(sha))

    def _build(self, mine: Builder, root: Path, log: Log, env: Mapping[str, str | None]) -> str | None:
        """Why the build failed; None when it succeeded."""
        deadline = time.monotonic() + self._steps.timeout
        for command in (*self._steps.configure, *self._steps.commands):
            log.write(f"\n$ {command}\n".encode())
            shell, left = ["sh", "-c", command], max(deadline - time.monotonic(), 0.0)
            stop = self._workspace.stop
            execution = run_logged(shell, log, mine.source, purpose=Purpose.BUILD, env=env, stop=stop, timeout=left)
            if execution.ending is Ending.TIMED_OUT:
                # The time depends on the machine: the build may succeed another day or elsewhere.
                raise EnvironmentFailure(
                    f"the build took more than {self._steps.timeout:.0f} s and was stopped (log: {log.path})"
                )
            if execution.signal is not None or execution.exit_code == 137:
                raise EnvironmentFailure(f"the build was killed by a signal (log: {log.path})")
            if not execution.ok:
                return f"the exit code of `{command.strip().splitlines()[0][:80]}` is {execution.exit_code}"
        if not any(root.iterdir()):
            return "the commands put nothing into TRIAGE_OUT"
        _check_library_paths(root, mine)
        return None

    def _environment(self, mine: Builder, root: Path, sha: str) -> dict[str, str | None]:
        env: dict[str, str | None] = {}
        if shutil.which("ccache"):
            defaults = {
                "CMAKE_C_COMPILER_LAUNCHER": "ccache",
                "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
                "CCACHE_DIR": str(self._workspace.home / "ccache"),
                # Builders share object files although their paths differ.
                "CCACHE_BASEDIR": str(mine.folder),
                "CCACHE_NOHASHDIR": "1",
            }
            env |= {name: value for name, value in defaults.items() if name not in os.environ}
        env |= {"LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0", **self._steps.env}
        return env | {
            "TRIAGE_SOURCE": str(mine.source),
            "TRIAGE_BUILD": str(mine.build),
            "TMPDIR": str(mine.temporary),
            "TRIAGE_OUT": str(root),
            "TRIAGE_COMMIT": sha,
            "TRIAGE_JOBS": str(len(os.sched_getaffinity(0))),
        }


def _check_library_paths(root: Path, mine: Builder) -> None:
    """EnvironmentFailure when a binary loads libraries from the builder. The next build replaces them, so that results would
    be those of another commit.
    """
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            inside = [folder for folder in library_paths(path) if Path(folder).is_relative_to(mine.folder)]
            if inside:
                raise EnvironmentFailure(
                    f"{path.relative_to(root)} in TRIAGE_OUT loads its libraries from the build folder ({inside[0]}), which "
                    "the next build changes: use `cmake --install`, or configure with -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON"
                )


def library_paths(path: Path) -> list[str]:
    """The folders in RPATH and RUNPATH of an ELF binary; none for other and damaged files."""
    from elftools.common.exceptions import ELFError
    from elftools.construct import ConstructError
    from elftools.elf.dynamic import DynamicSegment
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as source:
        if source.read(4) != b"\x7fELF":
            return []
        try:
            segments = ELFFile(source).iter_segments()
            tags = [tag for segment in segments if isinstance(segment, DynamicSegment) for tag in segment.iter_tags()]
            paths = [getattr(tag, name) for tag in tags for name in ("rpath", "runpath") if hasattr(tag, name)]
        except (ELFError, ConstructError, AttributeError, OSError, ValueError):
            return []
    return [folder for text in paths for folder in text.split(":") if folder]


class Builder:
    """A private checkout of the repository and its build folder, used by this process alone."""

    def __init__(self, folder: Path, repository: Repository) -> None:
        self.folder = folder
        self.source = folder / "source"
        self.build = folder / "build"
        self.temporary = folder / "tmp"  # compilers that are killed leave files there
        self.checkout = Checkout(self.source, repository)

    @property
    def is_used(self) -> bool:
        """Whether the build folder has files of an earlier build."""
        return self.build.is_dir() and any(self.build.iterdir())

    def empty(self) -> None:
        """Remove everything from the build folder."""
        with disk_errors(f"empty {self.build}"):
            remove_tree(self.build)
            self.build.mkdir(parents=True)


@contextmanager
def builder(workspace: Workspace, repository: Repository) -> Iterator[Builder]:
    """A builder that no other process uses: the first free one, or a new one. When its last user was killed, remaining
    processes are ended and the build folder, whose state is unknown, is emptied.
    """
    with disk_errors("create a builder"):
        folders = builder_folders(workspace, repository)
        folders.mkdir(parents=True, exist_ok=True)
        for number in range(_MAX_BUILDERS):
            folder = folders / str(number)
            with ExitStack() as stack:
                with workspace.locked(folder.with_name(f".{number}.lock"), f"the builder {folder}"):  # as pruning does
                    folder.mkdir(exist_ok=True)
                    lock = stack.enter_context((folder / USE).open("ab"))
                    os.utime(folder / USE)
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        continue
                mine = Builder(folder, repository)
                busy = folder / ".busy"
                if busy.exists():
                    kill_all_with("TRIAGE_BUILD", str(mine.build))
                    mine.checkout.unlock()
                    mine.empty()
                mine.build.mkdir(exist_ok=True)
                remove_tree(mine.temporary)
                mine.temporary.mkdir()
                busy.touch()
                stack.callback(remove_tree, mine.temporary)
                try:
                    yield mine
                except TriageError:  # the build has ended in order
                    busy.unlink()
                    raise
                busy.unlink()  # stays after any other error: the state of the build folder is unknown then
                return
    raise EnvironmentFailure(f"all {_MAX_BUILDERS} builders of {repository.path} are in use")


def builder_folders(workspace: Workspace, repository: Repository) -> Path:
    """The folder that holds the builders of a repository."""
    return workspace.home / "builders" / blake2b(str(repository.common_dir).encode(), digest_size=6).hexdigest()
