"""Collect the findings of one output, give each its signature, and order them as failures: root causes first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from triage.classify.log_lines import HEADLINE
from triage.classify.passes import FailingPass
from triage.classify.rules import Rule, RuleSet, compiled, detail
from triage.classify.stack_dump import Stack, is_in_header, short_name, signal_name, symbol_of
from triage.model.outcome import Detail, Failure

WRAPPER = "torch.operator"
"""The operation around an operator that the importer does not know; the operator's name says what fails."""

SIGNATURE_LENGTH = 160
"""Characters of normalised text that enter a signature."""

_OF_PASSES = ("translation-failed", "pass-failed")  # classes of messages that are printed when a pass fails
_MAX_FINDINGS = 500  # different signatures kept of one output
_REMARKED = "remark "  # begins the key of a remark

_PRINTED_OPERATION = re.compile(r': (?:%[\w#:]+ = )?"[a-z_][\w.]*"\(.*')  # appended to some messages from 3.13 on
# A name is searched from its first character only: from each one, a long name without the end takes quadratic time.
_QUOTED_LOCATION = re.compile(
    r"""loc\((?:[^()]++|\([^()]*\))*+\)|(?:["']|(?<![\w./\\<>+-]))[\w./\\<>+-]+\.\w++["']?:\d+(?::\d+)?"""
)
_PATH = re.compile(r"""(?<![\w./])(?:[A-Za-z]:[\\/]|~?/(?!/)|\.{1,2}/)[^\s'"`,;()<>]*""")
_DISPATCH = re.compile(r"(?:@|(?<![\w$.-]))[\w$.-]*(?:\$async|dispatch_\d+|_dispatch)[\w$.-]*")
_DISPATCH_KIND = re.compile(r"dispatch_\d+_(?P<kind>[a-z][a-z_]*?)(?:_(?:\d|D+x|D_|[a-z]+\d)|_?\Z)")
_SYMBOL = re.compile(r"@(?:\"[^\"]*\"|[\w$.-]+)(?:::@(?:\"[^\"]*\"|[\w$.-]+))*")
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?(?::\d+)?")
_INTRINSIC = re.compile(r"[%@]llvm\.\w+(?:\.\w+)*")
_ANGLES = re.compile(r"(?<=[\w\])>!])<[^<>]*>")
_LOOSE_ANGLES = re.compile(r"(?<=[\w])<[^<>]*\Z")  # cut off before its end
_ARROW = "\x00"
_KEPT = "\x01"
_SHAPE = re.compile(r"\b(?:\d+|\?)(?:x(?:\d+|\?))*x(?=[a-z!])|(?:\b\d+|\?)(?:x(?:\d+|\?))+\b")
_OPERATION = re.compile(r"\A'[\w.]+' op ")  # rules capture the operation where it matters
_HEX = re.compile(r"\b0x[0-9a-fA-F]+\b")
_NUMBER = re.compile(r"(?<![\w.])#?[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")
_NODE = re.compile(r"\bt\d+\b")  # a node of instruction selection
_LIST = re.compile(r"#(?:\s*,\s*#)+")
_SPACE = re.compile(r"\s+")


@lru_cache(maxsize=4096)
def normalised(message: str) -> str:
    """Remove what varies: SSA names, numbers, shapes, addresses, paths, locations, symbols and type parameters.

    Element types and the names of operations and intrinsics stay: a failure on f8 or on another operation is another failure.
    """
    text = _OPERATION.sub("", _PRINTED_OPERATION.sub("", message))
    intrinsics = _INTRINSIC.findall(text)
    text = _INTRINSIC.sub(_KEPT, text)
    text = _QUOTED_LOCATION.sub("<loc>", text)
    text = _PATH.sub("<path>", text)
    text = _HEX.sub("#", text)
    text = text.replace("->", _ARROW)
    for _ in range(12):  # innermost brackets first
        text, replaced = _ANGLES.subn("", text)
        if not replaced:
            break
    text = _LOOSE_ANGLES.sub("", text).replace(_ARROW, "->")
    text = _DISPATCH.sub("<function>", text)
    text = _SYMBOL.sub("@", text)
    text = _VALUE.sub("%", text)
    text = _SHAPE.sub("#x", text)
    text = _NODE.sub("t#", text)
    text = _NUMBER.sub("#", text)
    text = _LIST.sub("#", text)
    for name in intrinsics:
        text = text.replace(_KEPT, name, 1)
    return _SPACE.sub(" ", text).strip(" .:;,")[:SIGNATURE_LENGTH].rstrip()


