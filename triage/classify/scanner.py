"""A compiler's output, of any size, in pieces of any size -> its failures. Memory stays bounded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from triage.classify import stack_dump
from triage.classify.findings import Finding, Findings
from triage.classify.log_lines import Diagnostic, LogLine, clean, diagnostic
from triage.classify.matching import EXCEPTION, Matcher
from triage.classify.passes import FailingPass, failing_pass
from triage.classify.prefilter import Sieve
from triage.classify.rule import NEEDLES, Rule, Where
from triage.classify.rules_file import packaged_rules
from triage.classify.unexplained import unclear, with_pass
from triage.model.outcome import Failure

_BEGINNINGS = (
    "remark: ",
    "note: Pipeline failed",
    "Stack dump",
    "PLEASE submit",
    "Please report",
    "Traceback (most",
    "##[group]",
    "##[endgroup]",
)
_TRACEBACK = re.compile(r"(?:\(most recent call last\)|Traceback \(most recent call last\)):?\Z")
_CHAINED = re.compile(r"(?:The above exception was the direct cause of|During handling of the above exception)")
_SOURCE = re.compile(r'File "(?P<file>[^"]+)", line \d+')
FOLLOW = 8
"""Lines read after an error for its context: source line, caret, `called from`, head of the printed operation."""

REPEATS = 4096
"""Lines that are remembered: a log that repeats its errors is counted, not read again."""

_STAMP = len("2025-06-04T12:34:56.1234567Z ")

ECHO = 300
"""Lines of a CI step's script that are passed over when their end is missing."""

FOLLOW_TRACE = 400
"""Lines of a traceback that are read before it is given up."""


