"""Report of `triage replay`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from triage.reduce.replay import Replay, ReplayedVersion, ReplayState
from triage.report.document import Block, Document, Inline, Paragraph, Span, Style, Table
from triage.report.elements import failure_text
from triage.report.registry import DocumentReport

_STYLES: dict[ReplayState, Style] = {
    ReplayState.REPRODUCES: "plain",
    ReplayState.FIXED: "good",
    ReplayState.CHANGED: "bad",
    ReplayState.UNTESTABLE: "warning",
}


@dataclass(frozen=True)
class Replays:
    """Reproducers that were compiled again."""

    reproducers: Sequence[Replay]


@dataclass(frozen=True)
class ReplayReport(DocumentReport):
    """Reproducers that were compiled again."""

    result: Replays

    def document(self) -> Document:
        rows: list[list[Inline]] = [
            [Span(replay.status.value.upper(), _STYLES[replay.status]), replay.reproducer, _versions(replay.versions)]
            for replay in self.result.reproducers
        ]
        blocks: list[Block] = [Table(("result", "reproducer", "versions"), rows)]
        for replay in self.result.reproducers:
            if replay.holds is False:
                blocks.append(Paragraph(Span(f"{replay.reproducer} no longer fails as recorded on {replay.bad}", "bad")))
            for version in replay.versions:
                failure = version.failure if version.status is ReplayState.CHANGED else None
                if why := failure_text(failure) if failure else version.reason:
                    blocks.append(Paragraph(f"{replay.reproducer} on {version.toolchain.name}: {why}"))
        counts = Counter(replay.status for replay in self.result.reproducers)
        blocks.append(Paragraph(", ".join(f"{counts[state]} {state.value}" for state in ReplayState if counts[state])))
        return Document("Reproducers", blocks)


def _versions(versions: Sequence[ReplayedVersion]) -> list[Span]:
    spans = []
    for number, version in enumerate(versions):
        comma = ", " if number else ""
        spans.append(Span(f"{comma}{version.toolchain.name} {version.status.value}", _STYLES[version.status]))
    return spans
