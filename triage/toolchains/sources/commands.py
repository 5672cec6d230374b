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


_TRYING_AGAIN = b"""
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
        default=False,
        description="Whether the build needs the submodules, which may be fetched.",
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
    """Builds any commit. Two commits share one build if they have the same files, apart
    from those that cannot change the compiler.

    The commands run in the checked-out sources, with these variables: TRIAGE_SOURCE
    (the folder of the sources), TRIAGE_BUILD (a folder that is kept for the next
    commit), TRIAGE_OUT (the folder for the toolchain), TRIAGE_COMMIT and TRIAGE_JOBS.
    The toolchain must not refer to TRIAGE_OUT, which is moved, nor to TRIAGE_BUILD,
    which changes.
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
        """Return one build for each commit. It is untestable if it failed before."""
        is_used = any(self._builders.glob("*/build/*"))
        if not self.steps.commands:
            estimate = _COPY_SECONDS
        elif is_used:
            estimate = _NEXT_SECONDS
        else:
            estimate = UNTIMED_BUILD
        usual = self.workspace.seconds(self._timing(is_used), estimate)
        builds = []
        for index in indices:
            sha = timeline.commits[index].sha
            name, reason, seconds = self._known_name(sha), None, usual
            if name:
                failure = self._earlier_failure(name)
                reason = str(failure) if failure else None
                if is_intact(self.workspace.home.toolchains / name):
                    seconds = 0.0
            builds.append(
                commit_build(self.name, timeline, index, seconds, sha, reason)
            )
        return builds

    def obtain(self, build: Build, package: str | None = None) -> Path:  # noqa: ARG002 - a build has everything
        """Return the folder of a commit's build. Build the commit if it is not
        installed. A failure is stored, and the same steps are not tried again.
        """
        sha = build.item
        name = self._folder_name(sha)
        failure = self._earlier_failure(name)
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
        """Return `build 1a2b3c4d5e, about 12 s`, by the median of past builds."""
        first = self.workspace.seconds(self._timing(is_used=False), 0.0)
        seconds = self.workspace.seconds(self._timing(is_used=True), first)
        if seconds:
            return f"build {sha[:10]}, about {max(1, round(seconds))} s"
        return f"build {sha[:10]}"

    def _timing(self, is_used: bool) -> str:
        """Return the kind of builds in a used or an empty folder, for
        `Workspace.timing`.
        """
        return f"builds:{self.project}:{'next' if is_used else 'first'}"

    def _folder_name(self, sha: str) -> str:
        """Compute the name of the folder for a commit's build, and store it for
        `_known_name`.
        """
        listed = self.repository.ask("ls-tree", "-r", "-z", "--full-tree", sha)
        files = [
            entry
            for entry in listed.split(b"\0")[:-1]
            if can_change(os.fsdecode(entry.partition(b"\t")[2]), self.paths)
        ]
        tree, steps = _digest(files, size=8), _digest(self._steps_text, size=4)
        name = f"build-{self.project}-{tree}-{steps}"
        self.workspace.state("builds of commits").put(self._key(sha), name)
        return name

    def _known_name(self, sha: str) -> str | None:
        """Return the name that `_folder_name` computed before, if it did. Computing it
        for all commits takes too long in a large repository.
        """
        name = self.workspace.state("builds of commits").get(self._key(sha))
        # a damaged value must not lead out of the folder of toolchains
        if isinstance(name, str) and name.startswith("build-") and "/" not in name:
            return name
        return None

    def _key(self, sha: str) -> str:
        return f"{sha} {_digest(self.project, self._steps_text, self.paths, size=8)}"

    @property
    def _steps_text(self) -> str:
        """The steps as a text. Two builds of a commit with different steps are two
        toolchains.
        """
        steps = self.steps
        values = [
            steps.configure,
            steps.commands,
            steps.submodules,
            sorted(steps.env.items()),
        ]
        if steps.copy_:
            values.append(steps.copy_)
        return json.dumps(values)

    def _log(self, name: str) -> Path:
        return self.workspace.home.kept(KeptKind.LOGS) / f"{name}.log"

    def _earlier_failure(self, name: str) -> Unobtainable | None:
        """Return the error of a build that failed before. A failure whose log was
        removed does not count.
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
            with self.workspace.timing(self._timing(is_used)):
                reason = self._run(folder, root, log, env)
                if reason is not None and is_used:
                    # Files of earlier commits in the build folder can break the build
                    # of a good commit.
                    log.write(_TRYING_AGAIN)
                    for used in (build, root):
                        remove_tree(used)
                        used.mkdir()
                    reason = self._run(folder, root, log, env)
        if reason is None:
            return
        text = log.path.read_text("utf-8", "replace")
        for error in _MACHINE_ERRORS:
            if error in text:
                raise EnvironmentFailure(
                    f"cannot build {sha[:10]}: {error} (log: {log.path})"
                )
        raise Unobtainable(f"{sha[:10]} does not build: {reason}", log.path)

    def _run(
        self, folder: Path, root: Path, log: Log, env: Mapping[str, str | None]
    ) -> str | None:
        """Run the commands and copy the files. Return why that failed, if it did."""
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
        """Lock a builder, which is a folder with a private clone and a build folder:
        the first free one, or a new one.

        If the last process that used it was killed, its build folder is emptied.
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
    """Copy a file or a folder. Links are copied as links."""
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
    """Raise EnvironmentFailure if a binary loads libraries from the builder. The next
    build would replace them by those of another commit.
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
            for segment in ELFFile(source).iter_segments():
                if isinstance(segment, DynamicSegment):
                    for tag in map(vars, segment.iter_tags()):
                        texts += [
                            tag[key] for key in ("rpath", "runpath") if key in tag
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
    last line on its stdout is the path of the toolchain, which may be relative to
    `folder`. If its exit code is not 0, there is no toolchain of the commit.

    The path is stored. The script runs again for the same commit if the script or the
    files at the path have changed.
    """

    workspace: Workspace
    settings: ScriptSection
    folder: Path
    name = "command"

    def builds(self, timeline: Timeline, indices: range) -> Sequence[Build]:
        """Return one build for each commit, because only running the script shows
        whether there is a toolchain.
        """
        usual = self.workspace.seconds(f"command:{self.settings.run}", _SCRIPT_SECONDS)
        known = self._printed()
        builds = []
        for index in indices:
            sha = timeline.commits[index].sha
            is_here = sha in known and Path(known[sha][0]).exists()
            seconds = 0.0 if is_here else usual
            builds.append(commit_build(self.name, timeline, index, seconds, sha))
        return builds

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
            # Otherwise, the results of one commit would be those of the other.
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
        """Return the path that the script printed for each commit, with the `stamp` of
        the files there.
        """
        return self.workspace.state("printed paths").get(self._key()) or {}

    def _key(self) -> str:
        """Return a digest of the command, its folder and variables, and the files that
        the command names.
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
    if path.is_file():
        return stamp([path])
    return stamp(sorted(file for file in path.rglob("*") if file.is_file()))


def _digest(*values: object, size: int) -> str:
    text = repr(values).encode("utf-8", "surrogateescape")
    return blake2b(text, digest_size=size).hexdigest()


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
    """Run a shell command. Raises EnvironmentFailure if it takes too long or is killed,
    because that may be the machine's fault.
    """
    execution = run(
        ["sh", "-c", *words],
        unlimited(timeout),
        folder,
        seal=None,
        purpose=Purpose.BUILD,
        env=env,
        log=log,
        stop=workspace.stop,
    )
    name = words[0].strip().splitlines()[0][:80]
    if execution.ending is Ending.TIMED_OUT:
        raise EnvironmentFailure(
            f"`{name}` took more than {timeout:.0f} s and was stopped (log: {log.path})"
        )
    if execution.signal is not None or execution.exit_code == 137:
        raise EnvironmentFailure(f"`{name}` was killed by a signal (log: {log.path})")
    return execution
