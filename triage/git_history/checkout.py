"""Check out commits of a user's repository in a private clone, which borrows the
objects of the user's. The user's repository is only read.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from triage.git_history.git_program import GitRefused, run_git
from triage.git_history.repository import Repository
from triage.model.errors import BadInput
from triage.processes.process import Log, StopSignal

_TIMEOUT = 3600.0  # seconds; the first fetch of large submodules is slow


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

        Raises GitRefused if git fails. It names a submodule that cannot be fetched.
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
                self._check_out_submodules()
        except GitRefused:
            unfinished.unlink()
            raise
        unfinished.unlink()

    def _borrow(self) -> None:
        """Create the clone if it is missing, and copy the tags of the user's clone to
        it. It reads the objects in the user's. None of the user's settings of the clone
        is copied, because they can name programs.
        """
        git_dir, theirs = self.folder / ".git", self.repository.common_dir
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)  # addresses of submodules may have a password
        if not (git_dir / "HEAD").is_file():
            form = self.repository.text("rev-parse", "--show-object-format").strip()
            self._git("init", "--quiet", f"--object-format={form}")
            alternates = git_dir / "objects" / "info" / "alternates"
            alternates.write_text(f"{theirs / 'objects'}\n", "utf-8")
        if (theirs / "shallow").exists():
            shutil.copyfile(theirs / "shallow", git_dir / "shallow")
        tags = self.repository.ask(
            "for-each-ref", "--format=%(objectname) %(refname)", "refs/tags"
        )
        (git_dir / "packed-refs").write_bytes(tags)

    def _check_out_submodules(self) -> None:
        for command in ("init", "sync"):  # they refuse dangerous addresses
            self._git("submodule", "--quiet", command)
        for name, path, sha in self._submodules():
            try:
                self._check_out_submodule(name, path, sha)
            except GitRefused as error:
                message = f"the submodule {path} cannot be checked out: {error}"
                raise GitRefused(message) from error

    def _submodules(self) -> Iterator[tuple[str, str, str]]:
        """Yield the name, the path and the commit of each submodule."""
        list_paths = shlex.split("config --file .gitmodules --null --get-regexp")
        listed = self._git(*list_paths, r"^submodule\..*\.path$")
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

    def _git(self, *words: str) -> str:
        """Run git in the private clone and return its output. Raises GitRefused if it
        fails.
        """
        env = {
            "GIT_PROTOCOL_FROM_USER": "0",  # an address is that of the clone
            # If the clone has lost its .git folder, git must not find another one.
            "GIT_CEILING_DIRECTORIES": str(self.folder.parent),
            **self._settings(),
        }
        output = run_git(
            words, self.folder, env, _TIMEOUT, log=self.log, stop=self.stop
        )
        return output.decode("utf-8", "replace")

    def _settings(self) -> dict[str, str]:
        """Return variables with settings that are not stored: the address of the
        repository may have a password. Relative addresses of submodules refer to it,
        and what a partial clone lacks is fetched from it.
        """
        home = self.repository.work_tree or self.repository.common_dir
        remote = self.repository.remote
        address = remote.full if remote else str(home)
        if address.startswith(("./", "../")):
            address = str((home / address).resolve())
        settings = {"remote.origin.url": address, "remote.origin.promisor": "true"}
        first = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
        env = {"GIT_CONFIG_COUNT": str(first + len(settings))}
        for number, (name, value) in enumerate(settings.items(), first):
            env[f"GIT_CONFIG_KEY_{number}"] = name
            env[f"GIT_CONFIG_VALUE_{number}"] = value
        return env
