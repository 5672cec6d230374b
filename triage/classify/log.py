"""Read logs of any size: unpack and decode them, select the lines worth reading, and
parse those as diagnostics.

Logs reach gigabytes, nearly all of it printed IR and compiler commands. Only the head
of a line is kept in memory, and only the selected lines are decoded and parsed.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, BinaryIO, Literal, cast

from triage.classify.rules import NEEDLES, RuleSet, packaged_yaml
from triage.model.errors import BadInput

HEAD = 16 << 10
"""Bytes read of each line. The message is at its beginning; one printed operation can
be 100 MB long.
"""

_PIECE = 1 << 16
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# those that no terminal output has
_CONTROL = bytes({*range(8), *range(14, 27), *range(28, 32)})
_MOST_CONTROL = 20  # of a text at most one character in so many is a control character
_LINES_ABOVE = 8  # kept for messages that stand above the line that reveals them

# at the end of a line that a terminal broke
_CUT_ASSERTION = tuple(b": Assertion"[:length] for length in range(3, 11))
# a build log has these flags of C++ compilers in every command
_NOT_A_FLAG = r"(?<!-Werror)(?<!-Wno-error)"
_WARNING = re.compile(rb"[\w./+@-]++:\d++:\d++: warning: ")
# Two columns of a CI system, a timestamp, an indent. Printed IR begins with `%`, quotes
# or closing brackets.
_START = (
    r"(?:[^\t]{0,200}\t[^\t]{0,200}\t(?=(?:\xef\xbb\xbf)?20\d\d-))?+"
    r"(?:20\d\d-\d\d-.{20} )?+ {0,3}+(?![ %\"}^])"
)
Severity = Literal["error", "warning", "remark", "note"]

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-B0-2])")
_STAMP = re.compile(
    r"\ufeff?(?:[^\t]{0,200}\t[^\t]{0,200}\t)?\ufeff?"
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)? "
    r"?(?:std(?:out|err) [FP] )?"
)
_SEVERITY = re.compile(  # MSVC and rustc print the number of the message, too
    r"(?:^|(?<=[:\])>] ))(?P<severity>(?:fatal |catastrophic |internal |runtime "
    r")?error|warning|remark|note)"
    r"(?P<code> [A-Z]{1,4}\d{3,5}|\[[A-Z]\d{3,5}\])? ?: ?(?P<message>.*)"
)
_CUDA_TOOL = re.compile(  # `nvcc fatal   : `, `ptxas error   : `
    r"(?:nvcc|ptxas|nvlink|fatbinary|cicc|cudafe\+\+) "
    r"+(?P<severity>fatal|error|warning|info) *: ?(?P<message>.*)"
)
# glog and absl: `E0000 00:00:17.1 3853 file.cc:58] `, `2026-01-02 03:04:05.6: F
# file.cc:10] `
_LOGGER = re.compile(
    r"(?:(?P<severity>[IWEF])\d{4,8} [\d:.]{8,30} +\d+ |(?:: )?(?P<letter>[IWEF]) "
    r")[\w./+-]+:\d+\] (?P<message>.*)"
)
_SOURCE_CODE = re.compile(
    r"\.(?:c|cc|cpp|cxx|h|hh|hpp|inc|inl|cu|cuh|hip|cl|rs|go|[fF]9\d|ii?|mm?|swift|cs"
    r"|ts|java|zig):\d+"
)
# where the compiler itself found the error
_COMPILER_SOURCE = re.compile(r"\A\S*[/\\]\w+\.cpp:\d+: ")
# also how Metal's compiler names the source that it is given
_BUILD_TOOLS = ("configure", "program_source")
_SHOUTED_ERROR = re.compile(
    r"(?:\[(?:ERROR|FATAL|Error)\]|(?:Fatal |FATAL |Internal "
    r")?(?:Error|ERROR|FATAL):) (?P<message>.+)"
)
_FILE_LOCATION = re.compile(
    r"(?P<file>.+?):(?P<line>\d+)(?::(?P<column>\d+))?(?:: .*)?\Z"
)
# as MSVC and nvcc print it
_IN_BRACKETS = re.compile(
    r"(?P<file>[^\s()]+)\((?P<line>\d+)(?:,(?P<column>\d+))?\) ?\Z"
)
_MLIR_LOCATION = re.compile(
    r'(?:loc\()?"(?P<file>[^"]+)":(?P<line>\d+):(?P<column>\d+)\)?(?::\s*|\Z)'
)
_FUSED_LOCATION = re.compile(r"loc\((?:[^()]++|\([^()]*\))*+\):\s*")
_PROGRAM = re.compile(r"[\w./+@-]+\Z")

HEADLINE = 500
"""Characters kept of a message."""

_HEAD, _TAIL = 3072, 1024  # characters read of a longer line


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
    for number, piece in enumerate(_unpacked(stream, name)):
        if number == 0 and piece.startswith(_UTF_16):
            decoder = codecs.getincrementaldecoder("utf-16")("replace")
        if decoder:
            text = decoder.decode(piece).encode("utf-8", "replace")
        else:
            text = piece
        if number == 0:
            if len(text.translate(None, _CONTROL)) * _MOST_CONTROL < len(text) * (
                _MOST_CONTROL - 1
            ):
                raise BadInput(f"{name}: no text: it is binary")
            only_returns = b"\r" in text and b"\n" not in text
        total += len(text)
        is_blank = is_blank and text.isspace()
        if progress:
            progress(total)
        yield text.replace(b"\r", b"\n") if only_returns else text
    if is_blank:
        raise BadInput(f"{name}: no text: it is empty")


def _unpacked(stream: BinaryIO, name: str) -> Iterator[bytes]:
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


class LineCutter:
    """Cuts a stream into lines, of which it keeps the first `HEAD` bytes, however the
    stream is cut into pieces.
    """

    def __init__(self) -> None:
        self._head = b""

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the lines that end in the next piece of the stream."""
        *ended, rest = piece.split(b"\n")
        for line in ended:
            yield (self._head + line)[:HEAD] if self._head else line[:HEAD]
            self._head = b""
        self._head = (self._head + rest[:HEAD])[:HEAD]

    def finish(self) -> Iterator[bytes]:
        """Yield the last line if the stream does not end with a line break."""
        if self._head:
            yield self._head


