"""A git repository that is only read: its work tree, index and references are never touched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from triage.model.errors import BadInput, EnvironmentFailure

if TYPE_CHECKING:  # imported where it is used: it costs every start of the program a seventh of a second
    from git import Repo

_SHA = re.compile(r"[0-9a-f]{4,64}")

# What a user's settings could add to the output of the commands that are parsed.
_SETTINGS = ("log.showSignature=false", "color.ui=never", "core.quotePath=false", "diff.renames=true")


class UnknownCommit(BadInput):
    """A name that stands for no commit of this repository."""


class GitRefused(EnvironmentFailure):
    """A git command failed; the message holds its own words."""


class Repository:
    """Read-only git commands in one repository, found from any folder inside it."""

    def __init__(self, path: Path) -> None:
        """BadInput when `path` is no git repository, EnvironmentFailure when there is no git program."""
        self.path = path
        self._repo = _open(path)
        self.git_dir = Path(self._repo.git_dir)
        self.common_dir = Path(self._repo.common_dir).resolve()
        # Without optional locks a command that only reads does not refresh the index. GIT_DIR is set because a
        # variable inherited from a git hook would lead every command to another repository.
        self._repo.git.update_environment(
            GIT_DIR=str(self.git_dir.resolve()),
            GIT_OPTIONAL_LOCKS="0",
            GIT_TERMINAL_PROMPT="0",
            GIT_NO_LAZY_FETCH="1",
            GIT_NO_REPLACE_OBJECTS="1",
        )

    def ask(self, *words: str, lines: Sequence[str] = ()) -> bytes:
        """What `git WORDS` prints, `lines` on its standard input. GitRefused when it fails."""
        from git.exc import GitCommandError, GitCommandNotFound

        command = ["git", *(part for setting in _SETTINGS for part in ("-c", setting)), *words]
        with TemporaryFile() as given:
            given.write("".join(f"{line}\n" for line in lines).encode())
            given.seek(0)
            try:
                answer = self._repo.git.execute(command, istream=given, stdout_as_string=False, strip_newline_in_stdout=False)
            except GitCommandNotFound as error:
                raise EnvironmentFailure("there is no git program on the PATH") from error
            except GitCommandError as error:
                raise GitRefused(f"git {words[0]} failed in {self.path}: {_said(str(error.stderr))}") from error
        if not isinstance(answer, bytes):
            raise TypeError("git was asked for bytes")
        return answer

    def resolve(self, name: str) -> str:
        """The full sha of the commit that a sha, branch or tag names. UnknownCommit when there is none."""
        if not name or name.startswith("-") or "\0" in name or "\n" in name:
            raise UnknownCommit(f"{name!r} names no commit")
        try:
            return self.ask("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}").decode().split()[-1]
        except GitRefused as error:
            raise self._unknown(name, str(error)) from error

    def _unknown(self, name: str, said: str) -> BadInput:
        if "dubious ownership" in said:
            return BadInput(said)
        if self.is_empty:
            return BadInput(f"the repository {self.path} has no commits yet")
        if "ambiguous" in said:
            return UnknownCommit(f"more than one commit of {self.path} begins with {name}: write more of the sha")
        if _SHA.fullmatch(name):
            return UnknownCommit(f"there is no commit {name} in {self.path}: {self.fetch_advice}")
        near = get_close_matches(name, self.names, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]}?" if near else f": {self.fetch_advice}"
        return UnknownCommit(f"there is no branch, tag or commit {name!r} in {self.path}{hint}")

    @property
    def fetch_advice(self) -> str:
        """The command that may bring a commit that is missing."""
        if self.is_shallow:
            return "it is a shallow clone, which `git fetch --unshallow --tags` completes"
        return "`git fetch --tags` brings what is newer"

    @cached_property
    def names(self) -> list[str]:
        """Branches and tags, as a user writes them."""
        kinds = ("refs/heads", "refs/tags", "refs/remotes")
        return self.ask("for-each-ref", "--format=%(refname:lstrip=2)", *kinds).decode("utf-8", "replace").splitlines()

    @property
    def is_empty(self) -> bool:
        """Whether there is no commit at all."""
        return not self.ask("rev-list", "--max-count=1", "--all")

    @property
    def work_tree(self) -> Path | None:
        """The folder of the checked out files; None in a bare repository."""
        folder = self._repo.working_tree_dir
        return Path(folder).resolve() if folder else None

    @cached_property
    def is_shallow(self) -> bool:
        """Whether the history was cut off when it was cloned."""
        return (self.common_dir / "shallow").exists()

    @cached_property
    def is_partial(self) -> bool:
        """Whether files may be missing, to be fetched one by one when something asks for them."""
        try:
            told = self.ask("config", "--get-regexp", r"^(extensions\.partialclone|remote\..*\.promisor)$")
        except GitRefused:  # no such setting
            return False
        return bool(told.strip())

    @cached_property
    def remote(self) -> str | None:
        """The address of `origin`, else of the first remote, with the user's rewriting applied; None without remotes."""
        names = self.ask("remote").decode("utf-8", "replace").split()
        if not names:
            return None
        return self.ask("remote", "get-url", "origin" if "origin" in names else names[0]).decode("utf-8", "replace").strip()


def _open(path: Path) -> Repo:
    try:
        from git import Repo
        from git.exc import InvalidGitRepositoryError, NoSuchPathError
    except ImportError as error:  # what GitPython raises when it finds no git
        raise EnvironmentFailure(f"git cannot be used: {str(error).splitlines()[0]}") from error
    try:
        return Repo(path, search_parent_directories=True)
    except NoSuchPathError as error:
        raise BadInput(f"there is no folder {path}") from error
    except InvalidGitRepositoryError as error:
        raise BadInput(f"{path} is not in a git repository") from error


def _said(stderr: str) -> str:
    """Git's complaint without the quotes that GitPython puts around it, in one line of at most 400 characters."""
    text = stderr.strip().removeprefix("stderr:").strip().strip("'")
    return " ".join(text.split())[:400] or "it gave no reason"
