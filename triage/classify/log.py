"""Read logs of any size: unpack and decode them, and select the lines worth reading.

Logs reach gigabytes, nearly all of it printed IR and compiler commands. So a short log
and the last lines of a long one are read line by line. Between them only lines with a
word of a rule are read, with those below them.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby
from typing import Any, BinaryIO, cast

from triage.classify.rules import PLAIN, RuleSet, packaged_yaml, required_literals
from triage.model.errors import BadInput

HEAD = 16 << 10
"""Bytes read of each line. The message is at its beginning; one printed operation can
be 100 MB long.
"""

_PIECE = 1 << 16
_READ_CLOSELY = 1 << 15  # bytes at the beginning and at the end, at least
_FOLLOWING = 40  # lines read below one with a word of a rule
_WARNING = re.compile(rb"[\w./+@-]++:\d++:\d++: warning: ")
# control characters that no terminal prints
_CONTROL = bytes({*range(8), *range(14, 27), *range(28, 32)})
_MOST_CONTROL = 1 / 20  # the share of control characters from which a text is binary
_TEST_BEGINS = re.compile(rb"\[ RUN      \] (?P<gtest>\S+)|=== RUN +(?P<go>\S+)")
_TEST_ENDS = re.compile(
    rb"(?P<passed>\[       OK \]|--- PASS:)|\[  FAILED  \]|--- FAIL:"
)
_TEST_LINES = 400  # printed by a test whose end is looked for


def text_encoding(head: bytes) -> str:
    r"""Return the encoding of a text by its first bytes: UTF-16, with or without a byte
    order mark, or UTF-8, whose mark is left out.

    >>> text_encoding("func".encode("utf-16-le"))
    'utf-16-le'
    """
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    zeros = [byte == 0 for byte in head[:4]]
    if zeros == [False, True, False, True]:
        return "utf-16-le"
    if zeros == [True, False, True, False]:
        return "utf-16-be"
    return "utf-8-sig"


def decoded(data: bytes) -> str:
    """Return a text in one of these encodings, with line feeds."""
    text = data.decode(text_encoding(data), "replace")
    return text.replace("\r\n", "\n")


def text_pieces(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the text of a log, plain or gzip, as UTF-8 with line feeds.

    Raises:
        BadInput: the log has no text, or its compressed stream is damaged.
    """
    decoder, line_end = None, b"\n"
    is_first, is_blank = True, True
    for piece in _unpack(stream, name):
        if is_first:
            encoding = text_encoding(piece)
            decoder = codecs.getincrementaldecoder(encoding)("replace")
        text = piece
        if decoder and encoding != "utf-8-sig":
            text = decoder.decode(piece).encode("utf-8", "replace")
        if is_first and _is_binary(text):
            raise BadInput(f"{name}: no text: it is binary")
        if is_first and b"\n" not in text:
            line_end = b"\r"
        is_first = False
        is_blank = is_blank and text.isspace()
        yield text.replace(line_end, b"\n")
    if is_blank:
        raise BadInput(f"{name}: no text: it is empty")


def _is_binary(text: bytes) -> bool:
    controls = len(text) - len(text.translate(None, _CONTROL))
    return controls > len(text) * _MOST_CONTROL


def _unpack(stream: BinaryIO, name: str) -> Iterator[bytes]:
    data: Any = stream
    if not isinstance(stream, io.BufferedReader):
        data = io.BufferedReader(cast(io.RawIOBase, stream))
    if data.peek(2)[:2] == b"\x1f\x8b":
        data = gzip.GzipFile(fileobj=data)
    try:
        while piece := data.read(_PIECE):
            yield piece
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadInput(f"{name}: the compressed log is damaged: {error}") from error


def selected_lines(
    pieces: Iterable[bytes], rules: RuleSet
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a log that are worth reading, with their numbers from 1."""
    return _without_passed_tests(_select(pieces, rules))


def _select(pieces: Iterable[bytes], rules: RuleSet) -> Iterator[tuple[int, bytes]]:
    number, following = 1, 0
    for block, is_inner in _blocks(pieces):
        at, hits, lines = 0, [len(block)], b"\n" + block
        for selector in _selectors(rules) if is_inner else ():
            hits += [match.start() for match in selector.finditer(lines)]
        hits.sort()
        while at < len(block):
            begin, hit = at, hits[bisect_left(hits, at)]
            if is_inner and following == 0:
                begin = block.rfind(b"\n", at, hit + 1) + 1 or at
                number += block.count(b"\n", at, begin)
            at = block.find(b"\n", begin) + 1 or len(block)
            if begin == at:  # no line is left
                continue
            line = block[begin : min(at - 1, begin + HEAD)]
            following = max(0, following - 1)
            if not (is_inner and _WARNING.match(line)):
                following = _FOLLOWING if hit < at else following
                yield number, line
            number += 1


def _blocks(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield a log in blocks of whole lines, and whether a block is neither the first
    nor the last one. Of a line longer than a block, only the beginning is kept.
    """
    block, is_inner = b"", False
    for piece in pieces:
        block += piece
        while len(block) >= 2 * _READ_CLOSELY:
            end = block.rfind(b"\n", 0, _READ_CLOSELY) + 1
            end = end or block.find(b"\n", _READ_CLOSELY) + 1
            if not end:
                block = block[:HEAD]
                break
            yield block[:end], is_inner
            block, is_inner = block[end:], True
    if not block.endswith(b"\n"):
        block += b"\n"
    yield block, False


@cache
def _selectors(rules: RuleSet) -> tuple[re.Pattern[bytes], ...]:
    """Return regexes for the texts that most errors have or a rule names, and one for
    the beginnings of messages. A literal alone is searched forty times as fast as in a
    regex of all.
    """
    formats = packaged_yaml("log_formats")
    anchors: set[str] = set()
    begins = {*formats["begins"]}
    for pattern in (pattern for rule in rules for pattern in rule.patterns):
        begins.update(pattern.begins)
        anchors.update(pattern.anchors)
        if pattern.scope in PLAIN and not pattern.literals:  # of a user's rule
            anchors.update(required_literals(pattern.regex))
    messages = [*formats["messages"]]
    for first, texts in groupby(sorted(begins), key=lambda text: text[0]):
        rests = "|".join(re.escape(text[1:]) for text in texts)
        messages.append(f"{re.escape(first)}(?:{rests})")
    prefixes = "|".join(formats["before_messages"])
    message = f"\n{formats['line_start']}(?:{prefixes}){{0,8}}(?:{'|'.join(messages)})"
    regexes = [*formats["anywhere"], *map(re.escape, sorted(anchors)), message]
    return tuple(re.compile(regex.encode()) for regex in regexes)


def _without_passed_tests(
    lines: Iterable[tuple[int, bytes]],
) -> Iterator[tuple[int, bytes]]:
    """Leave out the output of tests that passed, because a test may provoke an
    error.
    """
    held: list[tuple[int, bytes]] = []
    name = b""
    for number, line in lines:
        begins = _TEST_BEGINS.search(line) if b" RUN " in line else None
        if begins:
            yield from held
            held, name = [(number, line)], begins["gtest"] or begins["go"]
            continue
        if not name:
            yield number, line
            continue
        held.append((number, line))
        ends = name in line and _TEST_ENDS.search(line)
        if ends and ends["passed"]:
            held = []
        if ends or len(held) > _TEST_LINES:
            yield from held
            held, name = [], b""
    yield from held
