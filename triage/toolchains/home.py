"""The home folder `TRIAGE_HOME`, and safe ways to write, lock and remove files in
it.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from tempfile import NamedTemporaryFile, mkdtemp
from typing import IO, TYPE_CHECKING, Any

from triage.model.errors import EnvironmentFailure, Interrupted
from triage.model.execution import is_number
from triage.model.progress import Progress

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

# Errors that the user can repair; others are defects of the program.
_DISK_ERRORS = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.ENOTDIR, errno.EEXIST, errno.ENOENT),
}
_LOCK_TICK = 0.02  # seconds between attempts to lock a file


@dataclass(frozen=True, slots=True)
class Home:
    """The folders and files of `TRIAGE_HOME`."""

    path: Path

    @property
    def toolchains(self) -> Path:
        """Installed toolchains."""
        return self.path / "toolchains"

    @property
    def builders(self) -> Path:
        """Private clones in which commits are built, with their build folders."""
        return self.path / "builders"

    @property
    def results_database(self) -> Path:
        """The result cache."""
        return self.path / "evidence.db"

    @property
    def scratch(self) -> Path:
        """Folders of processes that run now."""
        return self.path / "scratch"

    @property
    def state(self) -> Path:
        """Small caches in JSON: a folder for each kind."""
        return self.path / "state"

    @property
    def use_lock(self) -> Path:
        """All commands that use kept files hold this lock together."""
        return self.path / "kept.lock"

    @property
    def measuring_lock(self) -> Path:
        """The one command that measures times holds this lock."""
        return self.path / "measured.lock"

    def kept(self, kind: KeptKind) -> Path:
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
    INVESTIGATIONS = "investigations"
    """Finished steps of investigations of nightly runs."""
    IR = "ir"
    """What the passes of a compile changed, as fingerprints."""
    JOURNALS = "bisects"
    """Verdicts that a user typed, for `--resume`."""
    LOGS = "logs"
    """Output of builds and scripts."""
    MODELS = "models"
    """Models as they were at a commit of their repository."""
    MODULES = "modules"
    """Compiled libraries."""
    PACKAGES = "python"
    """Python packages that triage itself needs for some inputs."""
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
    """Turn errors of a full, read-only or forbidden disk into an EnvironmentFailure:
    `cannot ACTION: reason (file)`.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        file = f" ({error.filename})" if error.filename else ""
        raise EnvironmentFailure(
            f"cannot {action}: {(error.strerror or '').lower()}{file}"
        ) from error


def open_home() -> Home:
    """Return the home. Create its folder if it is missing. Raises EnvironmentFailure if
    files cannot be written there.
    """
    home = default_home()
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
    with NamedTemporaryFile(
        dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as new:
        try:
            new.write(data)
            new.flush()
            # temporary files are created readable by their owner only
            Path(new.name).chmod(0o644)
            Path(new.name).replace(path)
        except BaseException:
            Path(new.name).unlink(missing_ok=True)
            raise


def remove_tree(root: Path) -> bool:
    """Remove a folder with all that is in it, and return whether it is gone.

    The folder may be so deep that `shutil.rmtree` fails, which recurses and uses paths
    of at most 4096 bytes. Here, inner folders are first moved up to `root`.
    """
    if root.is_symlink():
        return False
    unused_paths = (
        path
        for path in (root / str(number) for number in itertools.count())
        if not os.path.lexists(path)
    )
    pending = [root]
    try:
        while pending:
            folder = pending.pop()
            folder.chmod(0o700)
            for entry in list(os.scandir(folder)):
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry)  # noqa: PTH108 - an entry is not a `Path`
                elif folder == root:
                    pending.append(Path(entry))
                else:
                    os.chmod(entry, 0o700)  # noqa: PTH101 - as above; only its owner may move it
                    pending.append(Path(entry).rename(next(unused_paths)))
            if folder != root:
                folder.rmdir()
        root.rmdir()
    except OSError:
        return not root.exists()
    return True


def below_here(path: Path) -> Path:
    """Return a path below the current folder as a relative path, and another one as an
    absolute path.
    """
    absolute, here = path.absolute(), Path.cwd()
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
    folder = Path(mkdtemp(dir=within, prefix=prefix))
    try:
        yield folder
    finally:
        remove_tree(folder)


