"""Which rule a line belongs to. Lines repeat a thousand times in a broken log: the answer is remembered."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from triage.classify.log_lines import HEADLINE, Diagnostic, LogLine
from triage.classify.rule import Pattern, Rule, Where, compiled

EXCEPTION = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failure|OutOfResources|NotFound)|"
    r"(?:[A-Za-z_]\w*\.)*OutOfResources)(?:: (?P<message>.*))?\Z"
)
"""The last line of a Python traceback."""

_DIGITS = re.compile(r"\d+")
_REMEMBERED = 4096

# Kinds of lines, and the patterns that are tried on them.
_ERROR = frozenset({Where.ERROR, Where.LINE, Where.CRASH})
_REMARK = frozenset({Where.REMARK})
_PLAIN = frozenset({Where.LINE, Where.CRASH})
_EXCEPTION = frozenset({Where.LINE, Where.CRASH, Where.EXCEPTION})

Choice = tuple[Callable[[str], "re.Match[str] | None"], Rule, Pattern]


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule that matched. `words`: the message, or the line from where the pattern matched."""

    rule: Rule
    where: Where
    words: str
    captures: dict[str, str]


class Matcher:
    """Rules tried in their order; the first that matches wins."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._pairs = [(rule, pattern) for rule in rules for pattern in rule.patterns]
        self._choices = cache(self._compiled)
        self._known: dict[tuple[str, str | None], tuple[Rule, Pattern] | None] = {}

    def find(self, line: LogLine, said: Diagnostic | None) -> Hit | None:
        """The rule for a line, which is parsed as `said` where it has a severity."""
        if said and said.severity in ("warning", "note"):
            return None
        key = (_key(line, said), said.severity if said else None)
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = self._search(line, said)
        known = self._known[key]
        if known is None:
            return None
        rule, pattern = known
        text = _subject(pattern, line, said)
        match = pattern.search(text)
        if match is None:  # a place or a number that the key left out mattered after all
            return None
        if pattern.where in (Where.LINE, Where.CRASH):
            text = text[match.start() :]  # without the program and the path before it
        return Hit(rule, pattern.where, text[:HEADLINE], captures(match))

    def exception(self, line: LogLine, files: Sequence[str]) -> Hit | None:
        """The rule for the exception that ends a traceback through `files`."""
        trace = "\n".join(files)
        for search, rule, pattern in self._choices(frozenset({Where.EXCEPTION})):
            if match := search(f"{line.text}\n{trace}"):
                return Hit(rule, pattern.where, line.text[:HEADLINE], captures(match))
        return None

    def _search(self, line: LogLine, said: Diagnostic | None) -> tuple[Rule, Pattern] | None:
        if said is None:
            kind = _EXCEPTION if EXCEPTION.match(line.text) else _PLAIN
        else:
            kind = _ERROR if said.severity == "error" else _REMARK
        message = said.message if said else ""
        for search, rule, pattern in self._choices(kind):
            if search(message if pattern.where in (Where.ERROR, Where.REMARK) else line.text):
                return rule, pattern
        return None

    def _compiled(self, kind: frozenset[Where]) -> list[Choice]:
        return [(compiled(pattern.regex).search, rule, pattern) for rule, pattern in self._pairs if pattern.where in kind]


def captures(match: re.Match[str]) -> dict[str, str]:
    """Named groups that took part in a match and are not empty."""
    return {name: value for name, value in match.groupdict().items() if value}


def _key(line: LogLine, said: Diagnostic | None) -> str:
    """Diagnostics with a place differ in numbers only; elsewhere a number can be an exit code."""
    if said and said.location:
        return _DIGITS.sub("0", line.text[:1024])
    return line.text[:1024]


def _subject(pattern: Pattern, line: LogLine, said: Diagnostic | None) -> str:
    return said.message if said and pattern.where in (Where.ERROR, Where.REMARK) else line.text
