"""Collect the findings of one output, give each its signature, and order them as
failures: root causes first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from triage.classify.diagnostic import HEADLINE
from triage.classify.passes import phase_of
from triage.classify.rules import (
    MatchScope,
    Rule,
    RuleSet,
    compile_regex,
    detail,
    packaged_yaml,
)
from triage.classify.stack_dump import (
    Stack,
    is_in_header,
    short_name,
    signal_name,
    symbol_of,
)
from triage.model.outcome import Detail, Failure
from triage.model.pass_name import PassName

_SIGNATURE_LENGTH = 160  # characters of normalised text that enter a signature
# classes of messages that are printed when a pass fails
_OF_PASSES = ("translation-failed", "pass-failed")
_MOST_SIGNATURES = 100  # kept of one class
_MOST_WAITING = 100  # findings that may get the next failing pass
_FAILED_TOOLS = 55  # from this rank on: builds, tests, messages that no rule knows
# the capture of a message by which a compiler says that it could not read its input
_UNREAD = "unread"
_NOT_DETAILS = ("signal", _UNREAD)  # captures

# around an operator that the importer does not know, whose name says what fails
_WRAPPER = "torch.operator"
_WRAPPED_NAME = re.compile(
    rf'{_WRAPPER} "(?P<short>[\w.]+)"|(?:"{_WRAPPER}"\(.*?'
    rf'|\A<?\{{)name = "(?P<name>[\w.]+)"'
)
_DISPATCH_KIND = re.compile(
    r"dispatch_\d+_(?P<kind>[a-z][a-z_]*?)(?:_(?:\d|D+x|D_|[a-z]+\d)|_?\Z)"
)
_INTRINSIC = re.compile(r"[%@]llvm\.\w+(?:\.\w+)*")


def _apply_replacements(text: str, key: str) -> str:
    """Apply the replacements that `log_formats.yaml` lists under a key."""
    for regex, instead, *times in packaged_yaml("log_formats")[key]:
        for _ in range(*times or (1,)):
            text, replaced = compile_regex(regex).subn(instead, text)
            if not replaced:
                break
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
    for name in _INTRINSIC.findall(message):
        text = text.replace("\x01", name, 1)
    return text.strip(" .:;,")[:_SIGNATURE_LENGTH].rstrip()


def dispatch_kind(function: str) -> str:
    """Return what a dispatch computes, by its function's name; empty for other
    functions.

    >>> dispatch_kind("main$async_dispatch_3_matmul_like_4x8x16_f32")
    'matmul_like'
    """
    match = _DISPATCH_KIND.search(function)
    if match:
        return match["kind"]
    return ""


@dataclass(slots=True)
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
    logged: bool = False
    """A logging library printed it, which says less than an exception of the same
    class.
    """
    count: int = 1

    @property
    def reads_on(self) -> bool:
        """Whether the lines after the match belong to it."""
        return bool(self.rule.context) or self.rule.source_op or self._is_wrapped

    @property
    def _is_wrapped(self) -> bool:
        return (
            _WRAPPER in (self.captures.get("op"), self.captures.get("source_op"))
            or f"'{_WRAPPER}'" in self.headline
        )

    @property
    def signature(self) -> str:
        """`class`, or `class:text` with the captures that the rule's identity names. Of
        alternatives such as `a|b`, the first that is known is used.
        """
        parts = []
        for alternatives in self.rule.identity:
            names = alternatives.split("|")
            texts = (self._identity(name, alone=len(names) == 1) for name in names)
            parts.append(next(filter(None, texts), ""))
        text = " ".join(filter(None, parts))
        if text:
            return f"{self.rule.name}:{text}"
        return self.rule.name

    def _identity(self, name: str, *, alone: bool) -> str:
        """Return the text of one name of the identity. alone: it has no
        alternatives.
        """
        value = self.captures.get(name, "")
        function = self.captures.get("function", "")
        match name:
            case "message":
                return self._message(alone=alone)
            case "reason":
                return normalise(value)
            case "frames":
                return self.stack.place
            case "caller" if is_in_header(function):
                return self._caller()
            case "function" if function:
                return short_name(function)
            case "frame" if value:
                return f"in {value}"
            case "dispatch":
                return dispatch_kind(function)
            case "symbol" if " " in value or "(" in value:
                return (symbol_of(value) or value)[:_SIGNATURE_LENGTH]
        value = " ".join(value.split())[:_SIGNATURE_LENGTH]
        if value == _WRAPPER and "name" in self.captures:
            return f"{value} {self.captures['name']}"
        return value

    def _message(self, *, alone: bool) -> str:
        """Return the message without what varies. Of an unknown failure it has the
        reason, too.
        """
        message = self.captures.get("message", "")
        if self.rule.name != "unknown":
            is_headline = alone and "type" not in self.captures
            return normalise(message or (self.headline if is_headline else ""))
        text = message or self.headline
        if "reason" in self.captures:
            text = f"{text} {self.captures['reason']}"
        return normalise(_apply_replacements(text, "of_unknown"))

    def _caller(self) -> str:
        """Return the function that called a check in a header; without a stack, the
        pass that failed.
        """
        caller = self.stack.caller()
        if self.failing_pass and not caller:
            return f"in {self.failing_pass.name}"
        return caller

    def read_name(self, text: str) -> None:
        """Read the name of the operator inside a wrapping operation."""
        if self._is_wrapped and "name" not in self.captures:
            match = _WRAPPED_NAME.search(text)
            if match:
                self.captures["name"] = match["short"] or match["name"]

    def _details(self) -> dict[str, Detail]:
        details: dict[str, Detail] = {
            name: detail(value)
            for name, value in self.captures.items()
            if name not in _NOT_DETAILS
        }
        name = signal_name(self.captures.get("signal", ""))
        if name is not None:
            details["signal"] = name
        if self.stack.specific_frames:
            details["frames"] = " < ".join(self.stack.specific_frames)
        dispatch = dispatch_kind(self.captures.get("function", ""))
        if dispatch:
            details["dispatch"] = dispatch
        return details

    def _headline(self) -> str:
        reason = " ".join(self.captures.get("reason", "").split())
        name = self.captures.get("name")
        if self._is_wrapped and name and name not in self.headline:
            return f"{self.headline} ({name})"
        if self.headline.endswith(":"):
            reason = reason or self.captures.get("listed", "")
        if reason and reason not in self.headline:
            return f"{self.headline} {reason}"[:HEADLINE]
        return self.headline

    def failure(self) -> Failure:
        """Convert to a failure."""
        on_stack = self.stack.failing_pass
        failed = self.failing_pass or (PassName(on_stack) if on_stack else None)
        return Failure(
            failure_class=self.rule.name,
            family=self.rule.family,
            signature=self.signature,
            headline=_apply_replacements(self._headline(), "of_one_run"),
            phase=(phase_of(failed) if failed else None) or self.rule.phase,
            failing_pass=failed.name if failed else None,
            location=self.location,
            details=self._details(),
            line=self.line,
            count=self.count,
            explanation=self.rule.explanation,
            remedies=self.rule.remedies,
        )


class Findings:
    """The findings in an output, one for each signature. Remarks are kept apart."""

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules
        # by whether it is only a remark, and by signature
        self._by_key: dict[tuple[bool, str], Finding] = {}
        self._classes: Counter[str] = Counter()
        self._without_pass: list[Finding] = []
        self.first_pass: PassName | None = None
        """The first pass that the output reports as failed."""

    def add(self, finding: Finding) -> None:
        """Count a finding; of several with one signature keep the first that has a
        location.
        """
        if "signal" in finding.captures:
            finding.captures["signal"] = (
                signal_name(finding.captures["signal"]) or finding.captures["signal"]
            )
        is_remark = finding.scope is MatchScope.REMARK
        key = is_remark, finding.signature
        if key not in self._by_key:
            self._classes[finding.rule.name] += 1
            if self._classes[finding.rule.name] > _MOST_SIGNATURES:
                finding = Finding(
                    self._rules.by_name["unknown"],
                    "further errors with other messages",
                    finding.line,
                )
                key = is_remark, finding.signature
        first = self._by_key.setdefault(key, finding)
        if first is not finding:
            first.count += 1
            if finding.location and not first.location:
                finding.failing_pass = finding.failing_pass or first.failing_pass
                finding.line, finding.count = first.line, first.count
                self._by_key[key] = finding
        if finding.failing_pass is None and len(self._without_pass) < _MOST_WAITING:
            self._without_pass.append(finding)

    def assign_pass(self, failed: PassName) -> None:
        """Assign a pass that failed to the findings that were added since the report of
        the last such pass.
        """
        self.first_pass = self.first_pass or failed
        for finding in self._without_pass:
            finding.failing_pass = failed
        self._without_pass.clear()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found but remarks."""
        return all(is_remark for is_remark, _ in self._by_key)

    @property
    def has_cause(self) -> bool:
        """Whether there is a finding that is not a consequence of another one."""
        return any(
            not is_remark and not finding.rule.is_consequence
            for (is_remark, _), finding in self._by_key.items()
        )

    @property
    def passes_ran(self) -> bool:
        """Whether the output shows that the compiler had read its input."""
        return self.first_pass is not None or any(
            self._classes[name] for name in _OF_PASSES
        )

    @cached_property
    def failures(self) -> tuple[Failure, ...]:
        """The root causes in order; without any, only the consequence that is nearest
        to the cause.
        """
        failures = _in_order(self._causes())
        if self.passes_ran:
            failures = tuple(
                as_pass_failure(failure, self._rules) or failure for failure in failures
            )
        else:
            failures = tuple(
                as_input_failure(failure, self._rules, certain=True) or failure
                for failure in self._with_unread_input(failures)
            )
        if (
            self.first_pass
            and failures
            and all(map(self._rules.is_unexplained, failures))
        ):
            return with_pass(failures, self.first_pass, self._rules)
        return failures

    def _with_unread_input(self, failures: tuple[Failure, ...]) -> tuple[Failure, ...]:
        """If the compiler says that it could not read its input, the other messages are
        the reasons. Return them in the class of that failure.
        """
        unread = next(
            (
                finding
                for finding in self._by_key.values()
                if _UNREAD in finding.captures
            ),
            None,
        )
        if unread is None or len(failures) == 1:
            return failures
        others = [
            failure for failure in failures if failure.signature != unread.signature
        ]
        return tuple(
            failure if failure.family == "crash" else _reclassify(failure, unread.rule)
            for failure in others
        )

    def _causes(self) -> list[Finding]:
        """Return the root causes; without any, the consequence nearest to the cause."""
        every = [
            finding for (is_remark, _), finding in self._by_key.items() if not is_remark
        ]
        roots = [finding for finding in every if not finding.rule.is_consequence]
        if not roots:
            every.sort(key=_order)
            every.sort(key=_lacks_identity)
            every.sort(key=lambda finding: finding.rule.rank)
            return every[:1]
        return _without_explained(_without_endings(_one_of_each_class(roots)))

    @cached_property
    def remarks(self) -> tuple[Failure, ...]:
        """Failures that were only remarked."""
        return _in_order(
            finding for (is_remark, _), finding in self._by_key.items() if is_remark
        )


