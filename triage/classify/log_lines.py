"""Parse a line of a log: remove the prefixes of CI systems, build tools and test runners, and read it as a diagnostic."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from triage.classify.rules import packaged_yaml

Severity = Literal["error", "warning", "remark", "note"]

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-B0-2])")
_STAMP = re.compile(
    r"\ufeff?(?:[^\t]{0,200}\t[^\t]{0,200}\t)?\ufeff?"
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)? ?(?:std(?:out|err) [FP] )?"
)
_SEVERITY = re.compile(  # MSVC and rustc print the number of the message, too
    r"(?:^|(?<=[:\])>] ))(?P<severity>(?:fatal |catastrophic |internal |runtime )?error|warning|remark|note)"
    r"(?P<code> [A-Z]{1,4}\d{3,5}|\[[A-Z]\d{3,5}\])? ?: ?(?P<message>.*)"
)
_CUDA_TOOL = re.compile(  # `nvcc fatal   : `, `ptxas error   : `
    r"(?:nvcc|ptxas|nvlink|fatbinary|cicc|cudafe\+\+) +(?P<severity>fatal|error|warning|info) *: ?(?P<message>.*)"
)
_LOGGER = re.compile(  # glog and absl: `E0000 00:00:17.1 3853 file.cc:58] `, `2026-01-02 03:04:05.6: F file.cc:10] `
    r"(?:(?P<severity>[IWEF])\d{4,8} [\d:.]{8,30} +\d+ |(?:: )?(?P<letter>[IWEF]) )[\w./+-]+:\d+\] (?P<message>.*)"
)
_SOURCE_CODE = re.compile(r"\.(?:c|cc|cpp|cxx|h|hh|hpp|inc|inl|cu|cuh|hip|cl|rs|go|f90|ii?):\d+")
_COMPILER_SOURCE = re.compile(r"\A\S*[/\\]\w+\.cpp:\d+: ")  # where the compiler itself found the error
_SHADER = "program_source:"  # how Metal's compiler names the source that it is given
_SHOUTED_ERROR = re.compile(r"(?:\[(?:ERROR|FATAL|Error)\]|(?:Fatal |FATAL |Internal )?(?:Error|ERROR|FATAL):) (?P<message>.+)")
_FILE_LOCATION = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::(?P<column>\d+))?(?:: .*)?\Z")
_IN_BRACKETS = re.compile(r"(?P<file>[^\s()]+)\((?P<line>\d+)(?:,(?P<column>\d+))?\) ?\Z")  # as MSVC and nvcc print it
_MLIR_LOCATION = re.compile(r'(?:loc\()?"(?P<file>[^"]+)":(?P<line>\d+):(?P<column>\d+)\)?(?::\s*|\Z)')
_FUSED_LOCATION = re.compile(r"loc\((?:[^()]++|\([^()]*\))*+\):\s*")
_PROGRAM = re.compile(r"[\w./+@-]+\Z")

HEADLINE = 500
"""Characters kept of a message."""

_HEAD, _TAIL = 3072, 1024  # characters read of a longer line


@cache
def _regex(key: str, form: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(form.format("|".join(packaged_yaml("log_formats")[key])), flags)


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line without prefixes. annotation: the CI command in its prefix, such as `error` or `group`, or `pytest`."""

    text: str
    annotation: str | None = None
    indent: int = 0

    @property
    def indented(self) -> bool:
        """Whether spaces precede the text."""
        return self.indent > 0


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """`LOCATION: severity: message`."""

    severity: Severity
    message: str
    location: str | None = None
    """`file:line:col` as printed."""
    certain: bool = True
    """The line has a compiler's form, so that its message is a failure even when no rule matches it."""
    logged: bool = False
    """A line of a logging library."""
    of_source: bool = False
    """About source code of the host, such as C++, or its linker."""


