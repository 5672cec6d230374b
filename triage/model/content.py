"""Hash files, and cut streams into lines."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import lru_cache
from hashlib import file_digest, sha256
from pathlib import Path

# `file_digest` fills a buffer of so many bytes, which takes longer than to read a small
# file.
_SMALL = 1 << 18
_COARSEST_TIME = 2_000_000_000  # nanoseconds between the times of some file systems


def file_sha256(path: Path | str) -> str:
    """Return the SHA-256 of a file as text. Raises OSError if it cannot be read."""
    with Path(path).open("rb", buffering=0) as source:
        if os.fstat(source.fileno()).st_size < _SMALL:
            return sha256(source.readall()).hexdigest()
        return file_digest(source, "sha256").hexdigest()


def settled_sha256(path: str) -> str:
    """Return the SHA-256 of a file. An unchanged file is read once. Raises OSError if
    it cannot be read.

    A file that was changed a moment ago is always read, because its next change may get
    the same time.
    """
    stat = Path(path).stat()
    changed = max(stat.st_mtime_ns, stat.st_ctime_ns)
    if abs(time.time_ns() - changed) < _COARSEST_TIME:
        return file_sha256(path)
    return _known_sha256(path, stat.st_dev, stat.st_ino, stat.st_size, changed)


@lru_cache(maxsize=1 << 16)
def _known_sha256(path: str, *_state: int) -> str:
    return file_sha256(path)


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
        *ended, rest = piece.split(b"\n")
        for line in ended:
            yield self._kept(self._begun + line)
            self._begun = b""
        self._begun += rest
        if len(self._begun) > 2 * (self._first + self._last):
            self._begun = self._kept(self._begun)

    def finish(self) -> Iterator[bytes]:
        """Yield the last line if the stream does not end with a line break."""
        if self._begun:
            yield self._kept(self._begun)

    def _kept(self, line: bytes) -> bytes:
        if len(line) <= self._first + self._last:
            return line
        return line[: self._first] + line[len(line) - self._last :]
