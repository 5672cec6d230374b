"""The source of builds: compilers built from source, one commit after the other in the same build folder."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import count
from pathlib import Path

from pydantic import Field

from triage.execution.environment import Purpose
from triage.execution.process import kill_all_with, run_logged
from triage.execution.streams import Log
from triage.git_history import Repository, Timeline
from triage.git_history.checkout import Checkout
from triage.model.errors import EnvironmentFailure, TriageError, Unobtainable
from triage.model.execution import Ending
from triage.recipes.mapping import Duration, Texts, Variables
from triage.toolchains.home import disk_errors, lock_file, remove_tree
from triage.toolchains.install_cache import USE, fill_folder, is_intact
from triage.toolchains.sources.base import Offer, SourceContext, SourceSection, commit_offer
from triage.toolchains.workspace import Workspace

_FIRST_SECONDS = 3600.0  # of a build in an empty folder, until there are timings
_NEXT_SECONDS = 600.0
# Texts in a log that show that the machine, not the commit, made the build fail.
_MACHINE_ERRORS = ("No space left on device", "Cannot allocate memory", "out of memory", "Killed signal terminated program")


class BuildSection(SourceSection):
    """Builds from source: shell commands."""

    configure: Texts = Field(default=(), description="Run before each build.")
    commands: Texts = Field(min_length=1, description="Build and put the toolchain into $TRIAGE_OUT.")
    submodules: bool = Field(default=True, description="Whether submodules are updated.")
    timeout: Duration = Field(default=4 * 3600.0, description="For all commands of one commit together.")
    env: Variables = Field(default={}, description="Further variables: names to pass on, or names with values.")

    def open(self, context: SourceContext) -> SourceBuilds:
        return SourceBuilds(context.workspace, context.repository, context.project, self)


class SourceBuilds:
    """Builds any commit.

    The commands run in the checked-out sources. They get these folders in variables: TRIAGE_SOURCE (the sources),
    TRIAGE_BUILD (kept for the next commit) and TRIAGE_OUT (for the toolchain); also TRIAGE_COMMIT and TRIAGE_JOBS. TRIAGE_OUT
    is moved afterwards, and TRIAGE_BUILD changes, so that the toolchain must not refer to either.
    """

    name = "builds"

    def __init__(self, workspace: Workspace, repository: Repository, project: str, steps: BuildSection) -> None:
        self._workspace = workspace
        self._repository = repository
        self._project = project
        self._steps = steps
        self._failures = workspace.state("failed builds")
        self._builders = workspace.home / "builders" / _digest(str(repository.common_dir), 6)
        # Two ways to build a commit give two toolchains.
        self._way = _digest(json.dumps([steps.configure, steps.commands, steps.submodules, sorted(steps.env.items())]), 4)

    def offers(self, timeline: Timeline, indices: range) -> Sequence[Offer]:
        """Return one for each commit. Those whose build failed before are untestable."""
        is_used = any(self._builders.glob("*/build/*"))
        seconds = self._workspace.seconds(self._kind(is_used), _NEXT_SECONDS if is_used else _FIRST_SECONDS)
        offers = []
        for index in indices:
            sha = timeline.commits[index].sha
            failure, is_installed = self._failure(sha), is_intact(self._workspace.toolchains / self._folder_name(sha))
            reason = None if failure is None else str(failure)
            offers.append(commit_offer(self.name, timeline, index, 0.0 if is_installed else seconds, sha, reason))
        return offers

    def obtain(self, offer: Offer, package: str | None = None) -> Path:  # noqa: ARG002 - a build has everything
        """Build a commit that is not installed. A failed build is stored, and not tried again with the same steps."""
        sha = offer.item
        if (failure := self._failure(sha)) is not None:
            raise failure
        name = self._folder_name(sha)
        task = self._workspace.progress.task(f"build {sha[:10]}")
        try:
            with disk_errors("write the log of a build"):
                self._log(sha).parent.mkdir(parents=True, exist_ok=True)
            return fill_folder(self._workspace, name, f"the build of {sha[:10]}", lambda root, _: self._fill(root, sha))
        except Unobtainable as error:
            self._failures.put(name, {"reason": error.reason})
            raise
        finally:
            task.finish()

    def _kind(self, is_used: bool) -> str:
        return f"builds:{self._project}:{'next' if is_used else 'first'}"

    def _folder_name(self, sha: str) -> str:
        return f"build-{self._project}-{sha[:16]}-{self._way}"

    def _log(self, sha: str) -> Path:
        return self._workspace.home / "logs" / f"{self._folder_name(sha)}.log"

    def _failure(self, sha: str) -> Unobtainable | None:
        """Return the failure of an earlier build. It is forgotten when its log is removed."""
        stored = self._failures.get(self._folder_name(sha))
        return Unobtainable(stored["reason"], self._log(sha)) if stored and self._log(sha).exists() else None

    def _fill(self, root: Path, sha: str) -> None:
        with Log(self._log(sha)) as log, self._builder() as folder:
            build = folder / "build"
            checkout = Checkout(folder / "source", self._repository, log, self._workspace.stop)
            checkout.check_out(sha, submodules=self._steps.submodules)
            env = self._environment(folder, root, sha)
            is_used = any(build.iterdir())
            with self._workspace.timing(self._kind(is_used)):
                reason = self._run(folder, root, log, env)
                if reason is not None and is_used:
                    # Files of earlier commits in the build folder can break the build of a good commit.
                    log.write(b"\n=== failed in a used build folder; trying again in an empty one ===\n")
                    for used in (build, root):
                        remove_tree(used)
                        used.mkdir()
                    reason = self._run(folder, root, log, env)
        if reason is None:
            return
        text = self._log(sha).read_text("utf-8", "replace")
        for sign in _MACHINE_ERRORS:
            if sign in text:
                raise EnvironmentFailure(f"cannot build {sha[:10]}: {sign} (log: {self._log(sha)})")
        raise Unobtainable(f"{sha[:10]} does not build: {reason}", self._log(sha))

    def _run(self, folder: Path, root: Path, log: Log, env: Mapping[str, str | None]) -> str | None:
        """Run the commands. Return why the build failed, or None."""
        deadline, stop = time.monotonic() + self._steps.timeout, self._workspace.stop
        for command in (*self._steps.configure, *self._steps.commands):
            log.write(f"\n$ {command}\n".encode())
            shell, left = ["sh", "-c", command], max(deadline - time.monotonic(), 0.0)
            execution = run_logged(shell, log, folder / "source", purpose=Purpose.BUILD, env=env, stop=stop, timeout=left)
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
        _check_library_paths(root, folder)
        return None

    def _environment(self, folder: Path, root: Path, sha: str) -> dict[str, str | None]:
        env: dict[str, str | None] = {"LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0"}
        if shutil.which("ccache"):
            defaults = {
                "CMAKE_C_COMPILER_LAUNCHER": "ccache",
                "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
                "CCACHE_DIR": str(self._workspace.home / "ccache"),
                # Builders share object files although their paths differ.
                "CCACHE_BASEDIR": str(folder),
                "CCACHE_NOHASHDIR": "1",
            }
            env |= {name: value for name, value in defaults.items() if name not in os.environ}
        return {
            **env,
            **self._steps.env,
            "TRIAGE_SOURCE": str(folder / "source"),
            "TRIAGE_BUILD": str(folder / "build"),
            "TMPDIR": str(folder / "tmp"),  # compilers that are killed leave files there
            "TRIAGE_OUT": str(root),
            "TRIAGE_COMMIT": sha,
            "TRIAGE_JOBS": str(len(os.sched_getaffinity(0))),
        }

    @contextmanager
    def _builder(self) -> Iterator[Path]:
        """Hold a folder with a private clone and a build folder that no other process uses: the first free one, or a new one.

        If its last user was killed, remaining processes are ended and the build folder, whose state is unknown, is emptied.
        """
        with disk_errors("create a builder"):
            self._builders.mkdir(parents=True, exist_ok=True)
            for folder in (self._builders / str(number) for number in count()):
                try:  # pruning needs the same lock
                    mark, now = folder.with_name(f".{folder.name}.lock"), fcntl.LOCK_EX | fcntl.LOCK_NB
                    lock = lock_file(mark, now, self._workspace.stop)
                except BlockingIOError:
                    continue
                with lock:
                    busy, build, temporary = folder / ".busy", folder / "build", folder / "tmp"
                    if busy.exists():
                        kill_all_with("TRIAGE_BUILD", str(build))
                        remove_tree(build)
                    remove_tree(temporary)
                    for each in (build, temporary):
                        each.mkdir(parents=True, exist_ok=True)
                    (folder / USE).touch()
                    busy.touch()
                    try:
                        yield folder
                    except TriageError:  # the build has ended in order
                        busy.unlink()
                        raise
                    finally:
                        remove_tree(temporary)
                    busy.unlink()  # stays after any other error: the state of the build folder is unknown then
                    return


def _digest(text: str, size: int) -> str:
    return blake2b(text.encode(), digest_size=size).hexdigest()


def _check_library_paths(root: Path, builder: Path) -> None:
    """EnvironmentFailure when a binary loads libraries from the builder.

    The next build replaces them, so that results would be those of another commit.
    """
    for path in sorted(root.rglob("*")):
        for text in _library_paths(path):
            if any(Path(folder).is_relative_to(builder) for folder in text.split(":")):
                raise EnvironmentFailure(
                    f"{path.relative_to(root)} in TRIAGE_OUT loads its libraries from the build folder ({text}), which "
                    "the next build changes: use `cmake --install`, or configure with -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON"
                )


def _library_paths(path: Path) -> list[str]:
    """Return RPATH and RUNPATH of an ELF binary, or nothing for another file."""
    from elftools.common.exceptions import ELFError
    from elftools.construct import ConstructError
    from elftools.elf.dynamic import DynamicSegment
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as source:
            segments = [segment for segment in ELFFile(source).iter_segments() if isinstance(segment, DynamicSegment)]
            tags = [vars(tag) for segment in segments for tag in segment.iter_tags()]
            return [tag[name] for tag in tags for name in ("rpath", "runpath") if name in tag]
    except (ELFError, ConstructError, AttributeError, OSError, ValueError):
        return []
