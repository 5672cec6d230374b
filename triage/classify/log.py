"""Read logs of any size: unpack and decode them, cut them into lines, and select the
lines worth reading.

Logs reach gigabytes, nearly all of it printed IR and compiler commands. Only the head
of a line is kept in memory, and only the selected lines are decoded.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import chain, islice
from typing import Any, BinaryIO, cast

from triage.classify.rules import NEEDLES, RuleSet, packaged_yaml
from triage.model.content import LineCutter
from triage.model.errors import BadInput

HEAD = 16 << 10
"""Bytes read of each line. The message is at its beginning; one printed operation can
be 100 MB long.
"""

_PIECE = 1 << 16
# control characters that no terminal prints
_CONTROL = bytes({*range(8), *range(14, 27), *range(28, 32)})
_MOST_CONTROL = 1 / 20  # the share of control characters from which a text is binary
_LAST_LINES = 500  # kept of a log that is read closely
_LINES_FOR_WIDTH = 400  # a longer text was not copied from a terminal
_TERMINAL_WIDTHS = range(60, 401)  # columns
_LINES_OF_WIDTH = 2  # at least so many lines have the width of a terminal
_TEST_BEGINS = re.compile(rb"\[ RUN      \] (?P<gtest>\S+)|=== RUN +(?P<go>\S+)")
_TEST_ENDS = re.compile(
    rb"(?P<passed>\[       OK \]|--- PASS:)|\[  FAILED  \]|--- FAIL:"
)
_TEST_LINES = 400  # printed by a test whose end is looked for
_LINES_ABOVE = 8  # kept for messages that stand above the line that reveals them

# beginnings of `: Assertion` at the end of a line that a terminal broke
_BROKEN_ASSERTION = tuple(b": Assertion"[:length] for length in range(3, 11))
# a build log has these flags of C++ compilers in every command
_NOT_A_FLAG = r"(?<!-Werror)(?<!-Wno-error)"
_WARNING = re.compile(rb"[\w./+@-]++:\d++:\d++: warning: ")
# Two columns of a CI system, a timestamp, an indent. Printed IR begins with `%`, quotes
# or closing brackets.
_START = (
    r"(?:[^\t]{0,200}\t[^\t]{0,200}\t(?=(?:\xef\xbb\xbf)?20\d\d-))?+"
    r"(?:20\d\d-\d\d-.{20} )?+ {0,3}+(?![ %\"}^])"
)


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


def text_pieces(
    stream: BinaryIO, name: str, progress: Callable[[int], None] | None = None
) -> Iterator[bytes]:
    """Yield the text of a log, plain or gzip, in UTF-8 with line feeds, whatever its
    encoding and line ends.

    Raises:
        BadInput: the log has no text, or its compressed stream is damaged.
    """
    decoder, only_returns = None, False
    total, is_blank = 0, True
    for number, piece in enumerate(_unpack(stream, name)):
        if number == 0 and text_encoding(piece) != "utf-8-sig":
            decoder = codecs.getincrementaldecoder(text_encoding(piece))("replace")
        if decoder:
            text = decoder.decode(piece).encode("utf-8", "replace")
        else:
            text = piece
        if number == 0:
            text = text.removeprefix(codecs.BOM_UTF8)
            if _is_binary(text):
                raise BadInput(f"{name}: no text: it is binary")
            only_returns = b"\r" in text and b"\n" not in text
        total += len(text)
        is_blank = is_blank and text.isspace()
        if progress:
            progress(total)
        yield text.replace(b"\r", b"\n") if only_returns else text
    if is_blank:
        raise BadInput(f"{name}: no text: it is empty")


def _is_binary(text: bytes) -> bool:
    controls = len(text) - len(text.translate(None, _CONTROL))
    return controls > len(text) * _MOST_CONTROL


def _unpack(stream: BinaryIO, name: str) -> Iterator[bytes]:
    data: Any
    if isinstance(stream, io.BufferedReader):
        data = stream
    else:
        data = io.BufferedReader(cast(io.RawIOBase, stream))
    if data.peek(2)[:2] == b"\x1f\x8b":
        data = gzip.GzipFile(fileobj=data)
    try:
        while piece := data.read(_PIECE):
            yield piece
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadInput(f"{name}: the compressed log is damaged: {error}") from error


def _unwrap(lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Join the lines that a terminal broke in the middle of a word. Only a short text
    was copied from a terminal.
    """
    first = list(islice(lines, _LINES_FOR_WIDTH))
    if len(first) == _LINES_FOR_WIDTH:
        return chain(first, lines)
    return _join_broken_lines(first)


