"""Find the rule that matches a line of a compiler's output, or the exception that ends
a traceback.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from triage.classify.diagnostic import HEADLINE, Diagnostic
from triage.classify.findings import Finding
from triage.classify.log_line import LogLine
from triage.classify.rules import (
    MatchScope,
    Pattern,
    Rule,
    RuleSet,
    Steps,
    captures_of,
)

EXCEPTION = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failure"
    r"|OutOfResources|NotFound|StackTrace)|"
    r"(?:[A-Za-z_]\w*\.)*OutOfResources|"
    r"(?:[a-z_]\w*\.)*(?:exc|errors?|exceptions?|errors_impl)\.[A-Z]\w*|Exception)"
    r"(?:: ?(?P<message>.*))?\Z"
)
"""The last line of a Python traceback."""

LOOSE_EXCEPTION = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*)(?:: ?(?P<message>.*))?\Z"
)
"""The same where a traceback was read, so that an exception may have any name."""

_NESTED = re.compile(
    r"[\w.]+: (?P<exception>(?:\w+\.)*[A-Z]\w*(?:Error|Exception): .+)"
)
_DRIVE = re.compile(r"(?<![^\s'\"(])[A-Za-z]:\Z")  # of a path on Windows
_PLAIN = (MatchScope.LINE, MatchScope.CRASH)
_IN_MESSAGE = (MatchScope.ERROR, MatchScope.REMARK)

_Choice = tuple[tuple[str, ...], Rule, Pattern]
"""A pattern of a rule, with literals of which each match contains one."""


@cache
def _choices(rules: RuleSet, *scopes: MatchScope) -> tuple[_Choice, ...]:
    return tuple(
        (_longest_step(rules.literals_of(pattern)), rule, pattern)
        for rule in rules
        for pattern in rule.patterns
        if pattern.scope in scopes
    )


def _longest_step(steps: Steps) -> tuple[str, ...]:
    return max(steps, key=lambda literals: min(map(len, literals)), default=("",))


# an exception as Python prints it inside another one
_PRINTED = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception))"
    r"\((?P<quote>[\"'])(?P<message>.*)(?P=quote),?\)\Z"
)


def match_line(
    rules: RuleSet, line: LogLine, parsed: Diagnostic | None
) -> Finding | None:
    """Find the first rule that matches a line; None if none does, or for a warning or
    note. parsed: the line as a diagnostic, if it has a severity.
    """
    if parsed and parsed.severity in ("warning", "note"):
        return None
    printed = _PRINTED.match(line.text)
    if printed:
        return match_exception(rules, f"{printed['type']}: {printed['message']}", ())
    if parsed:
        message, severity, of_source = parsed.message, parsed.severity, parsed.of_source
    else:
        message, severity, of_source = "", None, False
    found = _search(rules, line.text, message, severity, of_source=of_source)
    if found is None:
        return None
    rule, scope, match = found
    if scope is MatchScope.EXCEPTION:
        return match_exception(rules, line.text, ())
    # without the program and the path before it
    if scope in _PLAIN:
        begin = match.start()
        if _DRIVE.search(match.string, 0, begin):
            begin -= 2
        text = match.string[begin:]
    else:
        text = message
    finding = Finding(rule, text[:HEADLINE], captures=captures_of(match), scope=scope)
    if parsed:
        finding.location, finding.logged = parsed.location, parsed.logged
    return finding


@lru_cache(maxsize=4096)
def _search(
    rules: RuleSet, line: str, message: str, severity: str | None, *, of_source: bool
) -> tuple[Rule, MatchScope, re.Match[str]] | None:
    """Return the first rule that matches, where it matched, and the match; None if no
    rule does. Logs repeat their lines, so the answers are remembered.
    """
    scopes: tuple[MatchScope, ...]
    if severity == "error":
        scopes = (*_PLAIN, MatchScope.ERROR)
    elif severity is not None:
        scopes = (MatchScope.REMARK,)
    elif EXCEPTION.match(line):
        scopes = (*_PLAIN, MatchScope.EXCEPTION)
    else:
        scopes = _PLAIN
    for literals, rule, pattern in _choices(rules, *scopes):
        # these concern operations; the compiler of C++ reports others
        if of_source and rule.family in ("codegen", "input"):
            continue
        if pattern.scope in _IN_MESSAGE:
            text = message
        else:
            text = line
        for literal in literals:  # a generator here would take as long as all else
            if literal in text:
                match = rules.search(pattern, text)
                if match:
                    return rule, pattern.scope, match
                break
    return None


def match_exception(rules: RuleSet, text: str, files: Sequence[str]) -> Finding | None:
    """Find the rule for the exception `text` that ends a traceback through `files`;
    None if no rule knows it.

    An exception that no other rule knows may pass on a message of the compiler, which
    then decides.
    """
    if files:
        trace = "\n".join((text, *files))
    else:
        trace = f"{text}\n"
    for _, rule, pattern in _choices(rules, MatchScope.EXCEPTION):
        match = rules.search(pattern, trace)
        if match is None:
            continue
        found = Finding(
            rule,
            text[:HEADLINE],
            captures=captures_of(match),
            scope=MatchScope.EXCEPTION,
        )
        if rule.is_consequence:
            nested = _NESTED.match(text)
            if nested:
                inner = match_exception(rules, nested["exception"], files)
                if inner and not inner.rule.is_consequence:
                    inner.headline = found.headline
                    return inner
        rank = rule.rank
        has_diagnostic = ": error: " in text
        if has_diagnostic:
            rank += 1  # a rule of the same rank may match the diagnostic
        if rule.is_consequence or has_diagnostic or "status" in found.captures:
            return _match_passed_on(rules, text, rank) or found
        return found
    return None


def _match_passed_on(rules: RuleSet, text: str, rank: int) -> Finding | None:
    """Match the message of an exception as if the compiler had printed it. Only rules
    below `rank` are tried.
    """
    before, error, diagnostic = text.rpartition(": error: ")
    if not error:
        return _match_part(rules, text, text, rank)
    found = _match_part(rules, text, diagnostic, rank, is_diagnostic=True)
    return found or _match_part(rules, text, before, rank)


def _match_part(
    rules: RuleSet, text: str, part: str, rank: int, *, is_diagnostic: bool = False
) -> Finding | None:
    """Match a part of an exception's text with the rules below a rank."""
    for _, rule, pattern in _choices(rules, MatchScope.ERROR, MatchScope.LINE):
        # Some patterns are worded so loosely that they are only meant for diagnostics
        # about operations.
        is_loose = rule.as_read is not None or rule.family == "input"
        if rule.rank >= rank or (is_loose and not is_diagnostic):
            continue
        match = rules.search(pattern, part)
        if match:
            captures = captures_of(match)
            headline, scope = text[:HEADLINE], MatchScope.EXCEPTION
            return Finding(rule, headline, captures=captures, scope=scope)
    return None
