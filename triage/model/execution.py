"""The facts of one run of a program. Other modules say what they mean."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from signal import Signals
from typing import TypeGuard

from triage.model.fields import Duration, Size, file_key

UNLIMITED = sys.maxsize  # as a limit of memory or output


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number, finite, and not too large for a float."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max  # type: ignore[arg-type]


def utf8(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot hold, by `?`."""
    return text.encode("utf-8", "replace").decode()


class Ending(StrEnum):
    """How a process ended. EXITED stands for every exit status, but for status 0 of a
    compiler that wrote no regular, non-empty output file: NO_OUTPUT.
    """

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed-out"
    OVER_MEMORY = "over-memory"
    OVER_OUTPUT = "over-output"
    NO_OUTPUT = "no-output"
    NOT_STARTED = "not-started"


class Stage(StrEnum):
    """A step of a test case. Each step needs the result of the step before it."""

    IMPORT = "import"
    COMPILE = "compile"
    RUN = "run"
    COMPARE = "compare"
    BENCHMARK = "benchmark"


@dataclass(frozen=True)
class Limits:
    """What one run may use."""

    timeout: Duration = file_key(
        300.0,
        "Time: 120s, 2m, 1h30m, or a number of seconds. What the program waits for a "
        "core does not count, up to three times as much.",
        "120s",
        "1h30m",
    )
    memory: Size = file_key(
        8 << 30, "Resident memory of all processes together.", "8GiB", "512MiB"
    )
    output: Size = file_key(
        4 << 30,
        "Bytes in the output file and all other files that it writes to its working "
        "and temporary folder.",
        "4GiB",
        "512MiB",
    )

    @property
    def timeout_text(self) -> str:
        """The time limit as a recipe has it: `120s`."""
        seconds = f"{self.timeout:.9f}".rstrip("0").rstrip(".")
        return f"{seconds}s"


@dataclass(frozen=True)
class Captured:
    """The beginning and the end of a stream as text. Between them, `dropped` bytes were
    not kept.
    """

    head: str = ""
    tail: str = ""
    dropped: int = 0

    @property
    def text(self) -> str:
        """All that was kept, with a line for the dropped bytes."""
        if not self.dropped:
            return self.head + self.tail
        return f"{self.head}\n... {self.dropped} bytes not kept ...\n{self.tail}"

    @property
    def first_line(self) -> str:
        """The first line that is not blank, stripped; an empty text if all are."""
        return self.head.strip().partition("\n")[0].strip()

    @property
    def last_line(self) -> str:
        """The last line that is not blank, stripped; of a Python exception with a long
        message the first one. An empty text if all are blank.
        """
        text = self.text.strip()
        _, header, traceback = text.rpartition("Traceback (most recent call last):\n")
        lines = traceback.splitlines()
        if header:
            lines = [line for line in lines if line and not line[0].isspace()]
            return (lines or [""])[0]
        return (lines or [""])[-1].strip()

    @property
    def empty(self) -> bool:
        """Whether the stream has only white space."""
        return not self.dropped and not (self.head + self.tail).strip()


@dataclass(frozen=True)
class Execution:
    """One run of one process group. Times in seconds, memory in MiB, sizes in bytes."""

    argv: tuple[str, ...]
    ending: Ending
    exit_code: int | None = None  # if it exited
    signal: int | None = None  # number of the signal that ended it
    seconds: float = 0.0
    # as the operating system accounts for the process and its reaped children
    cpu_seconds: float = 0.0
    peak_rss_mb: float = 0.0  # likewise
    stdout: Captured = Captured()
    stderr: Captured = Captured()
    phase: str | None = None  # the last one, from compilers that print it
    # from compilers that print them
    metrics: Mapping[str, int | float] = field(default_factory=dict)
    disk_free: int | None = None  # least free space of the disk that it worked on
    # time of an exceeded limit in which it was ready to run but had no core
    waited: float = 0.0
    # the path, or the line of output, that shows why it failed only because it was
    # sealed
    refused: str | None = None
    failing_pass: PassName | None = None  # the one that another run named
    flaky: bool = False  # another run ended otherwise

    @property
    def status(self) -> int | None:
        """The exit status, or minus the number of the signal. None if the program was
        not started.
        """
        if self.signal is None:
            return self.exit_code
        return -self.signal

    @property
    def ok(self) -> bool:
        """Whether it exited with status 0."""
        return self.ending is Ending.EXITED and self.exit_code == 0

    def ending_text(self, limits: Limits) -> str:
        """Return how it ended under these limits, in words."""
        match self.ending:
            case Ending.TIMED_OUT:
                return f"still running after {limits.timeout:g} s"
            case Ending.OVER_MEMORY:
                return f"used more than {limits.memory >> 20} MiB"
            case Ending.OVER_OUTPUT:
                return f"wrote more than {limits.output >> 20} MiB"
            case Ending.SIGNALLED:
                names = (signal.name for signal in Signals if signal == self.signal)
                return f"ended by {next(names, f'signal {self.signal}')}"
            case Ending.NO_OUTPUT:
                return "exit status 0 without an output file"
            case Ending.NOT_STARTED:
                return "could not be started"
        return f"exit status {self.exit_code}"


IR_DUMP = "IR Dump "
IR_DUMP_LINE = f"// -----// {IR_DUMP}"
"""The beginning of the line above each dump of MLIR."""
_DUMPED = re.compile(
    r"(?:After|Before) (?P<name>(?:\(anonymous namespace\)|\S)+?)(?P<failed> Failed)?"
    r"(?:(?: \(|: )(?P<argument>[\w.-]*)| //-----|\Z)"
)


@dataclass(frozen=True)
class PassName:
    """A pass: its class without namespaces, and its command-line argument if that was
    printed.
    """

    name: str
    argument: str | None = None

    def __bool__(self) -> bool:
        """Return whether a pass is named; `NO_PASS` names none."""
        return bool(self.name)

    @property
    def key(self) -> str:
        """The name that identifies the pass: its argument, or else its class."""
        return self.argument or self.name


NO_PASS = PassName("")
"""The failing pass of a compile that failed before the first pass or after the last."""


def dumped_pass(header: str, begin: str = IR_DUMP_LINE) -> tuple[PassName, bool] | None:
    """Return the pass in the line above a dump, and whether it failed. Returns None for
    a line that does not begin with `begin`.

    >>> dumped_pass("// -----// IR Dump After CSEPass Failed (cse) //----- //")
    (PassName(name='CSEPass', argument='cse'), True)
    """
    if not header.startswith(begin):
        return None
    match = _DUMPED.match(header, len(begin))
    if match is None:
        return None
    name = PassName(match["name"].rsplit("::", 1)[-1], match["argument"] or None)
    return name, bool(match["failed"])
