"""Read-only git commands, and parsers of their output. Work tree, index and references
are never changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

from triage.model.errors import BadInput, EnvironmentFailure
from triage.processes.containment import Purpose, ask

_SHA = re.compile(r"[0-9a-f]{4,64}")

# These override settings of the user that change the output of git.
_SETTINGS = (
    "log.showSignature=false",
    "color.ui=never",
    "core.quotePath=false",
    "diff.renames=true",
)


class UnknownCommit(BadInput):
    """A name of no commit in this repository."""


class GitRefused(EnvironmentFailure):
    """A git command failed; the message contains its own."""


class Repository:
    """Read-only git commands in one repository, found from any folder inside it."""

    def __init__(self, path: Path) -> None:
        """Find the repository. Raises BadInput when `path` is not in one, and
        EnvironmentFailure when git is not installed.
        """
        try:
            from git import Repo
            from git.exc import InvalidGitRepositoryError, NoSuchPathError
        except ImportError as error:  # GitPython found no git program
            raise EnvironmentFailure(
                f"git cannot be used: {str(error).splitlines()[0]}"
            ) from error
        try:
            self._repo = Repo(path, search_parent_directories=True)
        except NoSuchPathError as error:
            raise BadInput(f"there is no folder {path}") from error
        except InvalidGitRepositoryError as error:
            raise BadInput(f"{path} is not in a git repository") from error
        self.path = path
        self.git_dir = Path(self._repo.git_dir)
        self.common_dir = Path(self._repo.common_dir).resolve()
        # Without optional locks git does not refresh the index. GIT_DIR is set because
        # a variable inherited from a git hook would lead every command to another
        # repository.
        self._env = {
            "GIT_DIR": str(self.git_dir.resolve()),
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "LC_ALL": "C",
        }

    def ask(self, *words: str, lines: Sequence[str] = ()) -> bytes:
        """Return the output of `git WORDS` with `lines` as its standard input.
        GitRefused when it fails.
        """
        settings = (part for setting in _SETTINGS for part in ("-c", setting))
        data = "".join(f"{line}\n" for line in lines).encode()
        try:
            done = ask(
                ["git", *settings, *words],
                data,
                cwd=Path(self._repo.working_dir),
                purpose=Purpose.GIT,
                env=self._env,
            )
        except FileNotFoundError as error:
            raise EnvironmentFailure("there is no git program on the PATH") from error
        if done.returncode:
            printed = done.stderr.decode("utf-8", "replace")
            reason = " ".join(printed.split())[:400] or "git gave no reason"
            raise GitRefused(f"git {words[0]} failed in {self.path}: {reason}")
        return done.stdout

    def text(self, *words: str, lines: Sequence[str] = ()) -> str:
        return self.ask(*words, lines=lines).decode("utf-8", "replace")

    def changes(
        self, shas: Sequence[str], how: str, *paths: str
    ) -> Iterator[tuple[str, list[str]]]:
        """Yield commits with the words that `git log` prints about the files that they
        changed against their first parent.

        how: the option of git log, such as `--numstat`; paths: leave out other files.
        """
        block: list[str] = []
        # An empty word begins a commit: a file may have a name like a sha, but never an
        # empty name.
        for word in (
            *self.text(*_CHANGES, how, "--", *paths, lines=shas).split("\0"),
            "",
        ):
            if word:
                # the line break stands before a commit's first change
                block.append(word.removeprefix("\n"))
            elif block:
                yield block[0], block[1:]
                block = []

    def resolve(self, name: str) -> str:
        """Return the full sha of the commit that a sha, branch or tag names.
        UnknownCommit when there is none.
        """
        if not name or name.startswith("-") or "\0" in name or "\n" in name:
            raise UnknownCommit(f"{name!r} is not the name of a commit")
        try:
            return (
                self.ask(
                    "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}"
                )
                .decode()
                .split()[-1]
            )
        except GitRefused as error:
            if "dubious ownership" in str(error):
                raise BadInput(str(error)) from error
            if not self.ask("rev-list", "--max-count=1", "--all"):
                raise BadInput(
                    f"the repository {self.path} has no commits yet"
                ) from error
            kinds = ("refs/heads", "refs/tags", "refs/remotes")
            names = self.text(
                "for-each-ref", "--format=%(refname:lstrip=2)", *kinds
            ).splitlines()
            if _SHA.fullmatch(name):
                near = []
            else:
                near = get_close_matches(name, names, n=1, cutoff=0.6)
            if near:
                hint = f"; did you mean {near[0]}?"
            else:
                hint = f": {self.fetch_advice}"
            raise UnknownCommit(
                f"there is no branch, tag or commit {name!r} in {self.path}{hint}"
            ) from error

    def tracks(self, file: Path) -> bool:
        """Return whether a file is one of the repository's, and came with it."""
        root = self._repo.working_tree_dir
        if root is None or not file.resolve().is_relative_to(Path(root).resolve()):
            return False
        inside = file.resolve().relative_to(Path(root).resolve())
        return bool(self.ask("ls-files", "--", f":(top,literal){inside.as_posix()}"))

    @property
    def fetch_advice(self) -> str:
        """The command that may fetch a missing commit."""
        if (self.common_dir / "shallow").exists():
            return (
                "this is a shallow clone; complete it with `git fetch --unshallow "
                "--tags`"
            )
        return "fetch newer commits with `git fetch --tags`"

    @property
    def work_tree(self) -> Path | None:
        """The folder of the checked-out files, unless the repository is bare."""
        folder = self._repo.working_tree_dir
        if folder:
            return Path(folder).resolve()
        return None

    @cached_property
    def is_partial(self) -> bool:
        """Whether the contents of files may be missing; git fetches them one by one
        when they are needed.
        """
        try:
            settings = self.ask(
                "config",
                "--get-regexp",
                r"^(extensions\.partialclone|remote\..*\.promisor)$",
            )
        except GitRefused:  # no such setting
            return False
        return bool(settings.strip())

    @cached_property
    def remote(self) -> str | None:
        """The address of `origin`, else of the first remote, rewritten by the user's
        settings.
        """
        remotes = sorted(self._repo.remotes, key=lambda remote: remote.name != "origin")
        if remotes:
            return next(remotes[0].urls)
        return None


# Compare merges with their first parent too, and ignore settings of renames, submodules
# and external programs. A renamed file is one removed and one added, because both
# folders show what a commit is about.
_CHANGES = (
    *(
        "log",
        "-z",
        "--no-walk=unsorted",
        "--stdin",
        "--format=%x00%H",
        "--first-parent",
        "-m",
        "--no-renames",
        "--no-abbrev",
    ),
    *(
        "--ignore-submodules=none",
        "--no-ext-diff",
        "--no-textconv",
        "--no-relative",
        "-O/dev/null",
    ),
)
