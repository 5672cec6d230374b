"""One line of a log: what a CI system, a build tool or a test runner put before the compiler's own words, removed; and
those words parsed as a diagnostic.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "remark", "note"]

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-B0-2])")
_STAMP = re.compile(
    r"\ufeff?(?:[^\t]{0,200}\t[^\t]{0,200}\t)?\ufeff?"
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)? ?"
)
_PREFIX = re.compile(
    r"\s*(?:##\[(?P<command>\w+)\]|::(?P<workflow>error|warning|notice|debug|group)(?: [^:]*)?::|"
    r"\[\d+/\d+\]\s|\d{1,6}:\s|(?P<pytest>E)\s{2,}|>\s{1,3}|\|\s|"
    r"\[(?:rank\d+|build|ctest|test|stderr|stdout|proc \d+|repro)\]:?\s?|"
    r"\((?:\w+ )?pid=\d+\)\s|(?:INFO|DEBUG|ERROR|WARNING|CRITICAL)\s*:\s?(?=\S+:\d+:\d+: ))"
)
_SEVERITY = re.compile(r"(?:^|(?<=[:\])>] ))(?P<severity>fatal error|error|warning|remark|note): ?(?P<message>.*)")
_LOUD = re.compile(r"(?:Fatal |FATAL |Internal )?(?:Error|ERROR|FATAL): (?P<message>.+)")
_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::(?P<column>\d+))?(?:: .*)?\Z")
_LOC = re.compile(r'(?:loc\()?"(?P<file>[^"]+)":(?P<line>\d+):(?P<column>\d+)\)?(?::\s*|\Z)')
_FUSED = re.compile(r"loc\((?:[^()]|\([^()]*\))*\):\s*")
_PROGRAM = re.compile(r"[\w./+@-]+\Z")
# Words that test runners and loggers put where a compiler puts a file or its own name.
_NOT_A_PROGRAM = re.compile(r"(?:PASS|PASSED|OK|XFAIL|SKIP|INFO|DEBUG|ok|expected|test\w*|note|summary|Checking)\Z", re.I)
_NOTHING = re.compile(r"(?:0\b|none\b|no errors?\b|null\b|false\b|ok\b|pip's dependency resolver)|[\W\d]*\Z", re.I)

HEADLINE = 500
"""Characters of a message that are kept."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A cleaned line. `annotation` is what prefixed it: a CI command such as `error` or `group`, or `pytest`."""

    text: str
    annotation: str | None = None
    indented: bool = False


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """`PLACE: severity: message`. `location` is `file:line:col` as printed; `surely` when the form is a compiler's: a
    place in a file or a program's name before the severity, so that a message no rule knows is still a failure.
    """

    severity: Severity
    message: str
    location: str | None
    surely: bool


def clean(raw: bytes) -> LogLine:
    """The compiler's own words of one line."""
    text = raw.decode("utf-8", "replace").rstrip("\r\n ")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if match := _STAMP.match(text):
        text = text[match.end() :]
    text = text.rstrip()
    if "\r" in text:  # a progress bar overwrote itself; what remained on the screen counts
        text = text.rsplit("\r", 1)[1]
    annotation = None
    for _ in range(4):  # prefixes nest: a CI system shows a test runner that shows a build tool
        match = _PREFIX.match(text)
        if not match or match.end() == len(text):
            break
        annotation = match["command"] or match["workflow"] or (match["pytest"] and "pytest") or annotation
        text = text[match.end() :]
    stripped = text.lstrip()
    return LogLine(stripped, annotation, indented=len(stripped) != len(text))


def diagnostic(line: LogLine) -> Diagnostic | None:
    """The line as a diagnostic; None when it has no severity, or says that there were none."""
    text = line.text
    match = _SEVERITY.search(text)
    if match is None:
        return _loud(line)
    severity: Severity = "error" if match["severity"] == "fatal error" else match["severity"]  # type: ignore[assignment]
    place = text[: match.start()].rstrip(" :")
    message, location = _without_place(match["message"])
    location = location or _location(place)
    if severity == "error" and _NOTHING.match(message):
        return None
    known = not place or location is not None or place.startswith(("<unknown>", "loc(", "<stdin>", "<eval"))
    program = bool(_PROGRAM.match(place)) and not _NOT_A_PROGRAM.match(place)
    return Diagnostic(severity, message[:HEADLINE], location, surely=known or program)


def _loud(line: LogLine) -> Diagnostic | None:
    match = _LOUD.match(line.text)
    if match and not _NOTHING.match(match["message"]):
        return Diagnostic("error", match["message"][:HEADLINE], None, surely=True)
    if line.annotation == "error" and line.text:
        return Diagnostic("error", line.text[:HEADLINE], None, surely=True)
    return None


def _without_place(message: str) -> tuple[str, str | None]:
    """A location that MLIR or a native backend put inside the message: `error: loc("x":1:2): failed ...`."""
    message = message.removeprefix("<unknown>:0:0: ")
    if match := _LOC.match(message):
        return message[match.end() :], f"{match['file']}:{match['line']}:{match['column']}"
    if match := _FUSED.match(message):
        return message[match.end() :], None
    return message, None


def _location(place: str) -> str | None:
    if match := _LOC.match(place):
        return f"{match['file']}:{match['line']}:{match['column']}"
    match = _PLACE.match(place)
    if match is None or match["file"].startswith("<unknown>") or " " in match["file"].strip("'\""):
        return None
    return ":".join(part for part in (match["file"], match["line"], match["column"]) if part is not None)
