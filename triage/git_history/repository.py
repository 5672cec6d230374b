"""The one way into git, what a git repository has (commits, tags and web pages), and
checkouts of its commits in a private clone.

A clone may come from anybody. Its settings, hooks and attributes can name programs, so
every command runs with settings that override them. A command that reads a clone is one
of a few that read neither its index nor its attributes, and it reaches no server. What
writes files works in a private clone, whose settings are ours and the user's own.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from triage.model.content import Address, resolve_regular, without_secrets
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.execution import Ending
from triage.processes.containment import Purpose
from triage.processes.process import StopSignal, run, unlimited

# A server that sends nothing for 30 s has failed. Submodules that are fetched borrow
# objects from those of the user's clone.
_SETTINGS = shlex.split(
    "--no-pager -c core.fsmonitor=false -c core.hooksPath=/dev/null "
    "-c log.showSignature=false -c submodule.recurse=false -c gc.auto=0 "
    "-c maintenance.auto=false -c color.ui=never -c core.quotePath=false "
    "-c diff.renames=true -c http.lowSpeedLimit=1 -c http.lowSpeedTime=30 "
    "-c submodule.alternateLocation=superproject "
    "-c submodule.alternateErrorStrategy=info"
)
_ENV = {"LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1"}
# The commands that read a clone, with the options that keep drivers from starting.
_READING = {
    "config": "",
    "for-each-ref": "",
    "log": "--no-ext-diff --no-textconv",
    "merge-base": "",
    "remote": "",
    "rev-list": "",
    "rev-parse": "",
}
# Without optional locks git does not refresh the index. No protocol is allowed, since
# versions of git before 2.45 fetch what a partial clone lacks all the same.
READ_ONLY = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
}
"""The variables of commands that read a clone."""
# Seconds for the first command, which reads only the settings, and for another one. A
# file of a clone may be a pipe that nobody writes to.
_FIRST_TIMEOUT = 10.0
_TIMEOUT = 300.0
_CHECKOUT_TIMEOUT = 3600.0  # the first fetch of large submodules is slow
_MAX_BYTES = 1 << 30  # bytes of a file of references
# Files of a clone that git reads as text. Its errors print their lines.
_PRINTED = shlex.split(
    "HEAD config config.worktree packed-refs shallow commondir gitdir info/grafts "
    "objects/info/alternates"
)

FETCH_ADVICE = (
    "fetch newer commits with `git fetch --tags`, and those that a shallow clone lacks "
    "with `git fetch --unshallow --tags`"
)

# Compare merges with their first parent too, and ignore settings of renames, submodules
# and external programs. A renamed file is one removed and one added, because both
# folders show what a commit is about.
_LOG_OF_CHANGES = shlex.split(
    "log -z --no-walk=unsorted --stdin --format=%x00%H --first-parent -m --no-renames "
    "--ignore-submodules=none --no-relative -O/dev/null --name-only --"
)


class GitRefused(EnvironmentFailure):
    """A git command failed. The message contains git's message."""


def read_command(name: str, *words: str) -> list[str]:
    """Return the words of a command that reads a clone."""
    return [name, *_READING[name].split(), *words]


def run_git(
    words: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    seconds: float,
    *,
    lines: Sequence[str] = (),
    log: BinaryIO | None = None,
    stop: StopSignal | None = None,
) -> bytes:
    """Return the output of `git WORDS` with `lines` as its standard input. In a clone
    of somebody else, it may run only what `read_command` returns, with `READ_ONLY`.

    Raises GitRefused if the command fails.
    """
    limits = unlimited(seconds)
    log_note = ""
    if log:
        log.write(f"$ git {' '.join(words)}\n".encode())
        log_note = f" (log: {log.name})"
    output = bytearray()
    execution = run(
        ["git", *_SETTINGS, *words],
        limits,
        folder,
        seal=None,
        purpose=Purpose.GIT,
        env={**_ENV, **env},
        data="".join(f"{line}\n" for line in lines).encode(),
        stop=stop,
        on_stdout=output.extend,
    )
    if execution.ending is Ending.NOT_STARTED:
        raise EnvironmentFailure("there is no git program on the PATH")
    message = without_secrets(execution.stderr.text)
    if log:
        log.write(message.encode())
    if not execution.ok:
        reason = " ".join(message.split())[-400:] or execution.ending_text(limits)
        raise GitRefused(f"git {words[0]} failed in {folder}: {reason}{log_note}")
    return bytes(output)


