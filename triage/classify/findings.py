"""Match the rules with a log, collect what they find, and put root causes first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

from triage.classify.failure_site import (
    Stack,
    is_of_header,
    phase_of,
    short_name,
    signal_name,
    symbol_of,
)
from triage.classify.log import HEADLINE, Diagnostic, LogLine
from triage.classify.rules import (
    PLAIN,
    MatchScope,
    Pattern,
    Rule,
    RuleSet,
    captures_of,
    compile_regex,
    detail,
    log_format,
    packaged_yaml,
)
from triage.model.execution import PassName
from triage.model.outcome import Failure

_CONTEXT_LINES = 8  # below a match that its rule reads
_SIGNATURE_LENGTH = 160  # characters of normalised text that enter a signature
# around an operator that the importer does not know, whose name says what fails
_WRAPPER = "torch.operator"


def _apply_replacements(text: str, key: str) -> str:
    """Apply the replacements that `log_formats.yaml` lists under a key."""
    for regex, instead in packaged_yaml("log_formats")[key]:
        text = compile_regex(regex).sub(instead, text)
    return text


@lru_cache(maxsize=4096)
def normalise(message: str) -> str:
    """Remove what varies: SSA names, numbers, shapes, addresses, paths, locations,
    symbols and type parameters.

    Element types and the names of operations and intrinsics stay: a failure on f8 or on
    another operation is another failure.

    >>> normalise("failed to legalize operation 'arith.addf' at %12")
    "failed to legalize operation 'arith.addf' at %"
    """
    text = _apply_replacements(message, "varies")
    return text.strip(" .:;,")[:_SIGNATURE_LENGTH].rstrip()


@dataclass
class Finding:
    """One match of a rule in the output."""

    rule: Rule
    headline: str
    line: int | None = None
    """The line of the first occurrence, from 1."""
    location: str | None = None
    captures: dict[str, str] = field(default_factory=dict)
    scope: MatchScope = MatchScope.ERROR
    stack: Stack = field(default_factory=Stack)
    failing_pass: PassName | None = None
    count: int = 1
    signature: str = ""
    """Set when the finding is complete."""

    def identify(self) -> None:
        """Set the signature: `class`, or `class:text` with the captures that the rule's
        identity names. Of alternatives such as `a|b`, the first that is known is used.
        """
        parts = []
        for alternatives in self.rule.identity:
            texts = map(self._identity_text, alternatives.split("|"))
            parts.append(next(filter(None, texts), ""))
        text = " ".join(filter(None, parts))
        self.signature = f"{self.rule.name}:{text}" if text else self.rule.name

    def _identity_text(self, name: str) -> str:
        """Return the text of one name of the identity."""
        value = self.captures.get(name, "")
        if name == "headline":
            value = self.headline
        if name in ("headline", "message", "reason", "status"):
            if self.rule.name == "unknown":
                value = _apply_replacements(value, "of_unknown")
            return normalise(value)
        if name == "frames":
            return self.stack.crash_site
        if name == "function" and value:
            if is_of_header(symbol_of(value)) and self.stack.own_frames:
                return self.stack.own_frames[0]
            return short_name(value)
        if value == _WRAPPER:
            value += f" {self.captures.get('name', '')}"
        return " ".join(value.split())[:_SIGNATURE_LENGTH]

    def become(self, rule: Rule) -> None:
        """Change the class, and with it the beginning of the signature."""
        self.signature = self.signature.replace(self.rule.name, rule.name, 1)
        self.rule = rule

    def read_below(self, text: str, distance: int) -> None:
        """Read the captures that the rule expects in a line below the match. distance:
        in lines.
        """
        for regex in self.rule.context if distance <= _CONTEXT_LINES else ():
            match = compile_regex(regex).search(text)
            if match:
                self.captures = captures_of(match) | self.captures

    def read_above(self, lines: Iterable[str]) -> None:
        """Read the captures that the rule expects above the match, the nearest line
        first.
        """
        for above in self.rule.above:
            if compile_regex(above.match_text).search(self.headline):
                matches = map(compile_regex(above.regex).match, lines)
                match = next(filter(None, matches), None)
                if match:
                    self.captures |= captures_of(match)

    @property
    def whole_headline(self) -> str:
        """The headline and the reason that stands around it."""
        reason = " ".join(self.captures.get("reason", "").split())
        if reason in self.headline:
            return self.headline
        return f"{self.headline} {reason}"[:HEADLINE]

    def failure(self) -> Failure:
        """Convert to a failure."""
        failed = self.failing_pass or self.stack.failing_pass
        captures = dict(self.captures)
        captures.pop("unread", "")
        if self.stack.specific_frames:
            captures["frames"] = " < ".join(self.stack.specific_frames)
        if not self.signature:
            self.identify()
        return Failure(
            failure_class=self.rule.name,
            family=self.rule.family,
            signature=self.signature,
            headline=_apply_replacements(self.whole_headline, "of_one_run"),
            phase=(phase_of(failed) if failed else None) or self.rule.phase,
            failing_pass=failed.name if failed else None,
            location=self.location,
            details={name: detail(value) for name, value in captures.items()},
            line=self.line,
            count=self.count,
            explanation=self.rule.explanation,
            remedies=self.rule.remedies,
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


@cache
def _patterns(rules: RuleSet, *scopes: MatchScope) -> list[tuple[Rule, Pattern]]:
    """Return the patterns of some scopes in the order of the rules."""
    return [
        (rule, pattern)
        for rule in rules
        for pattern in rule.patterns
        if pattern.scope in scopes
    ]


def match_line(
    rules: RuleSet, line: LogLine, parsed: Diagnostic | None
) -> Finding | None:
    """Find the first rule that matches a line; None if none does, or for a warning or
    note. parsed: the line as a diagnostic, if it has a severity.
    """
    texts = dict.fromkeys(PLAIN, line.text)
    if parsed and parsed.severity in ("warning", "note"):
        return None
    if parsed and parsed.severity == "remark":
        texts = {MatchScope.REMARK: parsed.message}
    elif parsed:
        texts[MatchScope.ERROR] = parsed.message
    elif EXCEPTION.match(line.text):
        texts[MatchScope.EXCEPTION] = f"{line.text}\n"
    # those concern operations; the compiler of C++ reports others
    unlikely = ("codegen", "input") if parsed and parsed.of_source else ()
    finding = _first_match(rules, texts, unlikely)
    if finding:
        finding.line = line.number
        finding.location = parsed.location if parsed else None
    return finding


def match_exception(rules: RuleSet, text: str, files: Sequence[str]) -> Finding | None:
    """Find the rule for the exception `text` that ends a traceback through `files`;
    None if no rule knows it.
    """
    trace = "\n".join((text, *(files or ("",))))
    return _first_match(rules, {MatchScope.EXCEPTION: trace})


def _first_match(
    rules: RuleSet,
    texts: Mapping[MatchScope, str],
    without_families: Sequence[str] = (),
) -> Finding | None:
    """Find the first rule that matches the text of one of its scopes."""
    for rule, pattern in _patterns(rules, *texts):
        scope = pattern.scope
        text = texts[pattern.scope]
        is_possible = any(map(text.__contains__, pattern.literals))
        if not is_possible or rule.family in without_families:
            continue
        match = compile_regex(pattern.regex).search(text)
        if match:
            if scope in PLAIN:  # without the program and the path before it
                text = text[match.start() :]
            headline = text.partition("\n")[0][:HEADLINE]
            captures = captures_of(match)
            return Finding(rule, headline, captures=captures, scope=scope)
    return None


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