def clean(raw: bytes) -> LogLine:
    """Return a line without line ending, colours, timestamp and prefixes, and without the middle of a very long one."""
    text = raw.decode("utf-8", "replace").rstrip("\r\n ")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if match := _STAMP.match(text):
        text = text[match.end() :]
    text = text.rstrip()
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]} … {text[-_TAIL:]}"
    if "\r" in text:  # a progress bar overwrote itself; the last text stayed on the screen
        text = text.rsplit("\r", 1)[1]
    annotation = None
    for _ in range(4):  # prefixes nest: a CI system shows a test runner that shows a build tool
        match = _regex("prefixes", r"\s*(?:{})").match(text)
        if not match or match.end() == len(text):
            break
        level = "error" if match["level"] in ("ERROR", "CRITICAL") else None
        annotation = match["command"] or match["workflow"] or level or (match["pytest"] and "pytest") or annotation
        text = text[match.end() :]
    stripped = text.lstrip()
    return LogLine(stripped, annotation, len(text) - len(stripped))


def diagnostic(line: LogLine) -> Diagnostic | None:
    """Parse a line as a diagnostic, unless it has no severity or reports that there were no errors."""
    text = line.text
    if match := _LOGGER.match(text):
        return _logged(match)
    match = _SEVERITY.search(text)
    if match is None:
        return _shouted_error(line)
    severity: Severity = "error" if match["severity"].endswith("error") else match["severity"]  # type: ignore[assignment]
    prefix = text[: match.start()].rstrip(" :")
    message, of_mlir = _split_location(match["message"])
    location = of_mlir or _location(prefix)
    if severity == "error" and _regex("no_errors", "{}", re.I).match(message):
        return None
    located = not prefix or location is not None or prefix.startswith(("<unknown>", "loc(", "<stdin>", "<eval"))
    program = bool(_PROGRAM.match(prefix)) and not _regex("not_programs", r"(?:{})\Z", re.I).match(prefix)
    coded = match["code"] is not None
    of_source = coded or bool(location and not of_mlir and _SOURCE_CODE.search(location)) or _SHADER in prefix
    of_source = of_source or bool(_regex("source_messages", "(?:{})").match(message))
    of_source = of_source and match["severity"] != "runtime error"  # a sanitizer prints it when the program runs
    return Diagnostic(severity, message[:HEADLINE], location, certain=located or program or coded, of_source=of_source)


def _logged(match: re.Match[str]) -> Diagnostic | None:
    """Read a line of a logging library. Only a fatal message or the text of a status is certainly a failure."""
    severity, message = match["severity"] or match["letter"], match["message"]
    if severity in "IW" and not message.startswith("OP_REQUIRES failed"):
        return Diagnostic("warning" if severity == "W" else "note", message[:HEADLINE], None, certain=False)
    return Diagnostic(
        "error",
        message[:HEADLINE],
        None,
        certain=severity != "E" or bool(_regex("statuses", r"(?:\A|: |\) )(?:{}): ").search(message)),
        logged=True,
    )


def _shouted_error(line: LogLine) -> Diagnostic | None:
    if match := _CUDA_TOOL.match(line.text):
        severity: Severity = "error" if match["severity"] in ("fatal", "error") else "warning"
        return Diagnostic(severity, match["message"][:HEADLINE])
    match = _SHOUTED_ERROR.match(line.text)
    if match and not _regex("no_errors", "{}", re.I).match(match["message"]):
        return Diagnostic("error", match["message"][:HEADLINE])
    if line.annotation == "error" and line.text:
        return Diagnostic("error", line.text[:HEADLINE])
    return None


def _split_location(message: str) -> tuple[str, str | None]:
    """Separate a location that MLIR or a native backend prints in the message: `error: loc("x":1:2): failed ...`."""
    message = message.removeprefix("<unknown>:0:0: ").removeprefix("unknown: ")
    if match := _MLIR_LOCATION.match(message):
        return _COMPILER_SOURCE.sub("", message[match.end() :]), f"{match['file']}:{match['line']}:{match['column']}"
    if match := _FUSED_LOCATION.match(message):
        return message[match.end() :], None
    return message, None


def _location(prefix: str) -> str | None:
    if match := _MLIR_LOCATION.match(prefix):
        return f"{match['file']}:{match['line']}:{match['column']}"
    match = _FILE_LOCATION.match(prefix) or _IN_BRACKETS.match(prefix)
    if match is None or match["file"].startswith("<unknown>") or " " in match["file"].strip("'\""):
        return None
    return ":".join(part for part in (match["file"], match["line"], match["column"]) if part is not None)
