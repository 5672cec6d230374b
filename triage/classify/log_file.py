"""Classify a log, plain or gzip, in UTF-8 or UTF-16, from a file or a stream."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from triage.classify.prefilter import PIECE
from triage.classify.rules import RuleSet
from triage.classify.scanner import Scanner
from triage.model.errors import BadInput
from triage.model.outcome import Failure

_GZIP = b"\x1f\x8b"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CONTROL = bytes({*range(8), *range(14, 27), *range(28, 32)})  # those that no terminal output has
_MOST_CONTROL = 20  # of a text at most one character in so many is a control character


def open_log(path: Path) -> BinaryIO:
    """Open a log for `classify_log`.

    Raises:
        BadInput: the file cannot be opened.
    """
    try:
        return path.open("rb")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class ClassifiedLog:
    """A log with its failures, the root cause first."""

    log: str
    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class ClassifiedLogs:
    """The result of `triage classify`."""

    logs: Sequence[ClassifiedLog]


def classify_log(
    stream: BinaryIO, rules: RuleSet, progress: Callable[[int], None] | None = None, name: str = "the log"
) -> tuple[Failure, ...]:
    """Return the failures in a log, plain or gzip, root cause first; empty when there is none.

    progress: called every 64 KiB with the bytes read so far; name: of the log, for errors.

    Raises:
        BadInput: the log has no text, or its compressed stream is damaged.
    """
    scanner = Scanner(rules)
    total, has_text = 0, False
    for piece in _as_utf_8(_pieces(stream, name), name):
        scanner.feed(piece)
        has_text = has_text or not piece.isspace()
        total += len(piece)
        if progress:
            progress(total)
    if not has_text:
        raise BadInput(f"{name}: no text: it is empty")
    failures, unlisted = scanner.finish(), scanner.unlisted()
    return (*failures, unlisted) if unlisted else failures


def _as_utf_8(pieces: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yield text in UTF-8 with line feeds, whatever its encoding and line ends."""
    decoder = None
    only_returns = False
    for number, piece in enumerate(pieces):
        if number == 0 and piece.startswith(_UTF_16):
            decoder = codecs.getincrementaldecoder("utf-16")("replace")
        text = decoder.decode(piece).encode("utf-8", "replace") if decoder else piece
        if number == 0:
            if len(text.translate(None, _CONTROL)) * _MOST_CONTROL < len(text) * (_MOST_CONTROL - 1):
                raise BadInput(f"{name}: no text: it is binary")
            only_returns = b"\r" in text and b"\n" not in text
        yield text.replace(b"\r", b"\n") if only_returns else text


def _pieces(stream: BinaryIO, name: str) -> Iterator[bytes]:
    first = stream.read(PIECE)
    if first[:2] == _GZIP:
        yield from _decompressed(first, stream, name)
        return
    while first:
        yield first
        first = stream.read(PIECE)


def _decompressed(data: bytes, stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the text of a gzip stream in pieces of limited size, whatever its ratio; members may follow each other."""
    unpack = zlib.decompressobj(wbits=31)
    while data:
        try:
            text = unpack.decompress(data, PIECE)
        except zlib.error as error:
            raise BadInput(f"{name}: the compressed log is damaged: {error}") from error
        if text:
            yield text
        if unpack.eof:
            data = unpack.unused_data.lstrip(b"\0")
            unpack = zlib.decompressobj(wbits=31)
            data = data or stream.read(PIECE)
        else:
            data = unpack.unconsumed_tail or stream.read(PIECE)
            if not data and not unpack.eof:
                raise BadInput(f"{name}: the compressed log is damaged: it ends too early")