def _join_broken_lines(
    lines: Sequence[tuple[int, bytes]],
) -> Iterator[tuple[int, bytes]]:
    """Join each line that fills the terminal with the line that continues it. The width
    of the terminal is that of the longest lines.
    """
    widths = Counter(len(line) for line in {line for _, line in lines})
    width = max(widths, default=0)
    if width not in _TERMINAL_WIDTHS or widths[width] < _LINES_OF_WIDTH:
        width = HEAD + 1  # no line is so long
    number, joined, last_width = 0, b"", 0
    for number_here, line in lines:
        is_rest = last_width == width and _continues(joined, line)
        if number and not is_rest:
            yield number, joined
        if is_rest:
            joined = (joined + line)[:HEAD]
        else:
            number, joined = number_here, line
        last_width = len(line)
    if number:
        yield number, joined


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


def _continues(before: bytes, line: bytes) -> bool:
    """Return whether a line break is in the middle of a word or of a quoted text."""
    if before.endswith(b" ") or re.match(rb" \S", line):
        return True
    if re.search(rb"[\w.]\Z", before) and re.match(rb"[a-z\d_.]", line):
        return True
    return before.count(b'"') % 2 == 1 and not line[:1].isspace()


class SelectedLines:
    """The lines of a log that are worth reading, with their numbers from 1.

    Such a line contains a literal that a rule names, or its message begins with one.
    The reader may set `follow` to get that many of the next lines as well.
    """

    def __init__(
        self, pieces: Iterable[bytes], rules: RuleSet, closely: int = 0
    ) -> None:
        """closely: select every line in so many bytes at the start of the log."""
        self._rules = rules
        self._bytes_left = closely
        self.is_read_closely = closely > 0
        self.numbered = self._select(pieces)
        self.above: deque[bytes] = deque(maxlen=_LINES_ABOVE)
        """The lines before the one that was yielded last."""
        self.last: deque[tuple[int, bytes]] = deque(maxlen=_LAST_LINES)
        """The last lines of a log that is read closely, after its first part."""
        self.follow = 0

    def _select(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield the selected lines, each with its number."""
        cutter = LineCutter(HEAD)
        lines = chain.from_iterable(map(cutter.feed, pieces))
        numbered: Iterator[tuple[int, bytes]] = enumerate(
            chain(lines, cutter.finish()), 1
        )
        if self.is_read_closely:
            numbered = _unwrap(numbered)
        for number, line in _without_passed_tests(numbered):
            self.follow -= 1
            self._bytes_left -= len(line) + 1
            is_at_start = self._bytes_left >= 0
            if self.is_read_closely and not is_at_start:
                self.last.append((number, line))
            if is_at_start or self.follow >= 0 or self._is_selected(line):
                yield number, line
            self.above.append(line)

    @cached_property
    def _selectors(self) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
        """Built on first use: a short log is read closely to its end."""
        return _selectors(self._rules)

    def _is_selected(self, line: bytes) -> bool:
        """Return whether a line that is not a warning contains a literal, or its
        message begins with one, or a terminal broke it within an assertion.
        """
        anywhere, at_beginning = self._selectors
        if anywhere.search(line) and not _WARNING.match(line):
            return True
        if at_beginning.match(line):
            return True
        return line.rstrip().endswith(_BROKEN_ASSERTION)


@cache
def _selectors(rules: RuleSet) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Return two regexes that select lines: one for literals anywhere in a line, and
    one for the beginning of its message.
    """
    patterns = [pattern for rule in rules for pattern in rule.patterns]
    anchors = {re.escape(text) for pattern in patterns for text in pattern.anchors}
    of_most_errors = [f"{literal}{_NOT_A_FLAG}" for literal in NEEDLES]
    anywhere = "|".join([*of_most_errors, *sorted(anchors)])
    formats = packaged_yaml("log_formats")
    prefixes = "|".join(formats["before_messages"])
    begins = {text for pattern in patterns for text in pattern.begins}
    begins.update(formats["begins"])
    messages = "|".join([*map(re.escape, sorted(begins)), *formats["messages"]])
    message = f"{_START}(?:{prefixes}){{0,8}}(?:{messages})"
    return re.compile(anywhere.encode()), re.compile(message.encode())
