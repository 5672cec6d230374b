"""Look once more at a log in which no rule found the cause of a failure.

A compiler writes `error:` before its messages, but people quote messages without it,
and other programs have forms that no rule knows. So lines that sound like a failure are
read as messages, the likeliest first. If no rule knows them either, the likeliest lines
are shown: silence about a failing log would be worse than the log itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from triage.classify.diagnostic import HEADLINE, Diagnostic
from triage.classify.finding import Finding
from triage.classify.line_matcher import match_exception, match_line
from triage.classify.line_ranker import scores, weights
from triage.classify.log_line import LogLine
from triage.classify.rules import RuleSet, log_format

_READ = 1000  # characters of a line; regexes with two gaps take quadratic time
_MOST_SHOWN = 3  # lines
_QUOTE_LINES = 3  # a text of so few lines is the quote of a message
# the exception in a line of prose
_EXCEPTION = re.compile(r"\b(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): .+")
_LAST_LINES = 15  # in which a log says that all went well
_MOST_PARTS = 5  # of a line, between colons


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
    if any(_matches_format("success", line.text) for line in lines[-_LAST_LINES:]):
        return None, ()
    is_quote = len(lines) <= _QUOTE_LINES
    loud = {line for line in lines if _looks_like_failure(line, is_quote=is_quote)}
    if not loud and lines and lines[-1].annotation == "logged error":
        loud = {lines[-1]}  # harmless only if the program went on
    read = lines if is_quote else loud
    if not read:
        return None, ()
    scored = ranked(lines)
    for _, line in scored:
        finding = _match_messages(line, rules) if line in read else None
        if finding:
            return finding, ()
    likely = [line for score, line in scored if score > 0 or line in loud]
    if not loud:
        return None, ()
    if is_quote:
        line = next(line for line in likely if line in loud)
        finding = Finding(rules.by_name["unknown"], line.text[:HEADLINE], line.number)
        finding.captures["message"] = finding.headline
        return finding, ()
    texts: dict[str, int] = {}
    for line in likely:
        texts.setdefault(line.text[:HEADLINE], line.number)
    shown = list(texts.items())[:_MOST_SHOWN]
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
    """Return the finding of the first message in a line that a rule knows, or None."""
    for message in _messages(line.text[:_READ]):
        if _EXCEPTION.match(message):
            finding = match_exception(rules, message, ())
        else:
            finding = match_line(rules, LogLine(message), Diagnostic("error", message))
        if finding:
            finding.line = line.number
            return finding
    return None


def _messages(text: str) -> Iterator[str]:
    """Yield what a line quotes, the exception in it, the line, and what follows its
    colons.
    """
    for groups in re.findall(r"`([^`]{12,})`|\"([^\"]{12,})\"", text):
        yield "".join(groups).removeprefix("error: ")
    exception = _EXCEPTION.search(text)
    if exception:
        yield exception[0]
    rest = text
    for _ in range(_MOST_PARTS):
        yield rest
        rest = rest.partition(": ")[2].strip()
