"""Find the rule that matches a line of a compiler's output, or the exception that ends
a traceback.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from triage.classify.diagnostic import HEADLINE, Diagnostic
from triage.classify.finding import Finding
from triage.classify.log_line import LogLine
from triage.classify.rules import (
    MatchScope,
    Rule,
    RuleSet,
    captures_of,
    compile_regex,
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

_Match = tuple[Rule, MatchScope, re.Match[str]]


@cache
def _choices(
    rules: RuleSet, *scopes: MatchScope
) -> list[tuple[str, Rule, MatchScope, str]]:
    """Return a literal that a match contains, the rule, the scope and the regex of each
    pattern; a pattern with several such literals is listed with each.
    """
    return [
        (literal, rule, pattern.scope, pattern.regex)
        for rule in rules
        for pattern in rule.patterns
        if pattern.scope in scopes
        for literal in rules.literals_of(pattern)
    ]


def match_line(
    rules: RuleSet, line: LogLine, parsed: Diagnostic | None
) -> Finding | None:
    """Find the first rule that matches a line; None if none does, or for a warning or
    note. parsed: the line as a diagnostic, if it has a severity.
    """
    message, of_source = "", False
    scopes: tuple[MatchScope, ...] = _PLAIN
    if parsed:
        if parsed.severity in ("warning", "note"):
            return None
        message, of_source = parsed.message, parsed.of_source
        scopes = (MatchScope.REMARK,)
        if parsed.severity == "error":
            scopes = (*_PLAIN, MatchScope.ERROR)
    elif EXCEPTION.match(line.text):
        scopes = (*_PLAIN, MatchScope.EXCEPTION)
    matched = _first_match(rules, scopes, line.text, message, of_source=of_source)
    if matched is None:
        return None
    rule, scope, match = matched
    if scope is MatchScope.EXCEPTION:
        finding = match_exception(rules, line.text, ())
        if finding:
            finding.line = line.number
        return finding
    text = message
    if scope in _PLAIN:  # without the program and the path before it
        begin = match.start()
        if _DRIVE.search(match.string, 0, begin):
            begin -= 2
        text = match.string[begin:]
    finding = Finding(rule, text[:HEADLINE], line.number, scope=scope)
    finding.captures = captures_of(match)
    if parsed:
        finding.location, finding.logged = parsed.location, parsed.logged
    return finding


@lru_cache(maxsize=4096)
def _first_match(
    rules: RuleSet,
    scopes: tuple[MatchScope, ...],
    line: str,
    message: str,
    *,
    of_source: bool,
) -> _Match | None:
    """Return the first rule that matches. Logs repeat their lines, so the answers are
    remembered.
    """
    choices = _choices(rules, *scopes)
    for _, rule, scope, regex in [one for one in choices if one[0] in line]:
        # these concern operations; the compiler of C++ reports others
        if of_source and rule.family in ("codegen", "input"):
            continue
        match = compile_regex(regex).search(message if scope in _IN_MESSAGE else line)
        if match:
            return rule, scope, match
    return None


def match_exception(rules: RuleSet, text: str, files: Sequence[str]) -> Finding | None:
    """Find the rule for the exception `text` that ends a traceback through `files`;
    None if no rule knows it.

    An exception that says little itself may quote another one, or pass on a message of
    the compiler, which then decides.
    """
    trace = "\n".join((text, *(files or ("",))))
    for literal, rule, scope, regex in _choices(rules, MatchScope.EXCEPTION):
        match = literal in trace and compile_regex(regex).search(trace)
        if not match:
            continue
        finding = Finding(rule, text[:HEADLINE], scope=scope)
        finding.captures = captures_of(match)
        nested = _NESTED.match(text) if rule.is_consequence else None
        if nested:
            inner = match_exception(rules, nested["exception"], files)
            if inner and not inner.rule.is_consequence:
                inner.headline = finding.headline
                return inner
        says_little = rule.is_consequence or "status" in finding.captures
        if says_little or ": error: " in text:
            return _match_passed_on(rules, finding, text) or finding
        return finding
    return None


def _match_passed_on(rules: RuleSet, finding: Finding, text: str) -> Finding | None:
    """Match the message in an exception as if the compiler had printed it. Only rules
    that say more than that of the exception are tried.
    """
    before, error, diagnostic = text.rpartition(": error: ")
    for part in filter(None, (diagnostic, before)):
        for literal, rule, _, regex in _choices(
            rules, MatchScope.ERROR, MatchScope.LINE
        ):
            if rule.rank >= finding.rule.rank + bool(error):
                break
            # some patterns are only meant for diagnostics about operations
            is_diagnostic = bool(error) and part is diagnostic
            if literal not in part or (rule.is_loose and not is_diagnostic):
                continue
            match = compile_regex(regex).search(part)
            if match:
                passed_on = Finding(rule, text[:HEADLINE], scope=finding.scope)
                passed_on.captures = captures_of(match)
                return passed_on
    return None
