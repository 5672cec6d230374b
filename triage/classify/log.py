"""Read logs of any size: select the lines worth reading.

Logs reach gigabytes, nearly all of it printed IR and compiler commands. So a short log
and the last lines of a long one are read line by line. Between them only lines with a
word of a rule are read, with those below them.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate, groupby
from typing import BinaryIO

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
_TEST_BEGINS = re.compile(rb"\[ RUN      \] \S|=== RUN +\S")
_TEST_PASSED = re.compile(rb"\[       OK \]|--- PASS:")
_TEST_LINES = 400  # printed by a test whose end is looked for


def decoded(data: bytes) -> str:
    """Return a text in UTF-8, or in UTF-16 with a byte order mark, with line feeds."""
    marks = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    encoding = "utf-16" if data.startswith(marks) else "utf-8-sig"
    return data.decode(encoding, "replace").replace("\r\n", "\n")


def text_pieces(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield a log in pieces.

    Raises:
        BadInput: it is empty or binary, such as one that is packed or in UTF-16.
    """
    is_blank = True
    while piece := stream.read(_PIECE):
        controls = len(piece) - len(piece.translate(None, _CONTROL))
        if is_blank and controls > len(piece) * _MOST_CONTROL:
            raise BadInput(f"{name}: no text: it is binary; save it as UTF-8")
        is_blank = is_blank and piece.isspace()
        yield piece
    if is_blank:
        raise BadInput(f"{name}: no text: it is empty")


def selected_lines(
    pieces: Iterable[bytes], rules: RuleSet
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a log that are worth reading, with their numbers from 1."""
    return _without_passed_tests(_select(pieces, rules))


def _select(pieces: Iterable[bytes], rules: RuleSet) -> Iterator[tuple[int, bytes]]:
    first, following = 1, 0
    for block, is_inner in _blocks(pieces):
        lines = block.split(b"\n")[:-1]
        begins = [*accumulate((len(line) + 1 for line in lines), initial=0)]
        hits: set[int] = set()
        for selector in _selectors(rules) if is_inner else ():
            matches = selector.finditer(b"\n" + block)
            hits.update(bisect(begins, match.start()) - 1 for match in matches)
        for at, line in enumerate(lines):
            following = _FOLLOWING if at in hits else following - 1
            if not is_inner or (following > 0 and not _WARNING.match(line)):
                yield first + at, line[:HEAD]
        first += len(lines)


def _blocks(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield a log in blocks of whole lines, and whether a block is neither the first
    nor the last one. Of a line longer than a block, only the beginning is kept.
    """
    block, is_inner = b"", False
    for piece in pieces:
        block += piece
        while len(block) >= 2 * _READ_CLOSELY:
            end = block.rfind(b"\n", 0, _READ_CLOSELY)
            end = max(end, 0) or block.find(b"\n", _READ_CLOSELY)
            if end < 0:
                block = block[:HEAD]
                break
            yield block[: end + 1], is_inner
            block, is_inner = block[end + 1 :], True
    yield block.removesuffix(b"\n") + b"\n", False


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
    for number, line in lines:
        begins = _TEST_BEGINS.search(line)
        if begins or len(held) > _TEST_LINES:
            yield from held
            held = []
        if held and _TEST_PASSED.search(line):
            held = []
        elif begins or held:
            held.append((number, line))
        else:
            yield number, line
    yield from held
