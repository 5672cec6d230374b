"""Check out commits of a user's repository, with submodules, in a private repository. The user's repository is only read.

The private repository borrows the objects of the user's one (git's alternates), so that it has every commit at once and needs
no update. The objects of its submodules are borrowed from the user's clones of them where these have the commit.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from triage.execution.environment import Purpose
from triage.execution.process import StopSignal, run_logged
from triage.execution.streams import Log
from triage.git_history.repository import GitRefused, Repository
from triage.model.errors import EnvironmentFailure, Interrupted
from triage.model.execution import Ending, Execution
from triage.model.progress import Progress, Silent, Task

_TIMEOUT = 3600.0  # seconds; the first fetch of large submodules is slow
_SILENCE = 30.0  # seconds without a byte after which a fetch has failed
_FULL = ("No space left on device", "Disk quota exceeded")
_DEPTH = 5  # git does not follow longer chains of alternates
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "advice.detachedHead=false",
)
_SHARED_SETTINGS = r"^(url|http|credential|protocol|filter)\.|^core\.sshcommand$"
_SUBMODULE_PATHS = r"^submodule\..*\.path$"
_PLAIN: dict[str, str | None] = {"LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0", "GIT_PROTOCOL_FROM_USER": "0"}
_ASIDE = re.compile(r"(?<=://)[^/@\s]*@")  # a user name or a token in an address


class FetchFailed(EnvironmentFailure):
    """A commit could not be fetched."""


class GitFailed(EnvironmentFailure):
    """A git command failed in the private repository, which is then made anew."""


@dataclass
class GitRunner:
    """Runs git for checkouts, and writes what it prints to a log.

    task, progress: show what is done. refused: why addresses could not be fetched from; they are not tried again.
    """

    log: Log
    env: Mapping[str, str | None]
    stop: StopSignal
    task: Task
    progress: Progress = field(default_factory=Silent)
    refused: dict[str, str] = field(default_factory=dict)

    def __call__(
        self, *words: str, folder: Path, stop: StopSignal | None = None, on_tick: Callable[[], None] | None = None
    ) -> str:
        """Run git and return the beginning of what it printed. GitFailed when its exit code is not 0."""
        command = ["git", *(part for setting in _SETTINGS for part in ("-c", setting)), *words]
        self.log.write(f"$ {' '.join(command)}\n".encode())
        stop = stop or self.stop
        execution = run_logged(
            command, self.log, folder, purpose=Purpose.GIT, env=self.env, stop=stop, timeout=_TIMEOUT, on_tick=on_tick
        )
        if execution.ending is Ending.NOT_STARTED:
            raise EnvironmentFailure("there is no git program on the PATH")
        if not execution.ok:
            raise GitFailed(f"git {_verb(words)} failed: {_reason(execution)} (log: {self.log.path})")
        return execution.stdout.head

    def fetch(self, tree: Tree, url: str, sha: str) -> None:
        """Fetch a commit and its history into a tree's repository. FetchFailed when that fails or the server is silent."""
        shown = _ASIDE.sub("", url)
        if url in self.refused:
            raise FetchFailed(self.refused[url])
        self.progress.note(f"fetching {tree.name} from {shown}")
        silence = _Silence(self.stop, self.log)

        def describe() -> None:
            self.task.describe(f"fetch {tree.name} from {shown} {silence.last_line}".rstrip())

        refs = ("+refs/heads/*:refs/remotes/origin/*", sha)
        error: Exception | None = None
        for ref in refs:  # a server may refuse to send a commit by its sha, and no branch may have it
            words = ("fetch", "--progress", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "origin", ref)
            try:
                self(*tree.options, *words, folder=tree.folder, stop=silence, on_tick=describe)
            except Interrupted:
                if self.stop.is_set():
                    raise
                error = EnvironmentFailure(f"the server has sent nothing for {_SILENCE:.0f} s")
                break
            except GitFailed as failure:
                error = failure
            else:
                if tree.has(self, sha):
                    return
                error = EnvironmentFailure(f"it has no commit {sha[:10]}")
        self.refused[url] = f"cannot fetch {tree.name} from {shown}: {error}"
        raise FetchFailed(self.refused[url]) from error


@dataclass
class _Silence:
    """Ends a fetch when it prints nothing for too long, or when the program is stopped."""

    stop: StopSignal
    log: Log
    _size: int = -1
    _since: float = field(default_factory=time.monotonic)

    def is_set(self) -> bool:
        if self.log.written != self._size:
            self._size, self._since = self.log.written, time.monotonic()
        return self.stop.is_set() or time.monotonic() - self._since > _SILENCE

    @property
    def last_line(self) -> str:
        """What git printed last, such as `Receiving objects:  34%`."""
        lines = self.log.recent.decode("utf-8", "replace").replace("\r", "\n").split("\n")
        return next((line.strip() for line in reversed(lines) if "%" in line), "")