def dispatch_kind(function: str) -> str:
    """Return what a dispatch computes, such as `matmul_like`, by its function's name; empty for other functions."""
    match = _DISPATCH_KIND.search(function)
    return match["kind"] if match else ""


@dataclass(slots=True)
class Finding:
    """One match of a rule in the output.

    line: 1-based; remark: from a remark, which never fails a compile;
    logged: from the line of a log, which says less than an exception of the same class.
    """

    rule: Rule
    headline: str
    line: int
    location: str | None = None
    captures: dict[str, str] = field(default_factory=dict)
    stack: Stack | None = None
    failing_pass: FailingPass | None = None
    remark: bool = False
    logged: bool = False

    @property
    def is_wrapped(self) -> bool:
        """Whether the failure is about an operator that is wrapped in an operation, as importers do."""
        return WRAPPER in (self.captures.get("op"), self.captures.get("source_op")) or f"'{WRAPPER}'" in self.headline

    @property
    def signature(self) -> str:
        """`class`, or `class:text` with the rule's identity; of `a|b` in it the first that is known counts."""
        parts = []
        for alternatives in self.rule.identity:
            names = alternatives.split("|")
            values = (self._identity(name, alone=len(names) == 1) for name in names)
            parts.append(next((value for value in values if value), ""))
        text = " ".join(part for part in parts if part)
        return f"{self.rule.name}:{text}" if text else self.rule.name

    def _identity(self, name: str, *, alone: bool) -> str:
        if name == "message":
            return normalised(self.captures.get("message") or (self.headline if alone and "type" not in self.captures else ""))
        if name == "frames":
            return self.stack.place if self.stack else ""
        if name == "caller":
            return self._caller()
        if name == "function" and (function := self.captures.get("function")):
            return short_name(function)
        if name == "frame":
            return f"in {self.captures['frame']}" if "frame" in self.captures else ""
        if name == "reason":
            return normalised(self.captures.get("reason", ""))
        if name == "symbol" and (symbol := self.captures.get("symbol")) and (" " in symbol or "(" in symbol):
            return symbol_of(symbol)[:SIGNATURE_LENGTH] or symbol[:SIGNATURE_LENGTH]
        if name == "dispatch":
            return dispatch_kind(self.captures.get("function", ""))
        value = " ".join(self.captures.get(name, "").split())[:SIGNATURE_LENGTH]
        return f"{value} {self.captures['name']}" if value == WRAPPER and "name" in self.captures else value

    def _caller(self) -> str:
        """Return what called the function of a header in which an assertion failed: by the stack, else the failing pass."""
        function = self.captures.get("function", "")
        caller = self.stack.caller_of(function) if self.stack else ""
        return caller or (f"in {self.failing_pass.name}" if self.failing_pass and is_in_header(function) else "")

    @property
    def details(self) -> dict[str, Detail]:
        """The captures, integers as int."""
        details = {name: detail(value) for name, value in self.captures.items() if name != "signal"}
        if (name := signal_name(self.captures.get("signal", ""))) is not None:
            details["signal"] = name
        if self.stack and self.stack.meaningful:
            details["frames"] = " < ".join(self.stack.meaningful)
        if dispatch := dispatch_kind(self.captures.get("function", "")):
            details["dispatch"] = dispatch
        return details

    def _headline(self) -> str:
        """Return the headline with what was read around the line, unless the line contains it."""
        reason = " ".join(self.captures.get("reason", "").split())
        if name := self.captures.get("name") if self.is_wrapped else None:
            text = self.headline.replace(WRAPPER, name)
            return text if name in text else f"{text} ({name})"
        return f"{self.headline} {reason}"[:HEADLINE] if reason and reason not in self.headline else self.headline

    def failure(self, line: int | None = None, count: int = 1) -> Failure:
        """Convert to a failure. line: of its first occurrence, None when it stands on no line."""
        name = self.failing_pass.name if self.failing_pass else (self.stack.failing_pass if self.stack else None)
        phase = self.failing_pass.phase if self.failing_pass else (FailingPass(name).phase if name else None)
        return Failure(
            failure_class=self.rule.name,
            family=self.rule.family,
            signature=self.signature,
            headline=self._headline(),
            phase=phase or self.rule.phase,
            failing_pass=name,
            location=self.location,
            details=self.details,
            line=line,
            count=count,
            explanation=self.rule.explanation,
            remedies=self.rule.remedies,
        )


