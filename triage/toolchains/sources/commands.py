"""Sources that run a user's commands: builds from source, and a script that prints the
path of a toolchain.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Self

from pydantic import Field, model_validator

from triage.git_history.checkout import Checkout
from triage.git_history.repository import Repository
from triage.git_history.timeline import Timeline
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.execution import Ending, Execution
from triage.processes.containment import Purpose
from triage.processes.process import Log, run, unlimited
from triage.recipes.mapping import AtKey, Duration, Text, Texts, Variables
from triage.toolchains.home import (
    KeptKind,
    Workspace,
    disk_errors,
    lock_file,
    remove_tree,
    stamp,
)
from triage.toolchains.install import USE, fill_folder, is_intact
from triage.toolchains.sources.base import (
    UNTIMED_BUILD,
    Build,
    SourceContext,
    SourceSection,
    can_change,
    commit_build,
)

# Estimates until there are timings.
_NEXT_SECONDS = 600.0
_COPY_SECONDS = 5.0
_SCRIPT_SECONDS = 120.0
# Texts in a log that show that the machine, not the commit, made the build fail.
_MACHINE_ERRORS = (
    "No space left on device",
    "Cannot allocate memory",
    "out of memory",
    "Killed signal terminated program",
)
_NO_SUCH_COMMAND = (126, 127)


_AGAIN = b"""
=== failed in a used build folder; trying again in an empty one ===
"""


class BuildSection(SourceSection):
    """Builds from source: shell commands, files of the checkout, or both."""

    configure: Texts = Field(default=(), description="Run before each build.")
    commands: Texts = Field(
        default=(),
        min_length=1,
        description="Build and put the toolchain into $TRIAGE_OUT.",
    )
    copy_: Texts = Field(
        default=(),
        min_length=1,
        alias="copy",
        description="Files and folders of the checkout that belong to the toolchain; "
        "enough alone for a compiler that needs no build.",
        examples=[["my_compiler", "main.py"]],
    )
    submodules: bool = Field(
        default=True, description="Whether submodules are updated."
    )
    timeout: Duration = Field(
        default=4 * 3600.0, description="For all commands of one commit together."
    )
    env: Variables = Field(
        default={},
        description="Further variables: names to pass on, or names with values.",
    )

    @model_validator(mode="after")
    def _makes_something(self) -> Self:
        if not self.commands and not self.copy_:
            raise ValueError(
                "a build needs `commands`, or `copy` with files of the checkout."
            )
        for name in self.copy_:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or not path.parts:
                raise AtKey("copy", f'"{name}" is not a file below the checkout.')
        return self

    def open(self, context: SourceContext) -> SourceBuilds:
        return SourceBuilds(
            context.workspace,
            context.repository,
            context.project,
            self,
            context.paths,
        )


@dataclass(frozen=True)
class SourceBuilds:
    """Builds any commit. Commits whose files that can change the compiler are the same
    share one build, such as the commit before a change and the one that reverts it.

    The commands run in the checked-out sources. They get these folders in variables:
    TRIAGE_SOURCE (the sources), TRIAGE_BUILD (kept for the next commit) and TRIAGE_OUT
    (for the toolchain); also TRIAGE_COMMIT and TRIAGE_JOBS. TRIAGE_OUT is moved
    afterwards, and TRIAGE_BUILD changes, so that the toolchain must not refer to
    either.
    """

    workspace: Workspace
    repository: Repository
    project: str
    steps: BuildSection
    paths: Sequence[str] = ()
    """See `Project.paths`."""
    name = "builds"

    @property
    def _builders(self) -> Path:
        return self.workspace.home.builders / _digest(
            self.repository.common_dir, size=6
        )

    def builds(self, timeline: Timeline, indices: range) -> Sequence[Build]:
        """Return one for each commit. Those whose build failed before are
        untestable.
        """
        is_used = any(self._builders.glob("*/build/*"))
        if not self.steps.commands:
            estimate = _COPY_SECONDS
        elif is_used:
            estimate = _NEXT_SECONDS
        else:
            estimate = UNTIMED_BUILD
        seconds = self.workspace.seconds(self._kind(is_used), estimate)
        builds = []
        for index in indices:
            sha = timeline.commits[index].sha
            name, reason, is_installed = self._known_name(sha), None, False
            if name:
                failure = self._failure(name)
                is_installed = is_intact(self.workspace.home.toolchains / name)
                if failure:
                    reason = str(failure)
            builds.append(
                commit_build(
                    self.name,
                    timeline,
                    index,
                    0.0 if is_installed else seconds,
                    sha,
                    reason,
                )
            )
        return builds

    def obtain(self, build: Build, package: str | None = None) -> Path:  # noqa: ARG002 - a build has everything
        """Build a commit that is not installed. A failed build is stored, and not tried
        again with the same steps.
        """
        sha = build.item
        name = self._folder_name(sha)
        failure = self._failure(name)
        if failure:
            raise failure
        with self.workspace.progress.task(self._label(sha)):
            try:
                return fill_folder(
                    self.workspace,
                    name,
                    f"the build of {sha[:10]}",
                    lambda root, _: self._fill(root, sha, self._log(name)),
                )
            except Unobtainable as error:
                self.workspace.state("failed builds").put(
                    name, {"reason": error.reason}
                )
                raise

    def _label(self, sha: str) -> str:
        """Return `build 1a2b3c4d5e, about 12 s`, with the time of the builds before."""
        first = self.workspace.seconds(self._kind(is_used=False), 0.0)
        seconds = self.workspace.seconds(self._kind(is_used=True), first)
        if seconds:
            return f"build {sha[:10]}, about {max(1, round(seconds))} s"
        return f"build {sha[:10]}"

    def _kind(self, is_used: bool) -> str:
        return f"builds:{self.project}:{'next' if is_used else 'first'}"

    def _folder_name(self, sha: str) -> str:
        """Return the name of the toolchain of a commit, and store it."""
        listed = self.repository.ask("ls-tree", "-r", "-z", "--full-tree", sha)
        files = [
            entry
            for entry in listed.split(b"\0")[:-1]
            if can_change(os.fsdecode(entry.partition(b"\t")[2]), self.paths)
        ]
        tree, way = _digest(files, size=8), _digest(self._way, size=4)
        name = f"build-{self.project}-{tree}-{way}"
        self.workspace.state("builds of commits").put(self._key(sha), name)
        return name

    def _known_name(self, sha: str) -> str | None:
        """Return the name of a toolchain that was asked for before. Listing the files
        of all commits takes too long in a large repository.
        """
        name = self.workspace.state("builds of commits").get(self._key(sha))
        # a damaged value must not lead out of the folder of toolchains
        if isinstance(name, str) and name.startswith("build-") and "/" not in name:
            return name
        return None

    def _key(self, sha: str) -> str:
        return f"{sha} {_digest(self.project, self._way, self.paths, size=8)}"

    @property
    def _way(self) -> str:
        """Two ways to build a commit give two toolchains."""
        steps = self.steps
        return json.dumps(
            [
                steps.configure,
                steps.commands,
                steps.submodules,
                sorted(steps.env.items()),
                *([steps.copy_] if steps.copy_ else []),
            ]
        )

    def _log(self, name: str) -> Path:
        return self.workspace.home.kept(KeptKind.LOGS) / f"{name}.log"

    def _failure(self, name: str) -> Unobtainable | None:
        """Return the failure of an earlier build. It is forgotten when its log is
        removed.
        """
        stored = self.workspace.state("failed builds").get(name)
        if stored and self._log(name).exists():
            return Unobtainable(stored["reason"], self._log(name))
        return None

    def _fill(self, root: Path, sha: str, log_path: Path) -> None:
        with _open_log(log_path) as log, self._builder() as folder:
            build = folder / "build"
            checkout = Checkout(
                folder / "source", self.repository, log, self.workspace.stop
            )
            checkout.check_out(sha, submodules=self.steps.submodules)
            env = {
                "LC_ALL": "C.UTF-8",
                "GIT_TERMINAL_PROMPT": "0",
                **self.steps.env,
                "TRIAGE_SOURCE": str(folder / "source"),
                "TRIAGE_BUILD": str(build),
                # compilers that are killed leave files there
                "TMPDIR": str(folder / "tmp"),
                "TRIAGE_OUT": str(root),
                "TRIAGE_COMMIT": sha,
                "TRIAGE_JOBS": str(len(os.sched_getaffinity(0))),
            }
            is_used = any(build.iterdir())
            with self.workspace.timing(self._kind(is_used)):
                reason = self._run(folder, root, log, env)
                if reason is not None and is_used:
                    # Files of earlier commits in the build folder can break the build
                    # of a good commit.
                    log.write(_AGAIN)
                    for used in (build, root):
                        remove_tree(used)
                        used.mkdir()
                    reason = self._run(folder, root, log, env)
        if reason is None:
            return
        text = log.path.read_text("utf-8", "replace")
        sign = next((sign for sign in _MACHINE_ERRORS if sign in text), None)
        if sign:
            raise EnvironmentFailure(
                f"cannot build {sha[:10]}: {sign} (log: {log.path})"
            )
        raise Unobtainable(f"{sha[:10]} does not build: {reason}", log.path)

    def _run(
        self, folder: Path, root: Path, log: Log, env: Mapping[str, str | None]
    ) -> str | None:
        """Run the commands. Return why the build failed, or None."""
        deadline = time.monotonic() + self.steps.timeout
        for command in (*self.steps.configure, *self.steps.commands):
            log.write(f"\n$ {command}\n".encode())
            left = max(deadline - time.monotonic(), 0.0)
            execution = _shell(
                self.workspace, [command], log, folder / "source", env, left
            )
            if not execution.ok:
                return (
                    f"the exit code of `{command.strip().splitlines()[0][:80]}` is "
                    f"{execution.exit_code}"
                )
        for name in self.steps.copy_:
            source = folder / "source" / name
            if not source.exists():
                return f"the checkout has no {name}"
            with disk_errors(f"copy {name}"):
                _copy(source, root / name)
        if not any(root.iterdir()):
            return "the commands put nothing into TRIAGE_OUT"
        _check_library_paths(root, folder)
        return None

    @contextmanager
    def _builder(self) -> Iterator[Path]:
        """Hold a folder with a private clone and a build folder that no other process
        uses: the first free one, or a new one.

        If its last user was killed, the build folder, whose state is unknown, is
        emptied.
        """
        self._builders.mkdir(parents=True, exist_ok=True)
        for folder in (self._builders / str(number) for number in count()):
            try:
                lock = lock_file(
                    folder.with_name(f".{folder.name}.lock"),
                    fcntl.LOCK_EX | fcntl.LOCK_NB,
                    self.workspace.stop,
                )
            except BlockingIOError:
                continue
            busy, build, temporary = folder / ".busy", folder / "build", folder / "tmp"
            with lock:  # pruning needs it too
                if busy.exists():
                    remove_tree(build)
                remove_tree(temporary)
                for each in (build, temporary):
                    each.mkdir(parents=True, exist_ok=True)
                for mark in (busy, folder / USE):
                    mark.touch()
                try:
                    yield folder
                finally:
                    remove_tree(temporary)
                    busy.unlink()
            return


def _copy(source: Path, target: Path) -> None:
    """Copy a file or a folder, links as they are."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(
            source,
            target,
            symlinks=True,
            ignore=shutil.ignore_patterns(".git"),
            dirs_exist_ok=True,
        )
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def _check_library_paths(root: Path, builder: Path) -> None:
    """EnvironmentFailure when a binary loads libraries from the builder.

    The next build replaces them, so that results would be those of another commit.
    """
    from elftools.common.exceptions import ELFError
    from elftools.construct import ConstructError
    from elftools.elf.dynamic import DynamicSegment
    from elftools.elf.elffile import ELFFile

    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        texts: list[str] = []
        with (
            suppress(ELFError, ConstructError, AttributeError, ValueError),
            path.open("rb") as source,
        ):
            segments = [
                segment
                for segment in ELFFile(source).iter_segments()
                if isinstance(segment, DynamicSegment)
            ]
            tags = [vars(tag) for segment in segments for tag in segment.iter_tags()]
            texts += [
                tag[name]
                for tag in tags
                for name in ("rpath", "runpath")
                if name in tag
            ]
        for text in texts:
            if any(Path(folder).is_relative_to(builder) for folder in text.split(":")):
                raise EnvironmentFailure(
                    f"{path.relative_to(root)} in TRIAGE_OUT loads its libraries from "
                    f"the build folder ({text}), which the next build changes: use "
                    "`cmake --install`, or configure with "
                    "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON"
                )


