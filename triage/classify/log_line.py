"""Normalise a line of a log: remove what a terminal, a logger, a container or a CI
system prints before the message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from triage.classify.rules import log_format

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-B0-2])")
_STAMP = re.compile(
    r"\ufeff?(?:[^\t]{0,200}\t[^\t]{0,200}\t)?\ufeff?"
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)? "
    r"?(?:std(?:out|err) [FP] )?"
)
_HEAD, _TAIL = 3072, 1024  # characters read of a longer line
_NESTED = 10  # prefixes at most
_QUOTED = re.compile(r"(`+)(?P<code>.+?)\1?\Z")  # in Markdown


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line without prefixes. annotation: the CI command in its prefix, such as
    `error` or `group`, or `pytest`.
    """

    text: str
    annotation: str | None = None
    indent: int = 0


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
    for _ in range(_NESTED):
        match = log_format("prefixes", r"\s*(?:{})").match(text)
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
    quoted = _QUOTED.match(text)
    if quoted:
        text = quoted["code"]
    stripped = text.lstrip()
    return LogLine(stripped, annotation, len(text) - len(stripped))
