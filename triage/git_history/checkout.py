"""Check out commits of a user's repository, which is only read, in a private clone that
borrows its objects.
"""

from __future__ import annotations

import os
import re
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
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    # The submodules of a submodule borrow from those of the clone that the submodule
    # borrows from.
    "submodule.alternateLocation=superproject",
    "submodule.alternateErrorStrategy=info",
    "http.lowSpeedLimit=1",  # a server that sends nothing for 30 s has failed
    "http.lowSpeedTime=30",
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
        """Check out a commit, with its submodules, and remove files of earlier builds
        that git does not ignore.

        Submodules are borrowed from the user's clone too. Those within submodules are
        left out if the user's clone, which has submodules, lacks them.
        EnvironmentFailure when git fails, for example because a submodule cannot be
        fetched.
        """
        # stays when git is killed
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
        """Create the clone if it is missing, and give it the objects, tags and settings
        that the user's has now.
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
            }
            settings |= {
                "remote.origin.promisor": "true",
                "remote.origin.partialclonefilter": "blob:none",
            }
        for name, value in settings.items():
            self._git("config", name, value)

    def _update_submodules(self) -> None:
        self._git("submodule", "--quiet", "init")  # refuses dangerous addresses
        listed = self._git(
            "config",
            "--file",
            ".gitmodules",
            "--null",
            "--get-regexp",
            _SUBMODULE_PATHS,
        )
        deep: list[str] | None = None
        for key, _, path in (
            entry.partition("\n") for entry in listed.split("\0") if entry
        ):
            name = key.removeprefix("submodule.").removesuffix(".path")
            theirs, mine = (
                folder / "modules" / name
                for folder in (self.repository.common_dir, self.folder / ".git")
            )
            if ".." in PurePosixPath(name).parts or not (theirs / "objects").is_dir():
                continue
            if deep or (theirs / "modules").is_dir():
                deep = ["--recursive"]
            else:
                deep = []
            if not mine.exists():
                mine.parent.mkdir(parents=True, exist_ok=True)
                words = (
                    "--quiet",
                    "--no-checkout",
                    "--shared",
                    "--separate-git-dir",
                    str(mine),
                    str(theirs),
                    path,
                )
                self._git("clone", *words)
        # commits that the user's clone lacks come from the submodule's own address
        self._git("submodule", "--quiet", "sync")
        if deep is None:
            deep = ["--recursive"]
        self._git("submodule", "--quiet", "update", "--init", "--force", *deep)
        self._git("submodule", "--quiet", "foreach", *deep, "git clean -ffdq")

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
        """Run git and return the beginning of what it printed. GitFailed when its exit
        code is not 0.
        """
        command = [
            "git",
            *(part for setting in _SETTINGS for part in ("-c", setting)),
            *words,
        ]
        self.log.write(f"$ git {' '.join(words)}\n".encode())
        limits, env = unlimited(_TIMEOUT), self._environment()
        execution = run(
            command,
            limits,
            self.folder,
            purpose=Purpose.GIT,
            env=env,
            log=self.log,
            stop=self.stop,
        )
        if execution.ending is Ending.NOT_STARTED:
            raise EnvironmentFailure("there is no git program on the PATH")
        if execution.ok:
            return execution.stdout.head
        printed = (
            (execution.stderr.tail or execution.stderr.head)
            .replace("\r", "\n")
            .strip()
            .splitlines()
        )
        reasons = [
            line for line in printed if line.startswith(("fatal:", "error:"))
        ] or printed[-1:]
        reason = _USER.sub("", "; ".join(dict.fromkeys(reasons))) or str(
            execution.status
        )
        raise GitFailed(f"git {words[0]} failed: {reason[:500]} (log: {self.log.path})")

    def _environment(self) -> dict[str, str | None]:
        """The user's settings of this repository that a fetch needs; git never asks for
        a password.
        """
        try:
            listed = self.repository.text(
                "config", "--local", "--null", "--get-regexp", _SHARED_SETTINGS
            )
        except GitRefused:  # there is none
            listed = ""
        settings = [entry.partition("\n")[::2] for entry in listed.split("\0") if entry]
        env: dict[str, str | None] = {"LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0"}
        # without its .git folder, no other repository is changed
        env["GIT_CEILING_DIRECTORIES"] = str(self.folder.parent)
        if not {
            "GIT_SSH",
            "GIT_SSH_COMMAND",
        } & os.environ.keys() and "core.sshcommand" not in dict(settings):
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
