"""Cut the lines of a log into records, before any rule reads them.

The key insight: most mistakes in reading a log are mistakes about where something ends.
So one module decides that, and only that. A record is one message, one Python
traceback, one piece of a stack dump, or the report of a pass that failed. The scripts
that a CI system prints are left out, because a script may quote any message.

A log may be cut anywhere, and two jobs may write into one another. So a traceback
without an end is abandoned, and a line between its lines is a record of its own.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from triage.classify import stack_dump
from triage.classify.line_matcher import EXCEPTION, LOOSE_EXCEPTION
from triage.classify.log import SelectedLines
from triage.classify.log_line import LogLine, clean
from triage.classify.passes import failing_pass
from triage.classify.rules import log_format
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
_RAISES = re.compile(
    r"assert (?P<condition>.+)"
    r"|raise (?P<type>[\w.]+)(?:\(f?[\"']?(?P<message>.*?)[\"']?\)?)?\Z"
)
_CALL = re.compile(r'File "[^"]+", line \d+, in [\w.<>]+')
IMPORT = "<import>"
"""Stands between the files of a traceback where a package is imported."""
WRAPPED = re.compile(r"raised:\Z")
"""The end of an exception that announces the one on the next line."""

_SCRIPT_LINES = 300  # of a CI step's script, skipped when its end is missing
_TRACEBACK_LINES = 400  # read before a traceback without an end is abandoned
_MESSAGES = 5000  # kept for a closer look
_FRAMES_APART = 3  # lines that may stand between two lines of a traceback or stack


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """A line of a log."""

    number: int
    """From 1."""
    line: LogLine

    @property
    def text(self) -> str:
        """The line without prefixes."""
        return self.line.text


@dataclass(frozen=True, slots=True)
class Message(NumberedLine):
    """A line that is part of nothing larger."""


@dataclass(frozen=True, slots=True)
class PassFailed(NumberedLine):
    """The report of a pass that failed."""

    failed: PassName


@dataclass(frozen=True, slots=True)
class StackLine(NumberedLine):
    """A line of a stack dump."""

    frame: re.Match[str] | None
    """None for a line above or below the frames."""


@dataclass(frozen=True, slots=True)
class Chained(NumberedLine):
    """The line that stands between an exception and the traceback of the exception that
    it caused.
    """


@dataclass(frozen=True, slots=True)
class TracebackBegins(NumberedLine):
    """The first line of a traceback."""

    of_crash: bool
    """The compiler says in this line that it crashed."""


@dataclass(frozen=True, slots=True)
class Traceback(NumberedLine):
    """A Python traceback, with the line of its exception."""

    files: tuple[str, ...]
    function: str
    """The function of the innermost frame."""
    source: str
    """The line of source of the innermost frame."""
    own_frame: str
    """The innermost frame that is not in Python's own library, as `module.function`."""

    @property
    def announces_another(self) -> bool:
        """Whether the message ends in `raised:`, so that the next line is the exception
        that was raised first.
        """
        return WRAPPED.search(self.text) is not None


Record = Message | PassFailed | StackLine | Chained | TracebackBegins | Traceback


class LogReader:
    """Reads the selected lines of a log. Lines that were read too far are put back."""

    def __init__(self, lines: SelectedLines) -> None:
        self._lines = lines
        self._put_back: deque[NumberedLine] = deque()
        self._messages: list[Message] = []

    def follow(self, lines: int) -> None:
        """Select at least that many of the next lines, whatever they say."""
        self._lines.follow = max(self._lines.follow, lines)

    def next(self, wanted: int = 0) -> NumberedLine | None:
        """Return the next selected line, or None at the end of the log. The next
        `wanted` lines are all selected.
        """
        if self._put_back:
            return self._put_back.popleft()
        self.follow(wanted)
        number, raw = next(self._lines.numbered, (0, b""))
        if number:
            return NumberedLine(number, clean(raw))
        return None

    def put_back(self, *lines: NumberedLine) -> None:
        """Return these lines once more, as the next ones."""
        self._put_back.extendleft(reversed(lines))

    def message(self, line: NumberedLine) -> Message:
        """Return a line as a message of its own, and keep it if the log is read
        closely.
        """
        message = Message(line.number, line.line)
        if self._lines.is_read_closely and len(self._messages) < _MESSAGES:
            self._messages.append(message)
        return message

    def messages(self) -> list[NumberedLine]:
        """Return the messages so far and the last lines of the log. Empty unless the
        log is read closely, line by line.
        """
        numbers = {message.number for message in self._messages}
        scripts = _Scripts()
        lines: list[NumberedLine] = [*self._messages]
        for number, raw in self._lines.last:
            line = NumberedLine(number, clean(raw))
            if not scripts.skips(line) and number not in numbers:
                lines.append(line)
        return lines

    def above(self) -> Iterator[LogLine]:
        """Yield the lines above the last one, the nearest first."""
        return (clean(raw) for raw in reversed(self._lines.above))


