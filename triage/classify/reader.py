"""Read the lines of a log once, into findings.

The key insight: a message decides, and what stands around it only adds to it. So at
most one error and one crash are open, for the lines below them: a source line, a note,
a stack, a reason. A traceback is read up to its exception.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from triage.classify import failure_site
from triage.classify.findings import (
    EXCEPTION,
    LOOSE_EXCEPTION,
    Finding,
    Findings,
    match_exception,
    match_line,
)
from triage.classify.log import (
    HEADLINE,
    Diagnostic,
    LogLine,
    clean_line,
    parse_diagnostic,
    selected_lines,
)
from triage.classify.rules import (
    MatchScope,
    RuleSet,
    captures_of,
    log_format,
    packaged_yaml,
)
from triage.model.execution import PassName

_ABOVE = 8  # lines kept for messages that stand above the line that reveals them
_EXCERPT_LINES = 400  # of a kernel's source that an exception prints before its reason
_REASON_LINES = 6  # below a message that announces its reason
_SCRIPT_LINES = 300  # of a CI step's script, skipped when its end is missing
_MOST_PLAIN = 2000  # lines kept for a second look

_LONGEST_SHAPE = 400  # bytes
_MOST_SHAPES = 10_000  # kept
_MOST_OF_A_SHAPE = 200  # lines read that have the same words of the rules
_BYTES = re.compile(rb"[A-Za-z_]+|\d+")
_TEXT = re.compile(r"(?<!\\)[A-Za-z]{3,}")
_START = 4  # characters that tell a word

_CHAINED = re.compile(r"(?:The above exception was the direct|During handling of the)")
_FRAME = re.compile(
    r'File "(?P<file>[^"]+)", line \d+(?:,? in (?P<function>[\w.<>]+))?'
)
_LIBRARY = re.compile(r"/lib/python3[.\d]*/(?!(?:site|dist)-packages/)|^<|/importlib/")
_WRAPPED = re.compile(r"raised:\Z|\ACompiler crash in ")
# an excerpt of the kernel's source follows
_AT_SOURCE = re.compile(r".*?\bat \d+:\d+:")
# the message is below
_ANNOUNCES = re.compile(
    r":\Z|\bpipeline \(step: [^()]*\)\Z|\bException encountered when calling .*\Z"
    r"|\broot error\(s\) found\.\Z|\A[\w.]+\Z"
)
# a terminal or Rust breaks the line here
_BROKEN = re.compile(
    r"\bAssertion(?: [`'](?!.*[`'] failed).*)?\Z|: Asse?r?t?i?o?\Z|\bpanicked at \S+:\Z"
)


@dataclass
class Traceback:
    """A Python traceback as it is read."""

    indent: int
    files: list[str] = field(default_factory=list)
    own_frame: str = ""
    """The innermost frame that is not in Python's own library, as `module.function`."""

    def read(self, line: LogLine) -> bool:
        """Read a frame or its source; return whether the line is one."""
        frame = _FRAME.match(line.text)
        if frame is None:
            return line.indent > self.indent
        file = frame["file"]
        self.files.append(file)
        if frame["function"] and not _LIBRARY.search(file):
            module = re.split(r"[/.\\]", file.removesuffix(".py"))[-1]
            self.own_frame = f"{module}.{frame['function']}"
        return True

    def ends_with(self, text: str) -> bool:
        """Return whether a line is the exception."""
        is_loose = self.files and LOOSE_EXCEPTION.match(text)
        return bool(is_loose or EXCEPTION.match(text))


