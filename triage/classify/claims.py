"""Failures that no text explains, named by the pass that failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triage.classify.findings import Finding, one
from triage.classify.passes import FailingPass
from triage.classify.rule import Rule
from triage.model.failure import Failure


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
