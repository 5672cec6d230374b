"""What a failed run printed in words that no rule knows and no compiler's form of a diagnostic has."""

from __future__ import annotations

import re
from collections.abc import Sequence

from triage.classify.findings import Finding, one
from triage.classify.line import HEADLINE, Line, clean, diagnostic
from triage.classify.matching import EXCEPTION, Matcher
from triage.classify.rule import Rule
from triage.model.failure import Failure

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


def _unknown(line: Line, number: int, rules: Sequence[Rule]) -> Failure | None:
    rule = next((rule for rule in rules if rule.name == "unknown"), None)
    place = _PLACE.match(line.text)
    message = line.text[place.end() :] if place else line.text
    return one(Finding(rule, message[:HEADLINE], number, place["place"] if place else None)) if rule else None
