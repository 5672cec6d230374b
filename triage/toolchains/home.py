"""The home folder `TRIAGE_HOME`: safe ways to write, lock and remove files in it, the
folders of installs, the progress of long work there, and what is pruned.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from triage.model.errors import EnvironmentFailure, Interrupted
from triage.model.execution import UNLIMITED

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

# Is written last into each install, which is whole if it is there: its release, and the
# sizes of its files.
MANIFEST = "toolchain.json"
_LOCK_TICK = 0.02  # seconds between attempts to lock a file


class Home:
    """The folders and files of `TRIAGE_HOME`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.toolchains = path / "toolchains"
        """Installed toolchains."""
        self.builders = path / "builders"
        """Private clones in which commits are built, with their build folders."""
        self.results_database = path / "evidence.db"
        """The result cache."""
        self.scratch = path / "scratch"
        """Folders of processes that run now."""
        self.use_lock = path / "kept.lock"
        """All commands that use kept files hold this lock together."""

    def stored(self, kind: str, key: str) -> bytes | None:
        """Return the text of a key in a small cache, if there is one."""
        with suppress(OSError):
            return self._state_path(kind, key).read_bytes()
        return None

    def store(self, kind: str, key: str, text: bytes) -> None:
        """Store the text of a key in a small cache, if the home can be written."""
        with suppress(OSError):
            write_whole(self._state_path(kind, key), text)

    def _state_path(self, kind: str, key: str) -> Path:
        name = blake2b(key.encode("utf-8", "replace"), digest_size=12).hexdigest()
        return self.path / "state" / kind / name

    def folder(self, kind: KeptKind) -> Path:
        """Return the folder of kept files of one kind."""
        return self.path / kind


class KeptKind(StrEnum):
    """Kinds of kept files, each with a folder in the home. Files that were not used for
    long are pruned. Most are made again if they are missing.
    """

    DOWNLOADS = "downloads"
    """Files that suites name by URL."""
    INPUTS = "inputs"
    """Generated and imported inputs."""
    JOURNALS = "bisects"
    """Verdicts that a user typed, for `--resume`."""
    LOGS = "logs"
    """Output of builds and scripts."""
    MODULES = "modules"
    """Compiled libraries."""
    PROGRAMS = "programs"
    """Recipes that triage made of a program, a command or a text."""
    REDUCTIONS = "reductions"
    """The best program of each reduction, for `--resume`."""
    REMEDIES = "remedies"
    """Inputs that remedies changed."""
    RESULTS = "results"
    """Results of references."""
    VALUES = "values"
    """Arguments and results in another form."""


def default_home() -> Home:
    """Return `TRIAGE_HOME`, or the platform's cache folder. It may not exist."""
    named = os.environ.get("TRIAGE_HOME")
    if named:
        return Home(Path(named).expanduser().absolute())
    import platformdirs  # slow to import

    return Home(Path(platformdirs.user_cache_dir("triage", appauthor=False)))


