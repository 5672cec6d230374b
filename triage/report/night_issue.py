"""The draft of an issue about a cluster: the reproducer's text, where it came from, and what works around it."""

from __future__ import annotations

from pathlib import Path

from triage.model.revision import Revision
from triage.report.bisection import BisectShape
from triage.report.elements import headline_text, numbers_text
from triage.report.markdown import Markdown, bounded, render_markdown
from triage.report.night_phrases import origin_text
from triage.report.night_record import ClusterRecord, failure_of
from triage.report.reproducer import ISSUE

LONGEST = 64_000  # bytes; GitHub accepts texts of 65536 characters
_CASES = (1000, 100, 20, 5)


def issue_text(cluster: ClusterRecord, baseline: Revision, toolchain: Revision, *, fails_before: bool = False) -> str:
    """Return the draft, within the size that GitHub accepts. fails_before: it fails on the baseline in another way."""
    program = Path(cluster.reproducer) / ISSUE if cluster.reproducer else None
    failure = failure_of(cluster.failure) if cluster.failure else None

    def render(shown: int) -> Markdown:
        return render_markdown(
            "night_issue.md.j2",
            cluster=cluster,
            baseline=baseline,
            toolchain=toolchain,
            fails_before=fails_before,
            reproducer=Markdown(program.read_text("utf-8").strip()) if program and program.is_file() else None,
            headline=headline_text(failure, 400) if failure else cluster.signature,
            numbers=numbers_text(failure) if failure else "",
            origin=origin_text,
            culprit_links=_links,
            shown=shown,
        )

    return bounded(render, _CASES, LONGEST)


def _links(bisection: BisectShape) -> list[str]:
    """Return the pages of the suspected commits."""
    return [url for suspect in bisection.suspects if (url := getattr(suspect, "url", None))]