class SelectedLines:
    """The lines of a log that are worth reading, with their numbers from 1.

    Such a line contains a literal that a rule names, or its message begins with one.
    The reader may set `follow` to get that many of the next lines as well.
    """

    def __init__(self, pieces: Iterable[bytes], rules: RuleSet) -> None:
        self._needle, self._message = _selectors(rules)
        self.numbered = self._numbered(pieces)
        self.above: deque[bytes] = deque(maxlen=_LINES_ABOVE)
        """The lines before the one that was yielded last."""
        self.follow = 0

    def _numbered(self, pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        cutter = LineCutter()
        number = 0
        for lines in chain(map(cutter.feed, pieces), (cutter.finish(),)):
            for line in lines:
                number += 1
                self.follow -= 1
                if self.follow >= 0 or self._is_selected(line):
                    yield number, line
                self.above.append(line)

    def _is_selected(self, line: bytes) -> bool:
        if self._needle.search(line) and not _WARNING.match(line):
            return True
        return bool(self._message.match(line)) or line.rstrip().endswith(_CUT_ASSERTION)


@cache
def _selectors(rules: RuleSet) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Build a regex for what selects a line wherever it is, and one for beginnings of
    lines.
    """
    patterns = [pattern for rule in rules for pattern in rule.patterns]
    anchors = {re.escape(text) for pattern in patterns for text in pattern.anchors}
    needles = "|".join(
        (*(f"{needle}{_NOT_A_FLAG}" for needle in NEEDLES), *sorted(anchors))
    )
    formats = packaged_yaml("log_formats")
    prefixes, messages = (
        "|".join(formats[key]) for key in ("before_messages", "messages")
    )
    begins = "|".join(
        map(
            re.escape,
            sorted(
                {
                    *formats["begins"],
                    *(text for pattern in patterns for text in pattern.begins),
                }
            ),
        )
    )
    message = f"{_START}(?:{prefixes}){{0,8}}(?:{begins}|{messages})"
    return re.compile(needles.encode()), re.compile(message.encode())


@cache
def _format(key: str, form: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(form.format("|".join(packaged_yaml("log_formats")[key])), flags)


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line without prefixes. annotation: the CI command in its prefix, such as
    `error` or `group`, or `pytest`.
    """

    text: str
    annotation: str | None = None
    indent: int = 0


@dataclass(frozen=True, slots=True)
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
    logged: bool = False
    """A line of a logging library."""
    of_source: bool = False
    """About source code of the host, such as C++, or its linker."""


def clean(raw: bytes) -> LogLine:
    """Return a line without line ending, colours, timestamp and prefixes, and without
    the middle of a very long one.
    """
    text = raw.decode("utf-8", "replace").rstrip("\r\n ")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    match = _STAMP.match(text)
    if match:
        text = text[match.end() :]
    text = text.rstrip()
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]} … {text[-_TAIL:]}"
    # a progress bar overwrote itself; the last text stayed on the screen
    if "\r" in text:
        text = text.rsplit("\r", 1)[1]
    annotation = None
    # prefixes nest: a CI system shows a test runner that shows a build tool
    for _ in range(4):
        match = _format("prefixes", r"\s*(?:{})").match(text)
        if not match or match.end() == len(text):
            break
        if match["level"] in ("ERROR", "CRITICAL"):
            level = "error"
        else:
            level = None
        annotation = (
            match["command"]
            or match["workflow"]
            or level
            or (match["pytest"] and "pytest")
            or annotation
        )
        text = text[match.end() :]
    stripped = text.lstrip()
    return LogLine(stripped, annotation, len(text) - len(stripped))


