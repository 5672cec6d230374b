"""A source that builds commits with a user's commands."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Self

from pydantic import Field, model_validator

from triage.git_history.checkout import Checkout
from triage.git_history.repository import Repository
from triage.git_history.timeline import Timeline
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.execution import Ending
from triage.processes.containment import Purpose
from triage.processes.process import Log, run, unlimited
from triage.recipes.mapping import (
    Duration,
    MappingFormat,
    Texts,
    Variables,
)
from triage.toolchains.home import (
    KeptKind,
    Workspace,
    disk_errors,
    lock_file,
    remove_tree,
    save_file,
)
from triage.toolchains.install import fill_folder, is_intact
from triage.toolchains.sources.base import UNTIMED_BUILD, Build, commit_build

_NEXT_SECONDS = 600.0  # of a build in a folder that has files of another commit
_COPY_SECONDS = 5.0
# Texts in a log that show that the machine, not the commit, made the build fail.
_MACHINE_ERROR = re.compile(
    "No space left on device|Cannot allocate memory|out of memory|"
    "Killed signal terminated program"
)
_TRYING_AGAIN = b"""
=== failed in a used build folder; trying again in an empty one ===
"""


class BuildSection(MappingFormat):
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
                raise ValueError(f'"{name}" is not a file below the checkout.')
        return self


@dataclass(frozen=True)
class SourceBuilds:
    """Builds any commit, one at a time.

    The commands run in the checked-out sources, with these variables: TRIAGE_SOURCE
    (the folder of the sources), TRIAGE_BUILD (a folder that is kept for the next
    commit), TRIAGE_OUT (the folder for the toolchain), TRIAGE_COMMIT and TRIAGE_JOBS.
    The toolchain must not refer to TRIAGE_BUILD, which changes.
    """

    workspace: Workspace
    repository: Repository
    project: str
    steps: BuildSection
    name = "builds"

    @property
    def _builder(self) -> Path:
        """The folder with the private clone and the build folder."""
        mark = _digest(str(self.repository.common_dir))
        return self.workspace.home.builders / mark / "0"

    def builds(self, timeline: Timeline, indices: range) -> Sequence[Build]:
        """Return one build for each commit. It is untestable if it failed before."""
        usual = UNTIMED_BUILD
        if not self.steps.commands:
            usual = _COPY_SECONDS
        elif any(self._builder.glob("build/*")):
            usual = _NEXT_SECONDS
        builds = []
        for index in indices:
            sha, seconds = timeline.commits[index].sha, usual
            if is_intact(self.workspace.home.toolchains / self._folder(sha)):
                seconds = 0.0
            failure = self._earlier_failure(sha)
            reason = str(failure) if failure else None
            builds.append(
                commit_build(self.name, timeline, index, seconds, sha, reason)
            )
        return builds

    def obtain(self, build: Build, package: str | None = None) -> Path:  # noqa: ARG002 - a build has everything
        """Return the folder of a commit's build. Build the commit if it is not
        installed. A failure is stored, and the same steps are not tried again.
        """
        sha = build.item
        failure = self._earlier_failure(sha)
        if failure:
            raise failure
        try:
            return fill_folder(
                self.workspace,
                self._folder(sha),
                f"build {sha[:10]}",
                lambda root, _: self._fill(root, sha),
            )
        except Unobtainable as error:
            reason = self._log(sha).with_suffix(".failed")
            save_file(reason, error.reason, "write a log")
            raise

    def _folder(self, sha: str) -> str:
        """Return the name of the folder of a commit's build. Two builds with different
        steps are two toolchains.
        """
        values = self.steps.model_dump(mode="json", exclude={"timeout"})
        return f"build-{self.project}-{sha[:16]}-{_digest(json.dumps(values))}"

    def _log(self, sha: str) -> Path:
        logs = self.workspace.home.kept(KeptKind.LOGS)
        return logs / f"{self._folder(sha)}.log"

    def _earlier_failure(self, sha: str) -> Unobtainable | None:
        """Return the error of a build that failed before."""
        log = self._log(sha)
        try:
            return Unobtainable(log.with_suffix(".failed").read_text("utf-8"), log)
        except OSError:
            return None

    def _fill(self, root: Path, sha: str) -> None:
        path = self._log(sha)
        with disk_errors("write a log"):
            path.parent.mkdir(parents=True, exist_ok=True)
        with Log(path) as log, self._locked_builder() as folder:
            source, build = folder / "source", folder / "build"
            checkout = Checkout(source, self.repository, log, self.workspace.stop)
            checkout.check_out(sha, submodules=self.steps.submodules)
            env = {
                "LC_ALL": "C.UTF-8",
                "GIT_TERMINAL_PROMPT": "0",
                **self.steps.env,
                "TRIAGE_SOURCE": str(source),
                "TRIAGE_BUILD": str(build),
                # compilers that are killed leave files there
                "TMPDIR": str(folder / "tmp"),
                "TRIAGE_OUT": str(root),
                "TRIAGE_COMMIT": sha,
                "TRIAGE_JOBS": str(len(os.sched_getaffinity(0))),
            }
            is_used = any(build.iterdir())
            reason = self._make(source, root, log, env)
            if reason is not None and is_used:
                # Files of earlier commits in the build folder can break the build of a
                # good commit.
                log.write(_TRYING_AGAIN)
                for used in (build, root):
                    remove_tree(used)
                    used.mkdir()
                reason = self._make(source, root, log, env)
        if reason is None:
            return
        error = _MACHINE_ERROR.search(path.read_text("utf-8", "replace"))
        if error:
            raise EnvironmentFailure(
                f"cannot build {sha[:10]}: {error[0]} (log: {path})"
            )
        raise Unobtainable(f"{sha[:10]} does not build: {reason}", path)

    def _make(
        self, source: Path, root: Path, log: Log, env: Mapping[str, str | None]
    ) -> str | None:
        """Run the commands and copy the files. Return why that failed, if it did.
        Raises EnvironmentFailure if a command takes too long or is killed, because that
        may be the machine's fault.
        """
        deadline = time.monotonic() + self.steps.timeout
        for command in (*self.steps.configure, *self.steps.commands):
            log.write(f"\n$ {command}\n".encode())
            execution = run(
                ["sh", "-c", command],
                unlimited(max(deadline - time.monotonic(), 0.0)),
                source,
                seal=None,
                purpose=Purpose.BUILD,
                env=env,
                log=log,
                stop=self.workspace.stop,
            )
            if execution.ok:
                continue
            first_line = command.strip().splitlines()[0][:80]
            if execution.ending is Ending.TIMED_OUT:
                what = f"took more than {self.steps.timeout:.0f} s and was stopped"
            elif execution.signal is not None or execution.exit_code == 137:
                what = "was killed by a signal"
            else:
                return f"the exit code of `{first_line}` is {execution.exit_code}"
            raise EnvironmentFailure(f"`{first_line}` {what} (log: {log.path})")
        for name in self.steps.copy_:
            if not (source / name).exists():
                return f"the checkout has no {name}"
            with disk_errors(f"copy {name}"):
                _copy(source / name, root / name)
        if not any(root.iterdir()):
            return "the commands put nothing into TRIAGE_OUT"
        return None

    @contextmanager
    def _locked_builder(self) -> Iterator[Path]:
        """Lock the builder. If the last process that used it was killed, it begins
        anew.
        """
        folder = self._builder
        build, temporary = folder / "build", folder / "tmp"
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(".lock")
        with lock_file(lock, fcntl.LOCK_EX, self.workspace.stop):
            if temporary.exists():
                remove_tree(folder)
            for path in (build, temporary):
                path.mkdir(parents=True, exist_ok=True)
            os.utime(folder)
            try:
                yield folder
            finally:
                remove_tree(temporary)


def _copy(source: Path, target: Path) -> None:
    """Copy a file or a folder. Links are copied as links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()
