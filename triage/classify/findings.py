"""Collect the findings of one output and order them as failures: root causes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from triage.classify.finding import Finding
from triage.classify.passes import phase_of
from triage.classify.rules import MatchScope, RuleSet, log_format
from triage.classify.stack_dump import signal_name
from triage.model.execution import PassName
from triage.model.outcome import Failure

_MOST_SIGNATURES = 100  # kept of one class
# classes of messages that are printed when a pass fails
_OF_PASSES = ("translation-failed", "pass-failed")


class Findings:
    """The findings in an output, one for each signature. Remarks are kept apart."""

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules
        # by signature
        self._by_key: dict[str, Finding] = {}
        self._remarks: dict[str, Finding] = {}
        self._classes: Counter[str] = Counter()
        self.first_pass: PassName | None = None
        """The first pass that the output reports as failed."""

    def add(self, finding: Finding) -> None:
        """Count a finding, and keep the first one of each signature."""
        signal = signal_name(finding.captures.pop("signal", ""))
        if signal:
            finding.captures["signal"] = signal
        if self._classes[finding.rule.name] >= _MOST_SIGNATURES:
            finding.rule = self._rules.by_name["unknown"]
            finding.headline = "further errors with other messages"
            finding.captures, finding.location = {}, None
        finding.signature = finding.identify()
        first = self._same_kind(finding).setdefault(finding.signature, finding)
        if first is finding:
            self._classes[finding.rule.name] += 1
        else:
            first.count += finding.count

    def count(self, finding: Finding) -> None:
        """Count a finding once more, whether it was added already or not."""
        self._same_kind(finding).get(finding.signature, finding).count += 1

    def assign_pass(self, failed: PassName) -> None:
        """Assign a pass that failed to the findings before it that have none."""
        self.first_pass = self.first_pass or failed
        for finding in (*self._by_key.values(), *self._remarks.values()):
            finding.failing_pass = finding.failing_pass or failed

    def _same_kind(self, finding: Finding) -> dict[str, Finding]:
        return self._remarks if finding.scope is MatchScope.REMARK else self._by_key

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found but remarks."""
        return not self._by_key

    @property
    def passes_ran(self) -> bool:
        """Whether the output shows that the compiler had read its input."""
        return bool(self.first_pass or any(map(self._classes.get, _OF_PASSES)))

    @cached_property
    def failures(self) -> tuple[Failure, ...]:
        """The root causes in order; without any, only the consequence that is nearest
        to the cause.
        """
        failures = _in_order(self._causes())
        if self.first_pass and all(map(self._rules.is_unexplained, failures)):
            return with_pass(failures, self.first_pass, self._rules)
        passes_ran = self.passes_ran or None
        return tuple(
            of_input_or_pass(failure, self._rules, passes_ran=passes_ran)
            for failure in failures
        )

    def _causes(self) -> list[Finding]:
        findings = [*self._by_key.values()]
        roots = [root for root in findings if not root.rule.is_consequence]
        if roots:
            return _without_explained(_without_unread_input(roots))
        findings.sort(
            key=lambda finding: (
                finding.rule.rank,
                finding.signature == finding.rule.name,  # says nothing more
                *_order(finding),
            )
        )
        return findings[:1]

    @cached_property
    def remarks(self) -> tuple[Failure, ...]:
        """Failures that were only remarked."""
        return _in_order(self._remarks.values())


def _without_unread_input(roots: list[Finding]) -> list[Finding]:
    """Leave out the message that the input cannot be read if other messages say why.
    Give them its class.
    """
    unread = next((root for root in roots if "unread" in root.captures), None)
    reasons = [root for root in roots if "unread" not in root.captures]
    if unread is None or not reasons:
        return roots
    for reason in reasons:
        if reason.rule.family != "crash":
            reason.rule = unread.rule
            reason.signature = reason.identify()
    return reasons


def _without_explained(roots: list[Finding]) -> list[Finding]:
    """Leave out what another finding explains by its rule."""
    explained = [
        finding
        for finding in roots
        if any(
            finding.signature.startswith(cause.rule.explains)
            for cause in roots
            if cause is not finding
        )
    ]
    return [finding for finding in roots if finding not in explained] or roots


def _order(finding: Finding) -> tuple[int, int]:
    return finding.rule.rank, finding.line or 0


def _in_order(findings: Iterable[Finding]) -> tuple[Failure, ...]:
    return tuple(finding.failure() for finding in sorted(findings, key=_order))


def with_pass(
    failures: Sequence[Failure], failed: PassName, rules: RuleSet
) -> tuple[Failure, ...]:
    """Identify unexplained failures by the pass that failed: by the rule for that pass,
    else as part of the signature.
    """
    if not failures:
        failures = (silent_failure(rules, failed),)
    first, *others = failures
    phase = phase_of(failed)
    rule = next((rule for rule in rules if failed.name in rule.passes), None)
    if rule:
        named = Finding(rule, first.headline, first.line, first.location)
        named.failing_pass, named.count = failed, first.count
        # the rule's own phase is the same for every wording; a pass may run the
        # analysis from another phase
        return (replace(named.failure(), phase=rule.phase or phase),)
    signature = first.signature
    # the message of an unknown failure identifies it already; a consequence has the
    # same message for every cause
    if first.failure_class != "unknown" and failed.name not in signature:
        signature = f"{signature} in {failed.name}"
    phase = phase or first.phase
    named_first = replace(
        first, failing_pass=failed.name, phase=phase, signature=signature
    )
    return (named_first, *others)


def of_input_or_pass(
    failure: Failure, rules: RuleSet, *, passes_ran: bool | None
) -> Failure:
    """Return a failure in the class for the input or in the class for passes: a
    verifier prints the same message about an operation of either.

    passes_ran: None if unknown; then only a message that is always about the input
    changes its class.
    """
    name, headline = failure.failure_class, failure.headline
    written, instead = failure.details.get("source_op"), name
    if passes_ran:
        if name == "parse-error" and log_format("of_verifiers").match(headline):
            instead = "verifier"
    elif written and failure.details.get("op", written) == written:
        is_certain = log_format("of_readers", r"(?:'\S+' op )?(?:{})").match(headline)
        if name == "verifier" and (is_certain or passes_ran is False):
            instead = "parse-error"
    if instead == name:
        return failure
    signature = failure.signature.replace(name, instead, 1)
    return rules.by_name[instead].reclassify(failure, signature)


def silent_failure(rules: RuleSet, failed: PassName | None) -> Failure:
    """Return the failure of a run that printed no message."""
    headline = "failed without a message"
    finding = Finding(rules.by_name["silent-failure"], headline, failing_pass=failed)
    if failed:
        finding.headline = f"{failed.name} {headline}"
        finding.captures["pass"] = failed.name
    return finding.failure()
