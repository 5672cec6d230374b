"""Renders replayed reproducers as text blocks and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from triage.model.outcome import Compiled, Failed, Probe
from triage.reduce.replay import Replay, ReplayState
from triage.report.elements import headline_text
from triage.report.shapes import Json, failure_json, revision_json

_STYLES = {
    ReplayState.REPRODUCES: "cyan",
    ReplayState.FIXED: "bold green",
    ReplayState.CHANGED: "magenta",
    ReplayState.UNTESTABLE: "yellow",
}


def replay_blocks(replays: Sequence[Replay]) -> Iterable[RenderableType]:
    """Yield each reproducer with the results of its versions, then the counts."""
    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column(overflow="fold")
    for replay in replays:
        status = Text(replay.status.value.upper(), style=_STYLES[replay.status])
        table.add_row(status, Text(str(replay.recorded.folder)), _versions(replay))
    yield table
    for replay in replays:
        if replay.holds is False:
            yield Text(f"{replay.recorded.folder} no longer fails as recorded on {replay.recorded.bad}", style="bold red")
        for probe in replay.probes:
            if (explanation := _explanation(replay, probe)) is not None:
                yield Text(f"{replay.recorded.folder} on {probe.revision.name}: {explanation}")
    counts = Counter(replay.status for replay in replays)
    yield Text("\n" + ", ".join(f"{counts[state]} {state.value}" for state in ReplayState if counts[state]))


def replay_json(replays: Sequence[Replay]) -> Json:
    """Return the answer of `triage replay`."""
    return {
        "reproducers": [
            {
                "reproducer": str(replay.recorded.folder),
                "case": replay.recorded.original,
                "signature": replay.recorded.signature,
                "bad": replay.recorded.bad,
                "status": replay.status.value,
                "holds": replay.holds,
                "versions": [_version_json(replay, probe) for probe in replay.probes],
            }
            for replay in replays
        ]
    }


def _version_json(replay: Replay, probe: Probe) -> Json:
    outcome = probe.outcome
    return {
        "toolchain": revision_json(probe.revision),
        "status": replay.state(probe).value,
        "failure": None if isinstance(outcome, Compiled) else failure_json(outcome.failure),
        "reason": replay.reason(probe),
        "seconds": probe.measured.seconds,
        "cached": probe.cached,
    }


def _versions(replay: Replay) -> Text:
    text = Text()
    for number, probe in enumerate(replay.probes):
        state = replay.state(probe)
        text.append(", " if number else "").append(f"{probe.revision.name} {state.value}", style=_STYLES[state])
    return text


def _explanation(replay: Replay, probe: Probe) -> str | None:
    """The other failure of a version, or why it is untestable."""
    outcome = probe.outcome
    if isinstance(outcome, Failed) and replay.state(probe) is ReplayState.CHANGED:
        return f"{outcome.failure.failure_class}: {headline_text(outcome.failure)}"
    return replay.reason(probe)