@dataclass(frozen=True, slots=True)
class Tree:
    """One work tree and its repository.

    name: as it is shown. lenders: git directories of the user whose objects are borrowed.
    """

    name: str
    folder: Path
    git_dir: Path
    lenders: tuple[Path, ...]

    @property
    def options(self) -> tuple[str, ...]:
        return "--git-dir", str(self.git_dir), "--work-tree", str(self.folder)

    def has(self, git: GitRunner, sha: str) -> bool:
        try:
            git(*self.options, "cat-file", "-e", f"{sha}^{{commit}}", folder=self.folder)
        except GitFailed:
            return False
        return True

    def prepare(self, git: GitRunner, settings: Mapping[str, str], object_format: str) -> None:
        """Create the repository if it is missing, and borrow what the user's has now."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.git_dir / "HEAD").is_file():
            git("init", "--quiet", "--bare", f"--object-format={object_format}", str(self.git_dir), folder=self.folder)
        for name, value in {"core.bare": "false", **settings}.items():
            git("--git-dir", str(self.git_dir), "config", name, value, folder=self.folder)
        link = self.folder / ".git"
        if link != self.git_dir:
            link.write_text(f"gitdir: {self.git_dir}\n")
        objects = [path for lender in self.lenders for path in _object_folders(lender / "objects")]
        _write(self.git_dir / "objects" / "info" / "alternates", dict.fromkeys(map(str, objects)))
        shallow = [line for lender in (self.git_dir, *self.lenders) for line in _lines(lender / "shallow")]
        if shallow:
            _write(self.git_dir / "shallow", dict.fromkeys(shallow))

    def unlock(self) -> None:
        """Remove what a killed git left: locks and unfinished objects. No other process uses this repository."""
        for folder, _, names in os.walk(self.git_dir):
            for name in names:
                if name.endswith(".lock") or name.startswith(("tmp_pack_", "tmp_idx_", "tmp_obj_", "tmp_rev_")):
                    (Path(folder) / name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Checkout:
    """The checked-out commits of a user's repository in a folder of this program."""

    folder: Path
    repository: Repository

    @property
    def _root(self) -> Tree:
        lenders = (self.repository.common_dir,)
        return Tree(self.repository.path.name or "the repository", self.folder, self.folder / ".git", lenders)

    def unlock(self) -> None:
        """Make the folder usable after its last user was killed."""
        self._root.unlock()

    def environment(self) -> dict[str, str | None]:
        """The variables for git beside `Purpose.GIT`: the user's settings of this repository that a fetch needs; git never
        asks for a password.
        """
        settings = self._shared_settings()
        env = dict(_PLAIN)
        if not {"GIT_SSH", "GIT_SSH_COMMAND"} & os.environ.keys() and "core.sshcommand" not in dict(settings):
            env["GIT_SSH_COMMAND"] = "ssh -o BatchMode=yes -o ConnectTimeout=10"
        count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
        for number, (name, value) in enumerate(settings, count):
            env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        return env | ({"GIT_CONFIG_COUNT": str(count + len(settings))} if settings else {})

    def check_out(self, git: GitRunner, sha: str, *, submodules: bool) -> None:
        """Check out a commit, with its submodules, and remove files of earlier builds that git does not ignore. A damaged
        private repository is made anew.

        Raises:
            FetchFailed: the commit of a submodule is not on this machine and cannot be fetched.
            EnvironmentFailure: git fails.
        """
        root = self._root
        if (self.folder / ".git").is_file():  # a work tree of the user's repository, by an earlier version of the program
            shutil.rmtree(self.folder)
        is_new = not root.git_dir.exists()
        try:
            self._place(git, root, sha, submodules=submodules)
        except GitFailed as error:
            if is_new or any(sign in str(error) for sign in _FULL):
                raise
            git.log.write(b"=== the private clone is damaged; making it anew ===\n")
            shutil.rmtree(self.folder, ignore_errors=True)
            self._place(git, root, sha, submodules=submodules)

    def _place(self, git: GitRunner, tree: Tree, sha: str, *, submodules: bool) -> None:
        object_format = self.repository.ask("rev-parse", "--show-object-format").decode().strip()
        settings = {"remote.origin.url": self.address}
        if self.repository.is_partial:
            settings |= {"core.repositoryformatversion": "1", "extensions.partialClone": "origin"}
            settings |= {"remote.origin.promisor": "true", "remote.origin.partialclonefilter": "blob:none"}
        tree.prepare(git, settings, object_format)
        tags = self.repository.ask("for-each-ref", "--format=%(objectname) %(refname)", "refs/tags").decode("utf-8", "replace")
        _write(tree.git_dir / "packed-refs", tags.splitlines())
        _switch(git, tree, sha)
        if submodules:
            self._place_submodules(git, tree, (self.repository.git_dir, self.repository.common_dir), object_format)

    def _place_submodules(self, git: GitRunner, tree: Tree, owners: Sequence[Path], object_format: str) -> None:
        """Check out the submodules of a tree, and theirs. owners: the user's git directories of the tree."""
        for name, path, sha, url in _submodules(git, tree):
            theirs = tuple(dict.fromkeys(owner / "modules" / name for owner in owners))
            lenders = tuple(owner for owner in theirs if (owner / "objects").is_dir())
            git_dir = tree.git_dir / "modules" / name
            label = f"the submodule {(tree.folder / path).relative_to(self.folder)}"
            submodule = Tree(label, tree.folder / path, git_dir, lenders)
            git.task.describe(f"check out {label}")
            submodule.prepare(git, {"remote.origin.url": url}, object_format)
            if not submodule.has(git, sha):
                git.fetch(submodule, url, sha)
            _switch(git, submodule, sha)
            self._place_submodules(git, submodule, theirs, object_format)

    @property
    def address(self) -> str:
        """The address of the repository, which relative addresses of submodules refer to."""
        home = self.repository.work_tree or self.repository.common_dir
        remote = self.repository.remote
        return str((home / remote).resolve()) if remote and remote.startswith(("./", "../")) else remote or str(home)

    def _shared_settings(self) -> list[tuple[str, str]]:
        try:
            listed = self.repository.ask("config", "--local", "--null", "--get-regexp", _SHARED_SETTINGS)
        except GitRefused:  # there is none
            return []
        pairs = (entry.partition("\n") for entry in listed.decode("utf-8", "replace").split("\0") if entry)
        return [(name, value) for name, _, value in pairs]


