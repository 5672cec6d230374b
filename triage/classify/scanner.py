"""Scan a compiler's output of any size, in pieces of any size, for failures; memory
stays bounded.

The key insight: most lines of a log say nothing. `SelectedLines` finds the few that
hold a word of a rule, with the lines around them. `records` cuts those into messages,
tracebacks and stacks. Rules read the records here: each gives a finding, which may read
on in the lines below it. `Findings` decides which is the cause and which its
consequence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from triage.classify import stack_dump
from triage.classify.closer_look import SuspiciousLine, look_closely
from triage.classify.diagnostic import HEADLINE, Diagnostic, diagnostic
from triage.classify.findings import Finding, Findings, with_pass
from triage.classify.line_matcher import match_exception, match_line
from triage.classify.log import SelectedLines, text_pieces
from triage.classify.log_line import LogLine
from triage.classify.records import (
    WRAPPED,
    Chained,
    LogReader,
    Message,
    NumberedLine,
    PassFailed,
    Record,
    StackLine,
    Traceback,
    TracebackBegins,
    begins_exception,
    records,
)
from triage.classify.rules import MatchScope, Rule, RuleSet, captures_of, compile_regex
from triage.model.errors import BadInput
from triage.model.json_form import in_json
from triage.model.outcome import Failure
from triage.model.pass_name import PassName

# an excerpt of the kernel's source follows
_AT_SOURCE = re.compile(r"(?P<head>.*?\bat \d+:\d+:)")
# the message is below the exception
_ANNOUNCES = re.compile(
    r":\Z|\bpipeline \(step: [^()]*\)\Z|\bException encountered when calling .*\Z"
    r"|\broot error\(s\) found\.\Z|\A[\w.]+\Z"
)
_PASSED_ON = re.compile(
    r"(?:\w+\.)*\w*RuntimeError: UNKNOWN: (?P<diagnostic>(?:-:\d+:\d+|<unknown>:\d+): "
    r"error: .+)"
)
_SOURCE_OP = re.compile(
    r'(?:%[\w#:, %]+ = )?"?(?P<op>[a-z_]\w*(?:\.\w+)+)"?(?=[ (<{]|\Z)'
)
_STATEMENT = re.compile(
    r'(?:\A *|[{)>] |= )(?P<op>"?[a-z_]\w*(?:\.\w+)+"?)(?=[ (<{]|\Z)'
)
_COLUMN = re.compile(r":\d+:(\d+)\Z")
# without its end, because a terminal broke the line
_BROKEN_ASSERTION = re.compile(
    r":\d+: (?:.*: )?A(?:s(?:s(?:e(?:r(?:t(?:i(?:on?)?)?)?)?)?)?)?\Z|\bAssertion "
    r"[`'](?!.*[`'] failed)|\bAssertion\Z"
    r"|\bpanicked at \S+:\d+:\d+:\Z"
)

_READ_CLOSELY = 1 << 16  # bytes of a log of which each line is read
# read after an error: source line, caret, `called from`, head of the printed operation
_CONTEXT_LINES = 8
_SENTENCE_ENDS = (".", "!", "?")
_MESSAGE_MARKS = ("'", '"', "(", "<")
_ASSERTION_LINES = 40  # into which a terminal breaks one assertion
_EXCERPT_LINES = 400  # of a kernel's source that an exception prints before its reason
_LINES_BELOW = 6  # read for the message of an exception


def scan(pieces: Iterable[bytes], rules: RuleSet) -> Findings:
    """Find the failures in a stream, however it is cut into pieces."""
    return _Scanner(LogReader(SelectedLines(pieces, rules)), rules).scan()


class LogStatus(StrEnum):
    """What a log says of the run that printed it."""

    FAILED = "failed"
    UNRECOGNISED = "unrecognised"
    """Something failed, and no rule knows what."""
    NO_FAILURES = "no failures"


@dataclass(frozen=True, slots=True)
class ClassifiedLog:
    """A log with its failures, the root cause first."""

    log: str
    failures: tuple[Failure, ...]
    likeliest: tuple[SuspiciousLine, ...] = ()
    """Without failures, the lines that sound like one."""

    @in_json
    def status(self) -> LogStatus:
        if self.failures:
            return LogStatus.FAILED
        if self.likeliest:
            return LogStatus.UNRECOGNISED
        return LogStatus.NO_FAILURES


@dataclass(frozen=True, slots=True)
class ClassifiedLogs:
    """The result of `triage classify`."""

    logs: Sequence[ClassifiedLog]


def classify_log(
    log: Path | BinaryIO, rules: RuleSet, progress: Callable[[int], None] | None = None
) -> ClassifiedLog:
    """Return the failures in a log, plain or gzip, in UTF-8 or UTF-16. Each line of the
    first 64 KiB is read.

    progress: called every 64 KiB with the bytes read so far.

    Raises:
        BadInput: the log cannot be opened, has no text, or its compressed stream is
            damaged.
    """
    with ExitStack() as stack:
        stream: BinaryIO
        if isinstance(log, Path):
            name, shown = str(log), str(log)
            try:
                stream = stack.enter_context(log.open("rb"))
            except OSError as error:
                raise BadInput(f"{log}: {error.strerror}") from error
        else:
            name, shown, stream = "-", "standard input", log
        pieces = text_pieces(stream, shown, progress)
        reader = LogReader(SelectedLines(pieces, rules, closely=_READ_CLOSELY))
        findings = _Scanner(reader, rules).scan()
        if findings.has_cause:
            return ClassifiedLog(name, findings.failures)
        look = look_closely(reader.messages(), rules, is_silent=findings.is_empty)
        if look.finding:
            findings.add(look.finding)
        failures = findings.failures
        if not failures and findings.first_pass:
            failures = with_pass((), findings.first_pass, rules)
        if failures:
            return ClassifiedLog(name, failures)
        return ClassifiedLog(name, (), look.likeliest)


class _Scanner:
    """Matches records with the rules.

    Two findings stay open, because later records belong to them: an error for the lines
    below it, and a crash for its stack. To close one adds it to the findings.
    """

    def __init__(self, reader: LogReader, rules: RuleSet) -> None:
        self._rules = rules
        self._reader = reader
        self._findings = Findings(rules)
        self._error: Finding | None = None
        self._crash: Finding | None = None
        # the last line in which the end of an assertion was not found
        self._searched_until = 0
        # an exception with a `Chained` line below it: the cause of the next one
        self._cause: Finding | None = None

    def scan(self) -> Findings:
        for record in records(self._reader):
            self._read(record)
        self._error = self._error or self._cause
        self._close_error()
        self._close_crash()
        return self._findings

    def _read(self, record: Record) -> None:
        match record:
            case StackLine():
                self._read_stack_line(record)
            case PassFailed():
                self._close_error()
                self._close_crash()
                self._match(record, None)
                self._close_error()
                self._findings.assign_pass(record.failed)
            case Chained() if self._error:
                self._cause, self._error = self._error, None
            case TracebackBegins():
                # the exception says more
                if record.of_crash and self._error and self._error.rule.is_consequence:
                    self._error = None
                self._close_error()
            case Traceback():
                self._read_exception(record)
            case Message() | Chained():
                self._match(record, diagnostic(record.line))

    def _match(self, line: NumberedLine, parsed: Diagnostic | None) -> None:
        """Match a line with the rules. parsed: the line as a diagnostic, if it is
        one.
        """
        finding = None
        if not self._is_source(line.line, parsed):
            finding = match_line(self._rules, line.line, parsed)
        if finding is None:
            whole = self._with_its_end(line)
            if whole is not line:
                line, parsed = whole, None
                finding = match_line(self._rules, line.line, None)
        if finding is None and parsed and parsed.severity == "error" and parsed.certain:
            finding = self._unknown_error(parsed)
        if finding is not None:
            finding.line = line.number
            self._open_finding(finding)
        else:
            self._read_context(line, parsed)

    def _unknown_error(self, parsed: Diagnostic) -> Finding:
        """Return the finding of an error that no rule knows."""
        # a compile has no such class: the program itself may be C
        is_build = parsed.of_source and "build-error" in self._rules.by_name
        rule = self._rules.by_name["build-error" if is_build else "unknown"]
        captures = {"message": parsed.message}
        return Finding(rule, parsed.message, 0, parsed.location, captures)

    def _read_context(self, line: NumberedLine, parsed: Diagnostic | None) -> None:
        """Read a line without a finding as context of the open error or crash."""
        is_note = parsed is not None and parsed.severity == "note"
        if self._error and (parsed is None or is_note):
            self._add_context(line, note=is_note)
        elif self._crash and self._error is None and parsed is None:
            captures = self._crash.captures
            context = self._crash.rule.captures_below(line.text, captures)
            self._crash.captures = context | captures

    def _is_source(self, line: LogLine, parsed: Diagnostic | None) -> bool:
        """Return whether a line is the source that is printed below the open error."""
        if self._error is None or not self._error.location or parsed is not None:
            return False
        return line.indent > 0 and not line.annotation

    def _with_its_end(self, line: NumberedLine) -> NumberedLine:
        """Join a line with those below it up to the end of an assertion that a terminal
        broke. Return the line itself if there is no such assertion.
        """
        if line.number <= self._searched_until:
            return line
        whole, read = line, list[NumberedLine]()
        while _BROKEN_ASSERTION.search(whole.text) and len(read) < _ASSERTION_LINES:
            following = self._reader.next(1)
            if following is None:
                break
            read.append(following)
            joined = replace(line.line, text=whole.text + following.text)
            whole = Message(following.number, joined)
            if match_line(self._rules, joined, None):
                return whole
        if read:
            self._searched_until = read[-1].number
            self._reader.put_back(*read)
        return line

    def _open_finding(self, finding: Finding) -> None:
        """Open a finding as a crash or an error, which closes the one before."""
        self._read_above(finding)
        if self._error and WRAPPED.search(self._error.headline):
            self._error = None
        if finding.scope is not MatchScope.CRASH:
            self._open_error(finding)
            return
        self._close_error()
        self._close_crash()
        headline = stack_dump.assertion_headline(finding.captures)
        finding.headline = headline or finding.headline
        self._crash = finding
        self._reader.follow(2)
        self._read_on(finding)

    def _read_on(self, finding: Finding) -> None:
        """Read the message below a line that only announces it."""
        rule = finding.rule
        if "reason" in finding.captures or (rule.context and not rule.is_consequence):
            return
        needs_reason = rule.is_identified_by("reason") or rule.name == "unknown"
        if needs_reason and _ANNOUNCES.search(finding.headline.rstrip()):
            self._read_reason(finding)

    def _read_above(self, finding: Finding) -> None:
        """Add the captures of the nearest lines above that the rule asks for."""
        for above in finding.rule.above:
            if not compile_regex(above.match_text).search(finding.headline):
                continue
            matches = (
                compile_regex(above.regex).match(line.text)
                for line in self._reader.above()
                if line.text and not line.indent
            )
            match = next(filter(None, matches), None)
            if match:
                finding.captures |= captures_of(match)

    def _open_error(self, finding: Finding) -> None:
        """Open a finding as an error, and read what belongs to it below."""
        self._close_error()
        self._error = finding
        match = _AT_SOURCE.match(finding.headline)
        if match and finding.captures.get("message", "").startswith("at "):
            cause, self._cause = self._cause, None
            finding.headline = match["head"]
            finding.captures |= {
                "message": "",
                "reason": cause.failure().headline if cause else "",
            }
            self._read_below_excerpt(finding)
        else:
            self._read_on(finding)
        finding.read_name(finding.headline)
        if finding.reads_on:
            only_source = finding.rule.source_op and not finding.rule.context
            self._reader.follow(1 if only_source else _CONTEXT_LINES)

    def _read_reason(self, finding: Finding) -> None:
        """Read the message below an exception, which may tell its class, too."""
        said, at = "", 0
        for _ in range(_LINES_BELOW):
            line = self._reader.next(1)
            if line is None:
                break
            text = line.text
            continues = not said or text[:1].islower() or said.endswith(":")
            is_other = self._is_failure(line.line) or self._is_about_other(
                finding, text
            )
            if not continues or is_other:
                self._reader.put_back(line)
                break
            if text and (text[:1].isalnum() or text.startswith(_MESSAGE_MARKS)):
                said, at = f"{said} {text}".strip(), line.number
                if said.endswith(_SENTENCE_ENDS):
                    break
        if said:
            finding = self._reclassify(finding, said, at)
            finding.captures["reason"] = said

    def _read_below_excerpt(self, finding: Finding) -> None:
        """Read the message below an excerpt of a kernel's source and its caret."""
        is_below = False
        for _ in range(_EXCERPT_LINES):
            line = self._reader.next(1)
            if line is None:
                break
            if self._is_about_other(finding, line.text):
                self._reader.put_back(line)
                break
            if is_below and line.text:
                finding.captures["reason"] = line.text
                break
            is_below = is_below or line.text == "^"

    def _is_about_other(self, finding: Finding, text: str) -> bool:
        """Return whether a line begins another exception or is context of this one."""
        if _AT_SOURCE.match(text) or begins_exception(text):
            return True
        return bool(finding.rule.captures_below(text, finding.captures))

    def _is_failure(self, line: LogLine) -> bool:
        return match_line(self._rules, line, diagnostic(line)) is not None

    def _reclassify(self, finding: Finding, message: str, line: int) -> Finding:
        """Replace the open error if it says nothing itself and a rule knows the message
        below it. Return the open error.
        """
        if not (finding.rule.is_consequence or finding.rule.name == "unknown"):
            return finding
        kind = finding.captures.get("type", "Error")
        for prefix in ("", "error: "):
            text = f"{kind}: {prefix}{message}"
            found = match_exception(self._rules, text, ())
            if found and not found.rule.is_consequence:
                self._error = Finding(
                    found.rule,
                    finding.headline,
                    line,
                    captures=found.captures,
                )
                return self._error
        return finding

    def _add_context(self, line: NumberedLine, *, note: bool) -> None:
        assert self._error
        captures = self._error.captures
        for name, text in self._error.rule.captures_below(line.text, captures).items():
            captures.setdefault(name, text)
        is_next = line.number == (self._error.line or 0) + 1
        if self._error.rule.source_op and is_next and not note:
            captures.update(_source_op(line.line, self._error.location or ""))
        self._error.read_name(line.text)

    def _close_error(self) -> None:
        if self._error:
            self._findings.add(self._error)
            self._error = None

    def _close_crash(self) -> None:
        finding, self._crash = self._crash, None
        if finding is None:
            return
        stack = finding.stack
        if finding.rule.name == "segfault":
            if "kind" not in finding.captures:
                finding.headline = _crash_headline(finding)
            finding.rule = next(
                (rule for rule in self._rules if _frames_match(rule, stack)),
                finding.rule,
            )
        finding.headline = finding.headline or "crashed"
        name = stack.failing_pass or stack_dump.pass_of(finding.captures)
        if name:
            finding.failing_pass = PassName(name)
        self._findings.add(finding)

    def _read_stack_line(self, line: StackLine) -> None:
        """Add a line to the open crash, or open one; a first frame closes the last."""
        self._close_error()
        crash = self._crash = self._crash or self._unnamed_crash(line.number)
        running = stack_dump.RUNNING.match(line.text)
        if running:
            crash.captures["running"] = running["name"]
        crash.stack.read_command(line.text)
        if line.frame and not crash.stack.add(line.frame):
            self._close_crash()
            self._crash = self._unnamed_crash(line.number)
            self._crash.stack.add(line.frame)

    def _unnamed_crash(self, number: int) -> Finding:
        rule = self._rules.by_name["segfault"]
        return Finding(rule, "", number, scope=MatchScope.CRASH)

    def _read_exception(self, trace: Traceback) -> None:
        """Match a traceback, and open what it shows as an error."""
        # the message is a diagnostic of the compiler, and more of them may follow
        passed_on = _PASSED_ON.match(trace.text)
        if passed_on:
            line = replace(trace.line, text=passed_on["diagnostic"])
            self._match(Message(trace.number, line), diagnostic(line))
            return
        finding = match_exception(self._rules, trace.text, trace.files)
        if finding is None:
            return
        finding.line = trace.number
        if self._error and WRAPPED.search(self._error.headline):
            self._error = None
        _add_frame(finding, trace)
        # of chained exceptions, which are one failure, keep the one that says more
        if self._cause and self._cause.rule.rank < finding.rule.rank:
            finding, self._cause = self._cause, None
        if not _AT_SOURCE.match(finding.headline):
            self._cause = None
        self._open_error(finding)
        if finding.rule.is_consequence and _ANNOUNCES.search(finding.headline):
            self._read_reason(finding)


