"""Facts of one process run. No meaning is attached here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Ending(StrEnum):
    """How a process came to its end. `EXITED` covers every exit status; the others were signals, ours or not."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed-out"
    OVER_MEMORY = "over-memory"
    OVER_OUTPUT = "over-output"
    NOT_STARTED = "not-started"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use. timeout: wall seconds, time waited for a core not counted; memory: resident bytes of the
    whole process group; output: bytes kept of each stream, half of them from its end.
    """

    timeout: float = 300.0
    memory: int = 8 << 30
    output: int = 512 << 10


@dataclass(frozen=True, slots=True)
class Captured:
    """A stream's head and tail as text; `dropped` bytes between them were read and not kept."""

    head: str = ""
    tail: str = ""
    dropped: int = 0

    @property
    def text(self) -> str:
        """Head and tail with a line that counts what stands between."""
        if not self.dropped:
            return self.head + self.tail
        return f"{self.head}\n... {self.dropped} bytes not kept ...\n{self.tail}"

    @property
    def last_line(self) -> str:
        """The last line that is not blank, stripped; empty where there is none."""
        return next((line.strip() for line in reversed(self.text.splitlines()) if line.strip()), "")

    @property
    def empty(self) -> bool:
        """Whether nothing but white space was written."""
        return not self.dropped and not (self.head + self.tail).strip()


@dataclass(frozen=True, slots=True)
class Execution:
    """One run of one process group. Times in seconds, memory in MiB, sizes in bytes.

    exit_code: None unless it exited; signal: number of the signal that ended it, else None.
    cpu_seconds and peak_rss_mb come from the operating system's account of the process, its reaped children included.
    phase, metrics: where it ended and what it measured, of a compiler that tells such things of itself.
    """

    argv: tuple[str, ...]
    ending: Ending
    exit_code: int | None
    signal: int | None
    seconds: float
    cpu_seconds: float
    peak_rss_mb: float
    stdout: Captured
    stderr: Captured
    output_bytes: int | None = None
    randomised: bool = False
    phase: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def status(self) -> int | None:
        """The exit status, or minus the number of the signal; None when it was not started."""
        return self.exit_code if self.signal is None else -self.signal

    @property
    def ok(self) -> bool:
        """Exit status zero, by its own will."""
        return self.ending is Ending.EXITED and self.exit_code == 0
