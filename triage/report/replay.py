"""Reproducers that were compiled again, on a terminal and as JSON. Renderables only; nothing is printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from triage.model.outcome import Compiled, Failed, Probe
from triage.reduce.replay import Replay, ReplayState
from triage.report.shapes import Json, failure_json, revision_json
from triage.report.words import headline_text

_STYLES = {
    ReplayState.REPRODUCES: "cyan",
    ReplayState.FIXED: "bold green",
    ReplayState.CHANGED: "magenta",
    ReplayState.UNTESTABLE: "yellow",
}


def replay_blocks(replays: Sequence[Replay]) -> Iterable[RenderableType]:
    """Each reproducer with what its versions make of it, then the count."""
    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column(overflow="fold")
    for one in replays:
        table.add_row(Text(one.status.value.upper(), style=_STYLES[one.status]), Text(str(one.recorded.folder)), _versions(one))
    yield table
    for one in replays:
        if one.holds is False:
            yield Text(f"{one.recorded.folder} no longer fails as recorded on {one.recorded.bad}", style="bold red")
        for probe in one.probes:
            if (words := _why(one, probe)) is not None:
                yield Text(f"{one.recorded.folder} on {probe.revision.name}: {words}")
    counts = Counter(one.status for one in replays)
    yield Text("\n" + ", ".join(f"{counts[finding]} {finding.value}" for finding in ReplayState if counts[finding]))


def replay_json(replays: Sequence[Replay]) -> Json:
    """The answer of `triage replay`."""
    return {
        "reproducers": [
            {
                "reproducer": str(one.recorded.folder),
                "case": one.recorded.original,
                "signature": one.recorded.signature,
                "bad": one.recorded.bad,
                "status": one.status.value,
                "holds": one.holds,
                "versions": [_version_json(one, probe) for probe in one.probes],
            }
            for one in replays
        ]
    }


def _version_json(one: Replay, probe: Probe) -> Json:
    outcome = probe.outcome
    return {
        "toolchain": revision_json(probe.revision),
        "status": one.finding(probe).value,
        "failure": None if isinstance(outcome, Compiled) else failure_json(outcome.failure),
        "reason": one.reason(probe),
        "seconds": probe.measured.seconds,
        "cached": probe.cached,
    }


def _versions(one: Replay) -> Text:
    text = Text()
    for number, probe in enumerate(one.probes):
        finding = one.finding(probe)
        text.append(", " if number else "").append(f"{probe.revision.name} {finding.value}", style=_STYLES[finding])
    return text


def _why(one: Replay, probe: Probe) -> str | None:
    """What is said of a version beyond its status."""
    outcome = probe.outcome
    if isinstance(outcome, Failed) and one.finding(probe) is ReplayState.CHANGED:
        return f"{outcome.failure.failure_class}: {headline_text(outcome.failure)}"
    return one.reason(probe)
