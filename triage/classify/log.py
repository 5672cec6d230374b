"""Read logs of any size: select the lines worth reading, and remove what a terminal, a
logger, a container or a CI system prints before their messages.

Logs reach gigabytes, nearly all of it printed IR and compiler commands. So a short log
and the last lines of a long one are read line by line. Between them only lines with a
word of a rule are read, with those below them.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, groupby
from typing import BinaryIO, Literal

from triage.classify.rules import (
    PLAIN,
    RuleSet,
    log_format,
    packaged_rules,
    packaged_yaml,
)
from triage.model.errors import BadInput

HEAD = 16 << 10
"""Bytes read of each line. The message is at its beginning; one printed operation can
be 100 MB long.
"""

HEADLINE = 500
"""Characters kept of a message."""

_PIECE = 1 << 16
_READ_CLOSELY = 1 << 15  # bytes at the beginning and at the end, at least
_FOLLOWING = 40  # lines read below one with a word of a rule
_WARNING = re.compile(rb"[\w./+@-]++:\d++:\d++: warning: ")
_TITLE_MARK = re.compile(rb"\A# (?=.*\n\s*\n)")  # of an issue
# control characters that no terminal prints
_CONTROL = bytes({*range(8), *range(14, 27), *range(28, 32)})
_MOST_CONTROL = 1 / 20  # the share of control characters from which a text is binary
_TEST_BEGINS = re.compile(rb"\[ RUN      \] \S|=== RUN +\S")
_TEST_FAILED = re.compile(rb"\[  FAILED  \]|--- FAIL:")
_TEST_PASSED = re.compile(rb"\[       OK \]|--- PASS:")
_TEST_LINES = 400  # printed by a test whose end is looked for

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-B0-2])")
_HEAD, _TAIL = 3072, 1024  # characters read of a longer line
MOST_CHARACTERS = _HEAD + _TAIL
_NESTED = 10  # prefixes at most
_LOGGED_ERROR = re.compile(r"\b(?:ERROR|CRITICAL|FATAL)\b")


def decoded(data: bytes) -> str:
    """Return a text in UTF-8, or in UTF-16 with a byte order mark, with line feeds."""
    marks = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    encoding = "utf-16" if data.startswith(marks) else "utf-8-sig"
    return data.decode(encoding, "replace").replace("\r\n", "\n")


def text_pieces(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield a log in pieces, without the mark of an issue's title.

    Raises:
        BadInput: it is empty or binary, such as one that is packed or in UTF-16.
    """
    is_blank = True
    while piece := stream.read(_PIECE):
        if is_blank:
            controls = len(piece) - len(piece.translate(None, _CONTROL))
            if controls > len(piece) * _MOST_CONTROL:
                raise BadInput(f"{name}: no text: it is binary; save it as UTF-8")
            piece = _TITLE_MARK.sub(b"", piece)
            is_blank = piece.isspace()
        yield piece
    if is_blank:
        raise BadInput(f"{name}: no text: it is empty")


