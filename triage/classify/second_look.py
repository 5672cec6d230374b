"""Look again at the lines of a log that no rule matched.

A linear model of the words of a line and of its neighbours scores which lines tell the
failure; `benchmarks/train_lines.py` learns its weights. The model puts lines in order.
A log seems to have failed if a line has a sign of a failure, or a very high score.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from math import sqrt
from pathlib import Path

from triage.classify.findings import Finding, match_exception, match_line
from triage.classify.log import HEADLINE, Diagnostic, LogLine, parse_diagnostic
from triage.classify.rules import RuleSet, log_format

WEIGHTS = Path(__file__).with_name("line_weights.json")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8,}\b")
_PATH = re.compile(r"(?:[A-Za-z]:)?[\w.+~-]*(?:[/\\][\w.+~@-]+)+")
_WORD = re.compile(r"[a-z_]+|[^\w\s]{1,3}")
_LOUD = re.compile(
    r"error|fatal|assert|panic|exception|fail|cannot|could not|unable|not found"
    r"|no such|abort|segmentation|undefined|unsupported|not supported",
    re.IGNORECASE,
)
_LAST_OF_TRACEBACK = re.compile(
    r"^\W*(?:[\w.]+\.)?\w*(?:Error|Exception|Exit|Interrupt)\b"
)
_NEIGHBOURS = {-2: "pp ", -1: "p ", 1: "n ", 2: "nn "}
_READ_WORDS = 400  # characters of a line
_WORDS = 60
_WORDS_OF_NEIGHBOUR = 12

_ALARMING = 4.0  # the score of a line that tells a failure without any sign

_READ = 1000  # characters of a line; regexes with two gaps take quadratic time
_MOST_SHOWN = 3  # lines
_QUOTE_LINES = 3  # a text of so few lines is the quote of a message
# the exception in a line of prose
_EXCEPTION = re.compile(r"\b(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): .+")
_LAST_LINES = 15  # in which a log says that all went well
# a message in a line of prose
_QUOTED = re.compile(
    r"(Assertion `.+' failed)|`(?:error: )?([^`]{12,})`|\"(?:error: )?([^\"]{12,})\""
)
_LETTERS = re.compile(r"[^\W\d_]{2}")
_PRINTED_IR = re.compile(r"[%\"{}()^#!@]|//|(?:module|[a-z_]+\.[a-z_.]+)(?: |\Z)")


def _words(line: str) -> list[str]:
    """Return the words and signs of a line; each path, address and number is one word,
    the same for all.
    """
    text = _PATH.sub("path", _ADDRESS.sub("hex", line[:_READ_WORDS]))
    return _WORD.findall(re.sub(r"\d+", " number ", text).lower())[:_WORDS]


def line_features(lines: Sequence[str]) -> Iterator[dict[str, float]]:
    """Yield what the model reads of each line."""
    words = [_words(line) for line in lines]
    for at, line in enumerate(lines):
        own = [f"w {word}" for word in words[at]]
        own += [f"b {first} {second}" for first, second in pairwise(words[at])]
        near = []
        for distance, prefix in _NEIGHBOURS.items():
            is_inside = 0 <= at + distance < len(lines)
            other = words[at + distance] if is_inside else ["none"]
            near += [prefix + word for word in other[:_WORDS_OF_NEIGHBOUR]]
        size = sqrt(len(set(own)) + len(set(near)) / 4)
        values = dict.fromkeys(own, 1 / size) | dict.fromkeys(near, 0.5 / size)
        values["at the end"] = 1 / (len(lines) - at)
        values["loud"] = float(_LOUD.search(line) is not None)
        values["exception"] = float(_LAST_OF_TRACEBACK.match(line) is not None)
        yield values


@cache
def weights() -> dict[str, float]:
    """Return the learned weights."""
    content: dict[str, float] = json.loads(WEIGHTS.read_text("utf-8"))
    return content


def scores(lines: Sequence[str], learned: Mapping[str, float]) -> list[float]:
    """Return a number for each line: the larger, the more likely it tells the failure.
    A line that tells none has one below 0.
    """
    return [
        sum(learned[name] * value for name, value in values.items() if name in learned)
        for values in line_features(lines)
    ]


def _ranked(lines: Sequence[LogLine]) -> list[tuple[float, LogLine]]:
    texts = [line.text[:_READ] for line in lines]
    scored = zip(scores(texts, weights()), lines, strict=True)
    return sorted(scored, key=lambda pair: -pair[0])


@dataclass(frozen=True)
class SuspiciousLine:
    """A line of a log that sounds like a failure."""

    line: int
    """Its number, from 1."""
    text: str


def look_again(
    lines: Sequence[LogLine], rules: RuleSet
) -> tuple[Finding | None, tuple[SuspiciousLine, ...]]:
    """Read the lines that sound like a failure as messages. Return the finding of the
    first that a rule knows, or the likeliest lines.

    lines: those of a log in which no rule matched any.
    """
    lines = [line for line in lines if line.text.strip("`~")]  # without fences
    is_quote = len(lines) <= _QUOTE_LINES
    begins = {line.number for line in lines[:2]}
    has_title = 1 in begins and 2 not in begins  # of an issue; an empty line follows
    quotes = lines if is_quote else lines[:has_title]
    ranked = _ranked(lines)
    loud = dict.fromkeys(
        line
        for score, line in ranked
        if _looks_like_failure(line, score, is_quote=line in quotes)
    )
    last = max((line.number for line in loud), default=0)
    ends = lines[-_LAST_LINES:]
    if any(line.number > last and _matches("success", line) for line in ends):
        return None, ()
    for line in lines if is_quote else loud:
        finding = _match_messages(line, rules)
        if finding:
            return finding, ()
    if is_quote:
        return next((_unknown_finding(line, rules) for line in loud), None), ()
    likely = [line for score, line in ranked if loud and (score > 0 or line in loud)]
    numbers: dict[str, int] = {}
    for line in likely:
        numbers.setdefault(line.text[:HEADLINE], line.number)
    shown = islice(numbers.items(), _MOST_SHOWN)
    return None, tuple(SuspiciousLine(number, text) for text, number in shown)


def likeliest_message(lines: Sequence[LogLine], rules: RuleSet) -> list[Finding]:
    """Find the line of a failed run that most likely tells its failure. Nothing if no
    line may be a message.
    """
    # a remark or a warning must not be taken for the failure
    if any(map(parse_diagnostic, lines)):
        return []
    messages = [
        line
        for line in lines
        if not line.indent
        and _LETTERS.search(line.text)
        and not _PRINTED_IR.match(line.text)
    ]
    return [_unknown_finding(line, rules) for _, line in _ranked(messages)[:1]]


def _unknown_finding(line: LogLine, rules: RuleSet) -> Finding:
    return Finding(rules.by_name["unknown"], line.text[:HEADLINE], line.number)


def _looks_like_failure(line: LogLine, score: float, *, is_quote: bool) -> bool:
    """Return whether a line has the level, the opening or the words of a failure, a
    signal, an exit status other than 0, or a very high score.
    """
    if _matches("no_failure", line):
        return False
    if score > _ALARMING or line.annotation == "logged error":
        return True
    is_quoted = is_quote and _matches("quoted_failures", line)
    return is_quoted or _matches("failure_signs", line)


def _matches(key: str, line: LogLine) -> bool:
    return log_format(key).search(line.text[:_READ]) is not None


def _match_messages(line: LogLine, rules: RuleSet) -> Finding | None:
    """Return the finding of the first message that a rule knows: what the line quotes,
    the exception in it, or the line. None if no rule knows one.
    """
    text = line.text[:_READ]
    messages = [match[match.lastindex or 0] for match in _QUOTED.finditer(text)]
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