def lock_file(
    path: Path,
    kind: int,
    stop: threading.Event,
    on_wait: Callable[[], object] = lambda: None,
) -> IO[bytes]:
    """Wait until no other process has locked a file, and lock it. The lock ends when
    the file is closed, or with the process.

    Args:
        path: The file.
        kind: `fcntl.LOCK_EX` or `fcntl.LOCK_SH`, perhaps with `fcntl.LOCK_NB`.
        stop: Ends the wait.
        on_wait: Called before the first wait.

    Raises:
        BlockingIOError: The file is locked, and `kind` contains `fcntl.LOCK_NB`.
        Interrupted: `stop` was set.
        OSError: The file system has no locks.
    """
    with ExitStack() as closing:
        file = closing.enter_context(path.open("ab"))
        for attempt in itertools.count():
            try:
                fcntl.flock(file, kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if kind & fcntl.LOCK_NB:
                    raise
            if attempt == 0:
                on_wait()
            if stop.wait(_LOCK_TICK):
                raise Interrupted("stopped")
        closing.pop_all()
    return file


def stamp(files: Iterable[Path]) -> str:
    """Return a digest that changes when one of the files is written. The files are not
    read.
    """
    key = blake2b(digest_size=16)
    for path in files:
        stat = path.stat()
        key.update(
            f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\0{stat.st_ino}\0".encode()
        )
    return key.hexdigest()


_MOST_DURATIONS = 15  # older ones say little: networks and compiler caches change


@dataclass(frozen=True)
class StateSection:
    """A small cache: JSON values of one kind, each in a file of its own with its key. A
    damaged file, and one of another key, count as missing.
    """

    folder: Path

    def get(self, key: str) -> Any | None:
        """Return the value of a key, if there is one."""
        with (
            disk_errors(f"read {self.folder}"),
            suppress(FileNotFoundError, ValueError, RecursionError),
        ):
            checksum, _, text = self._file(key).read_text("utf-8").partition(" ")
            if checksum == _checksum(text):
                stored_key, value = json.loads(text)
                return value if stored_key == key else None
        return None

    def put(self, key: str, value: Any) -> None:
        """Set the value of a key to any JSON value."""
        text = json.dumps([key, value])
        with disk_errors(f"write {self.folder}"):
            write_whole(self._file(key), f"{_checksum(text)} {text}")

    def _file(self, key: str) -> Path:
        digest = blake2b(key.encode("utf-8", "replace"), digest_size=12)
        return self.folder / f"{digest.hexdigest()}.json"


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


@dataclass(frozen=True)
class Workspace:
    """The home, with progress and a signal that ends downloads, installs and builds."""

    home: Home
    progress: Progress = field(default_factory=Progress)
    stop: threading.Event = field(default_factory=threading.Event)
    is_dry: bool = False
    """Install and download nothing."""

    def refuse_if_dry(self, what: str) -> None:
        """Raises EnvironmentFailure in a dry run, which needs something."""
        if self.is_dry:
            raise EnvironmentFailure(f"{what} is missing; a dry run installs nothing")

    def state(self, kind: str) -> StateSection:
        """Return the small cache of a kind of values."""
        return StateSection(self.home.state / kind.replace(" ", "-"))

    def locked(self, path: Path, what: str) -> IO[bytes]:
        """Wait for an exclusive lock on a file, and note that. `what` says what the
        other process does. Raises Interrupted if `stop` is set.
        """
        return lock_file(
            path,
            fcntl.LOCK_EX,
            self.stop,
            lambda: self.progress.note(f"waiting for another process: {what}"),
        )

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

    def seconds(self, kind: str, default: float) -> float:
        """Return the median of the past durations of a kind, or `default` if there are
        none.
        """
        from statistics import median  # slow to import

        return median(self._past(kind) or [default])

    @contextmanager
    def timing(self, kind: str) -> Iterator[None]:
        """Record how long the block takes, unless it fails."""
        begun = time.monotonic()
        yield
        past = [*self._past(kind), round(time.monotonic() - begun, 3)]
        with suppress(EnvironmentFailure):
            self.state("costs").put(kind, past[-_MOST_DURATIONS:])

    def _past(self, kind: str) -> list[float]:
        # TypeError: stored by another version of the program
        with suppress(EnvironmentFailure, TypeError):
            return [
                value
                for value in self.state("costs").get(kind) or ()
                if is_number(value) and value >= 0
            ]
        return []
