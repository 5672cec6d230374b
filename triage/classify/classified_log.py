"""Classify a whole log: its failures, or the lines that sound like one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from triage.classify.finding import Finding, match_exception, match_line
from triage.classify.line_ranker import scores, weights
from triage.classify.log import text_pieces
from triage.classify.log_line import HEADLINE, Diagnostic, LogLine
from triage.classify.reader import read_log
from triage.classify.rules import RuleSet, log_format
from triage.model.errors import BadInput
from triage.model.fields import in_json
from triage.model.outcome import Exit, Failure

_READ = 1000  # characters of a line; regexes with two gaps take quadratic time
_MOST_SHOWN = 3  # lines
_QUOTE_LINES = 3  # a text of so few lines is the quote of a message
# the exception in a line of prose
_EXCEPTION = re.compile(r"\b(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): .+")
_LAST_LINES = 15  # in which a log says that all went well
_QUOTED = re.compile(r"`(?:error: )?([^`]{12,})`|\"(?:error: )?([^\"]{12,})\"")


@dataclass(frozen=True, slots=True)
class SuspiciousLine:
    """A line of a log that sounds like a failure."""

    line: int
    """Its number, from 1."""
    text: str


def ranked(lines: Sequence[LogLine]) -> list[tuple[float, LogLine]]:
    """Return lines with their scores, those first that most likely tell a failure. A
    line that tells none has a score below 0.
    """
    texts = [line.text[:_READ] for line in lines]
    scored = zip(scores(texts, weights()), lines, strict=True)
    return sorted(scored, key=lambda pair: -pair[0])


def look_again(
    lines: Sequence[LogLine], rules: RuleSet
) -> tuple[Finding | None, tuple[SuspiciousLine, ...]]:
    """Read the lines that sound like a failure as messages. Return the finding of the
    first that a rule knows, or the likeliest lines.

    lines: those of a log in which no rule matched any.
    """
    lines = [line for line in lines if line.text.strip("`~")]  # without fences
    is_quote = len(lines) <= _QUOTE_LINES
    loud = {line for line in lines if _looks_like_failure(line, is_quote=is_quote)}
    for line in reversed(lines[-_LAST_LINES:]):
        if line in loud:
            break
        if _matches_format("success", line.text):
            return None, ()
    scored = ranked(lines) if loud or is_quote else []
    for _, line in scored:
        finding = _match_messages(line, rules) if is_quote or line in loud else None
        if finding:
            return finding, ()
    likely = [line for score, line in scored if score > 0 or line in loud]
    if is_quote and loud:
        line = next(line for line in likely if line in loud)
        finding = Finding(rules.by_name["unknown"], line.text[:HEADLINE], line.number)
        return finding, ()
    texts = {line.text[:HEADLINE]: line.number for line in reversed(likely) if loud}
    shown = [*texts.items()][: -_MOST_SHOWN - 1 : -1]
    return None, tuple(SuspiciousLine(number, text) for text, number in shown)


def _looks_like_failure(line: LogLine, *, is_quote: bool) -> bool:
    """Return whether a line has the level, the opening or the words of a failure, a
    signal, or an exit status other than 0.
    """
    if _matches_format("no_failure", line.text):
        return False
    if line.annotation == "logged error" or _matches_format("failure_signs", line.text):
        return True
    return is_quote and _matches_format("quoted_failures", line.text)


def _matches_format(key: str, text: str) -> bool:
    return log_format(key).search(text[:_READ]) is not None


def _match_messages(line: LogLine, rules: RuleSet) -> Finding | None:
    """Return the finding of the first message that a rule knows: what the line quotes,
    the exception in it, or the line. None if no rule knows one.
    """
    text = line.text[:_READ]
    messages = [quoted or other for quoted, other in _QUOTED.findall(text)]
    messages += [*_EXCEPTION.findall(text), text]
    for message in messages:
        if _EXCEPTION.match(message):
            finding = match_exception(rules, message, ())
        else:
            finding = match_line(rules, LogLine(message), Diagnostic("error", message))
        if finding:
            finding.line = line.number
            return finding
    return None


class LogStatus(StrEnum):
    """What a log says of the run that printed it."""

    FAILED = "failed"
    UNRECOGNISED = "unrecognised"
    """Something failed, and no rule knows what."""
    NO_FAILURES = "no failures"


@dataclass(frozen=True, slots=True)
class ClassifiedLog:
    """A log with its failures, the root cause first."""

    log: str
    failures: tuple[Failure, ...]
    likeliest: tuple[SuspiciousLine, ...] = ()
    """Without failures, the lines that sound like one."""

    @in_json
    def status(self) -> LogStatus:
        if self.failures:
            return LogStatus.FAILED
        if self.likeliest:
            return LogStatus.UNRECOGNISED
        return LogStatus.NO_FAILURES


@dataclass(frozen=True, slots=True)
class ClassifiedLogs:
    """The result of `triage classify`."""

    logs: Sequence[ClassifiedLog]

    @property
    def exit(self) -> Exit:
        statuses = {log.status for log in self.logs}
        if LogStatus.FAILED in statuses:
            return Exit.FOUND
        if LogStatus.UNRECOGNISED in statuses:
            return Exit.INCONCLUSIVE
        return Exit.OK


def classify_log(log: Path | BinaryIO, rules: RuleSet) -> ClassifiedLog:
    """Return the failures in a log.

    Raises:
        BadInput: the log cannot be opened or has no text.
    """
    with ExitStack() as stack:
        stream: BinaryIO
        if isinstance(log, Path):
            name, shown = str(log), str(log)
            try:
                stream = stack.enter_context(log.open("rb"))
            except OSError as error:
                raise BadInput(f"{log}: {error.strerror}") from error
        else:
            name, shown, stream = "-", "standard input", log
        reader = read_log(text_pieces(stream, shown), rules)
    findings = reader.findings
    likeliest: tuple[SuspiciousLine, ...] = ()
    if findings.is_empty and not findings.first_pass:
        finding, likeliest = look_again(reader.plain, rules)
        if finding:
            findings.add(finding)
    return ClassifiedLog(name, findings.failures, likeliest)