def _add_frame(finding: Finding, trace: Traceback) -> None:
    """Add where an exception was raised, if it has no message or its rule asks."""
    has_message = finding.captures.get("type") != finding.headline
    is_known = bool(trace.source and trace.function)
    if not has_message and is_known and not trace.announces_another:
        finding.captures["reason"] = f"in {trace.function}: {trace.source}"
    if trace.own_frame and finding.rule.is_identified_by("frame"):
        finding.captures["frame"] = trace.own_frame


def _crash_headline(finding: Finding) -> str:
    """Say where it crashed: the function, else the pass, else the command. Add what the
    log says of the signal.
    """
    where = finding.stack.place.partition(" ")[0] or finding.captures.get("running", "")
    if where:
        crash = f"crashed in {where}"
    elif finding.stack.command and not finding.headline:
        crash = f"crashed: {finding.stack.command}"
    else:
        return finding.headline
    if finding.headline:
        crash = f"{crash}: {finding.headline}"
    return crash[:HEADLINE]


def _source_op(line: LogLine, location: str) -> dict[str, str]:
    """Return the operation in a source line. If it has several, return the one at the
    location's column or the last one before it.
    """
    column, text = _COLUMN.search(location), " " * line.indent + line.text
    at = int(column[1]) - 1 if column else 0
    if text[at - 1 : at] == " ":
        match = _SOURCE_OP.match(text, at)
        if match:
            return {"source_op": match["op"]}
    before = [
        found["op"] for found in _STATEMENT.finditer(text) if found.start("op") <= at
    ]
    if before:
        return {"source_op": before[-1].strip('"')}
    match = _SOURCE_OP.match(line.text)
    if match:
        return {"source_op": match["op"]}
    return {}


def _frames_match(rule: Rule, stack: stack_dump.Stack) -> bool:
    return any(
        re.search(regex, symbol)
        for regex in rule.frames
        for symbol in stack.symbols[:40]
    )
