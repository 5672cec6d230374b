"""The home folder `TRIAGE_HOME`, and safe ways to write, lock and remove files in it."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile, mkdtemp
from typing import IO

from triage.model.errors import EnvironmentFailure, Interrupted

# What the user can mend, unlike a defect of the program.
_OF_THE_DISK = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.ENOTDIR, errno.EEXIST, errno.ENOENT),
}
_LOCK_TICK = 0.02  # seconds between attempts to lock a file


def home_path() -> Path:
    """Return `TRIAGE_HOME`, or the platform's cache folder. It may not exist."""
    named = os.environ.get("TRIAGE_HOME")
    if named:
        return Path(named).expanduser().absolute()
    import platformdirs  # slow to import

    return Path(platformdirs.user_cache_dir("triage", appauthor=False))


@contextmanager
def disk_errors(action: str) -> Iterator[None]:
    """Turn errors of a full, read-only or forbidden disk into an EnvironmentFailure: `cannot ACTION: reason (file)`."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            raise
        file = f" ({error.filename})" if error.filename else ""
        raise EnvironmentFailure(f"cannot {action}: {(error.strerror or '').lower()}{file}") from error


def open_home() -> Path:
    """Return the home folder, created if it is missing. EnvironmentFailure when it cannot be written."""
    home = home_path()
    with disk_errors(f"use {home} as TRIAGE_HOME"):
        home.mkdir(parents=True, exist_ok=True)
        probe = home / f".writable-{os.getpid()}"
        probe.write_bytes(b"x")
        probe.unlink(missing_ok=True)  # another thread, or a container with the same number, may use the same name
    return home


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a file in one step and create its folder if it is missing. Readers see the old content or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode("utf-8") if isinstance(text, str) else text
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as new:
        try:
            new.write(data)
            new.flush()
            Path(new.name).chmod(0o644)  # temporary files are created readable by their owner only
            Path(new.name).replace(path)
        except BaseException:
            Path(new.name).unlink(missing_ok=True)
            raise


def remove_tree(root: Path) -> bool:
    """Remove a folder with all that is in it, however deep; return whether it is gone.

    `shutil.rmtree` recurses, and paths are limited to 4096 bytes. Here each folder is first moved up, next to the others.
    """
    if root.is_symlink():
        return False
    numbers = itertools.count()
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
                    target = next(path for number in numbers if not os.path.lexists(path := root / str(number)))
                    pending.append(Path(entry).rename(target))
            if folder != root:
                folder.rmdir()
        root.rmdir()
    except OSError:
        return not root.exists()
    return True


@contextmanager
def temporary_folder(within: Path | None = None, prefix: str = "triage-") -> Iterator[Path]:
    """Make a folder in another one (default: that of temporary files), and remove it afterwards whatever is in it."""
    folder = Path(mkdtemp(dir=within, prefix=prefix))
    try:
        yield folder
    finally:
        remove_tree(folder)


def lock_file(path: Path, kind: int, stop: threading.Event, on_wait: Callable[[], object] = lambda: None) -> IO[bytes]:
    """Lock a file, which another process may have locked for long. The lock ends when the file is closed, or with the process.

    `kind` is `fcntl.LOCK_EX` or `fcntl.LOCK_SH`; with `fcntl.LOCK_NB` a locked file raises BlockingIOError at once. `on_wait`
    is called before the first wait. Raises Interrupted when `stop` is set meanwhile, OSError on a file system without locks.
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
