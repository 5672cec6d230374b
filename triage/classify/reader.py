"""Read the lines of a log once, into findings.

The key insight: a message decides, and what stands around it only adds to it. So at
most one error and one crash are open, for the lines below them: a source line, a note,
a stack, a reason. A traceback is read up to its exception.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from triage.classify import stack_dump
from triage.classify.diagnostic import HEADLINE, Diagnostic, diagnostic
from triage.classify.finding import Finding
from triage.classify.findings import Findings
from triage.classify.line_matcher import (
    EXCEPTION,
    LOOSE_EXCEPTION,
    match_exception,
    match_line,
)
from triage.classify.log import SelectedLines
from triage.classify.log_line import LogLine, clean
from triage.classify.passes import failing_pass
from triage.classify.rules import MatchScope, RuleSet, captures_of, log_format
from triage.model.pass_name import PassName

_FOLLOWING = 40  # lines read below one that opens an error, a crash or a traceback
_ABOVE = 8  # lines kept for messages that stand above the line that reveals them
_EXCERPT_LINES = 400  # of a kernel's source that an exception prints before its reason
_REASON_LINES = 6  # below a message that announces its reason
_TRACEBACK_LINES = 400  # read before a traceback without an end is abandoned
_SCRIPT_LINES = 300  # of a CI step's script, skipped when its end is missing
_MOST_PLAIN = 5000  # lines kept for a second look

_NUMBER = re.compile(rb"\d+")
_LONGEST_SHAPE = 400  # bytes
_MOST_SHAPES = 10_000  # kept
_MOST_OF_A_SHAPE = 500  # lines read that differ only in numbers

_TRACEBACK = re.compile(r": Traceback \(most recent call last\):?\Z")
_CRASH_TRACEBACK = "Compiler crash traceback from this point on"
_TRACEBACK_ENDS = ("(most recent call last)", _CRASH_TRACEBACK)
_NO_MESSAGE = re.compile(r"[\w.]+: Traceback \(most recent call last\):?\Z")
_CHAINED = re.compile(r"(?:The above exception was the direct|During handling of the)")
_FRAME = re.compile(
    r'File "(?P<file>[^"]+)", line \d+(?:,? in (?P<function>[\w.<>]+))?'
)
_CALL = re.compile(r'File "[^"]+", line \d+, in [\w.<>]+')
_LIBRARY = re.compile(r"/lib/python3[.\d]*/(?!(?:site|dist)-packages/)|^<|/importlib/")
_WRAPPED = re.compile(r"raised:\Z|\ACompiler crash in ")
# an excerpt of the kernel's source follows
_AT_SOURCE = re.compile(r".*?\bat \d+:\d+:")
# the message is below
_ANNOUNCES = re.compile(
    r":\Z|\bpipeline \(step: [^()]*\)\Z|\bException encountered when calling .*\Z"
    r"|\broot error\(s\) found\.\Z|\A[\w.]+\Z"
)
_OTHER_EXCEPTION = re.compile(rf"{_CHAINED.pattern}|File |Traceback ")
# a terminal or Rust breaks the line here
_BROKEN = re.compile(
    r"\bAssertion(?: [`'](?!.*[`'] failed).*)?\Z|: Asse?r?t?i?o?\Z|\bpanicked at \S+:\Z"
)
_PASS_FUNCTION = re.compile(r"\b(?:(?P<old>\w+Pass)::|(?P<mlir>\w+)::runOnOperation\b)")
IMPORT = "<import>"
"""Stands between the files of a traceback where a package is imported."""


@dataclass(slots=True)
class Traceback:
    """A Python traceback as it is read."""

    indent: int
    files: list[str] = field(default_factory=list)
    lines: int = 0
    last: int = 0
    """The number of the last line of source."""
    function: str = ""
    """The function of the innermost frame."""
    source: str = ""
    """The line of source of the innermost frame."""
    own_frame: str = ""
    """The innermost frame that is not in Python's own library, as `module.function`."""

    def takes(self, line: LogLine) -> bool:
        """Read a frame or its source; return whether the line is one."""
        self.lines += 1
        frame = _FRAME.match(line.text)
        if frame is None:
            is_source = line.indent > self.indent
            if is_source:
                self.source, self.last = self.source or line.text, line.number
            return is_source
        is_import = self.source.startswith(("import ", "from "))
        if is_import and frame["file"].endswith("__init__.py"):
            self.files.append(IMPORT)
        self.files.append(frame["file"])
        self.function, self.source = frame["function"] or "", ""
        if self.function and not _LIBRARY.search(frame["file"]):
            module = re.split(r"[/.\\]", frame["file"].removesuffix(".py"))[-1]
            self.own_frame = f"{module}.{self.function}"
        return True

    def ends_with(self, text: str) -> bool:
        """Return whether a line is the exception."""
        is_loose = self.files and LOOSE_EXCEPTION.match(text)
        return bool(is_loose or EXCEPTION.match(text))


