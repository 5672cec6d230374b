"""Check out commits of a user's repository in a private clone, which borrows the
objects of the user's. The user's repository is only read.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from triage.git_history.git_program import git_command
from triage.git_history.repository import Repository
from triage.model.address import without_secrets
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.execution import Ending
from triage.model.foreign_file import read_bytes
from triage.processes.containment import Purpose
from triage.processes.process import Log, StopSignal, run, unlimited

_TIMEOUT = 3600.0  # seconds; the first fetch of large submodules is slow
# Submodules that are fetched borrow objects, too. A server that sends nothing for 30 s
# has failed.
_SETTINGS = shlex.split(
    "-c submodule.alternateLocation=superproject "
    "-c submodule.alternateErrorStrategy=info -c http.lowSpeedLimit=1 "
    "-c http.lowSpeedTime=30"
)
# Git never asks for a password. An address is that of the clone, so that it may not
# name a program or a folder of this machine.
_ENV = {
    "LC_ALL": "C.UTF-8",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PROTOCOL_FROM_USER": "0",
}
_LARGEST_SHALLOW = 16 << 20  # bytes
_NOTHING: Mapping[str, str] = {}
_PARTIAL = {
    "core.repositoryformatversion": "1",
    "extensions.partialClone": "origin",
    "remote.origin.promisor": "true",
    "remote.origin.partialclonefilter": "blob:none",
}
_SUBMODULE_PATHS = r"^submodule\..*\.path$"


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

        Submodules borrow objects from the user's clone as well. Those inside of one
        that the user's clone has are checked out only if it has them, too.

        Raises GitFailed if git fails. It names a submodule that cannot be fetched.
        """
        # This file stays if git is killed.
        unfinished = self.folder.with_name(f".{self.folder.name}-unfinished")
        if unfinished.exists():
            shutil.rmtree(self.folder, ignore_errors=True)
        unfinished.touch()
        try:
            self._borrow()
            checkout = ("checkout", "--detach", "--force", "--quiet", sha)
            self._git(*checkout, env=self._origin)
            self._git("clean", "-ffdq")
            if submodules and (self.folder / ".gitmodules").is_file():
                self._check_out_submodules()
        except GitFailed:
            unfinished.unlink()
            raise
        unfinished.unlink()

    def _borrow(self) -> None:
        """Create the clone if it is missing, and copy the tags of the user's clone to
        it. It reads the objects in the user's. None of the user's settings of the clone
        is copied, because they can name programs.
        """
        git_dir = self.folder / ".git"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)  # addresses of submodules may have a password
        if not (git_dir / "HEAD").is_file():
            form = self.repository.text("rev-parse", "--show-object-format").strip()
            self._git("init", "--quiet", f"--object-format={form}")
        theirs = self.repository.common_dir
        _write(git_dir / "objects" / "info" / "alternates", [str(theirs / "objects")])
        if (theirs / "shallow").exists():
            try:
                shallow = read_bytes(theirs / "shallow", _LARGEST_SHALLOW)
            except OSError as error:
                raise GitFailed(f"cannot read {theirs / 'shallow'}: {error}") from error
            (git_dir / "shallow").write_bytes(shallow)
        tags = self.repository.text(
            "for-each-ref", "--format=%(objectname) %(refname)", "refs/tags"
        )
        _write(git_dir / "packed-refs", tags.splitlines())
        if self.repository.is_partial:
            for name, value in _PARTIAL.items():
                self._git("config", name, value)

    def _check_out_submodules(self) -> None:
        for command in ("init", "sync"):  # they refuse dangerous addresses
            self._git("submodule", "--quiet", command, env=self._origin)
        for name, path, sha in self._submodules():
            try:
                self._check_out_submodule(name, path, sha)
            except GitFailed as error:
                message = f"the submodule {path} cannot be checked out: {error}"
                raise GitFailed(message) from error

    def _submodules(self) -> Iterator[tuple[str, str, str]]:
        """Yield the name, the path and the commit of each submodule."""
        list_paths = shlex.split("config --file .gitmodules --null --get-regexp")
        listed = self._git(*list_paths, _SUBMODULE_PATHS)
        for entry in filter(None, listed.split("\0")):
            key, _, path = entry.partition("\n")
            name = key.removeprefix("submodule.").removesuffix(".path")
            pinned = self._git("ls-tree", "-z", "HEAD", "--", path).split()
            if pinned[1:2] == ["commit"] and ".." not in PurePosixPath(name).parts:
                yield name, path, pinned[2]

    def _check_out_submodule(self, name: str, path: str, sha: str) -> None:
        """Check out a submodule. Its commit comes from the user's clone if that has it,
        and otherwise from the submodule's own address.
        """
        theirs, mine = self.repository.common_dir / "modules" / name, self.folder / path
        try:
            repository = Repository(theirs)
            repository.resolve(sha)
        except BadInput:
            update = shlex.split("submodule --quiet update --init --force --recursive")
            self._git(*update, "--", path)
            return
        if (mine / ".git").is_file():  # of a commit that was fetched
            shutil.rmtree(mine)
        inside = replace(self, folder=mine, repository=repository)
        inside.check_out(sha, submodules=(theirs / "modules").is_dir())

    @property
    def _origin(self) -> dict[str, str]:
        """Variables with the address of the repository, which relative addresses of
        submodules refer to. It may have a password, so it is not stored.
        """
        home = self.repository.work_tree or self.repository.common_dir
        remote = self.repository.remote
        address = remote.full if remote else str(home)
        if address.startswith(("./", "../")):
            address = str((home / address).resolve())
        count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
        return {
            "GIT_CONFIG_COUNT": str(count + 1),
            f"GIT_CONFIG_KEY_{count}": "remote.origin.url",
            f"GIT_CONFIG_VALUE_{count}": address,
        }

    def _git(self, *words: str, env: Mapping[str, str] = _NOTHING) -> str:
        """Run git and return the beginning of what it printed. Raises GitFailed if its
        exit code is not 0.
        """
        self.log.write(f"$ git {' '.join(words)}\n".encode())
        execution = run(
            git_command(*_SETTINGS, *words),
            unlimited(_TIMEOUT),
            self.folder,
            seal=None,
            purpose=Purpose.GIT,
            # If the clone has lost its .git folder, git must not find another one.
            env={**_ENV, "GIT_CEILING_DIRECTORIES": str(self.folder.parent), **env},
            stop=self.stop,
        )
        if execution.ending is Ending.NOT_STARTED:
            raise EnvironmentFailure("there is no git program on the PATH")
        printed = without_secrets(f"{execution.stdout.text}{execution.stderr.text}")
        self.log.write(printed.encode())
        if execution.ok:
            return execution.stdout.head
        text = execution.stderr.tail or execution.stderr.head
        lines = text.replace("\r", "\n").strip().splitlines()
        errors = [line for line in lines if line.startswith(("fatal:", "error:"))]
        reason = "; ".join(dict.fromkeys(errors or lines[-1:]))
        reason = without_secrets(reason) or str(execution.status)
        raise GitFailed(f"git {words[0]} failed: {reason[:500]} (log: {self.log.path})")


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
