"""Failures that no text explains, named by the pass that failed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from triage.classify.findings import Finding, one
from triage.classify.log_lines import HEADLINE, LogLine, clean, diagnostic
from triage.classify.matching import EXCEPTION, Matcher
from triage.classify.passes import FailingPass
from triage.classify.rule import Rule
from triage.model.outcome import Failure


def unclear(failure: Failure, rules: Sequence[Rule]) -> bool:
    """Whether the output does not say what went wrong: only a consequence, or a text that no rule knows."""
    rule = next((rule for rule in rules if rule.name == failure.failure_class), None)
    return rule is None or rule.consequence or rule.name == "unknown"


def with_pass(failures: Sequence[Failure], named: FailingPass, rules: Sequence[Rule]) -> tuple[Failure, ...]:
    """Unclear failures, told apart by the pass: a rule may claim them, otherwise it becomes part of their identity."""
    said = failures[0] if failures else None
    rule = next((rule for rule in rules if named.name in rule.passes), None)
    if rule:
        headline = said.headline if said else f"{named.name} failed without a message"
        claimed = Finding(rule, headline, 0, said.location if said else None, failing_pass=named)
        # The rule's own phase is the same for every wording; a pass may run the analysis from another phase.
        failure = replace(one(claimed), phase=rule.phase or named.phase)
        return (replace(failure, line=said.line, count=said.count) if said else replace(failure, line=None),)
    if said is None:
        return (silent(rules, named),)
    # A text of its own already tells an unknown failure from others; a consequence is the same for all of them.
    told = said.failure_class == "unknown" or named.name in said.signature
    signature = said.signature if told else f"{said.signature} in {named.name}"
    first = replace(said, failing_pass=named.name, phase=named.phase or said.phase, signature=signature)
    return (first, *failures[1:])


def silent(rules: Sequence[Rule], named: FailingPass | None) -> Failure:
    """A failure without a message."""
    rule = next(rule for rule in rules if rule.name == "silent-failure")
    headline = f"{named.name} failed without a message" if named else "failed without a message"
    captures = {"pass": named.name} if named else {}
    return replace(one(Finding(rule, headline, 0, captures=captures, failing_pass=named)), line=None)


_LINES = 2000  # that are looked at
_TELLING = re.compile(
    r"\b(?:error|fail\w*|invalid|illegal|unexpected|expect\w*|cannot|can't|could not|unable|unknown|undefined|unsupported|"
    r"missing|must|may not|not|no such)\b",
    re.IGNORECASE,
)
_PRINTED_IR = re.compile(r"[%\"{}()^#!@/]|(?:module|[a-z_]+\.[a-z_.]+)(?: |\Z)")
_PLACE = re.compile(r"(?P<place>\S*[./]\S*?(?::\d+){0,2}): +(?=\S)")


def unread(text: str, rules: Sequence[Rule]) -> Failure | None:
    """The line that tells most of a failure: an exception's, else the first that sounds like an error, else the last. None
    where nothing stands there, and where remarks and warnings do, whose words must not be taken for the failure's.
    """
    lines = [clean(raw.encode("utf-8", "replace")) for raw in text.splitlines()[:_LINES]]
    plain = [line for line in lines if re.search(r"[^\W\d_]{2}", line.text) and not line.indented]
    plain = [line for line in plain if _PLACE.match(line.text) or not _PRINTED_IR.match(line.text)]
    for line in plain:
        hit = Matcher(rules).exception(line, ()) if EXCEPTION.match(line.text) else None
        if hit is not None:
            return one(Finding(hit.rule, hit.words, lines.index(line) + 1, captures=hit.captures))
    if not plain or any(diagnostic(line) for line in lines):
        return None
    told = next((line for line in plain if _TELLING.search(line.text)), plain[-1])
    return _unknown(told, lines.index(told) + 1, rules)


def _unknown(line: LogLine, number: int, rules: Sequence[Rule]) -> Failure | None:
    rule = next((rule for rule in rules if rule.name == "unknown"), None)
    place = _PLACE.match(line.text)
    message = line.text[place.end() :] if place else line.text
    return one(Finding(rule, message[:HEADLINE], number, place["place"] if place else None)) if rule else None