class Scanner:
    """Finds failures in a stream.

    `rules` are ordered by rank (see `load_rules`); without them the packaged ones are used. `feed` may be called with
    any pieces; `finish` once. `remarks` and `first_pass` are complete after `finish`.
    """

    def __init__(self, rules: Sequence[Rule] | None = None) -> None:
        rules = self._given = packaged_rules() if rules is None else rules
        patterns = [pattern for rule in rules for pattern in rule.patterns]
        self._matcher = Matcher(rules)
        self._by_name = {rule.name: rule for rule in rules}
        self._framed = [rule for rule in rules if rule.frames]
        anchors = {anchor for pattern in patterns for anchor in pattern.anchors}
        begins = {text for pattern in patterns for text in pattern.begins}
        self._sieve = Sieve((*NEEDLES, *anchors), (*begins, *_BEGINNINGS))
        self._findings = Findings()
        self._open: Finding | None = None  # waits for what the next lines add
        self._crash: Finding | None = None  # waits for its stack
        self._trace: list[str] | None = None  # files of the traceback being read
        self._trace_lines = 0
        self._repeats: dict[bytes, str] = {}  # lines that need no second reading, and where they are counted
        self._words = b""  # the line being read
        self._opened = b""  # the line that `_open` was found in
        self._cause: Finding | None = None  # an exception that the next traceback says it came from
        self._echo_until = 0  # last line of the script that a CI system shows before it runs it
        self.remarks: tuple[Failure, ...] = ()

    @property
    def first_pass(self) -> FailingPass | None:
        """The first pass that the output says failed."""
        return self._findings.first_pass

    def feed(self, data: bytes) -> None:
        """Read a piece of the stream."""
        self._read(self._sieve.feed(data))

    def finish(self) -> tuple[Failure, ...]:
        """The failures, root causes first; empty when there is none."""
        self._read(self._sieve.finish())
        self._open, self._cause = self._open or self._cause, None
        self._settle()
        self._settle_crash()
        self.remarks = self._findings.remarks()
        failures = self._findings.failures()
        if self.first_pass and failures and all(unclear(failure, self._given) for failure in failures):
            return with_pass(failures, self.first_pass, self._given)
        return failures

    def _read(self, lines: Iterable[tuple[int, bytes]]) -> None:
        for number, raw in lines:
            words = raw[_STAMP:] if raw[_STAMP - 2 : _STAMP] == b"Z " else raw
            if (key := self._repeats.get(words)) and self._trace is None and number > self._echo_until:
                self._settle()
                self._findings.again(key)
                continue
            self._words = words
            self._line(number, clean(raw))

    def _line(self, number: int, line: LogLine) -> None:
        if self._echoed(number, line) or not line.text or line.annotation in ("warning", "debug", "command"):
            return
        if self._stack(number, line.text):
            return
        if found := failing_pass(line.text):
            self._settle()
            self._settle_crash()
            self._match(number, line, None)
            self._settle()
            self._findings.failed(found)
            return
        if self._traced(number, line):
            return
        self._match(number, line, diagnostic(line))

    def _match(self, number: int, line: LogLine, said: Diagnostic | None) -> None:
        echoed = self._open and said is None and line.indented and not line.annotation  # the source, under an error
        hit = None if echoed else self._matcher.find(line, said)
        if hit is None:
            if said and said.severity == "error" and said.surely and "unknown" in self._by_name:
                self._begin(Finding(self._by_name["unknown"], said.message, number, said.location))
            elif self._open and not (said and said.severity != "note"):
                self._context(line.text)
            return
        finding = Finding(hit.rule, hit.words, number, said.location if said else None, hit.captures)
        finding.remark = hit.where is Where.REMARK
        if hit.where is Where.CRASH:
            self._settle()
            self._settle_crash()
            finding.headline = stack_dump.told_briefly(hit.captures) or finding.headline
            finding.stack = stack_dump.Stack()
            self._crash = finding
            self._sieve.follow = max(self._sieve.follow, 2)
        else:
            self._begin(finding)

    def _begin(self, finding: Finding) -> None:
        self._settle()
        self._open, self._opened = finding, self._words
        if finding.rule.context:
            self._sieve.follow = max(self._sieve.follow, FOLLOW)

    def _context(self, text: str) -> None:
        assert self._open is not None
        for name, value in self._open.rule.context_of(text).items():
            self._open.captures.setdefault(name, value)

    def _settle(self) -> None:
        if self._open:
            key = self._findings.add(self._open)
            if not self._open.rule.context and len(self._repeats) < REPEATS:
                self._repeats[self._opened] = key
            self._open = None

    def _settle_crash(self) -> None:
        finding, self._crash = self._crash, None
        if finding is None:
            return
        stack = finding.stack or stack_dump.Stack()
        if finding.rule.name == "segfault" and stack.symbols:
            claimed = next((rule for rule in self._framed if _claims(rule, stack)), finding.rule)
            top = stack.meaningful[:1]
            headline = finding.headline or (f"crashed in {top[0]}" if top else "crashed")
            finding = Finding(claimed, headline, finding.line, captures=finding.captures, stack=stack)
        finding.headline = finding.headline or "crashed"
        if stack.failing_pass:
            finding.failing_pass = FailingPass(stack.failing_pass)
        self._findings.add(finding)

    def _stack(self, number: int, text: str) -> bool:
        """Whether the line belongs to a stack dump."""
        found = stack_dump.frame(text)
        if found is None and not stack_dump.trailer(text):
            return False
        self._settle()
        if self._crash is None:
            self._crash = self._unnamed_crash(number)
        if found and self._crash and self._crash.stack and not self._crash.stack.add(found):
            self._settle_crash()
            self._crash = self._unnamed_crash(number)
            if self._crash and self._crash.stack:
                self._crash.stack.add(found)
        return True

    def _unnamed_crash(self, number: int) -> Finding | None:
        rule = self._by_name.get("segfault")
        return Finding(rule, "", number, stack=stack_dump.Stack()) if rule else None

    def _traced(self, number: int, line: LogLine) -> bool:
        """Whether the line belongs to a Python traceback; its last line is what the rules read."""
        if _CHAINED.match(line.text) and self._open:
            self._cause, self._open = self._open, None
            self._sieve.follow = 4
            return True
        if _TRACEBACK.search(line.text):
            self._settle()
            self._trace, self._trace_lines = [], 0
            self._sieve.follow = 4
            return True
        if self._trace is None:
            return False
        self._trace_lines += 1
        self._sieve.follow = max(self._sieve.follow, 4)
        if source := _SOURCE.match(line.text):
            self._trace.append(source["file"])
            return True
        if line.indented and line.annotation != "pytest":
            return True
        ended = EXCEPTION.match(line.text)
        if ended or self._trace_lines > FOLLOW_TRACE:
            files, self._trace = self._trace, None
            if ended:
                self._exception(number, line, files)
                return True
        return False

    def _exception(self, number: int, line: LogLine, files: Sequence[str]) -> None:
        hit = self._matcher.exception(line, files)
        if hit is None:
            return
        finding = Finding(hit.rule, hit.words, number, None, hit.captures)
        cause, self._cause = self._cause, None  # one failure, told by the rule that knows it best
        self._begin(cause if cause and cause.rule.rank < hit.rule.rank else finding)

    def _echoed(self, number: int, line: LogLine) -> bool:
        """Whether the line is part of a CI step's script, which may quote any message without meaning it."""
        if line.annotation == "group":
            self._echo_until = number + ECHO if line.text.startswith("Run ") else 0
            return True
        if line.annotation == "endgroup" or line.text.startswith("##[endgroup]"):
            self._echo_until = 0
            return True
        return number <= self._echo_until


def _claims(rule: Rule, stack: stack_dump.Stack) -> bool:
    return any(re.search(regex, symbol) for regex in rule.frames for symbol in stack.symbols[:40])