class UnknownCommit(BadInput):
    """The repository has no commit of this name."""


class Repository:
    """Read-only git commands in one repository, found from any folder inside it."""

    def __init__(self, path: Path) -> None:
        """Find the repository. Raises BadInput when `path` is not in one or cannot be
        read, and EnvironmentFailure when git is not installed.
        """
        self.path = path
        if not path.is_dir():
            raise BadInput(f"there is no folder {path}")
        absolute = path.resolve()
        self.work_tree: Path | None = None
        """The folder of the checked-out files, unless the repository is bare."""
        for folder in (absolute, *absolute.parents):
            if os.path.lexists(folder / ".git"):
                self.work_tree = folder
                self.git_dir = folder / ".git"
                break
            if (folder / "HEAD").exists() and (folder / "objects").is_dir():
                self.git_dir = folder
                break
        else:
            raise BadInput(f"{path} is not in a git repository")
        from git import Repo  # slow to import
        from git.exc import GitError

        try:
            _check_files(self.git_dir)
            with Repo(self._folder) as repository:
                self.git_dir = Path(repository.git_dir).resolve()
                self.common_dir = Path(repository.common_dir).resolve()
            _check_files(self.common_dir)
            self.ask("rev-parse", "--git-dir", seconds=_FIRST_TIMEOUT)
        except OSError as error:
            message = f"{error.filename} cannot be used: {error.strerror}"
            raise BadInput(message) from error
        except (GitRefused, GitError) as error:
            raise BadInput(f"{path} is not in a git repository: {error}") from error

    @property
    def _folder(self) -> Path:
        return self.work_tree or self.git_dir

    def contains(self, file: Path) -> bool:
        """Return whether a file, or what it links to, lies in the clone. Whoever wrote
        the clone wrote it, too.
        """
        folders = {self.path.resolve(), self._folder.resolve()}
        paths = (file.absolute(), file.resolve())
        return any(path.is_relative_to(folder) for path in paths for folder in folders)

    def ask(
        self, *words: str, lines: Sequence[str] = (), seconds: float = _TIMEOUT
    ) -> bytes:
        """Return the output of `git WORDS` with `lines` as its standard input. Raises
        GitRefused if the command fails.
        """
        # Without these, git takes the folder and the files that the clone names.
        env = {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self._folder)}
        command = read_command(*words)
        return run_git(
            command, self._folder, {**READ_ONLY, **env}, seconds, lines=lines
        )

    def text(self, *words: str, lines: Sequence[str] = ()) -> str:
        """Return the output of `ask` as text."""
        return self.ask(*words, lines=lines).decode("utf-8", "replace")

    def changed_files(self, shas: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the files that each commit changed against its first parent."""
        # A file may have a name like a sha, but never an empty name.
        listed = self.text(*_LOG_OF_CHANGES, lines=shas).strip("\0")
        files = {}
        for block in filter(None, listed.split("\0\0")):
            # git prints a line break before the first change of a commit
            sha, *names = block.replace("\0\n", "\0", 1).split("\0")
            files[sha] = tuple(names)
        return files

    def resolve(self, name: str) -> str:
        """Return the full sha of the commit that a sha, branch or tag names. Raises
        UnknownCommit if there is none.
        """
        if not name or name.startswith("-") or "\0" in name or "\n" in name:
            raise UnknownCommit(f"{name!r} is not the name of a commit")
        commit = f"{name}^{{commit}}"
        try:
            return self.text(
                "rev-parse", "--verify", "--end-of-options", commit
            ).split()[-1]
        except GitRefused as error:
            raise UnknownCommit(
                f"there is no branch, tag or commit {name!r} in {self.path}: "
                f"{FETCH_ADVICE}"
            ) from error

    @cached_property
    def remote(self) -> Address | None:
        """The address of `origin`, after the user's settings such as `insteadOf`."""
        try:
            address = self.text("remote", "get-url", "--", "origin")
        except GitRefused:  # there is none, or it has no address
            return None
        return Address(address.removesuffix("\n"))


def _check_files(git_dir: Path) -> None:
    """Raise OSError if git would print or wait for a file that does not belong to the
    clone.
    """
    refs = os.walk(git_dir / "refs")
    files = [Path(folder, name) for folder, _, names in refs for name in names]
    files += filter(os.path.lexists, (git_dir / name for name in _PRINTED))
    for path in files:
        resolve_regular(path, _MAX_BYTES, git_dir)


_DAY = re.compile(r"(?<!\d)(20\d\d)[-.]?(\d\d)[-.]?(\d\d)(?!\d)")


def read_tags(repository: Repository) -> dict[str, str]:
    """Return what each tag names, usually a commit, by the tag's name."""
    form = "--format=%(*objectname) %(objectname) %(refname:strip=2)"
    tags: dict[str, str] = {}
    for line in repository.text("for-each-ref", form, "refs/tags").splitlines():
        peeled, sha, name = line.split(" ", 2)
        tags[name] = peeled or sha
    return tags


def tagged_commits(
    version: str, patterns: Iterable[str], tags: Mapping[str, str]
) -> set[str]:
    """Return the commits of a version by its tags, which fit patterns of tags such as
    `v{version}`.
    """
    names = (pattern.format(version=version) for pattern in patterns)
    return {tags[name] for name in names if name in tags}


def day_in(text: str) -> str | None:
    """Return the last date in a name or version, as ISO `YYYY-MM-DD`.

    >>> day_in("iree-3.5.0rc20250604"), day_in("nightly-2025-06-04")
    ('2025-06-04', '2025-06-04')
    >>> day_in("3.2.0.dev20241011+git4f2c8e1")
    '2024-10-11'
    >>> [day_in(text) for text in ("v3.5.0", "x-20251399")]
    [None, None]
    """
    for year, month, day in reversed(_DAY.findall(text)):
        try:
            return date(int(year), int(month), int(day)).isoformat()
        except ValueError:
            continue
    return None


_SQUASHED = re.compile(r"\s*\(#(\d+)\)\s*$")
_MERGED = re.compile(r"Merge pull request #(\d+) ")
_SCP_LIKE = re.compile(r"^(?:[^@/\s]+@)?([\w.-]+):(?!/)(\S+)$")


def pull_request(subject: str) -> int | None:
    """Return the pull request that a commit's subject names.

    >>> pull_request("[GPU] Collapse dimensions (#20320)")
    20320
    >>> pull_request("Merge pull request #7 from a/b")
    7
    >>> pull_request("see (#12) for more")
    """
    match = _SQUASHED.search(subject) or _MERGED.match(subject)
    if match is None:
        return None
    return int(match[1])


def without_pull_request(subject: str) -> str:
    """Return a commit's subject without the number of its pull request at the end."""
    return _SQUASHED.sub("", subject)


@dataclass(frozen=True)
class Links:
    """The web pages of one repository; `web` has no slash at its end."""

    web: str

    def commit(self, sha: str) -> str:
        return f"{self.web}/commit/{sha}"

    def pull(self, number: int) -> str:
        return f"{self.web}/pull/{number}"


def links_of(remote: str | None) -> Links | None:
    """Return the web pages for the address of a remote, without a user name or token in
    it. Returns None for a path on this machine.

    >>> links_of("git@github.com:iree-org/iree.git")
    Links(web='https://github.com/iree-org/iree')
    >>> links_of("https://user:secret@host:8443/a/b.git")
    Links(web='https://host:8443/a/b')
    >>> links_of("/srv/git/iree.git")
    """
    address = _SCP_LIKE.sub(r"ssh://\1/\2", remote or "")
    parts = urlsplit(address)
    path = parts.path.strip("/").removesuffix(".git")
    host = parts.netloc.rpartition("@")[2]
    if parts.scheme in ("ssh", "git", "git+ssh"):
        parts, host = parts._replace(scheme="https"), parts.hostname or ""
    if host and path and parts.scheme in ("http", "https"):
        return Links(f"{parts.scheme}://{host}/{path}")
    return None


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
        run_git(command_line, self.folder, env, _CHECKOUT_TIMEOUT, log=log, stop=stop)
