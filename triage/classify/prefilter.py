"""Select the lines of a stream that are worth reading.

Logs reach gigabytes, nearly all of it printed IR. This module searches bytes only, at the speed of `bytes.find`; memory
holds one piece of the stream and the head of one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

HEAD = 16 << 10
"""Bytes read of each line. The message is at its beginning; one printed operation can be 100 MB long."""

PIECE = 1 << 16
"""Bytes searched at a time; they stay in the processor's cache from one search to the next."""

_TAIL = 4096
"""Bytes before a line that are kept for messages that stand above the line that reveals them."""

_NOT_A_FLAG = rb"(?<!-Werror)(?<!-Wno-error)"
"""A build log has these flags of C++ compilers in every command."""

_WARNING = re.compile(rb"\n[\w./+@-]++:\d++:\d++: warning: ")

_TIME = rb"(?:20\d\d-\d\d-[^\n]{20} )?+"  # as GitHub Actions writes it; other timestamps are prefixes
# Prefixes of a message: `program: `, `file:7:3: `, `[12/34] `, `line 3: `, a process number, `E   `, colours,
# `3/40 Test #3: name ....`.
_PREFIXES = (
    rb"(?:(?:[A-Z]:(?=[\\/]))?+[\w.+/\\<>@$()-]++(?::[\d(][\w.+()]*+)*+: ++|[\w./-]++:\d++\] ++|"
    rb"[WEF]\d{4,8} \d\d:\d\d:[\d.]++ ++\d++ |[WEF] (?=[\w./])|\[(?!FAILED)[^\]\n]{1,40}+\] ++|line \d++: ++|\d++ ++|E ++|> |"
    rb"\(\d\d:\d\d:\d\d\) |"
    rb"\x1b\[[\d;]*+m|\d++/\d++ Test ++#\d++: \S++ \.*+ *+|\xef\xbb\xbf|\d{4}-\d\d-\d\d[T ][\d:.,]++Z?+ ++){0,8}"
)
_ASSERTION = (
    rb"(?:[\w.+-]++: )?+[^\s:]++:\d++: (?=[^\n]{0,4000}?(?:Assertion |: A(?:s(?:s(?:e(?:r(?:t(?:i(?:on?)?)?)?)?)?)?)?\n))"
)
_FAILED_PASS = rb"// -----// IR Dump After (?:\(anonymous namespace\)|[^\s(])++ Failed"
_FRAME = rb"#\d++ 0x|\d++ ++\S++ ++0x"
_LOGGED = rb"[EF] [\w./+-]++:\d++\] |[EF]\d{4,8} \d\d:\d\d:[\d.]++ ++\d++ [\w./+-]++:\d++\] "
_TABBED = rb"(?:[^\t\n]{0,200}\t[^\t\n]{0,200}\t)?+"
_TABBED_LINE = re.compile(rb"\n[^\t\n]{1,200}\t[^\t\n]{1,200}\t(?:\xef\xbb\xbf)?20\d\d-")


