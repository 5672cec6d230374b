"""Collect the findings of one output, and order them: root causes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from triage.classify.failure_site import signal_name
from triage.classify.finding import Finding
from triage.classify.rules import MatchScope, RuleSet, log_format
from triage.model.execution import PassName
from triage.model.outcome import Failure

_MOST_SIGNATURES = 100  # kept of one class
# classes of messages that are printed when a pass fails
_OF_PASSES = ("translation-failed", "pass-failed")


class Findings:
    """The findings in an output, one for each signature. Remarks are kept apart."""

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules
        # by whether they are remarks, and by signature
        self._by_key: dict[tuple[bool, str], Finding] = {}
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
            finding.captures = {}
            finding.location = None
        finding.identify()
        first = self._by_key.setdefault(_key(finding), finding)
        if first is finding:
            self._classes[finding.rule.name] += 1
        else:
            first.count += finding.count

    def count(self, finding: Finding) -> None:
        """Count a finding once more, whether it was added already or not."""
        self._by_key.get(_key(finding), finding).count += 1

    def assign_pass(self, failed: PassName) -> None:
        """Assign a pass that failed to the findings before it that have none."""
        self.first_pass = self.first_pass or failed
        for finding in self._by_key.values():
            finding.failing_pass = finding.failing_pass or failed

    def of_kind(self, *, remarks: bool) -> list[Finding]:
        """Return the findings that are remarks, or those that are not, in order."""
        kind = [finding for key, finding in self._by_key.items() if key[0] is remarks]
        return sorted(kind, key=_order)

    @property
    def passes_ran(self) -> bool:
        """Whether the output shows that the compiler had read its input."""
        return bool(self.first_pass or any(map(self._classes.get, _OF_PASSES)))

    def causes(self) -> list[Finding]:
        """Return the root causes in order; without any, only the consequence that is
        nearest to the cause. If only a pass that failed explains them, it names them.
        Correct their classes.
        """
        findings = self.of_kind(remarks=False)
        causes = [cause for cause in findings if not cause.rule.is_consequence]
        if causes:
            causes = _without_explained(_without_unread_input(causes))
        else:
            # one that says no more than its class comes last
            findings.sort(
                key=lambda item: (item.rule.rank, item.signature == item.rule.name)
            )
            causes = findings[:1]
        if self.first_pass and all(cause.rule.is_unexplained for cause in causes):
            return identify_by_pass(causes, self.first_pass, self._rules)
        for cause in causes:
            name = class_of(cause, passes_ran=self.passes_ran or None)
            cause.become(self._rules.by_name[name])
        return causes


def _key(finding: Finding) -> tuple[bool, str]:
    return finding.scope is MatchScope.REMARK, finding.signature


def _order(finding: Finding) -> tuple[int, int]:
    return finding.rule.rank, finding.line or 0


def _without_unread_input(causes: list[Finding]) -> list[Finding]:
    """Leave out the message that the input cannot be read if other messages say why.
    Give them its class.
    """
    unread = next((cause for cause in causes if "unread" in cause.captures), None)
    reasons = [cause for cause in causes if "unread" not in cause.captures]
    if unread is None or not reasons:
        return causes
    for reason in reasons:
        if reason.rule.family != "crash":
            reason.rule = unread.rule
            reason.identify()
    return reasons


def _without_explained(causes: list[Finding]) -> list[Finding]:
    """Leave out what another finding explains by its rule."""
    left = [
        finding
        for finding in causes
        if not any(
            finding.signature.startswith(cause.rule.explains)
            for cause in causes
            if cause is not finding
        )
    ]
    return left or causes


def identify_by_pass(
    causes: list[Finding], failed: PassName, rules: RuleSet
) -> list[Finding]:
    """Identify unexplained findings by the pass that failed: by the rule for that pass,
    else as part of the signature.
    """
    first, *others = causes or [silent_failure(rules, failed)]
    first.failing_pass = failed
    rule = next((rule for rule in rules if failed.name in rule.passes), None)
    if rule:
        first.rule = rule
        first.captures = {}
        others = []
        first.identify()
    # the message of an unknown failure identifies it already; a consequence has the
    # same message for every cause
    elif first.rule.name != "unknown" and failed.name not in first.signature:
        first.signature += f" in {failed.name}"
    return [first, *others]


def class_of(finding: Finding, *, passes_ran: bool | None) -> str:
    """Return the class of a finding: that for the input or that for passes, because a
    verifier prints the same message about an operation of either.

    passes_ran: None if unknown; then only a message that is always about the input
    changes its class.
    """
    name = finding.rule.name
    headline = finding.headline
    written = finding.captures.get("source_op")
    if passes_ran:
        if name == "parse-error" and log_format("of_verifiers").match(headline):
            return "verifier"
    elif (
        name == "verifier"
        and written
        and finding.captures.get("op", written) == written
    ):
        is_certain = log_format("of_readers").match(headline)
        if is_certain or passes_ran is False:
            return "parse-error"
    return name


def silent_failure(rules: RuleSet, failed: PassName | None = None) -> Finding:
    """Return the failure of a run that printed no message."""
    headline = "failed without a message"
    finding = Finding(rules.by_name["silent-failure"], headline, failing_pass=failed)
    if failed:
        finding.headline = f"{failed.name} {headline}"
        finding.captures["pass"] = failed.name
    finding.identify()
    return finding


def failures_of(findings: Iterable[Finding]) -> tuple[Failure, ...]:
    """Convert findings to failures."""
    return tuple(finding.failure() for finding in findings)
