"""Scan a compiler's output of any size, in pieces of any size, for failures; memory stays bounded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from triage.classify import stack_dump
from triage.classify.findings import (
    WRAPPER,
    Finding,
    Findings,
    as_made,
    as_read,
    is_certainly_as_read,
    may_be_as_made,
    with_pass,
)
from triage.classify.line_matcher import (
    EXCEPTION,
    LOOSE_EXCEPTION,
    LineMatcher,
    match_exception,
)
from triage.classify.log_lines import Diagnostic, LogLine, clean, diagnostic
from triage.classify.passes import FailingPass, failing_pass
from triage.classify.prefilter import Prefilter
from triage.classify.rules import MatchScope, Rule, RuleSet, compiled
from triage.model.outcome import Failure

_OF_CRASH = re.compile(r"Compiler crash traceback")
_TRACEBACK = re.compile(
    r"(?:Compiler crash traceback from this point on|\(most recent call last\)|Traceback \(most recent call last\)):?\Z"
)
_CHAINED = re.compile(r"(?:The above exception was the direct cause of|During handling of the above exception)")
_SOURCE_FILE = re.compile(r'File "(?P<file>[^"]+)", line \d+(?:,? in (?P<function>[\w.<>]+))?')
_LIBRARY = re.compile(r"/lib/python3[.\d]*/(?!(?:site|dist)-packages/)|^<|/importlib/")
_CALL = re.compile(r'File "[^"]+", line \d+, in [\w.<>]+')
_AT_SOURCE = re.compile(r"(?P<head>.*?\bat \d+:\d+:)")  # an excerpt of the kernel's source follows
_MARKS = re.compile(r"[~^ ]+\Z")  # below a source line of a traceback
_ANNOUNCES = re.compile(r":\Z|\broot error\(s\) found\.\Z|\A[\w.]+\Z")  # the message is below the exception
_ORDINAL = re.compile(r"\(\d+\) ")
_WRAPPED = re.compile(r"raised:\Z")  # the exception that was raised is on the next line
_SOURCE_OP = re.compile(r'(?:%[\w#:, %]+ = )?"?(?P<op>[a-z_]\w*(?:\.\w+)+)"?(?=[ (<{]|\Z)')
_STATEMENT = re.compile(r'(?:\A *|[{)>] |= )(?P<op>"?[a-z_]\w*(?:\.\w+)+"?)(?=[ (<{]|\Z)')
_WRAPPED_NAME = re.compile(rf'{WRAPPER} "(?P<short>[\w.]+)"|(?:"{WRAPPER}"\(.*?|\A<?\{{)name = "(?P<name>[\w.]+)"')
_COLUMN = re.compile(r":\d+:(\d+)\Z")
_CUT_ASSERTION = re.compile(
    r": A(?:s(?:s(?:e(?:r(?:t(?:i(?:on?)?)?)?)?)?)?)?\Z|\bAssertion [`'](?!.*' failed)|\bAssertion\Z"
    r"|\bpanicked at \S+:\d+:\d+:\Z"
)

_BEGINNINGS = (
    "remark: ",
    "note: Pipeline failed",
    "note: failed to legalize operation",
    "Stack dump",
    "PLEASE submit",
    "Please report",
    "Traceback (most",
    'File "',
    "torch._dynamo.exc.",
    "Compiler crash traceback",
    "##[group]",
    "##[endgroup]",
    "ERROR: ",
    "FATAL: ",
    "[ERROR]",
    "[FATAL]",
    "OP_REQUIRES failed",
)

_CONTEXT_LINES = 8  # read after an error: source line, caret, `called from`, head of the printed operation
_REPEATED_LINES = 4096  # remembered, so that a log that repeats its errors is counted and not read again
_LONGEST_ASSERTION = 4000  # characters, when it is broken into lines
_SCRIPT_LINES = 300  # of a CI step's script, skipped when its end is missing
_TRACEBACK_LINES = 400  # read before a traceback without an end is abandoned
_EXCERPT_LINES = 400  # of a kernel's source that an exception prints before its reason
_LINES_BELOW = 6  # read for the message of an exception
_LINES_ABOVE = 8  # searched for the reason of a message that stands below it
_TIMESTAMP = len("2025-06-04T12:34:56.1234567Z ")


class Scanner:
    """Finds failures in a stream. Call `feed` with any pieces, then `finish` once.

    `remarks` and `first_pass` are complete after `finish`.
    """

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules
        self._matcher = LineMatcher(rules)
        self._prefilter = Prefilter(rules.needles, (*rules.beginnings, *_BEGINNINGS))
        self._findings = Findings()
        self._open: Finding | None = None  # waits for context in the next lines
        self._crash: Finding | None = None  # waits for its stack
        self._trace: list[str] | None = None  # files of the traceback being read
        self._trace_lines = self._trace_indent = 0
        self._cut = ""  # an assertion that a terminal broke into lines, as far as it was read
        self._repeats: dict[bytes, str] = {}  # lines that need no second reading, and the key they are counted under
        self._current = b""  # the line being read, without its time stamp
        self._open_line = b""  # the line that `_open` was found in
        self._cause: Finding | None = None  # the exception that the next traceback was caused by
        self._frame = ["", ""]  # function and source line of the innermost frame of the traceback being read
        self._own_frame = ""  # the innermost frame that is not in Python's own library
        self._excerpt = 0  # lines that may still be source below an exception, of which a reason follows
        self._below = 0  # lines that may still hold the message of an exception whose own line has none
        self._marked = False  # the line with the caret below the source was read
        self._script_until = 0  # last line of the script that a CI system prints before it runs it
        self.remarks: tuple[Failure, ...] = ()

    @property
    def first_pass(self) -> FailingPass | None:
        """The first pass that the output reports as failed."""
        return self._findings.first_pass

    @property
    def passes_ran(self) -> bool:
        """Whether the output shows that the compiler had read its input."""
        return self._findings.passes_ran

    def feed(self, data: bytes) -> None:
        """Read a piece of the stream."""
        self._read(self._prefilter.feed(data))

    def finish(self) -> tuple[Failure, ...]:
        """Return the failures, root causes first; empty when there is none."""
        self._read(self._prefilter.finish())
        self._open, self._cause = self._open or self._cause, None
        self._settle()
        self._settle_crash()
        self.remarks = self._findings.remarks()
        failures = self._findings.failures()
        if self.passes_ran:
            failures = tuple(
                as_made(failure, self._rules) if may_be_as_made(failure, self._rules) else failure for failure in failures
            )
        else:
            failures = tuple(
                as_read(failure, self._rules) if is_certainly_as_read(failure, self._rules) else failure for failure in failures
            )
        if self.first_pass and failures and all(map(self._rules.unexplained, failures)):
            return with_pass(failures, self.first_pass, self._rules)
        return failures

    def _read(self, lines: Iterable[tuple[int, bytes]]) -> None:
        for number, raw in lines:
            words = raw[_TIMESTAMP:] if raw[_TIMESTAMP - 2 : _TIMESTAMP] == b"Z " else raw
            if self._trace is None and number > self._script_until and (key := self._repeats.get(words)):
                self._settle()
                self._findings.repeat(key)
                continue
            self._current = words
            self._line(number, clean(raw))

    def unlisted(self) -> Failure | None:
        """Return the failure that stands for lines whose messages are not listed, because there are too many; else None."""
        count, rule = self._findings.unlisted, self._rules.by_name.get("unknown")
        if not count or rule is None:
            return None
        return Finding(rule, f"{count} further errors with other messages are not listed", 0).failure(None, count)

    def _line(self, number: int, line: LogLine) -> None:
        if self._in_script(number, line) or not line.text or line.annotation in ("warning", "debug", "command"):
            return
        if self._excerpt and self._in_excerpt(line):
            return
        if self._in_stack(number, line.text):
            return
        if failed := failing_pass(line.text):
            self._settle()
            self._settle_crash()
            self._match(number, line, None)
            self._settle()
            self._findings.assign_pass(failed)
            return
        if self._in_traceback(number, line):
            return
        self._match(number, line, diagnostic(line))

    def _match(self, number: int, line: LogLine, parsed: Diagnostic | None) -> None:
        if self._cut:
            line, self._cut = LogLine(self._cut + line.text, line.annotation), ""
            parsed = None
        is_source = (
            self._open and self._open.location and parsed is None and line.indented and not line.annotation
        )  # printed below an error
        match = None if is_source else self._matcher.find(line, parsed)
        if match is None and _CUT_ASSERTION.search(line.text) and len(line.text) < _LONGEST_ASSERTION:
            self._cut = line.text
            self._prefilter.follow = max(self._prefilter.follow, 1)
            return
        if match is None:
            if self._below and self._open and not line.text.startswith(("File ", "Traceback ")):
                self._read_below(number, line)
            elif parsed and parsed.severity == "error" and parsed.certain:
                rule = self._rules.by_name["build-error" if parsed.of_source else "unknown"]
                self._begin(Finding(rule, parsed.message, number, parsed.location, {"message": parsed.message}))
            elif self._open and not (parsed and parsed.severity != "note"):
                self._add_context(number, line, note=parsed is not None)
            elif self._crash and self._open is None and parsed is None:
                self._crash.captures = self._crash.rule.context_of(line.text, self._crash.captures) | self._crash.captures
            return
        finding = Finding(match.rule, match.text, number, parsed.location if parsed else None, match.captures)
        finding.remark = match.scope is MatchScope.REMARK
        finding.logged = parsed is not None and parsed.logged
        self._read_above(finding)
        if match.scope is MatchScope.CRASH:
            self._settle()
            self._settle_crash()
            finding.headline = stack_dump.assertion_headline(match.captures) or finding.headline
            finding.stack = stack_dump.Stack()
            self._crash = finding
            self._prefilter.follow = max(self._prefilter.follow, 2)
        else:
            self._begin(finding)

    def _read_above(self, finding: Finding) -> None:
        """Capture what stands above a line of a rule that says so, in the nearest line that its regex matches."""
        for above in finding.rule.above:
            if compiled(above.below).search(finding.headline):
                lines = (clean(raw) for raw in reversed(self._prefilter.before()[-_LINES_ABOVE:]))
                matches = (above.match_above(line.text) for line in lines if line.text and not line.indented)
                finding.captures |= next((captures for captures in matches if captures is not None), {})

    def _begin(self, finding: Finding, cause: Finding | None = None) -> None:
        self._settle()
        self._below = 0
        if (match := _AT_SOURCE.match(finding.headline)) and finding.captures.get("message", "").startswith("at "):
            cause, self._cause = cause or self._cause, None
            finding.headline = match["head"]
            finding.captures |= {"message": "", "reason": cause.failure().headline if cause else ""}
            self._excerpt, self._marked = _EXCERPT_LINES, False
            self._prefilter.follow = max(self._prefilter.follow, 2)
        self._open, self._open_line = finding, self._current
        _read_name(finding, finding.headline)
        if finding.rule.reads_on or finding.is_wrapped:
            lines = _CONTEXT_LINES if finding.rule.context or finding.is_wrapped else 1
            self._prefilter.follow = max(self._prefilter.follow, lines)

    def _add_context(self, number: int, line: LogLine, *, note: bool) -> None:
        assert self._open is not None
        captures = self._open.captures
        for name, value in self._open.rule.context_of(line.text, captures).items():
            captures.setdefault(name, value)
        if self._open.rule.source_op and number == self._open.line + 1 and not note:
            captures.update(_source_op(line, self._open.location or ""))
        _read_name(self._open, line.text)

    def _settle(self) -> None:
        if self._open:
            key = self._findings.add(self._open)
            if not self._open.rule.reads_on and len(self._repeats) < _REPEATED_LINES:
                self._repeats[self._open_line] = key
            self._open = None

    def _settle_crash(self) -> None:
        finding, self._crash = self._crash, None
        if finding is None:
            return
        stack = finding.stack or stack_dump.Stack()
        if finding.rule.name == "segfault" and stack.symbols:
            rule = next((rule for rule in self._rules if _frames_match(rule, stack)), finding.rule)
            place = stack.place
            headline = ((not place or "kind" in finding.captures) and finding.headline) or (
                f"crashed in {place.partition(' ')[0]}" if place else "crashed"
            )
            finding = Finding(rule, headline, finding.line, captures=finding.captures, stack=stack)
        finding.headline = finding.headline or "crashed"
        name = stack.failing_pass or stack_dump.pass_of(finding.captures)
        if name:
            finding.failing_pass = FailingPass(name)
        self._findings.add(finding)

    def _in_stack(self, number: int, text: str) -> bool:
        """Whether the line belongs to a stack dump."""
        frame = stack_dump.parse_frame(text)
        if frame is None and not stack_dump.surrounds_stack(text):
            return False
        self._settle()
        self._prefilter.follow = max(self._prefilter.follow, 3)
        if self._crash is None:
            self._crash = self._unnamed_crash(number)
        if self._crash and (running := stack_dump.running_pass(text)):
            self._crash.captures["running"] = running
        if frame and self._crash and self._crash.stack and not self._crash.stack.add(frame):
            self._settle_crash()
            self._crash = self._unnamed_crash(number)
            if self._crash and self._crash.stack:
                self._crash.stack.add(frame)
        return True

    def _unnamed_crash(self, number: int) -> Finding | None:
        rule = self._rules.by_name.get("segfault")
        return Finding(rule, "", number, stack=stack_dump.Stack()) if rule else None

    def _in_traceback(self, number: int, line: LogLine) -> bool:
        """Whether the line belongs to a Python traceback; rules match its last line."""
        if _CHAINED.match(line.text) and self._open:
            self._cause, self._open = self._open, None
            self._prefilter.follow = 4
            return True
        if _TRACEBACK.search(line.text):
            if _OF_CRASH.match(line.text) and self._open and self._open.rule.consequence:
                self._open = None  # the exception says more
            self._settle()
            self._trace, self._trace_lines, self._trace_indent, self._frame = [], 0, line.indent, ["", ""]
            self._own_frame = ""
            self._prefilter.follow = 4
            return True
        if self._trace is None and _CALL.match(line.text):  # the header of the traceback is missing
            self._settle()
            self._trace, self._trace_lines, self._trace_indent = [], 0, max(0, line.indent - 2)
        if self._trace is None:
            return False
        self._trace_lines += 1
        self._prefilter.follow = max(self._prefilter.follow, 4)
        if source := _SOURCE_FILE.match(line.text):
            self._trace.append(source["file"])
            self._frame = [source["function"] or "", ""]
            if source["function"] and not _LIBRARY.search(source["file"]):
                self._own_frame = f"{re.split(r'[/.]', source['file'].removesuffix('.py'))[-1]}.{source['function']}"
            return True
        if line.indent > self._trace_indent and line.annotation != "pytest":
            if not _MARKS.match(line.text):
                self._frame[1] = self._frame[1] or line.text
            return True
        ended = EXCEPTION.match(line.text) or (self._trace and LOOSE_EXCEPTION.match(line.text))
        if ended or self._trace_lines > _TRACEBACK_LINES:
            files, self._trace = self._trace, None
            if ended:
                self._exception(number, line, files)
                return True
        return False

    def _exception(self, number: int, line: LogLine, files: Sequence[str]) -> None:
        match = match_exception(self._rules, line.text, files)
        if match is None:
            return
        finding = Finding(match.rule, match.text, number, None, match.captures)
        cause, self._cause = self._cause, None  # chained exceptions are one failure, of the more specific rule
        if self._open and _WRAPPED.search(self._open.headline):
            self._open = None
        if _WRAPPED.search(finding.headline):
            self._trace = list(files)
        elif match.captures.get("type") == match.text and all(self._frame):
            finding.captures["reason"] = f"in {self._frame[0]}: {self._frame[1]}"
        if self._own_frame and any("frame" in names.split("|") for names in match.rule.identity):
            finding.captures["frame"] = self._own_frame
        if cause and cause.rule.rank < match.rule.rank:
            finding = cause
        self._begin(finding, cause)
        if finding.rule.consequence and _ANNOUNCES.search(finding.headline):
            self._below = _LINES_BELOW
            self._prefilter.follow = max(self._prefilter.follow, 2)

    def _read_below(self, number: int, line: LogLine) -> None:
        """Take a line below an exception as its message, and classify the exception by it."""
        self._below -= 1
        self._prefilter.follow = max(self._prefilter.follow, 1)
        opened, text = self._open, _ORDINAL.sub("", line.text)
        if opened is None or (not text[:1].isalnum() and text[:1] not in "'\"(<"):
            return
        self._below = 0
        kind = opened.captures.get("type", "Error")
        for message in (f"{kind}: {text}", f"{kind}: error: {text}"):
            match = match_exception(self._rules, message, ())
            if match and not match.rule.consequence:
                self._open = Finding(match.rule, opened.headline, number, None, match.captures)
                break
        self._open = self._open or opened
        self._open.captures["reason"] = text

    def _in_excerpt(self, line: LogLine) -> bool:
        """Whether the line belongs to the source below an exception, or is the reason that follows it."""
        self._excerpt -= 1
        self._prefilter.follow = max(self._prefilter.follow, 2)
        if self._open is None or _CHAINED.match(line.text) or _TRACEBACK.search(line.text) or line.text.startswith("FAILED "):
            self._excerpt = 0
            return False
        if self._marked:
            self._open.captures["reason"] = line.text
            self._excerpt = 0
        self._marked = line.text == "^"
        return True

    def _in_script(self, number: int, line: LogLine) -> bool:
        """Whether the line belongs to the printed script of a CI step, which may quote any message."""
        if line.annotation == "group":
            self._script_until = number + _SCRIPT_LINES if line.text.startswith("Run ") else 0
            return True
        if line.annotation == "endgroup" or line.text.startswith("##[endgroup]"):
            self._script_until = 0
            return True
        return number <= self._script_until


def _read_name(finding: Finding, text: str) -> None:
    """Read the name of the operator inside a wrapping operation."""
    if finding.is_wrapped and "name" not in finding.captures and (match := _WRAPPED_NAME.search(text)):
        finding.captures["name"] = match["short"] or match["name"]


def _source_op(line: LogLine, location: str) -> dict[str, str]:
    """Return the operation in a source line, the one at the location's column where several are in it."""
    column, text = _COLUMN.search(location), " " * line.indent + line.text
    at = int(column[1]) - 1 if column else 0
    if text[at - 1 : at] == " " and (match := _SOURCE_OP.match(text, at)):
        return {"source_op": match["op"]}
    before = [found["op"] for found in _STATEMENT.finditer(text) if found.start("op") <= at]
    match = _SOURCE_OP.match(line.text)
    return {"source_op": before[-1].strip('"')} if before else {"source_op": match["op"]} if match else {}


def _frames_match(rule: Rule, stack: stack_dump.Stack) -> bool:
    return any(re.search(regex, symbol) for regex in rule.frames for symbol in stack.symbols[:40])