def _one_of_each_class(roots: Sequence[Finding]) -> list[Finding]:
    """Leave out a finding without identity, such as a stack without symbols, if another
    one of its class is identified: both are one failure. The headline of that one gets
    the command that crashed.
    """
    identified = {one.rule.name: one for one in roots if not _lacks_identity(one)}
    kept = []
    for finding in roots:
        same = identified.get(finding.rule.name)
        if same is None or not _lacks_identity(finding):
            kept.append(finding)
        elif finding.stack.command:
            headline = f"{same.headline}: {finding.stack.command}"
            same.headline = headline[:HEADLINE]
    return kept


def _without_endings(roots: list[Finding]) -> list[Finding]:
    """Leave out how a process ended if it says less than what the process printed."""
    endings = [one for one in roots if one.rule.signals and _lacks_identity(one)]
    others = [one for one in roots if one not in endings]
    if any(one.rule.rank < _FAILED_TOOLS for one in others):
        return others
    return roots


def _without_explained(roots: list[Finding]) -> list[Finding]:
    """Leave out what another finding explains by its rule. A crash keeps the words for
    its signal.
    """
    explained = [
        finding
        for finding in roots
        if any(_explains(by, finding) for by in roots if by is not finding)
    ]
    left = [finding for finding in roots if finding not in explained]
    for finding in left:
        if finding.scope is MatchScope.CRASH:
            _add_signal(finding, explained)
    return left or roots