@contextmanager
def disk_errors(action: str) -> Iterator[None]:
    """Turn errors such as those of a full or read-only disk into an EnvironmentFailure:
    `cannot ACTION: reason (file)`.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.strerror is None:  # of a library
            raise
        file = f" ({error.filename})" if error.filename else ""
        raise EnvironmentFailure(
            f"cannot {action}: {error.strerror.lower()}{file}"
        ) from error


def open_home() -> Home:
    """Return the home. Create its folder if it is missing. Raises EnvironmentFailure if
    files cannot be written there, or its path has a space.
    """
    home = default_home()
    if " " in str(home.path):
        raise EnvironmentFailure(
            f"cannot use {home.path} as TRIAGE_HOME: compilers call linkers through a "
            "shell, which splits paths at spaces; set TRIAGE_HOME to a path without any"
        )
    with disk_errors(f"use {home.path} as TRIAGE_HOME"):
        home.path.mkdir(parents=True, exist_ok=True)
        probe = home.path / f".writable-{os.getpid()}"
        probe.write_bytes(b"x")
        # another thread, or a container with the same number, may use the same name
        probe.unlink(missing_ok=True)
    return home


def save_file(path: Path, text: str | bytes, action: str) -> None:
    """Write a file with `write_whole`, under `disk_errors`."""
    with disk_errors(action):
        write_whole(path, text)


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a file in one step, so that readers see either the old content or the new
    one. Create its folder if it is missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode("utf-8") if isinstance(text, str) else text
    new = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        new.write_bytes(data)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def remove_tree(root: Path) -> None:
    """Remove a file, a link, or a folder with all that is in it, as far as that is
    possible.

    `shutil.rmtree` fails for folders that are very deep or that nobody may enter.
    """
    from tempfile import mkdtemp  # slow to import

    if root.is_symlink() or not root.is_dir():
        root.unlink(missing_ok=True)
        return
    pending = [root]
    with suppress(OSError):
        while pending:
            folder = pending.pop()
            folder.chmod(0o700)
            for entry in list(os.scandir(folder)):
                if entry.is_dir(follow_symlinks=False):
                    os.chmod(entry, 0o700)  # noqa: PTH101 - only then it can be moved
                    pending.append(Path(entry).rename(mkdtemp(dir=root)))
                else:
                    os.unlink(entry)  # noqa: PTH108 - an entry is not a `Path`
            if folder != root:
                folder.rmdir()
        root.rmdir()


def path_from_here(path: Path) -> Path:
    """Return a path below the current folder as a relative path, and another one as an
    absolute path.
    """
    absolute = path.absolute()
    here = Path.cwd()
    if absolute.is_relative_to(here):
        return absolute.relative_to(here)
    return absolute


@contextmanager
def temporary_folder(
    within: Path | None = None, prefix: str = "triage-"
) -> Iterator[Path]:
    """Make a folder in `within` (default: the system's temporary folder), and remove it
    with its content afterwards.
    """
    from tempfile import mkdtemp  # slow to import

    folder = Path(mkdtemp(dir=within, prefix=prefix))
    try:
        yield folder
    finally:
        remove_tree(folder)


def lock_file(
    path: Path, kind: int = fcntl.LOCK_EX, stop: threading.Event | None = None
) -> IO[bytes]:
    """Wait until no other process has locked a file, and lock it. The lock ends when
    the file is closed, or with the process.

    Args:
        path: The file.
        kind: `fcntl.LOCK_EX` or `fcntl.LOCK_SH`, perhaps with `fcntl.LOCK_NB`.
        stop: Ends the wait (default: only Ctrl-C does).

    Raises:
        BlockingIOError: The file is locked, and `kind` contains `fcntl.LOCK_NB`.
        Interrupted: `stop` was set.
        OSError: The file system has no locks.
    """
    file = path.open("ab")
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if kind & fcntl.LOCK_NB:
                raise
            pause(stop or threading.Event(), _LOCK_TICK)
        else:
            return file


def pause(stop: threading.Event, seconds: float) -> None:
    """Wait. Raises Interrupted if `stop` is set before."""
    if stop.wait(seconds):
        raise Interrupted("stopped")


Update = Callable[[str, float], object]
"""Replaces the text next to a bar, and counts an amount more of its total as done. Any
thread may call it.
"""


class Progress:
    """Shows tasks and notes; this one shows nothing."""

    @contextmanager
    def task(self, text: str, total: float | None = None) -> Iterator[Update]:  # noqa: ARG002 - nothing is shown
        """Show a bar during a `with` block. `total` is the sum of all amounts, if it is
        known.
        """
        yield lambda _text, _amount: None

    def note(self, text: str) -> None:
        """Print a line that stays."""

    def error(self, text: str) -> None:
        """Print a message that stays, also where progress is suppressed."""


@dataclass(frozen=True)
class Workspace:
    """The home, with progress and a signal that ends downloads, installs and builds."""

    home: Home
    progress: Progress = field(default_factory=Progress)
    stop: threading.Event = field(default_factory=threading.Event)
    is_dry: bool = False
    """Install and download nothing."""

    def refuse_if_dry(self, action: str) -> None:
        """Raises EnvironmentFailure in a dry run, which may not do something."""
        if self.is_dry:
            raise EnvironmentFailure(f"cannot {action}: a dry run installs nothing")

    @contextmanager
    def threads(self, count: int) -> Iterator[ThreadPoolExecutor]:
        """Open a pool of threads. After an error or Ctrl-C, set `stop`, so that the
        threads end.
        """
        from concurrent.futures import ThreadPoolExecutor  # slow to import

        pool = ThreadPoolExecutor(count)
        try:
            yield pool
        except BaseException:
            self.stop.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def fill_folder(
    workspace: Workspace,
    name: str,
    action: str,
    fill: Callable[[Path, Path], dict[str, Any] | None],
) -> Path:
    """Return the folder `name` of the installed toolchains. Fill it first if it is
    missing, or if a killed process left it. Other processes that need it wait.

    Args:
        workspace: Has the toolchains.
        name: The name of the folder.
        action: What messages call this, such as `install numba 0.61.0`.
        fill: Called as fill(folder, scratch). It puts files into the folder, and may
            use `scratch`, which is removed. It returns what the manifest says of the
            release that it installs, if it is one. If it raises, no files are left.
    """
    folder = workspace.home.toolchains / name
    scratch = folder.with_name(f".{name}")
    if is_intact(folder):
        with suppress(OSError):  # the home cannot be written
            os.utime(folder)  # the least recently used is pruned first
        return folder
    workspace.refuse_if_dry(action)
    with disk_errors(action), workspace.progress.task(action):
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(f".{name}.lock")
        with lock_file(lock, fcntl.LOCK_EX, workspace.stop):
            if is_intact(folder):  # another process did it while this one waited
                return folder
            try:
                for path in (folder, scratch):
                    remove_tree(path)
                    path.mkdir()
                release = fill(folder, scratch)
                manifest = {"release": release, "files": _sizes(folder)}
                write_whole(folder / MANIFEST, json.dumps(manifest))
            except BaseException:
                remove_tree(folder)
                raise
            finally:
                remove_tree(scratch)
    return folder


def manifest_of(folder: Path) -> Any:
    """Return the manifest of an install. Raises OSError or ValueError if there is
    none.
    """
    return json.loads((folder / MANIFEST).read_bytes())


def is_intact(folder: Path) -> bool:
    """Return whether an install is complete: it has a manifest, and every file
    has the size that it was installed with.
    """
    try:
        for name, size in manifest_of(folder)["files"].items():
            if os.stat(f"{folder}/{name}").st_size != size:  # noqa: PTH116 - is faster
                return False
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        return False
    return True


def _sizes(folder: Path) -> dict[str, int]:
    """Return the size of each file, without those that Python writes when it runs."""
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in folder.rglob("*")
        if "__pycache__" not in path.parts and path.is_file()
    }


@dataclass(frozen=True)
class StoredEntry:
    """A toolchain, a builder, or a kept file with its checksum."""

    paths: tuple[Path, ...]
    bytes: int
    """The size on disk."""
    used: float
    """The last use in seconds since the epoch."""
    intact: bool = True
    """Whether no killed process left it."""

    @property
    def folder(self) -> Path:
        """The folder of a toolchain or a builder."""
        return self.paths[0]


def stored_toolchains(home: Home) -> list[StoredEntry]:
    """Return all toolchains in a home."""
    folders = filter(Path.is_dir, home.toolchains.glob("[!.]*"))
    return [_entry([folder], intact=is_intact(folder)) for folder in folders]


def prune_home(home: Home, keep_bytes: int) -> tuple[list[StoredEntry], int]:
    """Remove what killed processes left, and then the least recently used until at most
    `keep_bytes` are left. Return what was removed, and how many bytes are left.

    Raises EnvironmentFailure if another command uses the home.
    """
    with disk_errors(f"prune {home.path}"):
        try:
            lock = lock_file(home.use_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EnvironmentFailure(
                f"cannot prune {home.path}: another command uses it"
            ) from None
        with lock:
            entries = [*stored_toolchains(home), *_other_entries(home)]
            entries.sort(key=lambda entry: (entry.intact, entry.used))
            left = sum(entry.bytes for entry in entries)
            removed = []
            for entry in entries:
                if entry.intact and left <= keep_bytes:
                    break
                for path in entry.paths:
                    remove_tree(path)
                left -= entry.bytes
                removed.append(entry)
            return removed, left


def _other_entries(home: Home) -> Iterator[StoredEntry]:
    for folder in home.builders.glob("[!.]*"):
        yield _entry([folder])
    for folder in filter(Path.is_dir, home.toolchains.glob(".*")):
        yield _entry([folder], intact=False)
    for kind in KeptKind:
        stem = attrgetter("stem")
        paths = sorted(home.folder(kind).glob("*"), key=stem)
        for name, group in groupby(paths, stem):
            yield _entry([*group], intact=not name.startswith("."))


def _entry(paths: Sequence[Path], *, intact: bool = True) -> StoredEntry:
    from triage.processes.process import used_bytes  # slow to import

    size = sum(used_bytes(path, UNLIMITED) + path.lstat().st_size for path in paths)
    used = max(path.lstat().st_mtime for path in paths)
    return StoredEntry(tuple(paths), size, used, intact)


def remove_leftovers(home: Home) -> None:
    """Remove the folders in which killed processes compiled, if no other one uses the
    home: other containers that share it see locks, and no processes.
    """
    with (
        suppress(BlockingIOError),
        lock_file(home.use_lock, fcntl.LOCK_EX | fcntl.LOCK_NB),
    ):
        remove_tree(home.scratch)
