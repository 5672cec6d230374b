"""Scan a compiler's output of any size, in pieces of any size, for failures; memory
stays bounded.

The key insight: most lines of a log say nothing. `SelectedLines` finds the few that
hold a word of a rule, with the lines around them, and only those are read one by one.
A reader then follows one thing at a time: a traceback up to its exception, a stack up
to its end, an error with the notes and the source below it. Each ends in a finding, and
`Findings` decides which is the cause and which its consequence.

A log may be cut anywhere, and two jobs may write into one another. So each reader has a
bound of lines, after which it gives up what it follows and starts again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from triage.classify import stack_dump
from triage.classify.findings import Finding, Findings
from triage.classify.line_matcher import (
    EXCEPTION,
    LOOSE_EXCEPTION,
    match_exception,
    match_line,
)
from triage.classify.log import LogLine, SelectedLines, clean, diagnostic, text_pieces
from triage.classify.passes import failing_pass
from triage.classify.rules import MatchScope, Rule, RuleSet, captures_of, compiled
from triage.model.errors import BadInput
from triage.model.outcome import Failure
from triage.model.pass_name import PassName

_OF_CRASH = re.compile(r"Compiler crash traceback")
_TRACEBACK = re.compile(
    r"(?:Compiler crash traceback from this point on|\(most recent call "
    r"last\)|Traceback \(most recent call last\)):?\Z"
)
_CHAINED = re.compile(
    r"(?:The above exception was the direct cause of|During handling of the above "
    r"exception)"
)
_SOURCE_FILE = re.compile(
    r'File "(?P<file>[^"]+)", line \d+(?:,? in (?P<function>[\w.<>]+))?'
)
_LIBRARY = re.compile(r"/lib/python3[.\d]*/(?!(?:site|dist)-packages/)|^<|/importlib/")
_CALL = re.compile(r'File "[^"]+", line \d+, in [\w.<>]+')
# an excerpt of the kernel's source follows
_AT_SOURCE = re.compile(r"(?P<head>.*?\bat \d+:\d+:)")
# the message is below the exception
_ANNOUNCES = re.compile(r":\Z|\broot error\(s\) found\.\Z|\A[\w.]+\Z")
_WRAPPED = re.compile(r"raised:\Z")  # the exception that was raised is on the next line
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
_CUT_ASSERTION = re.compile(
    r":\d+: (?:.*: )?A(?:s(?:s(?:e(?:r(?:t(?:i(?:on?)?)?)?)?)?)?)?\Z|\bAssertion "
    r"[`'](?!.*' failed)|\bAssertion\Z"
    r"|\bpanicked at \S+:\d+:\d+:\Z"
)

# read after an error: source line, caret, `called from`, head of the printed operation
_CONTEXT_LINES = 8
_LONGEST_ASSERTION = 4000  # characters, when it is broken into lines
_SCRIPT_LINES = 300  # of a CI step's script, skipped when its end is missing
_TRACEBACK_LINES = 400  # read before a traceback without an end is abandoned
_EXCERPT_LINES = 400  # of a kernel's source that an exception prints before its reason
_LINES_BELOW = 6  # read for the message of an exception


def scan(pieces: Iterable[bytes], rules: RuleSet) -> Findings:
    """Find the failures in a stream, however it is cut into pieces."""
    return _Scanner(pieces, rules).scan()


@dataclass(frozen=True, slots=True)
class ClassifiedLog:
    """A log with its failures, the root cause first."""

    log: str
    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class ClassifiedLogs:
    """The result of `triage classify`."""

    logs: Sequence[ClassifiedLog]


def classify_log(
    log: Path | BinaryIO, rules: RuleSet, progress: Callable[[int], None] | None = None
) -> tuple[Failure, ...]:
    """Return the failures in a log, plain or gzip, in UTF-8 or UTF-16, root cause
    first; empty when there is none.

    progress: called every 64 KiB with the bytes read so far.

    Raises:
        BadInput: the log cannot be opened, has no text, or its compressed stream is
            damaged.
    """
    with ExitStack() as stack:
        if isinstance(log, Path):
            name = str(log)
        else:
            name = "standard input"
        try:
            stream: BinaryIO
            if isinstance(log, Path):
                stream = stack.enter_context(log.open("rb"))
            else:
                stream = log
        except OSError as error:
            raise BadInput(f"{log}: {error.strerror}") from error
        return scan(text_pieces(stream, name, progress), rules).failures


@dataclass(slots=True)
class _Traceback:
    indent: int
    files: list[str] = field(default_factory=list)
    lines: int = 0
    function: str = ""
    """Of the innermost frame."""
    source: str = ""
    """The line of source of the innermost frame."""
    own: str = ""
    """The innermost frame that is not in Python's own library, as `module.function`."""