def _explains(cause: Finding, finding: Finding) -> bool:
    return finding.signature.startswith(tuple(cause.rule.explains))


def _add_signal(crash: Finding, others: Iterable[Finding]) -> None:
    """Add to the headline of a crash what a shell says of its signal."""
    words = next((one.headline for one in others if "signal" in one.captures), "")
    says_nothing = crash.headline.startswith("crashed")
    if words and says_nothing and "signal" not in crash.captures:
        crash.headline = f"{crash.headline}: {words}"[:HEADLINE]


def _lacks_identity(finding: Finding) -> bool:
    return finding.signature == finding.rule.name


def _order(finding: Finding) -> tuple[int, bool, int]:
    return finding.rule.rank, finding.logged, finding.line or 0


def _in_order(findings: Iterable[Finding]) -> tuple[Failure, ...]:
    return tuple(finding.failure() for finding in sorted(findings, key=_order))


def with_pass(
    failures: Sequence[Failure], failed: PassName, rules: RuleSet
) -> tuple[Failure, ...]:
    """Identify unexplained failures by the pass that failed: by the rule for that pass,
    else as part of the signature.
    """
    first = failures[0] if failures else silent_failure(rules, failed)
    rule = next((rule for rule in rules if failed.name in rule.passes), None)
    if rule:
        named = Finding(
            rule,
            first.headline,
            first.line,
            first.location,
            failing_pass=failed,
            count=first.count,
        ).failure()
        # The rule's own phase is the same for every wording; a pass may run the
        # analysis from another phase.
        return (replace(named, phase=rule.phase or phase_of(failed)),)
    if not failures:
        return (first,)
    # The message of an unknown failure identifies it already; a consequence has the
    # same message for every cause.
    identified = first.failure_class == "unknown" or failed.name in first.signature
    if identified:
        signature = first.signature
    else:
        signature = f"{first.signature} in {failed.name}"
    named = replace(
        first,
        failing_pass=failed.name,
        phase=phase_of(failed) or first.phase,
        signature=signature,
    )
    return (named, *failures[1:])