@dataclass(slots=True)
class _Counted:
    finding: Finding
    line: int
    count: int = 1

    @property
    def bare(self) -> bool:
        """Whether the signature is only the class name."""
        return self.finding.signature == self.finding.rule.name

    @property
    def order(self) -> tuple[int, bool, int]:
        return self.finding.rule.rank, self.finding.logged, self.line

    def failure(self) -> Failure:
        return self.finding.failure(self.line, self.count)


class Findings:
    """Collects findings and turns them into failures."""

    def __init__(self) -> None:
        self._counted: dict[str, _Counted] = {}
        self._without_pass: list[Finding] = []
        self._worst = ""  # key of a finding with the worst rank, once it was looked for
        self.unlisted = 0  # findings beyond the limit of different signatures
        self.first_pass: FailingPass | None = None

    def add(self, finding: Finding) -> str:
        """Count a finding; of several with one signature keep the first that has a location. Return a key for `repeat`."""
        if "signal" in finding.captures:
            finding.captures["signal"] = signal_name(finding.captures["signal"]) or finding.captures["signal"]
        key = (_REMARKED if finding.remark else "") + finding.signature
        counted = self._counted.get(key)
        if counted is None:
            if len(self._counted) == _MAX_FINDINGS:
                self._drop_worst(finding)
            if len(self._counted) < _MAX_FINDINGS:
                self._counted[key] = _Counted(finding, finding.line)
            elif not finding.remark:
                self.unlisted += 1
        else:
            counted.count += 1
            if finding.location and not counted.finding.location:
                finding.failing_pass = finding.failing_pass or counted.finding.failing_pass
                counted.finding = finding
        if finding.failing_pass is None and len(self._without_pass) < _MAX_FINDINGS:
            self._without_pass.append(finding)
        return key

    def repeat(self, key: str, times: int = 1) -> None:
        """Count a line that occurs once more, or several times."""
        if counted := self._counted.get(key):
            counted.count += times
        elif not key.startswith(_REMARKED):
            self.unlisted += times

    def _drop_worst(self, finding: Finding) -> None:
        """Make room for a finding that has a better rank than one that is listed."""
        self._worst = self._worst or max(self._counted, key=lambda key: self._counted[key].finding.rule.rank)
        if finding.rule.rank < self._counted[self._worst].finding.rule.rank:
            dropped, self._worst = self._counted.pop(self._worst), ""
            self.unlisted += 0 if dropped.finding.remark else dropped.count

    def assign_pass(self, failed: FailingPass) -> None:
        """Assign a pass that was reported as failed to the findings since the last such report."""
        self.first_pass = self.first_pass or failed
        for finding in self._without_pass:
            finding.failing_pass = failed
        self._without_pass.clear()

    @property
    def passes_ran(self) -> bool:
        """Whether the output shows that the compiler had read its input."""
        return self.first_pass is not None or any(counted.finding.rule.name in _OF_PASSES for counted in self._counted.values())

    def failures(self) -> tuple[Failure, ...]:
        """Return root causes first; without any, only the consequence that is nearest to the cause."""
        entries = [counted for counted in self._counted.values() if not counted.finding.remark]
        roots = [counted for counted in entries if not counted.finding.rule.consequence]
        # A finding without identity, such as a stack without symbols, is the identified failure of the same class.
        identified = {counted.finding.rule.name for counted in roots if not counted.bare}
        roots = [counted for counted in roots if not (counted.bare and counted.finding.rule.name in identified)]
        if roots:
            explained = tuple((prefix, counted) for counted in roots for prefix in counted.finding.rule.explains)
            entries = [
                counted
                for counted in roots
                if not any(by is not counted and counted.finding.signature.startswith(prefix) for prefix, by in explained)
            ] or roots
        else:
            entries = sorted(entries, key=lambda counted: (counted.finding.rule.rank, counted.bare, counted.order))[:1]
        return tuple(counted.failure() for counted in sorted(entries, key=lambda counted: counted.order))

    def remarks(self) -> tuple[Failure, ...]:
        """Return the failures that were only remarked."""
        entries = [counted for counted in self._counted.values() if counted.finding.remark]
        return tuple(counted.failure() for counted in sorted(entries, key=lambda counted: counted.order))