class LogReader:
    """Reads lines into findings."""

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules
        self.findings = Findings(rules)
        self.plain: list[LogLine] = []
        """Lines that no rule matched, for a second look."""
        self._error: Finding | None = None
        self._crash: Finding | None = None
        self._trace: Traceback | None = None
        self._cause: Finding | None = None
        """The exception that the next one names as its cause."""
        self._reason_until = 0
        """The last line that may be part of the reason of the open error."""
        self._is_below_caret = False
        self._script_until = 0
        self._above: deque[str] = deque(maxlen=_ABOVE)
        self._last = LogLine("")
        self._shape = b""
        """The line that is read, without its numbers."""
        self._shapes: Counter[bytes] = Counter()
        self._by_shape: dict[bytes, Finding] = {}

    def read(self, lines: SelectedLines) -> None:
        """Read all lines of a log."""
        for number, raw in lines.numbered:
            if self._is_repeated(raw):
                continue
            line = clean(raw, number)
            before = self._error, self._crash, self._trace
            if not self._is_script(line) and _is_output(line):
                self._read_line(line)
            is_open = (self._error, self._crash, self._trace) != before
            if is_open or _BROKEN.search(line.text):
                lines.follow = _FOLLOWING
            if not line.indent and line.text:
                self._above.appendleft(line.text)
        trace = self._trace
        if trace and trace.source.startswith("assert "):  # cut before its exception
            text = f"AssertionError: {trace.source}"
            self._read_exception(LogLine(text, number=trace.last), trace)
        self._error = self._error or self._cause
        self._close_error()
        self._close_crash()

    def _is_repeated(self, raw: bytes) -> bool:
        """Return whether a line was read often enough with other numbers, and count
        what it says. Within a stack or a traceback all lines are read.
        """
        if self._crash or self._trace or len(raw) > _LONGEST_SHAPE:
            self._shape = b""
            return False
        if len(self._shapes) > _MOST_SHAPES:
            self._shapes.clear()
            self._by_shape.clear()
        self._shape = _NUMBER.sub(b"#", raw)
        self._shapes[self._shape] += 1
        if self._shapes[self._shape] <= _MOST_OF_A_SHAPE:
            return False
        finding = self._by_shape.get(self._shape)
        if finding:
            self.findings.count(finding)
        return True

    def _is_script(self, line: LogLine) -> bool:
        """Return whether a line is of a script that a CI system prints, which may quote
        any message.
        """
        is_group = line.annotation == "group"
        if is_group or line.text.startswith("##[endgroup]"):
            self._script_until = 0
        if is_group and line.text.startswith("Run "):
            self._script_until = line.number + _SCRIPT_LINES
        return is_group or line.number <= self._script_until

    def _read_line(self, line: LogLine) -> None:
        text, trace = line.text, self._trace
        frame = stack_dump.parse_frame(text)
        failed = failing_pass(text) if "ailed" in text else None
        if frame or stack_dump.AROUND_STACK.match(text):
            self._read_stack_line(line, frame)
        elif failed:
            self._close_error()
            self._close_crash()
            self._match(line, None)
            self._close_error()
            self.findings.assign_pass(failed)
        elif _CHAINED.match(text) and self._error:
            self._cause, self._error = self._error, None
        elif trace is None and _CALL.match(text):  # its header is missing
            self._trace = Traceback(max(0, line.indent - 2))
            self._trace.takes(line)
        elif trace and trace.takes(line):
            pass
        elif trace and trace.ends_with(text) and not _NO_MESSAGE.match(text):
            self._trace = None
            self._read_exception(line, trace)
        elif text.rstrip(":").endswith(_TRACEBACK_ENDS):
            if not text.startswith(_CRASH_TRACEBACK):
                self._close_error()
            self._trace = Traceback(line.indent)
        else:
            if trace and trace.lines > _TRACEBACK_LINES:
                self._trace = None
            self._match(line, diagnostic(line))

    def _match(self, line: LogLine, parsed: Diagnostic | None) -> None:
        """Open the finding of a message that a rule knows. Read any other line as
        context of the open error or crash.
        """
        finding = match_line(self._rules, line, parsed)
        last, self._last = self._last, line
        if finding is None and _BROKEN.search(last.text):
            whole = LogLine(last.text + line.text, number=last.number)
            finding = match_line(self._rules, whole, None)
        if finding is None and parsed and parsed.severity == "error" and parsed.certain:
            finding = self._unknown_error(line, parsed)
        if finding:
            self._open(finding)
            return
        self.plain.append(line)
        if len(self.plain) > _MOST_PLAIN:
            del self.plain[_MOST_PLAIN // 2]
        is_open = self._error or self._crash
        if is_open and (parsed is None or parsed.severity == "note"):
            self._read_context(is_open, line)

    def _unknown_error(self, line: LogLine, parsed: Diagnostic) -> Finding:
        # a compile has no such class: the program itself may be C
        is_build = parsed.of_source and "build-error" in self._rules.by_name
        rule = self._rules.by_name["build-error" if is_build else "unknown"]
        finding = Finding(rule, parsed.message, line.number, parsed.location)
        finding.captures["message"] = parsed.message
        return finding

    def _open(self, finding: Finding) -> None:
        """Open a finding as a crash or an error, which closes the one before."""
        finding.read_above([*self._above])
        self._by_shape[self._shape] = finding
        error = self._error
        if error and error.rule.is_consequence and _WRAPPED.search(error.headline):
            self._error = None  # this is the exception that it announced
        self._close_error()
        self._reason_until = 0
        if finding.scope is MatchScope.CRASH or finding.rule.signals:
            if self._crash and not self._crash.headline and not self._crash.stack.place:
                finding.stack = self._crash.stack  # this is what it crashed with
                finding.captures |= self._crash.captures
            else:
                self._close_crash()
            headline = stack_dump.assertion_headline(finding.captures)
            finding.headline = headline or finding.headline
            self._crash = finding
        else:
            self._error = finding
            finding.read_name(finding.headline)
        at_source = _AT_SOURCE.match(finding.headline)
        if at_source and finding.captures.get("message", "").startswith("at "):
            cause, self._cause = self._cause, None
            finding.headline = at_source[0]
            finding.captures["message"] = ""
            if cause:
                finding.captures["reason"] = cause.failure().headline
            self._reason_until = (finding.line or 0) + _EXCERPT_LINES
        elif "reason" not in finding.captures and _ANNOUNCES.search(finding.headline):
            rule = finding.rule
            may_announce = rule.is_identified_by("reason") or rule.name == "unknown"
            if rule.is_consequence or (may_announce and not rule.context):
                self._reason_until = (finding.line or 0) + _REASON_LINES

    def _read_context(self, finding: Finding, line: LogLine) -> None:
        """Read a line below the open error or crash."""
        if line.number <= self._reason_until:
            self._read_reason(finding, line)
        else:
            finding.read_below(line.text, line.number - (finding.line or 0))

    def _read_reason(self, finding: Finding, line: LogLine) -> None:
        """Read a line of the message below an exception."""
        text = line.text
        if _OTHER_EXCEPTION.match(text) or _AT_SOURCE.match(text):
            self._reason_until = 0
            return
        if _AT_SOURCE.match(finding.headline):  # the reason is below the caret
            if self._is_below_caret:
                finding.captures["reason"] = text
                self._reason_until = 0
            self._is_below_caret = text == "^"
            return
        if not text[:1].isalnum() and not text.startswith(("'", '"', "(", "<", "[")):
            return
        said = finding.captures.get("reason", "")
        if said and not (text[:1].islower() or _ANNOUNCES.search(said)):
            self._reason_until = 0
            return
        said = f"{said} {text}".strip()
        finding.captures["reason"] = said
        if said.endswith((".", "!", "?")):
            self._reason_until = 0

    def _read_exception(self, line: LogLine, trace: Traceback) -> None:
        text = _TRACEBACK.sub("", line.text)  # another one may follow
        finding = match_exception(self._rules, text, trace.files)
        if finding is None:
            return
        finding.line = line.number
        if finding.captures.get("type") == finding.headline and trace.source:
            finding.captures["reason"] = f"in {trace.function}: {trace.source}"
        if trace.own_frame and finding.rule.is_identified_by("frame"):
            finding.captures["frame"] = trace.own_frame
        # of chained exceptions, which are one failure, keep the one that says more
        cause = self._cause
        if cause and cause.rule.rank < finding.rule.rank:
            finding, self._cause = cause, None
        if not _AT_SOURCE.match(finding.headline):
            self._cause = None
        self._open(finding)

    def _read_stack_line(self, line: LogLine, frame: re.Match[str] | None) -> None:
        """Add a line to the open crash, or open one; a first frame closes the last."""
        self._close_error()
        self._crash = crash = self._crash or self._unnamed_crash(line)
        task = stack_dump.TASK.match(line.text)
        if task:
            crash.captures = captures_of(task) | crash.captures
        if frame and not crash.stack.add(frame):
            self._close_crash()
            self._crash = self._unnamed_crash(line)
            self._crash.stack.add(frame)

    def _unnamed_crash(self, line: LogLine) -> Finding:
        rule = self._rules.by_name["segfault"]
        return Finding(rule, "", line.number, scope=MatchScope.CRASH)

    def _close_error(self) -> None:
        error, self._error = self._error, None
        if error:
            self.findings.add(error)

    def _close_crash(self) -> None:
        crash, self._crash = self._crash, None
        if crash is None:
            return
        stack, captures = crash.stack, crash.captures
        command = captures.pop("command", "")
        if crash.rule.name == "segfault":
            where = stack.place.partition(" ")[0] or captures.get("running", "")
            if where and "kind" not in captures:
                headline = f"crashed in {where}: {crash.headline}"
                crash.headline = headline.rstrip(": ")[:HEADLINE]
            elif command:
                crash.headline = f"{crash.headline or 'crashed'}: {command}"[:HEADLINE]
            rules = (rule for rule in self._rules if stack.has_frame(rule.frames))
            crash.rule = next(rules, crash.rule)
        crash.headline = crash.headline or "crashed"
        of_function = _PASS_FUNCTION.search(captures.get("function", ""))
        name = stack.failing_pass or captures.get("running")
        if of_function and not name:
            name = of_function["old"] or of_function["mlir"]
        if name:
            crash.failing_pass = PassName(name)
        self.findings.add(crash)


def _is_output(line: LogLine) -> bool:
    """Return whether a line may tell of a failure."""
    if not line.text or line.annotation in ("warning", "debug", "command"):
        return False
    is_expected = log_format("expected_failures").match(line.text)
    return not (is_expected or log_format("expected_anywhere").search(line.text))


def read_log(pieces: Iterable[bytes], rules: RuleSet) -> LogReader:
    """Read a log that comes in pieces, however it is cut into them."""
    reader = LogReader(rules)
    reader.read(SelectedLines(pieces, rules))
    return reader