def diagnostic(line: LogLine) -> Diagnostic | None:
    """Parse a line as a diagnostic, unless it has no severity or reports that there
    were no errors.
    """
    text = line.text
    match = _LOGGER.match(text)
    if match:
        return _logged(match)
    match = _SEVERITY.search(text)
    if match is None:
        return _shouted_error(line)
    severity: Severity = "error"
    if not match["severity"].endswith("error"):
        severity = match["severity"]  # type: ignore[assignment]
    prefix = text[: match.start()].rstrip(" :")
    message, of_mlir = _split_location(match["message"])
    location = of_mlir or _location(prefix)
    if severity == "error" and _format("no_errors", "{}", re.I).match(message):
        return None
    located = (
        not prefix
        or location is not None
        or prefix.startswith(("<unknown>", "loc(", "<stdin>", "<eval"))
    )
    program = bool(_PROGRAM.match(prefix)) and not _format(
        "not_programs", r"(?:{})\Z", re.I
    ).match(prefix)
    coded = match["code"] is not None
    of_source = (
        coded
        or bool(location and not of_mlir and _SOURCE_CODE.search(location))
        or prefix.endswith(_BUILD_TOOLS)
    )
    of_source = of_source or bool(_format("source_messages", "(?:{})").match(message))
    # a sanitizer prints it when the program runs
    of_source = of_source and match["severity"] != "runtime error"
    return Diagnostic(
        severity,
        message[:HEADLINE],
        location,
        certain=located or program or coded,
        of_source=of_source,
    )


def _logged(match: re.Match[str]) -> Diagnostic | None:
    """Take only a fatal message, or the text of a status, for a certain failure."""
    severity, message = match["severity"] or match["letter"], match["message"]
    if severity in "IW" and not message.startswith("OP_REQUIRES failed"):
        return Diagnostic(
            "warning" if severity == "W" else "note",
            message[:HEADLINE],
            None,
            certain=False,
        )
    return Diagnostic(
        "error",
        message[:HEADLINE],
        None,
        certain=severity != "E"
        or bool(_format("statuses", r"(?:\A|: |\) )(?:{}): ").search(message)),
        logged=True,
    )


def _shouted_error(line: LogLine) -> Diagnostic | None:
    match = _CUDA_TOOL.match(line.text)
    if match:
        severity: Severity
        if match["severity"] in ("fatal", "error"):
            severity = "error"
        else:
            severity = "warning"
        return Diagnostic(severity, match["message"][:HEADLINE])
    match = _SHOUTED_ERROR.match(line.text)
    if match and not _format("no_errors", "{}", re.I).match(match["message"]):
        return Diagnostic("error", match["message"][:HEADLINE])
    if line.annotation == "error" and line.text:
        return Diagnostic("error", line.text[:HEADLINE])
    return None


def _split_location(message: str) -> tuple[str, str | None]:
    """Separate a location that MLIR or a native backend prints in the message: `error:
    loc("x":1:2): failed ...`.
    """
    message = message.removeprefix("<unknown>:0:0: ").removeprefix("unknown: ")
    match = _MLIR_LOCATION.match(message)
    if match:
        return _COMPILER_SOURCE.sub(
            "", message[match.end() :]
        ), f"{match['file']}:{match['line']}:{match['column']}"
    match = _FUSED_LOCATION.match(message)
    if match:
        return message[match.end() :], None
    return message, None


def _location(prefix: str) -> str | None:
    match = _MLIR_LOCATION.match(prefix)
    if match:
        return f"{match['file']}:{match['line']}:{match['column']}"
    match = _FILE_LOCATION.match(prefix) or _IN_BRACKETS.match(prefix)
    if (
        match is None
        or match["file"].startswith("<unknown>")
        or " " in match["file"].strip("'\"")
    ):
        return None
    return ":".join(
        part
        for part in (match["file"], match["line"], match["column"])
        if part is not None
    )