def selected_lines(
    pieces: Iterable[bytes], rules: RuleSet
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a log that are worth reading, with their numbers from 1."""
    return _without_passed_tests(_select(pieces, rules))


def _select(pieces: Iterable[bytes], rules: RuleSet) -> Iterator[tuple[int, bytes]]:
    first = 1
    lines_to_read = 0
    for block, is_inner in _blocks(pieces):
        lines = block.split(b"\n")[:-1]
        begins = [*accumulate((len(line) + 1 for line in lines), initial=0)]
        hits = set[int]()
        for selector in _selectors(rules) if is_inner else ():
            matches = selector.finditer(b"\n" + block)
            hits.update(bisect(begins, match.start()) - 1 for match in matches)
        for at, line in enumerate(lines):
            lines_to_read = _FOLLOWING if at in hits else lines_to_read - 1
            if not is_inner or (lines_to_read > 0 and not _WARNING.match(line)):
                yield first + at, line[:HEAD]
        first += len(lines)


def _blocks(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield a log in blocks of whole lines, and whether a block is neither the first
    nor the last one. Of a line longer than a block, only the beginning is kept.
    """
    block = b""
    is_inner = False
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
    anchors = set[str]()
    begins = {*formats["begins"]}
    for rule in rules:
        is_of_user = packaged_rules().by_name.get(rule.name) is not rule
        for pattern in rule.patterns:
            begins.update(pattern.begins)
            anchors.update(pattern.anchors)
            if is_of_user and pattern.scope in PLAIN:
                anchors.update(pattern.literals)
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
    held = list[tuple[int, bytes]]()
    for number, line in lines:
        begins = _TEST_BEGINS.search(line)
        if held and (begins or len(held) > _TEST_LINES or _TEST_FAILED.search(line)):
            yield from held
            held = []
        if held and _TEST_PASSED.search(line):
            held = []
        elif begins or held:
            held.append((number, line))
        else:
            yield number, line
    yield from held


@dataclass(frozen=True)
class LogLine:
    """A line without prefixes."""

    text: str
    annotation: str | None = None
    """What the prefix says of the line: the CI command, such as `error` or `group`, or
    `logged error`.
    """
    indent: int = 0
    number: int = 0
    """From 1."""


def clean_line(raw: bytes, number: int = 0) -> LogLine:
    """Return a line without line ending, colours, timestamp and prefixes, and without
    the middle of a very long one.

    >>> clean_line(b"2026-01-02T03:04:05Z ##[error]no such pass", 7)
    LogLine(text='no such pass', annotation='error', indent=0, number=7)
    """
    text = raw.decode("utf-8", "replace").rstrip("\r\n ")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if len(text) > MOST_CHARACTERS:
        text = f"{text[:_HEAD]} … {text[-_TAIL:]}"
    # a progress bar overwrote itself; the last text stayed on the screen
    text = text.rpartition("\r")[2]
    annotation = None
    # prefixes nest: a CI system shows a test runner that shows a build tool
    for _ in range(_NESTED):
        match = log_format("prefixes", r"\s*(?:{})").match(text)
        if not match or match.end() == len(text):
            break
        annotation = match["command"] or match["workflow"] or annotation
        if _LOGGED_ERROR.search(match[0]):
            annotation = annotation or "logged error"
        text = text[match.end() :]
    stripped = text.lstrip()
    return LogLine(stripped, annotation, len(text) - len(stripped), number)


Severity = Literal["error", "warning", "remark", "note"]

_WORDS = re.compile("rror|ERROR|warning|remark|note")
_SEVERITY = re.compile(  # MSVC and rustc print the number of the message, too
    r"(?:^|(?<=[:\])>] )|(?<=\d - ))(?P<severity>(?:fatal +|catastrophic |internal "
    r"|runtime )?error|Fatal Error|FATAL ERROR|(?<=\d: )Error|warning|remark|note)"
    r"(?P<code> [A-Z]{1,4}\d{3,5}|\[[A-Z]\d{3,5}\])? ?: ?(?P<message>.*)"
)
# glog and absl: `E0000 00:00:17.1 3853 file.cc:58] `, `2026-01-02 03:04:05.6: F
# file.cc:10] `
_LOGGER = re.compile(
    r"(?:(?P<severity>[IWEF])\d{4,8} [\d:.]{8,30} +\d+ |(?:: )?(?P<letter>[IWEF]) "
    r")[\w./+-]+:\d+\] (?P<message>.*)"
)
_SOURCE_CODE = re.compile(
    r"\.(?:c|cc|cpp|cxx|h|hh|hpp|inc|inl|cu|cuh|hip|cl|rs|go|[fF]9\d|ii?|mm?|swift|cs"
    r"|ts|java|zig):\d+|\A\{standard input\}"
)
_HOST_COMPILER = re.compile(
    r"(?:\S*[/\\])?(?:clang(?:\+\+)?|icp?x|dpcpp|gcc|g\+\+|cc1plus|cc|c\+\+)(?:-\d+)?\Z"
)
_SHOUTED_ERROR = re.compile(
    r"(?:\[ ?(?:ERROR|FATAL|Error) ?\]|(?:Fatal |FATAL |Internal "
    r")?(?:Error|ERROR|FATAL|CRITICAL):) (?P<message>.+)"
)
_FILE_LOCATION = re.compile(
    r"(?P<file>.+?):(?P<line>\d+)(?::(?P<column>\d+))?(?:: .*)?\Z"
)
_MLIR_LOCATION = re.compile(
    r'(?:loc\()?"(?P<file>[^"]+)":(?P<line>\d+):(?P<column>\d+)\)?(?::\s*|\Z)'
)
_UNKNOWN_LOCATION = re.compile(
    r'\A(?:<unknown>:0:0: |unknown: |loc\((?!"[^"]+":\d)(?:[^()]++|\([^()]*\))*+\):\s*)'
)
# where the compiler itself found the error
_COMPILER_SOURCE = re.compile(r"\A\S*[/\\]\w+\.cpp:\d+: ")
_PROGRAM = re.compile(r"[\w./+@-]+\Z")


@dataclass(frozen=True)
class Diagnostic:
    """`LOCATION: severity: message`."""

    severity: Severity
    message: str
    location: str | None = None
    """`file:line:col` as printed."""
    certain: bool = True
    """The line has a compiler's form, so that its message is a failure even when no
    rule matches it.
    """
    of_source: bool = False
    """The message comes from a compiler of host code, such as C++, or from a linker."""


def parse_diagnostic(line: LogLine) -> Diagnostic | None:
    """Parse a line as a diagnostic: by its severity, else by capitals or the mark of a
    CI system. None for a line without them, or if it reports that there was no error.

    >>> parse_diagnostic(LogLine("a.mlir:3:8: error: expected ')'"))
    ... # doctest: +NORMALIZE_WHITESPACE
    Diagnostic(severity='error', message="expected ')'", location='a.mlir:3:8',
    certain=True, of_source=False)
    """
    text = line.text
    match = _LOGGER.match(text)
    if match:
        letter = match["severity"] or match["letter"]
        message = match["message"]
        if letter not in "EF" and not message.startswith("OP_REQUIRES failed"):
            return Diagnostic("note", message[:HEADLINE])
        return Diagnostic("error", message[:HEADLINE], certain=letter != "E")
    match = _WORDS.search(text) and _SEVERITY.search(text)
    if not match:
        match = _SHOUTED_ERROR.match(text)
        if match and not log_format("no_errors").match(match["message"]):
            return Diagnostic("error", match["message"][:HEADLINE])
        return None
    severity: Severity = "error"
    if not match["severity"].lower().endswith("error"):
        severity = match["severity"]  # type: ignore[assignment]
    prefix = text[: match.start()].rstrip(" :")
    message, of_mlir = _split_location(match["message"])
    location = of_mlir or _parse_location(prefix)
    if severity == "error" and log_format("no_errors").match(message):
        return None
    is_of_compiler = (
        not prefix
        or location is not None
        or match["code"]
        or prefix.startswith(("<unknown>", "loc(", "<stdin>", "<eval"))
        or _PROGRAM.match(prefix)
    )
    of_source = (
        match["code"]
        or (location and not of_mlir and _SOURCE_CODE.search(location))
        or _HOST_COMPILER.match(prefix)
        or log_format("source_messages").match(message)
    )
    return Diagnostic(
        severity,
        message[:HEADLINE],
        location,
        certain=bool(is_of_compiler),
        of_source=bool(of_source),
    )


def _split_location(message: str) -> tuple[str, str | None]:
    """Return a message without the location that MLIR or a native backend prints in it,
    and that location: `error: loc("x":1:2): failed ...`.
    """
    message = _UNKNOWN_LOCATION.sub("", message)
    match = _MLIR_LOCATION.match(message)
    if match:
        location = f"{match['file']}:{match['line']}:{match['column']}"
        return _COMPILER_SOURCE.sub("", message[match.end() :]), location
    return message, None


def _parse_location(prefix: str) -> str | None:
    """Return the location in front of a severity as `file:line:col`, or None."""
    match = _FILE_LOCATION.match(prefix)
    if (
        match is None
        or match["file"].startswith("<unknown>")
        or " " in match["file"].strip("'\"")
    ):
        return None
    return ":".join(filter(None, match.group("file", "line", "column")))
