"""Check out commits of a user's repository in a private clone, which borrows the
objects of the user's. The user's repository is only read.
"""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from triage.git_history.repository import Repository, run_git
from triage.processes.process import StopSignal

_TIMEOUT = 3600.0  # seconds; the first fetch of large submodules is slow


@dataclass(frozen=True)
class Checkout:
    """A private clone of a user's repository, at one commit at a time. No other process
    uses it.
    """

    folder: Path
    repository: Repository
    log: BinaryIO
    stop: StopSignal

    def check_out(self, sha: str, *, submodules: bool) -> None:
        """Check out a commit, and remove files of earlier builds that git does not
        ignore. Submodules borrow objects from the user's clone as well. Raises
        GitRefused if git fails.
        """
        self._create_clone()
        self._git("checkout --detach --force --quiet", sha)
        self._git("clean -ffdq")
        if submodules and (self.folder / ".gitmodules").is_file():
            self._git("submodule --quiet sync --recursive")
            self._git("submodule --quiet update --init --force --recursive")

    def _create_clone(self) -> None:
        """Create the clone if it is missing, and copy the tags of the user's clone to
        it. It reads the objects in the user's. None of the user's settings of the clone
        is copied, because they can name programs.
        """
        git_dir = self.folder / ".git"
        user_git_dir = self.repository.common_dir
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)  # addresses of submodules may have a password
        if not (git_dir / "HEAD").is_file():
            self._git("init --quiet")
            alternates = git_dir / "objects" / "info" / "alternates"
            alternates.write_text(f"{user_git_dir / 'objects'}\n", "utf-8")
        if (user_git_dir / "shallow").exists():
            shutil.copyfile(user_git_dir / "shallow", git_dir / "shallow")
        tags = self.repository.ask(
            "for-each-ref", "--format=%(objectname) %(refname)", "refs/tags"
        )
        (git_dir / "packed-refs").write_bytes(tags)

    def _git(self, command: str, *words: str) -> None:
        """Run git in the private clone. Raises GitRefused if it fails."""
        # Settings that are not stored: the address of the repository may have a
        # password. Relative addresses of submodules refer to it, and what a partial
        # clone lacks is fetched from it.
        home = self.repository.work_tree or self.repository.common_dir
        remote = self.repository.remote
        address = remote.full if remote else str(home)
        if address.startswith(("./", "../")):
            address = str((home / address).resolve())
        settings = {"remote.origin.url": address, "remote.origin.promisor": "true"}
        first = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
        env = {
            "GIT_PROTOCOL_FROM_USER": "0",  # an address is that of the clone
            # If the clone has lost its .git folder, git must not find another one.
            "GIT_CEILING_DIRECTORIES": str(self.folder.parent),
            "GIT_CONFIG_COUNT": str(first + len(settings)),
        }
        for number, (name, value) in enumerate(settings.items(), first):
            env[f"GIT_CONFIG_KEY_{number}"] = name
            env[f"GIT_CONFIG_VALUE_{number}"] = value
        command_line = [*shlex.split(command), *words]
        log = self.log
        stop = self.stop
        run_git(command_line, self.folder, env, _TIMEOUT, log=log, stop=stop)
