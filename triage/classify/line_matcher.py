"""Find the rule that matches a line of a compiler's output, or the exception that ends
a traceback.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from triage.classify.diagnostic import HEADLINE, Diagnostic
from triage.classify.finding import Finding
from triage.classify.log_line import LogLine
from triage.classify.rules import (
    PLAIN,
    MatchScope,
    Rule,
    RuleSet,
    captures_of,
    compile_regex,
    required_literals,
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

_START = 4  # characters of a literal by which it is looked for

_Choice = tuple[str, Rule, MatchScope, str]
"""A literal that a match contains, the rule, the scope, the regex. A pattern with
several such literals is listed with each.
"""


@cache
def _choices(
    rules: RuleSet, *scopes: MatchScope
) -> tuple[list[_Choice], dict[str, list[int]]]:
    """Return the patterns of some scopes in the order of the rules, and which of them
    have a literal with a given start.
    """
    choices: list[_Choice] = []
    by_start: dict[str, list[int]] = {"": []}
    for rule in rules:
        for pattern in rule.patterns:
            if pattern.scope in scopes:
                for literal in pattern.literals or required_literals(pattern.regex):
                    start = literal[:_START] if len(literal) >= _START else ""
                    by_start.setdefault(start, []).append(len(choices))
                    choices.append((literal, rule, pattern.scope, pattern.regex))
    return choices, by_start


def _possible_choices(
    rules: RuleSet, text: str, *scopes: MatchScope
) -> Iterator[_Choice]:
    """Yield the patterns of which a text contains a literal. To look for the starts of
    all literals at once is ten times faster than for each literal.
    """
    choices, by_start = _choices(rules, *scopes)
    starts = {text[at : at + _START] for at in range(len(text))} & by_start.keys()
    for at in sorted(at for start in (*starts, "") for at in by_start[start]):
        if choices[at][0] in text:
            yield choices[at]


def match_line(
    rules: RuleSet, line: LogLine, parsed: Diagnostic | None
) -> Finding | None:
    """Find the first rule that matches a line; None if none does, or for a warning or
    note. parsed: the line as a diagnostic, if it has a severity.
    """
    scopes: tuple[MatchScope, ...] = PLAIN
    if parsed and parsed.severity in ("warning", "note"):
        return None
    if parsed and parsed.severity == "remark":
        scopes = (MatchScope.REMARK,)
    elif parsed:
        scopes = (*PLAIN, MatchScope.ERROR)
    elif EXCEPTION.match(line.text):
        scopes = (*PLAIN, MatchScope.EXCEPTION)
    for _, rule, scope, regex in _possible_choices(rules, line.text, *scopes):
        # these concern operations; the compiler of C++ reports others
        if parsed and parsed.of_source and rule.family in ("codegen", "input"):
            continue
        text = parsed.message if parsed and scope not in PLAIN else line.text
        match = compile_regex(regex).search(text)
        if not match:
            continue
        if scope is MatchScope.EXCEPTION:
            finding = match_exception(rules, line.text, ())
            if finding:
                finding.line = line.number
            return finding
        if scope in PLAIN:  # without the program and the path before it
            text = text[match.start() :]
        finding = Finding(rule, text[:HEADLINE], line.number, scope=scope)
        finding.captures = captures_of(match)
        finding.location = parsed.location if parsed else None
        return finding
    return None


def match_exception(rules: RuleSet, text: str, files: Sequence[str]) -> Finding | None:
    """Find the rule for the exception `text` that ends a traceback through `files`;
    None if no rule knows it.
    """
    trace = "\n".join((text, *(files or ("",))))
    for _, rule, scope, regex in _possible_choices(rules, trace, MatchScope.EXCEPTION):
        match = compile_regex(regex).search(trace)
        if match:
            finding = Finding(rule, text[:HEADLINE], scope=scope)
            finding.captures = captures_of(match)
            return finding
    return None
