"""What comes from outside: files that somebody else may have written, streams of lines,
and addresses in which passwords can stand.
"""

from __future__ import annotations

import errno
import os
import pickle
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from hashlib import file_digest, sha256
from importlib.util import cache_from_source
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@]*)(:\d+)?")
_SCP_LIKE = re.compile(r"[^@/:\s]+@([\w.-]+:(?!/).*)", re.DOTALL)
_IN_TEXT = re.compile(r"[A-Za-z][\w+.-]*://[^\s'\"<>]*")
# `file_digest` fills a buffer of so many bytes, which takes longer than to read a small
# file.
_SMALL = 1 << 18
# Nanoseconds between the times of some file systems: a file that was changed less long
# ago may change again without another time.
COARSEST_TIME = 2_000_000_000


def file_sha256(path: Path | str) -> str:
    """Return the SHA-256 of a file as text. Raises OSError if it cannot be read."""
    with Path(path).open("rb", buffering=0) as source:
        if os.fstat(source.fileno()).st_size < _SMALL:
            return sha256(source.readall()).hexdigest()
        return file_digest(source, "sha256").hexdigest()


def cached_sha256(path: str) -> str:
    """Return the SHA-256 of a file. An unchanged file is read once. Raises OSError if
    it cannot be read.

    A file that was changed a moment ago is always read, because its next change may get
    the same time.
    """
    stat = os.stat(path)  # noqa: PTH116 - a third of the time
    changed = max(stat.st_mtime_ns, stat.st_ctime_ns)
    if abs(time.time_ns() - changed) < COARSEST_TIME:
        return file_sha256(path)
    return _sha256_of_state(path, stat.st_dev, stat.st_ino, stat.st_size, changed)


@lru_cache(maxsize=1 << 16)
def _sha256_of_state(path: str, *_state: int) -> str:
    return file_sha256(path)


def cached_in_file(name: str, files: Iterable[Path], make: Callable[[], T]) -> T:
    """Return what `make` returns, or what it returned before if no file has changed:
    reading triage's own data files takes as long as a small compile.

    The result is kept next to Python's compiled modules, and in the same way: a folder
    that cannot be written costs only time.

    Args:
        name: The name of the kept file, unique in triage.
        files: The data files, and the modules that define the classes of the result.
        make: Reads the files.
    """
    stats = ((path, path.stat()) for path in files)
    stamp = [(str(path), stat.st_size, stat.st_mtime_ns) for path, stat in stats]
    cache_file = Path(cache_from_source(__file__)).with_name(
        f"{name}.{sys.implementation.cache_tag}.data"
    )
    value: T
    with suppress(Exception):  # there is none, or it is damaged
        # it is next to compiled modules, which are code as well
        before, value = pickle.loads(cache_file.read_bytes())  # noqa: S301
        if before == stamp:
            return value
    value = make()
    if not sys.dont_write_bytecode:
        temporary = cache_file.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            cache_file.parent.mkdir(exist_ok=True)
            temporary.write_bytes(pickle.dumps((stamp, value)))
            temporary.replace(cache_file)
    return value


class LineCutter:
    r"""Cuts a stream that comes in pieces into lines. Of a long line, it keeps the
    first and the last bytes.

    >>> cutter = LineCutter(4, 1)
    >>> [*cutter.feed(b"on"), *cutter.feed(b"e\nabcdefg\nre"), *cutter.finish()]
    [b'one', b'abcdg', b're']
    """

    def __init__(self, first: int, last: int = 0) -> None:
        self._first = first
        self._last = last
        self._begun = b""

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the lines that end in the next piece of the stream."""
        *ended, self._begun = (self._begun + piece).split(b"\n")
        yield from map(self._shorten, ended)
        if len(self._begun) > 2 * (self._first + self._last):
            self._begun = self._shorten(self._begun)

    def finish(self) -> Iterator[bytes]:
        """Yield the last line if the stream does not end with a line break."""
        if self._begun:
            yield self._shorten(self._begun)

    def _shorten(self, line: bytes) -> bytes:
        if len(line) <= self._first + self._last:
            return line
        return line[: self._first] + line[len(line) - self._last :]


def resolve_regular(path: Path, limit: int, folder: Path) -> Path:
    """Return the real path of a regular file with at most `limit` bytes in `folder`.

    A link may lead to another file in the folder, and not out of it: errors print a
    part of what they are about, which must not be a private file. Nothing is opened,
    because that waits for the writer of a pipe.

    Raises OSError for another file, and if there is none.
    """
    real_path = path
    status = path.lstat()
    # for another file it takes longer than to read a small one
    if stat.S_ISLNK(status.st_mode) or path.parent != folder:
        real_path = Path(os.path.realpath(path))
        if not real_path.is_relative_to(os.path.realpath(folder)):
            problem = "it is a link that leaves its folder"
            raise OSError(errno.EACCES, problem, str(path))
        status = real_path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    if status.st_size > limit:
        message = f"it has more than {limit >> 20} MiB"
        raise OSError(errno.EFBIG, message, str(path))
    return real_path


def read_bytes(path: Path, limit: int, folder: Path | None = None) -> bytes:
    """Return the content of a file in `folder` (default: its own). Raises OSError if
    it does not exist or does not pass `resolve_regular`.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    opened = os.open(resolve_regular(path, limit, folder or path.parent), flags)
    with os.fdopen(opened, "rb") as source:
        return source.read(limit)


def is_regular(path: Path) -> bool:
    """Return whether a program that this one started left a regular file at a path, and
    no link, pipe or folder.
    """
    return regular_size(path) is not None


def regular_size(path: Path) -> int | None:
    """Return the size of a regular file; None for anything else."""
    try:
        status = path.lstat()
    except OSError:
        return None
    if stat.S_ISREG(status.st_mode):
        return status.st_size
    return None


class Address(str):
    """An address whose text has no user, password, query or fragment, where tokens
    stand. Only what opens it uses `full`.

    >>> address = Address("https://me:secret@host/simple/?token=secret")
    >>> address
    'https://host/simple/'
    >>> address.full
    'https://me:secret@host/simple/?token=secret'
    """

    full: str

    def __new__(cls, text: str) -> Address:
        address = super().__new__(cls, _strip_secrets(text))
        address.full = getattr(text, "full", text)
        return address


def without_secrets(text: str) -> str:
    """Return a text, such as a program's output, whose addresses have no secrets.

    >>> without_secrets("fatal: 'https://me:secret@host/a' not found")
    "fatal: 'https://host/a' not found"
    """
    return _IN_TEXT.sub(lambda match: Address(match[0]), text)


def _strip_secrets(text: str) -> str:
    scheme, mark, rest = text.partition("://")
    if not mark:
        scp_like = _SCP_LIKE.fullmatch(text)
        if scp_like:
            return scp_like[1]
        return text
    host_and_path = _without_query(re.sub(r"^[^/?#]*@", "", rest))
    if not _HOST.fullmatch(host_and_path.partition("/")[0]):
        # a password that is not escaped, with a slash or a question mark in it
        _, at, host_and_path = rest.rpartition("@")
        host_and_path = _without_query(host_and_path) if at else "..."
    return f"{scheme}://{host_and_path}"


def _without_query(text: str) -> str:
    return re.split("[?#]", text, maxsplit=1)[0]