def with_pass(failures: Sequence[Failure], failed: FailingPass, rules: RuleSet) -> tuple[Failure, ...]:
    """Identify unexplained failures by the pass that failed: by the rule for that pass, else as part of the signature."""
    first = failures[0] if failures else None
    rule = next((rule for rule in rules if failed.name in rule.passes), None)
    if rule:
        headline = first.headline if first else f"{failed.name} failed without a message"
        finding = Finding(rule, headline, 0, first.location if first else None, failing_pass=failed)
        failure = finding.failure(first.line if first else None, first.count if first else 1)
        # The rule's own phase is the same for every wording; a pass may run the analysis from another phase.
        return (replace(failure, phase=rule.phase or failed.phase),)
    if first is None:
        return (silent_failure(rules, failed),)
    # The message of an unknown failure identifies it already; a consequence has the same message for every cause.
    identified = first.failure_class == "unknown" or failed.name in first.signature
    signature = first.signature if identified else f"{first.signature} in {failed.name}"
    named = replace(first, failing_pass=failed.name, phase=failed.phase or first.phase, signature=signature)
    return (named, *failures[1:])


def may_be_as_read(failure: Failure, rules: RuleSet) -> bool:
    """Whether the failure is about an operation as it is written in the input, so that perhaps no pass caused it."""
    rule, written = rules.by_name.get(failure.failure_class), failure.details.get("source_op")
    return (
        rule is not None and rule.as_read is not None and written is not None and failure.details.get("op") in (None, written)
    )


def is_certainly_as_read(failure: Failure, rules: RuleSet) -> bool:
    """Whether the failure is about the input, as far as the message alone shows it."""
    rule = rules.by_name.get(failure.failure_class)
    message = str(failure.details.get("message", failure.headline))
    return may_be_as_read(failure, rules) and bool(rule and rule.as_read and compiled(rule.as_read.certain).match(message))


def as_made(failure: Failure, rules: RuleSet) -> Failure:
    """Return a failure whose message seems to be about the input, but is about what a pass made, in its class for that."""
    rule = rules.by_name[failure.failure_class]
    if rule.as_made is None or not may_be_as_made(failure, rules):
        return failure
    return _in_class(failure, rule, rules.by_name[rule.as_made.name])


def may_be_as_made(failure: Failure, rules: RuleSet) -> bool:
    """Whether a verifier, after a pass, prints the message of a failure that seems to be about the input."""
    rule = rules.by_name.get(failure.failure_class)
    return rule is not None and rule.as_made is not None and bool(compiled(rule.as_made.doubtful).search(failure.headline))


def as_read(failure: Failure, rules: RuleSet) -> Failure:
    """Return a failure that concerns the input in its class for that."""
    before = rules.by_name[failure.failure_class]
    return _in_class(failure, before, rules.by_name[before.as_read.name] if before.as_read else before)


def _in_class(failure: Failure, before: Rule, rule: Rule) -> Failure:
    return replace(
        failure,
        failure_class=rule.name,
        family=rule.family,
        signature=failure.signature.replace(before.name, rule.name, 1),
        phase=rule.phase,
        explanation=rule.explanation,
        remedies=rule.remedies,
    )


def silent_failure(rules: RuleSet, failed: FailingPass | None) -> Failure:
    """Return the failure of a run that printed no message."""
    headline = f"{failed.name} failed without a message" if failed else "failed without a message"
    captures = {"pass": failed.name} if failed else {}
    return Finding(rules.by_name["silent-failure"], headline, 0, captures=captures, failing_pass=failed).failure()
