"""Report of `triage replay`: text and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from triage.model.outcome import Failed, Probe
from triage.model.revision import Revision
from triage.reduce.reproducer import Replay, ReplayState
from triage.report.elements import failure_text
from triage.report.registry import Report
from triage.report.shapes import FailureShape, Shape, failure_in

_STYLES = {
    ReplayState.REPRODUCES: "cyan",
    ReplayState.FIXED: "bold green",
    ReplayState.CHANGED: "magenta",
    ReplayState.UNTESTABLE: "yellow",
}


@dataclass(frozen=True)
class ReplayedVersionShape(Shape):
    """The result of a reproducer on one version."""

    toolchain: Revision
    status: str
    failure: FailureShape | None
    reason: str | None
    seconds: float
    cached: bool


@dataclass(frozen=True)
class ReplayedShape(Shape):
    """A reproducer with its results. `holds`: whether the recorded version `bad` still fails in the same way."""

    reproducer: str
    case: str
    signature: str
    bad: str | None
    status: str
    holds: bool | None
    versions: list[ReplayedVersionShape]


@dataclass(frozen=True)
class ReplayShape(Shape):
    """JSON of `triage replay`."""

    reproducers: list[ReplayedShape]


@dataclass(frozen=True)
class ReplayReport(Report):
    """Reproducers that were compiled again."""

    replays: Sequence[Replay]

    def shape(self) -> ReplayShape:
        return ReplayShape([_replayed(replay) for replay in self.replays])

    def blocks(self) -> Iterable[RenderableType]:
        table = Table.grid(padding=(0, 2))
        for _ in range(3):
            table.add_column(overflow="fold")
        for replay in self.replays:
            status = Text(replay.status.value.upper(), style=_STYLES[replay.status])
            table.add_row(status, Text(str(replay.recorded.folder)), _versions(replay))
        yield table
        for replay in self.replays:
            if replay.holds is False:
                yield Text(f"{replay.recorded.folder} no longer fails as recorded on {replay.recorded.bad}", style="bold red")
            for probe in replay.probes:
                if (explanation := _explanation(replay, probe)) is not None:
                    yield Text(f"{replay.recorded.folder} on {probe.revision.name}: {explanation}")
        counts = Counter(replay.status for replay in self.replays)
        yield Text("\n" + ", ".join(f"{counts[state]} {state.value}" for state in ReplayState if counts[state]))


def _replayed(replay: Replay) -> ReplayedShape:
    recorded = replay.recorded
    return ReplayedShape(
        reproducer=str(recorded.folder),
        case=recorded.original,
        signature=recorded.signature,
        bad=recorded.bad,
        status=replay.status.value,
        holds=replay.holds,
        versions=[
            ReplayedVersionShape(
                toolchain=probe.revision,
                status=replay.state(probe).value,
                failure=failure_in(probe.outcome),
                reason=replay.reason(probe),
                seconds=probe.measured.seconds,
                cached=probe.cached,
            )
            for probe in replay.probes
        ],
    )


def _versions(replay: Replay) -> Text:
    text = Text()
    for number, probe in enumerate(replay.probes):
        state = replay.state(probe)
        text.append(", " if number else "").append(f"{probe.revision.name} {state.value}", style=_STYLES[state])
    return text


def _explanation(replay: Replay, probe: Probe) -> str | None:
    """The other failure of a version, or why it is untestable."""
    if isinstance(probe.outcome, Failed) and replay.state(probe) is ReplayState.CHANGED:
        return failure_text(probe.outcome.failure)
    return replay.reason(probe)