class ScriptSection(SourceSection):
    """A script of your own."""

    run: Text = Field(
        description="Shell command that gets a commit and prints the path of its "
        "toolchain."
    )
    timeout: Duration = Field(default=3600.0, description="Limit of one run.")
    env: Variables = Field(
        default={},
        description="Further variables: names to pass on, or names with values.",
    )

    def open(self, context: SourceContext) -> ScriptedToolchains:
        return ScriptedToolchains(context.workspace, self, context.folder)


@dataclass(frozen=True)
class ScriptedToolchains:
    """Runs a shell command with the commit as its argument and in TRIAGE_COMMIT. The
    last line on its stdout is the toolchain's folder or binary, relative to `folder` or
    absolute. Another exit code than 0 means that there is none.

    A path is stored, and the script is not run again for its commit, as long as the
    script and the files there do not change.
    """

    workspace: Workspace
    settings: ScriptSection
    folder: Path
    name = "command"

    def builds(self, timeline: Timeline, indices: range) -> Sequence[Build]:
        """Return one for each commit: only running the script shows whether it has a
        toolchain.
        """
        seconds = self.workspace.seconds(
            f"command:{self.settings.run}", _SCRIPT_SECONDS
        )
        here = {
            sha for sha, (path, _) in self._printed().items() if Path(path).exists()
        }
        shas = ((index, timeline.commits[index].sha) for index in indices)
        return [
            commit_build(
                self.name, timeline, index, 0.0 if sha in here else seconds, sha
            )
            for index, sha in shas
        ]

    def obtain(self, build: Build, package: str | None = None) -> Path:  # noqa: ARG002 - the path has everything
        sha = build.item
        path, written = self._printed().get(sha, ("", ""))
        if path and Path(path).exists() and _stamp_below(Path(path)) == written:
            return Path(path)
        logs = self.workspace.home.kept(KeptKind.LOGS)
        log_path = logs / f"command-{sha[:16]}.log"
        with (
            _open_log(log_path) as log,
            self.workspace.timing(f"command:{self.settings.run}"),
        ):
            found = self._run(sha, log)
        written, known = _stamp_below(found), self._printed()
        for other, (path, other_stamp) in known.items():
            # results of one would be those of the other
            if other != sha and path == str(found) and other_stamp != written:
                raise EnvironmentFailure(
                    f"the script printed {found} for {other[:10]} and now for "
                    f"{sha[:10]}, with other files in it: print another path for each "
                    "commit, and never change the files of a commit"
                )
        self.workspace.state("printed paths").put(
            self._key(), {**known, sha: (str(found), written)}
        )
        return found

    def _printed(self) -> dict[str, tuple[str, str]]:
        """Return the paths that the script printed, by commit, with a stamp of the
        files there.
        """
        return self.workspace.state("printed paths").get(self._key()) or {}

    def _key(self) -> str:
        """Return a digest of the command, its folder and variables, and of the files
        that the command names.
        """
        written = ""
        with suppress(ValueError, OSError):  # the shell understands more than shlex
            files = (self.folder / word for word in shlex.split(self.settings.run))
            written = stamp(path for path in files if path.is_file())
        return _digest(
            str(self.folder),
            self.settings.run,
            sorted(self.settings.env.items()),
            written,
            size=10,
        )

    def _run(self, sha: str, log: Log) -> Path:
        run, env = self.settings.run, {**self.settings.env, "TRIAGE_COMMIT": sha}
        # The words behind the script become its "$@".
        words = [f'{run} "$@"', "sh", sha]
        execution = _shell(
            self.workspace, words, log, self.folder, env, self.settings.timeout
        )
        if execution.exit_code in _NO_SUCH_COMMAND:
            raise EnvironmentFailure(f"`{run}` cannot be run (log: {log.path})")
        if not execution.ok:
            raise Unobtainable(
                (
                    f"`{run}` has no toolchain of {sha[:10]}: its exit code is "
                    f"{execution.exit_code}"
                ),
                log.path,
            )
        printed = execution.stdout.last_line
        if not printed:
            raise Unobtainable(f"`{run}` printed no path for {sha[:10]}", log.path)
        if not (self.folder / printed).exists():
            raise Unobtainable(
                f"`{run}` printed {printed}, which does not exist", log.path
            )
        return self.folder / printed


