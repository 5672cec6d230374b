"""A source that builds commits with a user's commands."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from triage.git_history.checkout import Checkout
from triage.git_history.repository import Repository
from triage.git_history.timeline import Timeline
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.fields import REQUIRED, Duration, file_key
from triage.processes.containment import Purpose
from triage.processes.process import run, unlimited
from triage.recipes.document import Texts, Variables
from triage.toolchains.home import (
    KeptKind,
    Workspace,
    disk_errors,
    lock_file,
    remove_tree,
    save_file,
)
from triage.toolchains.install import fill_folder, is_intact
from triage.toolchains.sources import Build

_BUILD_SECONDS = 3600.0  # that a build counts for


@dataclass(frozen=True, kw_only=True)
class BuildSection:
    """Builds from source by shell commands."""

    commands: Texts = file_key(
        REQUIRED,
        "Build and put the toolchain into $TRIAGE_OUT.",
        'cp -r my_compiler "$TRIAGE_OUT"',
    )
    submodules: bool = file_key(
        False, "Whether the build needs the submodules, which may be fetched."
    )
    timeout: Duration = file_key(4 * 3600.0, "For all commands of one commit together.")
    env: Variables = file_key(
        (), "Further variables: names to pass on, or names with values."
    )


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

    def builds(self, timeline: Timeline, indices: range) -> list[Build]:
        """Return one build for each commit."""
        builds = []
        for index in indices:
            commit, seconds = timeline.commits[index], _BUILD_SECONDS
            folder = self._folder_name(commit.sha)
            if is_intact(self.workspace.home.toolchains / folder):
                seconds = 0.0
            revision = replace(commit.revision, name=commit.sha)
            obtain = partial(self._obtain, commit.sha)
            builds.append(Build("builds", revision, index, seconds, obtain))
        return builds

    def _obtain(self, sha: str, _: str | None) -> Path:
        """Return the folder of a commit's build. Build the commit if it is not
        installed. It has all packages. A failure is stored, and the same steps are not
        tried again.
        """
        name = self._folder_name(sha)
        log = self.workspace.home.folder(KeptKind.LOGS) / f"{name}.log"
        failed = log.with_suffix(".failed")
        if failed.exists():
            raise Unobtainable(failed.read_text("utf-8"), log)

        def fill(root: Path, _: Path) -> None:
            with disk_errors("write a log"):
                log.parent.mkdir(parents=True, exist_ok=True)
            with (
                log.open("wb", buffering=0) as output,
                self._locked_builder() as folder,
            ):
                log.chmod(0o600)  # what programs print may have a password in it
                self._make(sha, root, folder, output)

        try:
            return fill_folder(self.workspace, name, f"build {sha[:10]}", fill)
        except Unobtainable as error:
            save_file(failed, error.reason, "write a log")
            raise

    def _folder_name(self, sha: str) -> str:
        """Return the name of the folder of a commit's build. Two builds with different
        steps are two toolchains.
        """
        steps = repr(replace(self.steps, timeout=0.0))
        return f"build-{self.project}-{sha[:16]}-{_digest(steps)}"

    def _make(self, sha: str, root: Path, folder: Path, log: BinaryIO) -> None:
        """Check out a commit and run the commands. Raises Unobtainable if one fails,
        and EnvironmentFailure if a command takes too long or is killed, because that
        may be the machine's fault, as a full disk is.
        """
        source, path = folder / "source", Path(log.name)
        checkout = Checkout(source, self.repository, log, self.workspace.stop)
        checkout.check_out(sha, submodules=self.steps.submodules)
        env = {
            "LC_ALL": "C.UTF-8",
            "GIT_TERMINAL_PROMPT": "0",
            **dict(self.steps.env),
            "TRIAGE_SOURCE": str(source),
            "TRIAGE_BUILD": str(folder / "build"),
            # compilers that are killed leave files there
            "TMPDIR": str(folder / "tmp"),
            "TRIAGE_OUT": str(root),
            "TRIAGE_COMMIT": sha,
            "TRIAGE_JOBS": str(len(os.sched_getaffinity(0))),
        }
        deadline = time.monotonic() + self.steps.timeout
        for command in self.steps.commands:
            log.write(f"\n$ {command}\n".encode())
            limits = unlimited(max(deadline - time.monotonic(), 0.0))
            execution = run(
                ["sh", "-c", command],
                limits,
                source,
                seal=None,
                purpose=Purpose.BUILD,
                env=env,
                stop=self.workspace.stop,
                on_stdout=log.write,
                on_stderr=log.write,
            )
            if not execution.ok:
                what = f"`{command.strip().splitlines()[0][:80]}`: "
                what += execution.ending_text(limits)
                output = execution.stdout.text + execution.stderr.text
                is_full = "No space left on device" in output
                if is_full or execution.exit_code in (None, 137):
                    raise EnvironmentFailure(f"{what} (log: {path})")
                raise Unobtainable(f"{sha[:10]} does not build: {what}", path)
        if not any(root.iterdir()):
            raise Unobtainable("the commands put nothing into TRIAGE_OUT", path)

    @contextmanager
    def _locked_builder(self) -> Iterator[Path]:
        """Lock the folder with the private clone and the build folder. If the last
        process that used it was killed, it begins anew.
        """
        mark = _digest(str(self.repository.common_dir))
        folder = self.workspace.home.builders / mark
        temporary = folder / "tmp"
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(f".{mark}.lock")
        with lock_file(lock, fcntl.LOCK_EX, self.workspace.stop):
            if temporary.exists():
                remove_tree(folder)
            for path in (folder / "build", temporary):
                path.mkdir(parents=True, exist_ok=True)
            os.utime(folder)
            try:
                yield folder
            finally:
                remove_tree(temporary)


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()
