"""A git repository that is only read: its work tree, index and references are never touched."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.revision import ChangedFile, Commit

if TYPE_CHECKING:
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


LINE = ("log", "-z", "--reverse", "--first-parent", "--encoding=UTF-8", "--format=%H%x00%P%x00%cI%x00%s")
_FIELDS = 4

# Against the first parent also for merges, whatever the settings say about renames, submodules and external programs.
_CHANGES = (
    "--first-parent",
    "-m",
    "--no-renames",
    "--ignore-submodules=none",
    "--no-ext-diff",
    "--no-textconv",
    "--no-relative",
    "-O/dev/null",
)
_THESE = ("log", "-z", "--no-walk=unsorted", "--stdin", "--format=%x00%H")
SIZES = (*_THESE, *_CHANGES, "--numstat")
NAMES = (*_THESE, *_CHANGES, "--name-only")
POINTERS = (*_THESE, *_CHANGES, "--no-abbrev", "--raw")

_COUNTED = re.compile(r"(\d+|-)\t(\d+|-)\t(.*)", re.DOTALL)


def read_line(text: str) -> list[Commit]:
    """The commits of what LINE prints, in its order. ValueError when it was cut off."""
    fields = text.split("\0")
    if len(fields) % _FIELDS != 1 or fields[-1]:
        raise ValueError("the log ends within a commit")
    shas, parents, dates, subjects = (fields[first:-1:_FIELDS] for first in range(_FIELDS))
    return [
        Commit(sha, parent.partition(" ")[0] or None, date, subject)
        for sha, parent, date, subject in zip(shas, parents, dates, subjects, strict=True)
    ]


def write_line(commits: Iterable[Commit]) -> str:
    """The inverse of `read_line`; of the parents only the first is kept."""
    return "".join(f"{one.sha}\0{one.parent or ''}\0{one.date}\0{one.subject}\0" for one in commits)


def read_sizes(text: str) -> dict[str, tuple[ChangedFile, ...]]:
    """The changed files by commit of what SIZES prints. A renamed file is one removed and one added: both folders
    say what a commit is about.
    """
    return {sha: tuple(_counted(entries)) for sha, entries in _blocks(text)}


def read_names(text: str) -> dict[str, tuple[ChangedFile, ...]]:
    """The changed files by commit of what NAMES prints, their sizes unknown and told as 0."""
    return {sha: tuple(ChangedFile(path, 0, 0) for path in entries) for sha, entries in _blocks(text)}


def read_pointers(text: str) -> dict[str, list[tuple[str, str, str, str, str]]]:
    """By commit of what POINTERS prints: (path, mode before, mode after, object before, object after)."""
    found: dict[str, list[tuple[str, str, str, str, str]]] = {}
    for sha, entries in _blocks(text):
        words = iter(entries)
        for word in words:
            old_mode, new_mode, old, new, _ = word.removeprefix(":").split(" ")
            found.setdefault(sha, []).append((next(words), old_mode, new_mode, old, new))
    return found


def _counted(entries: Sequence[str]) -> Iterator[ChangedFile]:
    for word in entries:
        found = _COUNTED.fullmatch(word)
        if found is None:
            raise ValueError(f"not a line of --numstat: {word!r}")
        added, removed, path = found.groups()
        yield ChangedFile(path, _count(added), _count(removed))


def _count(word: str) -> int:
    return 0 if word == "-" else int(word)


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each commit's sha and the words that follow it. Only an empty word begins a commit: a file may be named like a
    sha, but none has an empty name.
    """
    block: list[str] = []
    for word in (*text.split("\0"), ""):
        if word:
            block.append(word.removeprefix("\n"))  # the line break stands before a commit's first change
        elif block:
            yield block[0], block[1:]
            block = []