def _stamp_below(path: Path) -> str:
    return stamp(
        [path]
        if path.is_file()
        else sorted(file for file in path.rglob("*") if file.is_file())
    )


def _digest(*values: object, size: int) -> str:
    return blake2b(
        repr(values).encode("utf-8", "surrogateescape"), digest_size=size
    ).hexdigest()


@contextmanager
def _open_log(path: Path) -> Iterator[Log]:
    with disk_errors("write a log"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with Log(path) as log:
            yield log


def _shell(
    workspace: Workspace,
    words: Sequence[str],
    log: Log,
    folder: Path,
    env: Mapping[str, str | None],
    timeout: float,
) -> Execution:
    """Run a command. EnvironmentFailure when it does not end by itself: that may be the
    machine's fault, not the commit's.
    """
    command, stop = ["sh", "-c", *words], workspace.stop
    execution = run(
        command,
        unlimited(timeout),
        folder,
        purpose=Purpose.BUILD,
        env=env,
        log=log,
        stop=stop,
    )
    name = words[0].strip().splitlines()[0][:80]
    if execution.ending is Ending.TIMED_OUT:
        raise EnvironmentFailure(
            f"`{name}` took more than {timeout:.0f} s and was stopped (log: {log.path})"
        )
    if execution.signal is not None or execution.exit_code == 137:
        raise EnvironmentFailure(f"`{name}` was killed by a signal (log: {log.path})")
    return execution