def silent_failure(rules: RuleSet, failed: PassName | None) -> Failure:
    """Return the failure of a run that printed no message."""
    headline, captures = "failed without a message", dict[str, str]()
    if failed:
        headline = f"{failed.name} {headline}"
        captures["pass"] = failed.name
    return Finding(
        rules.by_name["silent-failure"],
        headline,
        captures=captures,
        failing_pass=failed,
    ).failure()


def as_input_failure(
    failure: Failure, rules: RuleSet, *, certain: bool = False
) -> Failure | None:
    """Return a failure in the `as_read` class of its rule; None unless it has one and
    the failure is about an operation that the input contains.

    certain: the message must show that no pass caused the failure.
    """
    rule = rules.by_name.get(failure.failure_class)
    written = failure.details.get("source_op")
    if (
        rule is None
        or rule.as_read is None
        or written is None
        or failure.details.get("op") not in (None, written)
    ):
        return None
    message = str(failure.details.get("message", failure.headline))
    if certain and not compile_regex(rule.as_read.certain).match(message):
        return None
    return _reclassify(failure, rules.by_name[rule.as_read.name])


def as_pass_failure(failure: Failure, rules: RuleSet) -> Failure | None:
    """Return a failure in the `as_made` class of its rule; None unless it has one and a
    verifier prints the message, too.
    """
    rule = rules.by_name.get(failure.failure_class)
    if rule is None or rule.as_made is None:
        return None
    if not compile_regex(rule.as_made.doubtful).search(failure.headline):
        return None
    return _reclassify(failure, rules.by_name[rule.as_made.name])


def _reclassify(failure: Failure, rule: Rule) -> Failure:
    signature = failure.signature.replace(failure.failure_class, rule.name, 1)
    return rule.reclassify(failure, signature)
