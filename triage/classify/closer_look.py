"""Look once more at a log in which no rule found the cause of a failure.

A compiler writes `error:` before its messages, but people quote messages without it,
and other programs have forms that no rule knows. So lines that sound like a failure are
read as messages. If no rule knows them either, they are shown: silence about a failing
log would be worse than the log itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from triage.classify.diagnostic import HEADLINE, Diagnostic
from triage.classify.findings import Finding
from triage.classify.line_matcher import match_exception, match_line
from triage.classify.log_line import LogLine
from triage.classify.records import NumberedLine
from triage.classify.rules import RuleSet, log_format

_READ = 1000  # characters of a line; regexes with two gaps take quadratic time
_MOST_SHOWN = 3  # lines
_QUOTE_LINES = 3  # a text of so few lines is the quote of a message
# the exception in a line of prose
_EXCEPTION = re.compile(r"\b(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): .+")
_NAMED = re.compile(r"'[^']+'|`[^`]+`|%\w|\b(?:tensor|memref|vector)<")
_NAMED_OPERATION = re.compile(r"'[a-z_]\w*(?:\.\w+)+'")
_LAST_LINES = 15  # in which a log says that all went well
_MOST_PARTS = 5  # of a line, between colons
_MOST_WORDS = 12  # of a sentence before the message that it quotes
_IGNORED = ("warning", "debug", "notice", "command", "group", "endgroup")


@dataclass(frozen=True, slots=True)
class SuspiciousLine:
    """A line of a log that sounds like a failure."""

    line: int
    """Its number, from 1."""
    text: str


@dataclass(frozen=True, slots=True)
class CloserLook:
    """What a second look at a log found: a finding, or suspicious lines, or nothing."""

    finding: Finding | None = None
    """A message that a rule knows, without the word `error:` before it."""
    likeliest: tuple[SuspiciousLine, ...] = ()
    """Lines that sound like a failure and match no rule, the likeliest first."""


def look_closely(
    lines: Sequence[NumberedLine], rules: RuleSet, *, is_silent: bool
) -> CloserLook:
    """Read the lines that sound like a failure as messages.

    lines: those that are not part of a traceback, a stack or a script, of which the
    first 1,000 characters are read. is_silent: whether no rule found a failure.
    """
    read = [line for line in lines if line.text.strip("`~")]  # without fences
    if any(_is_success(line.text[:_READ]) for line in read[-_LAST_LINES:]):
        return CloserLook()
    is_quote = len(read) <= _QUOTE_LINES and is_silent
    suspicious = [line for line in read if sounds_like_failure(line.line)]
    if not suspicious and read and read[-1].line.annotation == "logged error":
        suspicious = read[-1:]  # harmless only if the program went on
    if is_quote and not suspicious:
        words = log_format("quoted_failures", "{}", re.IGNORECASE)
        suspicious = [
            line
            for line in read
            if words.search(line.text[:_READ]) and not _is_harmless(line.text[:_READ])
        ]
    for line in read if is_quote else suspicious:
        finding = _match_messages(line, rules, is_quote=is_quote)
        if finding:
            return CloserLook(finding)
    if not is_silent:
        return CloserLook()
    suspicious.sort(key=lambda line: (not _is_strong(line.text), line.number))
    for line in suspicious:
        says_error = log_format("errors_of_anything").match(line.text)
        if is_quote or says_error:
            text = line.text[:HEADLINE]
            captures = {"message": text}
            unknown = rules.by_name["unknown"]
            return CloserLook(Finding(unknown, text, line.number, captures=captures))
    shown: dict[str, SuspiciousLine] = {}
    for line in suspicious:
        text = line.text[:HEADLINE]
        shown.setdefault(text, SuspiciousLine(line.number, text))
    return CloserLook(likeliest=tuple(shown.values())[:_MOST_SHOWN])


def _match_messages(
    line: NumberedLine, rules: RuleSet, *, is_quote: bool
) -> Finding | None:
    """Return the finding of the first message in a line that a rule knows, or None."""
    text = line.text[:_READ]
    messages = _messages(text)
    if is_quote:
        messages = chain(messages, _endings(text))
    for message in messages:
        if is_quote and _is_harmless(message):
            continue
        finding = _match(message, rules, is_quote=is_quote)
        if finding:
            finding.line = line.number
            finding.headline = _capitalise_as_in(finding.headline, text)
            return finding
    return None


def sounds_like_failure(line: LogLine) -> bool:
    """Return whether a message in a line begins with a word for a failure, or the line
    has a CI system's mark of an error, a signal's name, or an exit status other than 0.

    >>> sounds_like_failure(LogLine("fatal: the frobnicator is gone"))
    True
    >>> sounds_like_failure(LogLine("12 passed, 0 failed"))
    False
    """
    if line.annotation == "error":
        return True
    if line.annotation in _IGNORED:
        return False
    text = line.text[:_READ]
    has_sign = (
        line.annotation == "logged error"
        or log_format("failure_signs").search(text)
        or _is_strong(text)
    )
    return bool(has_sign) and not _is_harmless(text)


def _is_harmless(text: str) -> bool:
    return log_format("no_failure", "{}", re.IGNORECASE).search(text) is not None


def _is_success(text: str) -> bool:
    return log_format("success").search(text) is not None


def _is_strong(text: str) -> bool:
    words = log_format(
        "failure_words", r"(?:\A|: |\) |\] |!!! |\*\*\* )(?:{})", re.IGNORECASE
    )
    return words.search(text) is not None


def _messages(text: str) -> Iterator[str]:
    """Yield the exception in a line, the line, what follows its colons, and what it
    quotes.
    """
    exception = _EXCEPTION.search(text)
    if exception:
        yield exception[0]
    yield text
    if text[:1].isupper():
        yield text[0].lower() + text[1:]
    rest = text
    for _ in range(_MOST_PARTS):
        _, colon, rest = rest.partition(": ")
        if not colon:
            break
        yield rest.strip()
    for groups in re.findall(r"`([^`]{12,})`|\"([^\"]{12,})\"", text):
        quoted = "".join(groups).removeprefix("error: ")
        yield quoted
        yield quoted[0].lower() + quoted[1:]


def _endings(text: str) -> Iterator[str]:
    """Yield what follows each word of a sentence, which may end with a message: `It
    stops with Check failed: x`.
    """
    for blank in islice(re.finditer(r" (?=\w)", text), _MOST_WORDS):
        yield text[blank.end() :]


def _capitalise_as_in(headline: str, text: str) -> str:
    """Capitalise a headline if the text contains it only so."""
    capitalised = headline[:1].upper() + headline[1:]
    if headline not in text and capitalised in text:
        return capitalised
    return headline


def _match(message: str, rules: RuleSet, *, is_quote: bool) -> Finding | None:
    """Match a message with the rules; None if none knows it. A rule with loose wording
    matches only a message that names an operation or, in a quote, a value or a type.
    """
    if _EXCEPTION.match(message):
        finding = match_exception(rules, message, ())
    else:
        finding = match_line(rules, LogLine(message), Diagnostic("error", message))
    if finding is None or (finding.rule.is_consequence and not is_quote):
        return None
    is_loose = finding.rule.as_read is not None or finding.rule.family == "input"
    names_something = _NAMED if is_quote else _NAMED_OPERATION
    if is_loose and not names_something.search(message):
        return None
    return finding
