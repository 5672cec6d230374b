"""Read-only git commands, and parsers of their output. Work tree, index and references are never changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile

from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.revision import ChangedFile, Commit

_SHA = re.compile(r"[0-9a-f]{4,64}")

# These override settings of the user that change the output of git.
_SETTINGS = ("log.showSignature=false", "color.ui=never", "core.quotePath=false", "diff.renames=true")


class UnknownCommit(BadInput):
    """A name of no commit in this repository."""


class GitRefused(EnvironmentFailure):
    """A git command failed; the message contains its own."""


class Repository:
    """Read-only git commands in one repository, found from any folder inside it."""

    def __init__(self, path: Path) -> None:
        """BadInput when `path` is not a git repository, EnvironmentFailure when there is no git program."""
        try:
            from git import Repo
            from git.exc import InvalidGitRepositoryError, NoSuchPathError
        except ImportError as error:  # GitPython found no git program
            raise EnvironmentFailure(f"git cannot be used: {str(error).splitlines()[0]}") from error
        try:
            self._repo = Repo(path, search_parent_directories=True)
        except NoSuchPathError as error:
            raise BadInput(f"there is no folder {path}") from error
        except InvalidGitRepositoryError as error:
            raise BadInput(f"{path} is not in a git repository") from error
        self.path = path
        self.git_dir = Path(self._repo.git_dir)
        self.common_dir = Path(self._repo.common_dir).resolve()
        # Without optional locks git does not refresh the index. GIT_DIR is set because a variable inherited from a git hook
        # would lead every command to another repository.
        self._repo.git.update_environment(
            GIT_DIR=str(self.git_dir.resolve()),
            GIT_OPTIONAL_LOCKS="0",
            GIT_TERMINAL_PROMPT="0",
            GIT_NO_LAZY_FETCH="1",
            GIT_NO_REPLACE_OBJECTS="1",
        )

    def ask(self, *words: str, lines: Sequence[str] = ()) -> bytes:
        """Return the output of `git WORDS` with `lines` as its standard input. GitRefused when it fails."""
        from git.exc import GitCommandNotFound

        command = ["git", *(part for setting in _SETTINGS for part in ("-c", setting)), *words]
        with TemporaryFile() as source:
            source.write("".join(f"{line}\n" for line in lines).encode())
            source.seek(0)
            try:
                running = self._repo.git.execute(command, istream=source, as_process=True)
            except GitCommandNotFound as error:
                raise EnvironmentFailure("there is no git program on the PATH") from error
            assert running.proc  # killed when `running` goes
            answer, message = running.proc.communicate()
        if running.proc.returncode != 0:
            reason = " ".join(message.decode("utf-8", "replace").split())[:400] or "git gave no reason"
            raise GitRefused(f"git {words[0]} failed in {self.path}: {reason}")
        assert isinstance(answer, bytes)
        return answer

    def resolve(self, name: str) -> str:
        """Return the full sha of the commit that a sha, branch or tag names. UnknownCommit when there is none."""
        if not name or name.startswith("-") or "\0" in name or "\n" in name:
            raise UnknownCommit(f"{name!r} is not the name of a commit")
        try:
            return self.ask("rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}").decode().split()[-1]
        except GitRefused as error:
            if "dubious ownership" in str(error):
                raise BadInput(str(error)) from error
            if not self.ask("rev-list", "--max-count=1", "--all"):
                raise BadInput(f"the repository {self.path} has no commits yet") from error
            kinds = ("refs/heads", "refs/tags", "refs/remotes")
            names = self.ask("for-each-ref", "--format=%(refname:lstrip=2)", *kinds).decode("utf-8", "replace").splitlines()
            near = [] if _SHA.fullmatch(name) else get_close_matches(name, names, n=1, cutoff=0.6)
            hint = f"; did you mean {near[0]}?" if near else f": {self.fetch_advice}"
            raise UnknownCommit(f"there is no branch, tag or commit {name!r} in {self.path}{hint}") from error

    @property
    def fetch_advice(self) -> str:
        """The command that may fetch a missing commit."""
        if self.is_shallow:
            return "this is a shallow clone; complete it with `git fetch --unshallow --tags`"
        return "fetch newer commits with `git fetch --tags`"

    @property
    def work_tree(self) -> Path | None:
        """The folder of the checked-out files, unless the repository is bare."""
        folder = self._repo.working_tree_dir
        return Path(folder).resolve() if folder else None

    @cached_property
    def is_shallow(self) -> bool:
        """Whether the clone has only the newest part of the history."""
        return (self.common_dir / "shallow").exists()

    @cached_property
    def is_partial(self) -> bool:
        """Whether the contents of files may be missing; git fetches them one by one when they are needed."""
        try:
            settings = self.ask("config", "--get-regexp", r"^(extensions\.partialclone|remote\..*\.promisor)$")
        except GitRefused:  # no such setting
            return False
        return bool(settings.strip())

    @cached_property
    def remote(self) -> str | None:
        """The address of `origin`, else of the first remote, rewritten by the user's settings."""
        names = self.ask("remote").decode("utf-8", "replace").split()
        if not names:
            return None
        return self.ask("remote", "get-url", "origin" if "origin" in names else names[0]).decode("utf-8", "replace").strip()


LINE = ("log", "-z", "--reverse", "--first-parent", "--encoding=UTF-8", "--format=%H%x00%P%x00%cI%x00%s")
_FIELDS = 4

# Compare merges with their first parent too, and ignore settings of renames, submodules and external programs.
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
MESSAGES = ("log", "-z", "--no-walk=unsorted", "--stdin", "--encoding=UTF-8", "--format=%H%x00%aI%x00%B")


def read_line(text: str) -> list[Commit]:
    """Return the commits in the output of LINE, in its order. ValueError when it is incomplete."""
    fields = text.split("\0")
    if len(fields) % _FIELDS != 1 or fields[-1]:
        raise ValueError("the log ends within a commit")
    shas, parents, dates, subjects = (fields[first:-1:_FIELDS] for first in range(_FIELDS))
    return [
        Commit(sha, parent.partition(" ")[0] or None, date, subject)
        for sha, parent, date, subject in zip(shas, parents, dates, subjects, strict=True)
    ]


def read_sizes(text: str) -> dict[str, tuple[ChangedFile, ...]]:
    """Return the changed files by commit in the output of SIZES.

    A renamed file is one removed and one added, because both folders show what a commit is about.
    """
    sizes: dict[str, tuple[ChangedFile, ...]] = {}
    for sha, entries in read_blocks(text):
        rows = (entry.split("\t", 2) for entry in entries)
        # The sizes of a binary file are written as `-`.
        sizes[sha] = tuple(
            ChangedFile(path, int(added.strip("-") or 0), int(removed.strip("-") or 0)) for added, removed, path in rows
        )
    return sizes


def read_blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each commit's sha and the words that follow it in the output of SIZES, NAMES or POINTERS.

    An empty word begins a commit: a file may have a name like a sha, but never an empty name.
    """
    block: list[str] = []
    for word in (*text.split("\0"), ""):
        if word:
            block.append(word.removeprefix("\n"))  # the line break stands before a commit's first change
        elif block:
            yield block[0], block[1:]
            block = []