@cache
def _messages(begins: tuple[str, ...]) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Build a regex for lines whose message begins with one of the texts, or that are stack frames.

    The second regex is for logs with two columns of a CI system before the timestamp. Lines of printed IR, which begin
    with `%`, quotes or closing brackets, are excluded.
    """
    anything = b"|".join((_trie(begins).encode(), _FRAME, _LOGGED, _FAILED_PASS, _ASSERTION))
    message = rb" {0,3}+(?![ %\"}^])" + _PREFIXES + b"(?:" + anything + b")"
    return re.compile(rb"\n" + _TIME + message), re.compile(rb"\n" + _TABBED + _TIME + message)


def _trie(texts: Iterable[str]) -> str:
    """Build a regex for the texts that reads each character once."""
    root: dict[str, Any] = {}
    for text in texts:
        node = root
        for character in text:
            node = node.setdefault(character, {})
        node[""] = {}

    def regex(node: dict[str, Any]) -> str:
        if "" in node:
            return ""
        choices = [re.escape(character) + regex(child) for character, child in sorted(node.items())]
        return choices[0] if len(choices) == 1 else f"(?:{'|'.join(choices)})"

    return regex(root)


class Prefilter:
    """Cuts a stream into lines and yields those worth reading, however the stream is cut into pieces.

    Such a line contains one of `needles` in its head, or its message begins with one of `begins`. After a line was
    yielded, the reader may set `follow` to have that many of the next lines yielded as well.
    """

    def __init__(self, needles: Sequence[str], begins: Sequence[str] = ()) -> None:
        self._needles = [re.compile(re.escape(needle.encode()) + _NOT_A_FLAG) for needle in needles]
        self._begins = tuple(sorted(set(begins)))
        self._message: re.Pattern[bytes] | None = None
        self._carry = b"\n"  # always begins with the line break before the line it holds
        self._line = 1  # number of the line that `_carry` holds
        self._skipping = False  # inside a line whose head was already read
        self._tail = b""  # what precedes the region being read
        self._region_read, self._start = b"", 0  # the region, and where in it the yielded line begins
        self.follow = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield 1-based line numbers and the first `HEAD` bytes of each selected line. Exhaust the iterator."""
        for start in range(0, len(data), PIECE):
            yield from self._piece(data[start : start + PIECE])

    def finish(self) -> Iterator[tuple[int, bytes]]:
        """Yield the last line if the stream does not end with a line break."""
        if not self._skipping and len(self._carry) > 1:
            yield from self._region(self._carry, len(self._carry))
        self._carry = b"\n"

    def _piece(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        if self._skipping:
            end = data.find(b"\n")
            if end < 0:
                return
            self._skipping = False
            self._line += 1
            data = data[end:]
        else:
            data = self._carry + data
        end = data.rfind(b"\n")
        if end > 0:
            yield from self._region(data, end)
        self._carry = data[end:]
        if len(self._carry) > HEAD + 1:
            yield from self._region(self._carry[: HEAD + 1], HEAD + 1, last=True)
            self._carry = b"\n"
            self._skipping = True

    def before(self) -> list[bytes]:
        """Return the lines before the one that was yielded last, as far as they are in the last `_TAIL` bytes."""
        read = self._region_read[max(0, self._start - _TAIL) : self._start]
        return (self._tail[len(read) :] + read).split(b"\n")[1:]

    def _region(self, data: bytes, end: int, *, last: bool = False) -> Iterator[tuple[int, bytes]]:
        """Read `data[:end]`: complete lines, each after its line break; last: the head of one longer line."""
        yield from self._selected(data, end, last=last)
        self._tail = (self._tail + data[max(0, end - _TAIL) : end])[-_TAIL:]
        self._region_read, self._start = b"", 0

    def _selected(self, data: bytes, end: int, *, last: bool) -> Iterator[tuple[int, bytes]]:
        number, counted, done = self._line, 1, 0  # lines that begin before `done` were already yielded
        starts = self._starts(data, end)
        index = 0
        while True:
            if self.follow > 0 and done < end:
                start = done
                self.follow -= 1
            else:
                while index < len(starts) and starts[index] < done:
                    index += 1
                if index == len(starts):
                    break
                start = starts[index]
            number += data.count(b"\n", counted, start + 1)
            counted = start + 1
            done = data.find(b"\n", start + 1, end)
            done = end if done < 0 else done
            self._region_read, self._start = data, start
            yield number, data[start + 1 : min(done, start + 1 + HEAD)]
        self._line = number + data.count(b"\n", counted, end) + (0 if last else 1)

    def _starts(self, data: bytes, end: int) -> list[int]:
        """Return the offsets of the line breaks before selected lines, ascending."""
        starts = set()
        for needle in self._needles:
            match = needle.search(data, 0, end)
            while match:
                start = data.rfind(b"\n", 0, match.start())
                after = data.find(b"\n", match.end(), end)
                if match.end() - start - 1 <= HEAD and not _WARNING.match(data, start, end):
                    starts.add(start)
                match = needle.search(data, after, end) if after >= 0 else None
        if self._begins:
            starts.update(match.start() for match in self._messages(data).finditer(data, 0, end))
        return sorted(starts)

    def _messages(self, data: bytes) -> re.Pattern[bytes]:
        if self._message is None:  # decided by the first line, so that it is the same however the stream is cut
            self._message = _messages(self._begins)[1 if _TABBED_LINE.match(data) else 0]
        return self._message
