"""Find the rule that matches a line of a compiler's output, or the exception that ends a traceback."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from triage.classify.literals import Step
from triage.classify.log_lines import HEADLINE, Diagnostic, LogLine
from triage.classify.rules import MatchScope, Pattern, Rule, RuleSet, captures_of

EXCEPTION = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failure|OutOfResources|NotFound)|"
    r"(?:[A-Za-z_]\w*\.)*OutOfResources|"
    r"(?:[a-z_]\w*\.)*(?:exc|errors?|exceptions?|errors_impl)\.[A-Z]\w*|Exception)(?:: ?(?P<message>.*))?\Z"
)
"""The last line of a Python traceback."""

LOOSE_EXCEPTION = re.compile(r"(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*)(?:: ?(?P<message>.*))?\Z")
"""The same where a traceback was read, so that an exception may have any name."""

_DIGITS = re.compile(r"\d+")
_NESTED = re.compile(r"[\w.]+: (?P<exception>(?:\w+\.)*[A-Z]\w*(?:Error|Exception): .+)")
_PARTS = re.compile(r"(?<=[\w)]): |(?<=raised:) ")
_REMEMBERED_MATCHES = 4096

# Kinds of lines, as the scopes of the patterns that apply to them.
_ERROR = frozenset({MatchScope.ERROR, MatchScope.LINE, MatchScope.CRASH})
_REMARK = frozenset({MatchScope.REMARK})
_PLAIN = frozenset({MatchScope.LINE, MatchScope.CRASH})
_EXCEPTION = frozenset({MatchScope.LINE, MatchScope.CRASH, MatchScope.EXCEPTION})
_TRACEBACK_END = frozenset({MatchScope.EXCEPTION})
_IN_MESSAGE = frozenset({MatchScope.ERROR, MatchScope.REMARK})

_Choice = tuple[tuple[str, ...], bool, Rule, Pattern]


@cache
def _choices(rules: RuleSet, scopes: frozenset[MatchScope]) -> tuple[_Choice, ...]:
    """Return the patterns of these scopes in the order of the rules.

    Before each are literals of which a match contains one, and whether it is searched in the message alone.
    """
    return tuple(
        (max(pattern.literals, key=_shortest, default=("",)), pattern.scope in _IN_MESSAGE, rule, pattern)
        for rule in rules
        for pattern in rule.patterns
        if pattern.scope in scopes
    )


def _shortest(step: Step) -> int:
    return min(map(len, step))


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """A rule that matched. text: the message, or the line from where the pattern matched."""

    rule: Rule
    scope: MatchScope
    text: str
    captures: dict[str, str]


def match_exception(rules: RuleSet, text: str, files: Sequence[str]) -> RuleMatch | None:
    """Find the rule for the exception `text` that ends a traceback through `files`.

    An exception that no other rule knows may pass on a message of the compiler, which then decides.
    """
    trace = "\n".join(files)
    for _, _, rule, pattern in _choices(rules, _TRACEBACK_END):
        if match := pattern.search(f"{text}\n{trace}"):
            found = RuleMatch(rule, pattern.scope, text[:HEADLINE], captures_of(match))
            diagnosed = ": error: " in text
            if rule.consequence and (nested := _NESTED.match(text)):
                inner = match_exception(rules, nested["exception"], files)
                if inner and not inner.rule.consequence:
                    return RuleMatch(inner.rule, inner.scope, text[:HEADLINE], inner.captures)
            return (
                (rule.consequence or diagnosed or "status" in found.captures)
                and _match_passed_on(rules, text, rule.rank + diagnosed)
            ) or found
    return None


def _match_passed_on(rules: RuleSet, text: str, rank: int) -> RuleMatch | None:
    """Match the message of an exception as if the compiler had printed it. rank: of the rule that matches any exception."""
    head, error, diagnosed = text.rpartition(": error: ")
    parts = [(part, False) for part in reversed(_PARTS.split(head or text))]
    for part, certain in [(diagnosed, True), *parts] if error else parts:
        for _, _, rule, pattern in _choices(rules, _ERROR):
            if rule.rank >= rank or pattern.scope is MatchScope.CRASH or (rule.loose and not certain):
                continue
            if match := pattern.search(part):
                return RuleMatch(rule, MatchScope.EXCEPTION, text[:HEADLINE], captures_of(match))
    return None


class LineMatcher:
    """Finds the first rule that matches a line. Remembers the answers, since broken logs repeat their lines."""

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules
        self._known: dict[tuple[str, str | None], tuple[Rule, Pattern] | None] = {}

    def find(self, line: LogLine, parsed: Diagnostic | None) -> RuleMatch | None:
        """Find the rule for a line. parsed: the line as a diagnostic, if it has a severity."""
        if parsed and parsed.severity in ("warning", "note"):
            return None
        key = (_match_key(line, parsed), parsed.severity if parsed else None)  # the text decides whether it is of source
        if key not in self._known:
            if len(self._known) >= _REMEMBERED_MATCHES:
                self._known.clear()
            self._known[key] = self._search(line, parsed)
        known = self._known[key]
        if known is None:
            return None
        rule, pattern = known
        if pattern.scope is MatchScope.EXCEPTION:
            return match_exception(self._rules, line.text, ())
        text = _searched_text(pattern, line, parsed)
        match = pattern.search(text)
        if match is None:  # a location or a number that the key leaves out does matter
            return None
        if pattern.scope in (MatchScope.LINE, MatchScope.CRASH):
            text = text[match.start() :]  # without the program and the path before it
        return RuleMatch(rule, pattern.scope, text[:HEADLINE], captures_of(match))

    def _search(self, line: LogLine, parsed: Diagnostic | None) -> tuple[Rule, Pattern] | None:
        if parsed is None:
            scopes = _EXCEPTION if EXCEPTION.match(line.text) else _PLAIN
        else:
            scopes = _ERROR if parsed.severity == "error" else _REMARK
        message = parsed.message if parsed else ""
        of_source = parsed is not None and parsed.of_source
        for literals, in_message, rule, pattern in _choices(self._rules, scopes):
            if of_source and rule.about_ir:
                continue
            text = message if in_message else line.text
            for literal in literals:
                if literal in text:
                    if pattern.search(text):
                        return rule, pattern
                    break
        return None


def _match_key(line: LogLine, parsed: Diagnostic | None) -> str:
    """Diagnostics with a location differ in numbers only; elsewhere a number can be an exit code."""
    if parsed and parsed.location:
        return _DIGITS.sub("0", line.text[:1024])
    return line.text[:1024]


def _searched_text(pattern: Pattern, line: LogLine, parsed: Diagnostic | None) -> str:
    return (parsed.message if parsed else "") if pattern.scope in _IN_MESSAGE else line.text
