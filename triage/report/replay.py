"""Report of `triage replay`."""

from __future__ import annotations

from collections import Counter

from triage.reduce.replay import Replays, ReplayState
from triage.report.document import Block, Document, Inline, Paragraph, Span, Style, Table
from triage.report.elements import failure_text

_STYLES: dict[ReplayState, Style] = {
    ReplayState.REPRODUCES: "plain",
    ReplayState.FIXED: "good",
    ReplayState.CHANGED: "bad",
    ReplayState.UNTESTABLE: "warning",
}


def replay_document(result: Replays) -> Document:
    """Show each reproducer with its state on every version, then why a state is not as recorded."""
    rows: list[list[Inline]] = []
    reasons: list[Block] = []
    for replay in result.reproducers:
        versions = [Span(f"{one.toolchain.name} {one.status.value}", _STYLES[one.status]) for one in replay.versions]
        listed = [part for span in versions for part in (", ", span)][1:]
        rows.append([Span(replay.status.value.upper(), _STYLES[replay.status]), replay.reproducer, listed])
        if replay.holds is False:
            reasons.append(Paragraph(Span(f"{replay.reproducer} no longer fails as recorded on {replay.bad}", "bad")))
        for version in replay.versions:
            changed = version.failure if version.status is ReplayState.CHANGED else None
            if why := failure_text(changed) if changed else version.reason:
                reasons.append(Paragraph(f"{replay.reproducer} on {version.toolchain.name}: {why}"))
    counts = Counter(replay.status for replay in result.reproducers)
    total = Paragraph(", ".join(f"{counts[state]} {state.value}" for state in ReplayState if counts[state]))
    return Document("Reproducers", [Table(("result", "reproducer", "versions"), rows), *reasons, total])