class _Scanner:
    def __init__(self, pieces: Iterable[bytes], rules: RuleSet) -> None:
        self._rules = rules
        self._lines = SelectedLines(pieces, rules)
        self._findings = Findings(rules)
        self._open: Finding | None = None  # waits for context in the next lines
        self._crash: Finding | None = None  # waits for its stack
        self._trace: _Traceback | None = None
        # the exception that the next traceback was caused by
        self._cause: Finding | None = None
        # a line that was read on to, and is to be read again
        self._again: tuple[int, LogLine] | None = None
        # last line of the script that a CI system prints before it runs it
        self._script_until = 0

    def scan(self) -> Findings:
        while following := self._again or self._next(0):
            self._again = None
            self._line(*following)
        self._open = self._open or self._cause
        self._settle()
        self._settle_crash()
        return self._findings

    def _follow(self, lines: int) -> None:
        self._lines.follow = max(self._lines.follow, lines)

    def _next(self, wanted: int = 1) -> tuple[int, LogLine] | None:
        self._follow(wanted)
        number, raw = next(self._lines.numbered, (0, b""))
        if number:
            return (number, clean(raw))
        return None

    def _line(self, number: int, line: LogLine) -> None:
        if (
            self._in_script(number, line)
            or not line.text
            or line.annotation in ("warning", "debug", "command")
        ):
            return
        if self._in_stack(number, line.text):
            return
        failed = failing_pass(line.text)
        if failed:
            self._settle()
            self._settle_crash()
            self._match(number, line, certain=False)
            self._settle()
            self._findings.assign_pass(failed)
        elif not self._in_traceback(number, line):
            self._match(number, line)

    def _in_script(self, number: int, line: LogLine) -> bool:
        """Return whether the line belongs to the printed script of a CI step, which may
        quote any message.
        """
        if line.annotation == "group":
            if line.text.startswith("Run "):
                self._script_until = number + _SCRIPT_LINES
            else:
                self._script_until = 0
            return True
        if line.annotation == "endgroup" or line.text.startswith("##[endgroup]"):
            self._script_until = 0
            return True
        return number <= self._script_until

    def _match(self, number: int, line: LogLine, *, certain: bool = True) -> None:
        """Match a line with the rules. certain: false for a line that is not read as a
        diagnostic.
        """
        if certain:
            parsed = diagnostic(line)
        else:
            parsed = None
        is_source = (
            self._open
            and self._open.location
            and parsed is None
            and line.indent
            and not line.annotation
        )
        # source is printed below an error
        if is_source:
            finding = None
        else:
            finding = match_line(self._rules, line, parsed)
        while (
            finding is None
            and _CUT_ASSERTION.search(line.text)
            and len(line.text) < _LONGEST_ASSERTION
        ):
            following = self._next()
            if following is None:
                break
            number = following[0]
            line = LogLine(line.text + following[1].text, following[1].annotation)
            parsed = None
            finding = match_line(self._rules, line, None)
        if finding is None:
            if parsed and parsed.severity == "error" and parsed.certain:
                rule = self._rules.by_name[
                    "build-error" if parsed.of_source else "unknown"
                ]
                self._begin(
                    Finding(
                        rule,
                        parsed.message,
                        number,
                        parsed.location,
                        {"message": parsed.message},
                    )
                )
            elif self._open and not (parsed and parsed.severity != "note"):
                self._add_context(number, line, note=parsed is not None)
            elif self._crash and self._open is None and parsed is None:
                self._crash.captures = (
                    self._crash.rule.context_of(line.text, self._crash.captures)
                    | self._crash.captures
                )
            return
        finding.line = number
        self._read_above(finding)
        if finding.scope is not MatchScope.CRASH:
            self._begin(finding)
            return
        self._settle()
        self._settle_crash()
        finding.headline = (
            stack_dump.assertion_headline(finding.captures) or finding.headline
        )
        self._crash = finding
        self._follow(2)

    def _read_above(self, finding: Finding) -> None:
        for above in finding.rule.above:
            if compiled(above.below).search(finding.headline):
                lines = (clean(raw) for raw in reversed(self._lines.above))
                matches = (
                    compiled(above.regex).match(line.text)
                    for line in lines
                    if line.text and not line.indent
                )
                match = next(filter(None, matches), None)
                if match:
                    finding.captures |= captures_of(match)

    def _begin(self, finding: Finding) -> None:
        self._settle()
        self._open = finding
        match = _AT_SOURCE.match(finding.headline)
        if match and finding.captures.get("message", "").startswith("at "):
            cause, self._cause = self._cause, None
            finding.headline = match["head"]
            finding.captures |= {
                "message": "",
                "reason": cause.failure().headline if cause else "",
            }
            self._read_reason(finding, excerpt=True)
        finding.read_name(finding.headline)
        if finding.reads_on:
            self._follow(
                1
                if finding.rule.source_op and not finding.rule.context
                else _CONTEXT_LINES
            )

    def _read_reason(self, finding: Finding, *, excerpt: bool) -> None:
        """Read the message below an exception, for an excerpt of source below the
        caret; it may tell the class, too.
        """
        wanted = not excerpt
        for _ in range(_EXCERPT_LINES if excerpt else _LINES_BELOW):
            following = self._next()
            if following is None:
                return
            number, line = following
            is_other = (
                _CHAINED.match(line.text)
                or _AT_SOURCE.match(line.text)
                or line.text.startswith(("File ", "Traceback "))
            )
            if is_other or (
                not excerpt and match_line(self._rules, line, diagnostic(line))
            ):
                self._again = following
                return
            if wanted and (
                line.text
                if excerpt
                else line.text[:1].isalnum() or line.text[:1] in {"'", '"', "(", "<"}
            ):
                break
            wanted = wanted or line.text == "^"
        else:
            return
        if not excerpt:
            kind = finding.captures.get("type", "Error")
            matches = (
                match_exception(self._rules, f"{kind}: {prefix}{line.text}", ())
                for prefix in ("", "error: ")
            )
            found = next(
                (match for match in matches if match and not match.rule.consequence),
                None,
            )
            if found:
                self._open = finding = Finding(
                    found.rule, finding.headline, number, captures=found.captures
                )
        finding.captures["reason"] = line.text

    def _add_context(self, number: int, line: LogLine, *, note: bool) -> None:
        assert self._open
        captures = self._open.captures
        captures |= self._open.rule.context_of(line.text, captures) | captures
        if (
            self._open.rule.source_op
            and number == (self._open.line or 0) + 1
            and not note
        ):
            captures.update(_source_op(line, self._open.location or ""))
        self._open.read_name(line.text)

    def _settle(self) -> None:
        if self._open:
            self._findings.add(self._open)
            self._open = None

    def _settle_crash(self) -> None:
        finding, self._crash = self._crash, None
        if finding is None:
            return
        stack = finding.stack
        if finding.rule.name == "segfault" and stack.symbols:
            finding.rule = next(
                (rule for rule in self._rules if _frames_match(rule, stack)),
                finding.rule,
            )
            place = stack.place
            if place and ("kind" not in finding.captures or not finding.headline):
                finding.headline = f"crashed in {place.partition(' ')[0]}"
        finding.headline = finding.headline or "crashed"
        name = stack.failing_pass or stack_dump.pass_of(finding.captures)
        if name:
            finding.failing_pass = PassName(name)
        self._findings.add(finding)

    def _in_stack(self, number: int, text: str) -> bool:
        frame = stack_dump.parse_frame(text)
        if frame is None and not stack_dump.AROUND_STACK.match(text):
            return False
        self._settle()
        self._follow(3)
        crash = self._crash = self._crash or self._unnamed_crash(number)
        running = stack_dump.RUNNING.match(text)
        if running:
            crash.captures["running"] = running["name"]
        if frame and not crash.stack.add(frame):
            self._settle_crash()
            self._crash = self._unnamed_crash(number)
            self._crash.stack.add(frame)
        return True

    def _unnamed_crash(self, number: int) -> Finding:
        return Finding(self._rules.by_name["segfault"], "", number)

    def _in_traceback(self, number: int, line: LogLine) -> bool:
        """Return whether the line belongs to a Python traceback, and read it; rules
        match its last line.
        """
        if _CHAINED.match(line.text) and self._open:
            self._cause, self._open = self._open, None
            self._follow(4)
            return True
        if _TRACEBACK.search(line.text):
            if (
                _OF_CRASH.match(line.text)
                and self._open
                and self._open.rule.consequence
            ):
                self._open = None  # the exception says more
            self._settle()
            self._trace = _Traceback(line.indent)
            self._follow(4)
            return True
        # the header of the traceback is missing
        if self._trace is None and _CALL.match(line.text):
            self._settle()
            self._trace = _Traceback(max(0, line.indent - 2))
        trace = self._trace
        if trace is None:
            return False
        trace.lines += 1
        self._follow(4)
        source = _SOURCE_FILE.match(line.text)
        if source:
            trace.files.append(source["file"])
            trace.function, trace.source = source["function"] or "", ""
            if trace.function and not _LIBRARY.search(source["file"]):
                trace.own = (
                    f"{re.split(r'[/.]', source['file'].removesuffix('.py'))[-1]}."
                    f"{trace.function}"
                )
            return True
        if line.indent > trace.indent and line.annotation != "pytest":
            trace.source = trace.source or line.text
            return True
        if EXCEPTION.match(line.text) or (
            trace.files and LOOSE_EXCEPTION.match(line.text)
        ):
            self._trace = None
            self._exception(number, line, trace)
            return True
        if trace.lines > _TRACEBACK_LINES:
            self._trace = None
        return False

    def _exception(self, number: int, line: LogLine, trace: _Traceback) -> None:
        # the compiler's own diagnostics, of which more may follow
        passed_on = _PASSED_ON.match(line.text)
        if passed_on:
            self._match(number, replace(line, text=passed_on["diagnostic"]))
            return
        finding = match_exception(self._rules, line.text, trace.files)
        if finding is None:
            return
        finding.line = number
        if self._open and _WRAPPED.search(self._open.headline):
            self._open = None
        if _WRAPPED.search(finding.headline):
            self._trace = trace
        elif (
            finding.captures.get("type") == finding.headline
            and trace.function
            and trace.source
        ):
            finding.captures["reason"] = f"in {trace.function}: {trace.source}"
        if trace.own and any(
            "frame" in names.split("|") for names in finding.rule.identity
        ):
            finding.captures["frame"] = trace.own
        # chained exceptions are one failure
        if self._cause and self._cause.rule.rank < finding.rule.rank:
            finding, self._cause = self._cause, None
        if not _AT_SOURCE.match(finding.headline):
            self._cause = None
        self._begin(finding)
        if finding.rule.consequence and _ANNOUNCES.search(finding.headline):
            self._read_reason(finding, excerpt=False)


def _source_op(line: LogLine, location: str) -> dict[str, str]:
    """Return the operation in a source line, the one at the location's column where
    several are in it.
    """
    column, text = _COLUMN.search(location), " " * line.indent + line.text
    if column:
        at = int(column[1]) - 1
    else:
        at = 0
    if text[at - 1 : at] == " ":
        match = _SOURCE_OP.match(text, at)
        if match:
            return {"source_op": match["op"]}
    before = [
        found["op"] for found in _STATEMENT.finditer(text) if found.start("op") <= at
    ]
    match = _SOURCE_OP.match(line.text)
    if before:
        return {"source_op": before[-1].strip('"')}
    if match:
        return {"source_op": match["op"]}
    return {}


def _frames_match(rule: Rule, stack: stack_dump.Stack) -> bool:
    return any(
        re.search(regex, symbol)
        for regex in rule.frames
        for symbol in stack.symbols[:40]
    )
