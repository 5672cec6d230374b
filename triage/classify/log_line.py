"""Normalise a line of a log: remove what a terminal, a logger, a container or a CI
system prints before the message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from triage.classify.rules import log_format

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-B0-2])")
_HEAD, _TAIL = 3072, 1024  # characters read of a longer line
_NESTED = 10  # prefixes at most
_LOGGED_ERROR = re.compile(r"\b(?:ERROR|CRITICAL|FATAL)\b")
MOST_CHARACTERS = _HEAD + _TAIL


@dataclass(frozen=True, slots=True)
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


def clean(raw: bytes, number: int = 0) -> LogLine:
    """Return a line without line ending, colours, timestamp and prefixes, and without
    the middle of a very long one.

    >>> clean(b"2026-01-02T03:04:05Z ##[error]no such pass", 7)
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
    r"(?:^|(?<=[:\])>] ))(?P<severity>(?:fatal |catastrophic |internal |runtime "
    r")?error|Fatal Error|FATAL ERROR|(?<=\d: )Error|warning|remark|note)"
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
    r"(?:\S*[/\\])?(?:clang(?:\+\+)?|gcc|g\+\+|cc1plus|cc|c\+\+)(?:-\d+)?\Z"
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

HEADLINE = 500
"""Characters kept of a message."""


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
    of_source: bool = False
    """The message comes from a compiler of host code, such as C++, or from a linker."""


def diagnostic(line: LogLine) -> Diagnostic | None:
    """Parse a line as a diagnostic: by its severity, else by capitals or the mark of a
    CI system. None for a line without them, or if it reports that there was no error.

    >>> diagnostic(LogLine("a.mlir:3:8: error: expected ')'"))
    ... # doctest: +NORMALIZE_WHITESPACE
    Diagnostic(severity='error', message="expected ')'", location='a.mlir:3:8',
    certain=True, of_source=False)
    """
    text = line.text
    match = _LOGGER.match(text)
    if match:
        return _read_logger_line(match)
    match = _WORDS.search(text) and _SEVERITY.search(text)
    if not match:
        return _of_other_form(line)
    severity: Severity = "error"
    if not match["severity"].lower().endswith("error"):
        severity = match["severity"]  # type: ignore[assignment]
    prefix = text[: match.start()].rstrip(" :")
    message, of_mlir = _split_location(match["message"])
    location = of_mlir or _parse_location(prefix)
    if severity == "error" and log_format("no_errors", "{}", re.I).match(message):
        return None
    located = (
        not prefix
        or location is not None
        or prefix.startswith(("<unknown>", "loc(", "<stdin>", "<eval"))
    )
    coded = match["code"] is not None
    of_source = (
        coded
        or (location and not of_mlir and _SOURCE_CODE.search(location))
        or _HOST_COMPILER.match(prefix)
        or log_format("source_messages", "(?:{})").match(message)
    )
    return Diagnostic(
        severity,
        message[:HEADLINE],
        location,
        certain=located or coded or _PROGRAM.match(prefix) is not None,
        of_source=bool(of_source),
    )


def _read_logger_line(match: re.Match[str]) -> Diagnostic:
    """Read a line of a logging library. A fatal line is certainly a failure."""
    letter, message = match["severity"] or match["letter"], match["message"]
    headline = message[:HEADLINE]
    is_failure = letter in "EF" or message.startswith("OP_REQUIRES failed")
    if not is_failure:
        return Diagnostic("note", headline)
    return Diagnostic("error", headline, certain=letter != "E")


def _of_other_form(line: LogLine) -> Diagnostic | None:
    """Parse an error that capitals or a CI system mark."""
    match = _SHOUTED_ERROR.match(line.text)
    if match and not log_format("no_errors", "{}", re.I).match(match["message"]):
        return Diagnostic("error", match["message"][:HEADLINE])
    return None


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