@dataclass
class Shape:
    """How often lines were read that differ only in names and numbers."""

    count: int = 0
    finding: Finding | None = None


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
        self._script_until = 0
        self._above: deque[str] = deque(maxlen=_ABOVE)
        self._last = LogLine("")
        self._shape = Shape()
        """Of the line that is read."""
        self._shapes: dict[bytes, Shape] = {}

    def read(self, pieces: Iterable[bytes]) -> None:
        """Read all lines of a log that comes in pieces."""
        for number, raw in selected_lines(pieces, self._rules):
            self._shape = self._shape_of(raw)
            self._shape.count += 1
            if self._shape.count > _MOST_OF_A_SHAPE:
                if self._shape.finding:
                    self.findings.count(self._shape.finding)
                continue
            line = clean_line(raw, number)
            if self._is_output(line):
                self._read_line(line)
            if not line.indent and line.text:
                self._above.appendleft(line.text)
        self._error = self._error or self._cause
        self._end_message()

    def _shape_of(self, raw: bytes) -> Shape:
        """Return the shape of a line: # stands for each name and number that no rule
        knows. Within a stack or a traceback each line has its own.
        """
        if self._crash or self._trace or len(raw) > _LONGEST_SHAPE:
            return Shape()
        if len(self._shapes) > _MOST_SHAPES:
            self._shapes.clear()
        known = _known_words(self._rules)
        key = _BYTES.sub(
            lambda word: word[0] if word[0][:_START].lower() in known else b"#", raw
        )
        return self._shapes.setdefault(key, Shape())

    def _is_output(self, line: LogLine) -> bool:
        """Return whether a line may tell of a failure, and is not of a script that a CI
        system prints, which may quote any message.
        """
        if line.annotation == "group" or line.text.startswith("##[endgroup]"):
            is_script = line.text.startswith("Run ")
            self._script_until = line.number + _SCRIPT_LINES * is_script
        if not line.text or line.number <= self._script_until:
            return False
        return not (
            line.annotation in ("warning", "debug", "command")
            or log_format("expected_failures").match(line.text)
            or log_format("expected_anywhere").search(line.text)
        )

    def _read_line(self, line: LogLine) -> None:
        text = line.text
        trace = self._trace
        frame = failure_site.parse_frame(text)
        failed = failure_site.failing_pass(text) if "ailed" in text else None
        if frame or failure_site.AROUND_STACK.match(text):
            self._read_stack_line(line, frame)
        elif failed:
            self._end_message()
            self._match(line, None)
            self._end_message()
            self.findings.assign_pass(failed)
        elif _CHAINED.match(text) and self._error:
            self._cause, self._error = self._error, None
        elif trace and trace.read(line):
            pass
        elif trace and trace.ends_with(text):
            self._trace = None
            self._read_exception(line, trace)
        elif text.rstrip(":").endswith("(most recent call last)"):
            self._end_error()
            self._trace = Traceback(line.indent)
            self.plain.append(line)  # its exception may be missing
        else:
            self._match(line, parse_diagnostic(line))

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
            # a compile has no such class: the program itself may be C
            is_build = parsed.of_source and "build-error" in self._rules.by_name
            rule = self._rules.by_name["build-error" if is_build else "unknown"]
            finding = Finding(rule, parsed.message, line.number, parsed.location)
            finding.captures["message"] = parsed.message
        if finding:
            self._open(finding)
            return
        self.plain.append(line)
        if len(self.plain) > _MOST_PLAIN:
            del self.plain[_MOST_PLAIN // 2]
        below = self._error or self._crash
        if below and line.number <= self._reason_until:
            self._read_reason(below, line.text, last.text)
        elif below:
            below.read_below(line.text, line.number - (below.line or 0))

    def _open(self, finding: Finding) -> None:
        """Open a finding as a crash or an error, which ends the one before."""
        finding.read_above(self._above)
        self._shape.finding = finding
        error = self._error
        crash = self._crash
        if error and error.rule.is_consequence and _WRAPPED.search(error.headline):
            self._error = None  # this is the exception that it announced
        self._end_error()
        if finding.scope is MatchScope.CRASH:
            if crash and not crash.headline:  # this is what it crashed with
                finding.stack = crash.stack
                finding.captures |= crash.captures
            else:
                self._end_crash()
            headline = failure_site.assertion_headline(finding.captures)
            finding.headline = headline or finding.headline
            self._crash = finding
        else:
            self._error = finding
        self._expect_reason(finding)

    def _expect_reason(self, finding: Finding) -> None:
        """Say up to which line the reason of a finding may stand."""
        rule = finding.rule
        line = finding.line or 0
        self._reason_until = 0
        at_source = _AT_SOURCE.match(finding.headline)
        if at_source and finding.captures.get("message", "").startswith("at "):
            finding.headline = at_source[0]
            finding.captures["message"] = ""
            if self._cause:
                finding.captures["reason"] = self._cause.whole_headline
            self._cause = None
            self._reason_until = line + _EXCERPT_LINES
        elif "reason" not in finding.captures and _ANNOUNCES.search(finding.headline):
            may_announce = rule.is_identified_by("reason") and not rule.context
            if rule.is_consequence or may_announce:
                self._reason_until = line + _REASON_LINES

    def _read_reason(self, finding: Finding, text: str, above: str) -> None:
        """Read a line that may be the reason of a finding. above: the line before."""
        is_below_source = _AT_SOURCE.match(finding.headline)
        if is_below_source and above != "^":  # the reason is below the caret
            return
        reason = finding.captures.get("reason", "")
        finding.captures["reason"] = f"{reason} {text}".strip()
        if is_below_source or not _ANNOUNCES.search(text):
            self._reason_until = 0

    def _read_exception(self, line: LogLine, trace: Traceback) -> None:
        finding = match_exception(self._rules, line.text, trace.files)
        if finding is None:
            return
        finding.line = line.number
        if finding.captures.get("type") == finding.headline:
            finding.captures["reason"] = f"in {trace.own_frame}"
        if trace.own_frame and finding.rule.is_identified_by("frame"):
            finding.captures["frame"] = trace.own_frame
        self._open(finding)

    def _read_stack_line(self, line: LogLine, frame: re.Match[str] | None) -> None:
        """Add a line to the open crash, or open one; a first frame ends the last."""
        self._end_error()
        if self._crash and frame and self._crash.stack.is_begun_by(frame):
            self._end_crash()
        if self._crash is None:
            rule = self._rules.by_name["segfault"]
            self._crash = Finding(rule, "", line.number, scope=MatchScope.CRASH)
        if frame:
            self._crash.stack.add(frame)
        task = failure_site.TASK.match(line.text)
        if task:
            self._crash.captures = captures_of(task) | self._crash.captures

    def _end_message(self) -> None:
        self._end_error()
        self._end_crash()

    def _end_error(self) -> None:
        error, self._error = self._error, None
        if error:
            self.findings.add(error)

    def _end_crash(self) -> None:
        """Name the open crash by its stack, and add it to the findings."""
        crash, self._crash = self._crash, None
        if crash is None:
            return
        stack = crash.stack
        running = crash.captures.get("running", "")
        if crash.rule.name in ("segfault", "abort"):
            where = stack.crash_site.partition(" ")[0] or running
            if where and "kind" not in crash.captures:
                headline = f"crashed in {where}: {crash.headline}"
                crash.headline = headline.rstrip(": ")[:HEADLINE]
            rules = (rule for rule in self._rules if stack.has_symbol(rule.frames))
            crash.rule = next(rules, crash.rule)
        crash.headline = crash.headline or "crashed"
        if running and not stack.failing_pass:
            crash.failing_pass = PassName(running)
        self.findings.add(crash)


@cache
def _known_words(rules: RuleSet) -> frozenset[bytes]:
    """Return the starts of the words in the rules and in the forms of lines."""
    regexes = [pattern.regex for rule in rules for pattern in rule.patterns]
    text = f"{regexes} {packaged_yaml('log_formats')}".lower()
    return frozenset(word[:_START].encode() for word in _TEXT.findall(text))


def read_log(pieces: Iterable[bytes], rules: RuleSet) -> LogReader:
    """Read a log that comes in pieces, however it is cut into them."""
    reader = LogReader(rules)
    reader.read(pieces)
    return reader
