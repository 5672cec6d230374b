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
    match = _STAMP.match(text)
    if match:
        text = text[match.end() :]
    text = text.rstrip()
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
        annotation = _annotation(match) or annotation
        text = text[match.end() :]
    stripped = text.lstrip()
    return LogLine(stripped, annotation, len(text) - len(stripped), number)


def _annotation(prefix: re.Match[str]) -> str | None:
    if prefix["command"] or prefix["workflow"]:
        return prefix["command"] or prefix["workflow"]
    if prefix["level"] in ("ERROR", "CRITICAL"):
        return "error"
    if _LOGGED_ERROR.search(prefix[0]):
        return "logged error"
    return None