@dataclass(slots=True)
class _OpenTraceback:
    """A traceback whose exception is not read yet; the fields are those of
    `Traceback`.
    """

    indent: int
    """Spaces before its first line."""
    files: list[str] = field(default_factory=list)
    lines: int = 0
    """How many of its lines were read."""
    source_number: int = 0
    """The number of the last line of source."""
    function: str = ""
    source: str = ""
    own_frame: str = ""

    def read_frame(self, text: str) -> bool:
        """Read the line of a frame; return whether it is one."""
        frame = _SOURCE_FILE.match(text)
        if frame is None:
            return False
        is_import = self.source.startswith(("import ", "from "))
        if is_import and frame["file"].endswith("__init__.py"):
            self.files.append(IMPORT)
        self.files.append(frame["file"])
        self.function, self.source = frame["function"] or "", ""
        if self.function and not _LIBRARY.search(frame["file"]):
            path = re.split(r"[/.\\]", frame["file"].removesuffix(".py"))
            self.own_frame = f"{path[-1]}.{self.function}"
        return True

    def read_source(self, line: NumberedLine) -> bool:
        """Read a line of source below a frame; return whether it is one."""
        is_source = line.line.indent > self.indent and line.line.annotation != "pytest"
        if is_source:
            self.source = self.source or line.text
            self.source_number = line.number
        return is_source

    def raises(self, text: str) -> bool:
        """Return whether a line is the exception that ends this traceback."""
        if EXCEPTION.match(text):
            return True
        return bool(self.files) and LOOSE_EXCEPTION.match(text) is not None

    def exception_in_source(self) -> NumberedLine | None:
        """Return the exception that the last line of source raises, for a traceback
        that was cut before its end; None if it raises none.
        """
        raises = _RAISES.match(self.source)
        if raises is None:
            return None
        if raises["condition"]:
            text = f"AssertionError: {self.source}"
        else:
            text = f"{raises['type']}: {raises['message'] or ''}".rstrip(": ")
        return NumberedLine(self.source_number, LogLine(text))

    def close_with(self, line: NumberedLine) -> Traceback:
        """Return the whole traceback with the line of its exception."""
        return Traceback(
            line.number,
            line.line,
            tuple(self.files),
            self.function,
            self.source,
            self.own_frame,
        )


@dataclass(slots=True)
class _Scripts:
    """The scripts that a CI system prints before it runs them."""

    until: int = 0
    """The last line of the one that is open."""

    def skips(self, line: NumberedLine) -> bool:
        """Note where scripts begin and end; return whether a line belongs to one, or
        opens a group of lines.
        """
        is_group = line.line.annotation == "group"
        if is_group or line.text.startswith("##[endgroup]"):
            self.until = 0
        if is_group and line.text.startswith("Run "):
            self.until = line.number + _SCRIPT_LINES
        return is_group or line.number <= self.until


def records(reader: LogReader) -> Iterator[Record]:
    """Yield the records of a log. Between two of them, the caller may read lines from
    the same reader.
    """
    cutter, scripts = _Cutter(reader), _Scripts()
    while line := reader.next():
        is_left_out = scripts.skips(line) or not _is_output(line)
        if not is_left_out:
            yield from cutter.cut(line)
    yield from cutter.cut_off()


def _is_output(line: NumberedLine) -> bool:
    """Return whether a line may tell of a failure."""
    if not line.text or line.line.annotation in ("warning", "debug", "command"):
        return False
    return not log_format("expected_failures").search(line.text)


class _Cutter:
    """Cuts lines into records. At most one traceback is open."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._trace: _OpenTraceback | None = None

    def cut(self, line: NumberedLine) -> Iterator[Record]:
        """Yield the records that end with a line."""
        single = _single_line(line)
        if single:
            if isinstance(single, StackLine):
                self._reader.follow(_FRAMES_APART)
            yield single
        elif _TRACEBACK.search(line.text):
            yield from self._begin_traceback(line)
        elif _CHAINED.match(line.text):
            self._reader.follow(_FRAMES_APART + 1)
            yield Chained(line.number, line.line)
        else:
            if self._trace is None and _CALL.match(line.text):  # its header is missing
                self._trace = _OpenTraceback(max(0, line.line.indent - 2))
                yield TracebackBegins(line.number, line.line, of_crash=False)
            if self._trace:
                yield from self._in_traceback(self._trace, line)
            else:
                yield self._reader.message(line)

    def cut_off(self) -> Iterator[Traceback]:
        """Yield a traceback that was cut before its exception, if its last line of
        source raises the exception.
        """
        if self._trace is None:
            return
        exception = self._trace.exception_in_source()
        if exception:
            yield self._trace.close_with(exception)

    def _begin_traceback(self, line: NumberedLine) -> Iterator[Record]:
        self._reader.follow(_FRAMES_APART + 1)
        # the message of an exception may contain another traceback
        text = _TRACEBACK.sub("", line.text).rstrip(": ")
        exception = EXCEPTION.match(text)
        if self._trace and exception and exception["message"]:
            ending = replace(line, line=replace(line.line, text=text))
            yield self._trace.close_with(ending)
        self._trace = _OpenTraceback(line.line.indent)
        of_crash = _OF_CRASH.match(line.text) is not None
        yield TracebackBegins(line.number, line.line, of_crash)

    def _in_traceback(
        self, trace: _OpenTraceback, line: NumberedLine
    ) -> Iterator[Record]:
        trace.lines += 1
        self._reader.follow(_FRAMES_APART + 1)
        if trace.read_frame(line.text) or trace.read_source(line):
            return
        if trace.raises(line.text):
            ended = trace.close_with(line)
            if not ended.announces_another:
                self._trace = None
            yield ended
            return
        if trace.lines > _TRACEBACK_LINES:
            self._trace = None
        yield self._reader.message(line)


def begins_exception(text: str) -> bool:
    """Return whether a line begins another exception, below one without a message."""
    is_chained = _CHAINED.match(text) is not None
    return is_chained or text.startswith(("File ", "Traceback "))


def _single_line(line: NumberedLine) -> StackLine | PassFailed | None:
    """Return the record that a line is by itself; None if it may be part of another."""
    frame = stack_dump.parse_frame(line.text)
    if frame or stack_dump.AROUND_STACK.match(line.text):
        return StackLine(line.number, line.line, frame)
    failed = failing_pass(line.text)
    if failed:
        return PassFailed(line.number, line.line, failed)
    return None
