"""Check out commits of a user's repository in a private clone, which borrows the
objects of the user's. The user's repository is only read.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from triage.git_history.repository import GitRefused, Repository
from triage.model.errors import EnvironmentFailure
from triage.model.execution import Ending
from triage.processes.containment import Purpose
from triage.processes.process import Log, StopSignal, run, unlimited

_TIMEOUT = 3600.0  # seconds; the first fetch of large submodules is slow
# Submodules inside of submodules borrow objects, too. A server that sends nothing for
# 30 s has failed.
_SETTINGS = shlex.split(
    "-c core.hooksPath=/dev/null -c gc.auto=0 -c maintenance.auto=false "
    "-c submodule.recurse=false -c submodule.alternateLocation=superproject "
    "-c submodule.alternateErrorStrategy=info -c http.lowSpeedLimit=1 "
    "-c http.lowSpeedTime=30"
)
_SHARED_SETTINGS = r"^(url|http|credential|protocol|filter)\.|^core\.sshcommand$"
_SUBMODULE_PATHS = r"^submodule\..*\.path$"
_USER = re.compile(r"(?<=://)[^/@\s]*@")  # a user name or a token in an address


class GitFailed(EnvironmentFailure):
    """A git command failed in the private clone."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A private clone of a user's repository, at one commit at a time. No other process
    uses it.
    """

    folder: Path
    repository: Repository
    log: Log
    stop: StopSignal

    def check_out(self, sha: str, *, submodules: bool) -> None:
        """Check out a commit, and remove files of earlier builds that git does not
        ignore.

        Submodules borrow objects from the user's clone as well. If the user's clone has
        submodules, but none inside of them, these are not checked out.

        Raises GitFailed if git fails, for example because it cannot fetch a submodule.
        """
        # This file stays if git is killed.
        unfinished = self.folder.with_name(f".{self.folder.name}-unfinished")
        if unfinished.exists():
            shutil.rmtree(self.folder, ignore_errors=True)
        unfinished.touch()
        try:
            self._borrow()
            self._git("checkout", "--detach", "--force", "--quiet", sha)
            self._git("clean", "-ffdq")
            if submodules and (self.folder / ".gitmodules").is_file():
                self._update_submodules()
        except GitFailed:
            unfinished.unlink()
            raise
        unfinished.unlink()

    def _borrow(self) -> None:
        """Create the clone if it is missing, and copy tags and settings of the user's
        clone to it. It reads the objects in the user's.
        """
        git_dir = self.folder / ".git"
        if not (git_dir / "HEAD").is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            form = self.repository.text("rev-parse", "--show-object-format").strip()
            self._git("init", "--quiet", f"--object-format={form}")
        theirs = self.repository.common_dir
        _write(git_dir / "objects" / "info" / "alternates", [str(theirs / "objects")])
        if (theirs / "shallow").is_file():
            (git_dir / "shallow").write_bytes((theirs / "shallow").read_bytes())
        tags = self.repository.text(
            "for-each-ref", "--format=%(objectname) %(refname)", "refs/tags"
        )
        _write(git_dir / "packed-refs", tags.splitlines())
        settings = {"remote.origin.url": self._address}
        if self.repository.is_partial:
            settings |= {
                "core.repositoryformatversion": "1",
                "extensions.partialClone": "origin",
                "remote.origin.promisor": "true",
                "remote.origin.partialclonefilter": "blob:none",
            }
        for name, value in settings.items():
            self._git("config", name, value)

    def _update_submodules(self) -> None:
        self._git("submodule", "--quiet", "init")  # refuses dangerous addresses
        list_paths = shlex.split("config --file .gitmodules --null --get-regexp")
        listed = self._git(*list_paths, _SUBMODULE_PATHS)
        borrows = has_nested = False
        for entry in filter(None, listed.split("\0")):
            key, _, path = entry.partition("\n")
            name = key.removeprefix("submodule.").removesuffix(".path")
            theirs = self.repository.common_dir / "modules" / name
            mine = self.folder / ".git" / "modules" / name
            if ".." in PurePosixPath(name).parts or not (theirs / "objects").is_dir():
                continue
            borrows = True
            has_nested = has_nested or (theirs / "modules").is_dir()
            if not mine.exists():
                mine.parent.mkdir(parents=True, exist_ok=True)
                clone = shlex.split("clone --quiet --no-checkout --shared")
                self._git(*clone, "--separate-git-dir", str(mine), str(theirs), path)
        # Commits that the user's clone lacks come from the submodule's own address.
        self._git("submodule", "--quiet", "sync")
        recursive = [] if borrows and not has_nested else ["--recursive"]
        self._git("submodule", "--quiet", "update", "--init", "--force", *recursive)
        self._git("submodule", "--quiet", "foreach", *recursive, "git clean -ffdq")

    @property
    def _address(self) -> str:
        """The address of the repository, which relative addresses of submodules refer
        to.
        """
        home = self.repository.work_tree or self.repository.common_dir
        remote = self.repository.remote
        if remote and remote.startswith(("./", "../")):
            return str((home / remote).resolve())
        return remote or str(home)

    def _git(self, *words: str) -> str:
        """Run git and return the beginning of what it printed. Raises GitFailed if its
        exit code is not 0.
        """
        self.log.write(f"$ git {' '.join(words)}\n".encode())
        execution = run(
            ["git", *_SETTINGS, *words],
            unlimited(_TIMEOUT),
            self.folder,
            purpose=Purpose.GIT,
            env=self._environment(),
            log=self.log,
            stop=self.stop,
        )
        if execution.ending is Ending.NOT_STARTED:
            raise EnvironmentFailure("there is no git program on the PATH")
        if execution.ok:
            return execution.stdout.head
        text = execution.stderr.tail or execution.stderr.head
        lines = text.replace("\r", "\n").strip().splitlines()
        errors = [line for line in lines if line.startswith(("fatal:", "error:"))]
        reason = "; ".join(dict.fromkeys(errors or lines[-1:]))
        reason = _USER.sub("", reason) or str(execution.status)
        raise GitFailed(f"git {words[0]} failed: {reason[:500]} (log: {self.log.path})")

    def _environment(self) -> dict[str, str | None]:
        """Return variables with the user's settings of this repository that a fetch
        needs. Git never asks for a password.
        """
        try:
            listed = self.repository.text(
                "config", "--local", "--null", "--get-regexp", _SHARED_SETTINGS
            )
        except GitRefused:  # there is none
            listed = ""
        settings = [entry.partition("\n")[::2] for entry in listed.split("\0") if entry]
        env: dict[str, str | None] = {"LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0"}
        # If the clone has lost its .git folder, git must not find another repository.
        env["GIT_CEILING_DIRECTORIES"] = str(self.folder.parent)
        chooses_ssh = not {"GIT_SSH", "GIT_SSH_COMMAND"}.isdisjoint(os.environ)
        if not chooses_ssh and "core.sshcommand" not in dict(settings):
            env["GIT_SSH_COMMAND"] = (
                "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=10"
            )
        count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
        for number, (name, value) in enumerate(settings, count):
            env |= {
                f"GIT_CONFIG_KEY_{number}": name,
                f"GIT_CONFIG_VALUE_{number}": value,
            }
        return env | {"GIT_CONFIG_COUNT": str(count + len(settings))}


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