def _switch(git: GitRunner, tree: Tree, sha: str) -> None:
    git(*tree.options, "checkout", "--detach", "--force", "--quiet", sha, folder=tree.folder)
    git(*tree.options, "clean", "-ffdq", folder=tree.folder)


def _submodules(git: GitRunner, tree: Tree) -> Iterator[tuple[str, str, str, str]]:
    """Yield the name, path, commit and address of each submodule of the checked-out commit."""
    listing = tree.folder / ".gitmodules"
    if not listing.is_file() or listing.is_symlink():
        return
    git_here = partial(git, folder=tree.folder)
    git_here("submodule", "--quiet", "init")  # resolves relative addresses, and refuses dangerous ones
    git_here("submodule", "--quiet", "sync")
    listed = git_here("config", "--file", ".gitmodules", "--null", "--get-regexp", _SUBMODULE_PATHS)
    entries = (entry.partition("\n") for entry in listed.split("\0") if entry)
    paths = {key.removeprefix("submodule.").removesuffix(".path"): path for key, _, path in entries}
    links = git_here("ls-tree", "-z", "HEAD", "--", *paths.values()).split("\0")
    shas = {path: words.split()[2] for words, _, path in (line.partition("\t") for line in links) if words[:6] == "160000"}
    for name, path in paths.items():
        if path not in shas or ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute():
            continue
        with suppress(GitFailed):  # git knows no address, or refused it
            url = git_here("config", "--get", f"submodule.{name}.url").strip()
            yield name, path, shas[path], url


def _object_folders(objects: Path, depth: int = 0) -> Iterator[Path]:
    """Yield a folder of objects and those that it borrows from, as git follows relative paths in the first file only."""
    yield objects
    for line in _lines(objects / "info" / "alternates") if depth < _DEPTH else ():
        if line and not line.startswith(("#", '"')):
            yield from _object_folders((objects / line).resolve(), depth + 1)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []


def _write(path: Path, lines: Sequence[str] | Mapping[str, None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8", "surrogateescape")


def _verb(words: Sequence[str]) -> str:
    """The command of a command line: its first word that is no option and no option's value."""
    rest = iter(words)
    for word in rest:
        if word in ("--git-dir", "--work-tree", "-C"):
            next(rest)
        elif not word.startswith("-"):
            return word
    return ""


def _reason(execution: Execution) -> str:
    if execution.ending is Ending.TIMED_OUT:
        return f"it took more than {_TIMEOUT:.0f} s"
    lines = (execution.stderr.tail or execution.stderr.head).replace("\r", "\n").strip().splitlines()
    chosen = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "")
    return _ASIDE.sub("", chosen.strip()) or str(execution.status)
