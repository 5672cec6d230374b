"""Classify a log, plain or gzip, from a file or a stream."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from triage.classify.prefilter import PIECE
from triage.classify.rules import RuleSet
from triage.classify.scanner import Scanner
from triage.model.errors import BadInput
from triage.model.outcome import Failure

_GZIP = b"\x1f\x8b"


def open_log(path: Path) -> BinaryIO:
    """Open a log for `classify_log`.

    Raises:
        BadInput: the file cannot be opened.
    """
    try:
        return path.open("rb")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error


def classify_log(stream: BinaryIO, rules: RuleSet, progress: Callable[[int], None] | None = None) -> tuple[Failure, ...]:
    """Return the failures in a log, plain or gzip, root cause first; empty when there is none.

    progress: called every 64 KiB with the bytes of text read so far.

    Raises:
        BadInput: the compressed stream is damaged.
    """
    scanner = Scanner(rules)
    total = 0
    for piece in _pieces(stream):
        scanner.feed(piece)
        total += len(piece)
        if progress:
            progress(total)
    failures, unlisted = scanner.finish(), scanner.unlisted()
    return (*failures, unlisted) if unlisted else failures


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    first = stream.read(PIECE)
    if first[:2] == _GZIP:
        yield from _decompressed(first, stream)
        return
    while first:
        yield first
        first = stream.read(PIECE)


def _decompressed(data: bytes, stream: BinaryIO) -> Iterator[bytes]:
    """Yield the text of a gzip stream in pieces of limited size, whatever its ratio; members may follow each other."""
    unpack = zlib.decompressobj(wbits=31)
    while data:
        try:
            text = unpack.decompress(data, PIECE)
        except zlib.error as error:
            raise BadInput(f"the compressed log is damaged: {error}") from error
        if text:
            yield text
        if unpack.eof:
            data = unpack.unused_data.lstrip(b"\0")
            unpack = zlib.decompressobj(wbits=31)
            data = data or stream.read(PIECE)
        else:
            data = unpack.unconsumed_tail or stream.read(PIECE)
            if not data and not unpack.eof:
                raise BadInput("the compressed log is damaged: it ends too early")
