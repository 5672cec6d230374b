"""Report of `triage watch`: the state of a night that runs or has ended, read from its journal."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from triage.execution.process import is_running
from triage.model.errors import BadInput
from triage.model.outcome import Status
from triage.nightly.journal import JOURNAL
from triage.report.elements import STATUS_STYLES, plural
from triage.report.registry import Report
from triage.report.shapes import Shape

_STATES = (Status.FAILED, Status.XFAIL, Status.XPASS, Status.PASSED, Status.UNTESTABLE)
_MOST_RUNNING = 8


@dataclass(frozen=True)
class WatchedProbeShape(Shape):
    """A probe of a case on a revision. status, class, text and log: of one that has ended."""

    case: str
    revision: str
    seconds: float
    status: str | None = None
    class_: str | None = None
    text: str | None = None
    log: str | None = None


@dataclass(frozen=True)
class WatchShape(Shape):
    """JSON of `triage watch`: the state at one moment. counts: by revision, then by status. failures: the newest first.

    state: `running`, `ended`, `stopped` (early, see reason) or `gone` (the process ended without saying so).
    """

    toolchain: str
    baseline: str
    state: str
    reason: str | None
    phase: str
    seconds: float
    cases: int
    counts: dict[str, dict[str, int]]
    running: list[WatchedProbeShape]
    failures: list[WatchedProbeShape]


@dataclass
class WatchedNight:
    """A night as its journal tells it so far. `read` takes in what was written since."""

    folder: Path
    toolchain: str = ""
    baseline: str = ""
    cases: int = 0
    pid: int = 0
    phase: str = "comparison"
    done: bool = False
    stopped: str | None = None
    first: datetime | None = None
    last: datetime | None = None
    running: dict[tuple[str, str], datetime] = field(default_factory=dict)
    ended: dict[tuple[str, str], WatchedProbeShape] = field(default_factory=dict)
    _offset: int = 0
    _identity: int = 0

    def read(self) -> list[Mapping[str, Any]]:
        """Take in new events and return them. A new night in the same folder starts the state anew.

        Raises:
            BadInput: There is no journal.
        """
        path = self.folder / JOURNAL
        try:
            with path.open("rb") as source:
                identity = os.fstat(source.fileno()).st_ino
                if identity != self._identity:
                    self.__init__(self.folder, _identity=identity)  # type: ignore[misc]
                source.seek(self._offset)
                data = source.read()
        except OSError as error:
            raise BadInput(f"{self.folder} has no {JOURNAL}: pass the folder of `triage nightly --out`") from error
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        events = [event for line in whole.splitlines() if (event := _event(line))]
        for event in events:
            with suppress(KeyError, TypeError, ValueError):  # a damaged line, or one of another version
                self._take(event)
        return events

    @property
    def state(self) -> str:
        if self.done:
            return "stopped" if self.stopped else "ended"
        return "running" if is_running(self.pid) else "gone"

    @property
    def seconds(self) -> float:
        """Seconds since the start, until the end or until now."""
        end = datetime.now(UTC) if self.state == "running" else self.last
        return (end - self.first).total_seconds() if self.first and end else 0.0

    @property
    def failures(self) -> list[WatchedProbeShape]:
        """Unexpected failures on the new toolchain, the newest first."""
        own = [probe for probe in self.ended.values() if probe.revision == self.toolchain and probe.status == Status.FAILED]
        return own[::-1]

    def counts(self, revision: str) -> dict[str, int]:
        """Return the number of probes on a revision by status."""
        numbers = Counter(probe.status for probe in self.ended.values() if probe.revision == revision)
        return {status.value: numbers[status.value] for status in _STATES if numbers[status.value]}

    def log(self, probe: WatchedProbeShape) -> str:
        """Return the log of a failure, or why there is none."""
        if probe.log is None:
            return f"there is no log of {probe.case} on {probe.revision}: {probe.text or 'it did not fail'}"
        try:
            return (self.folder / probe.log).read_text("utf-8", "replace")
        except OSError as error:
            return f"{self.folder / probe.log} cannot be read: {error.strerror}"

    def _take(self, event: Mapping[str, Any]) -> None:
        at = datetime.fromisoformat(event["at"])
        self.first, self.last = self.first or at, at
        match event["event"]:
            case "begin":
                self.toolchain, self.baseline = event["toolchain"], event["baseline"]
                self.cases, self.pid = event["cases"], event["pid"]
            case "phase":
                self.phase = event["phase"]
            case "step":
                self.phase = f"{event['step']} {event['case']}"
            case "start":
                self.running[event["case"], event["revision"]] = at
            case "end":
                key = event["case"], event["revision"]
                self.running.pop(key, None)
                self.ended.pop(key, None)  # the newest is the last
                self.ended[key] = WatchedProbeShape(
                    *key, event["seconds"], event["status"], event["failure_class"], event["text"], event["log"]
                )
            case "done":
                self.done, self.stopped = True, event["stopped"]
                self.running.clear()


def _event(line: bytes) -> Mapping[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event and "at" in event else None


@dataclass(frozen=True)
class WatchReport(Report):
    """The state of a night. chosen: index of the marked failure; rows: of the list of failures on a terminal."""

    night: WatchedNight
    chosen: int | None = None
    rows: int = 20

    def shape(self) -> WatchShape:
        night = self.night
        return WatchShape(
            toolchain=night.toolchain,
            baseline=night.baseline,
            state=night.state,
            reason=night.stopped,
            phase=night.phase,
            seconds=round(night.seconds, 1),
            cases=night.cases,
            counts={revision: night.counts(revision) for revision in (night.baseline, night.toolchain)},
            running=list(self._running()),
            failures=night.failures,
        )

    def blocks(self) -> Iterable[RenderableType]:
        """Show the counts by state, what runs, and the newest failures."""
        night = self.night
        state = f"{night.state}: {night.stopped}" if night.stopped else night.state
        minutes, seconds = divmod(int(night.seconds), 60)
        head = Text.assemble((night.toolchain, "bold"), " against ", (night.baseline, "bold"))
        yield head.append(f"  {state}, {night.phase}, {minutes}:{seconds:02} min")
        for revision in (night.baseline, night.toolchain):
            yield self._counts(revision)
        running = list(self._running())
        table = Table.grid(padding=(0, 2))
        for probe in running[:_MOST_RUNNING]:
            table.add_row("  running", probe.case, probe.revision, f"{probe.seconds:.0f} s")
        if running:
            yield table
        failures = night.failures
        if failures:
            yield Text(f"Failures ({len(failures)}), the newest first", style="bold red")
        first = max(0, (self.chosen or 0) - self.rows + 1)
        for index, probe in enumerate(failures[first : first + self.rows], first):
            mark = "> " if index == self.chosen else "  "
            line = Text(f"{mark}{probe.case}  {probe.class_}: {probe.text}", style="reverse" if index == self.chosen else "")
            line.no_wrap, line.overflow = True, "ellipsis"
            yield line

    def _counts(self, revision: str) -> Text:
        counts = self.night.counts(revision)
        text = Text(f"  {revision}: {sum(counts.values())} of {plural(self.night.cases, 'case')}")
        for status, count in counts.items():
            text.append("  ").append(f"{count} {status}", style=STATUS_STYLES[Status(status)])
        return text

    def _running(self) -> Iterator[WatchedProbeShape]:
        now = datetime.now(UTC)
        for (case, revision), at in self.night.running.items():
            yield WatchedProbeShape(case, revision, round((now - at).total_seconds(), 1))
