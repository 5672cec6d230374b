"""The Markdown of a night, for a job summary, within the size that GitHub accepts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from triage.execution.statistics import CONFIDENCE
from triage.nightly.result import CaseChangeKind, FailureCluster, Night
from triage.report.benchmark import time_text
from triage.report.elements import headline_text, numbers_text, plural
from triage.report.markdown import Markdown, bounded, link, plain, render_markdown
from triage.report.night_phrases import (
    TITLES,
    effort_text,
    example_text,
    interval_text,
    investigated_text,
    old_new,
    origin_text,
    partial_text,
    path_text,
    reason_text,
    releases_text,
    remedy_text,
    run_name,
    run_verdict,
    slower_since,
    span_text,
    stage_rows,
    suite_rows,
)

LONGEST = 1_000_000  # bytes; GitHub accepts summaries of 1 MiB
_ROWS = (1_000_000, 3000, 1000, 300, 100, 30, 10)
_NAMES = 20  # of the cases of a cluster
_COLLAPSED = (TITLES[CaseChangeKind.KNOWN], TITLES[CaseChangeKind.FAILING])


def night_markdown(night: Night, longest: int = LONGEST) -> Markdown:
    """Return the report. Where it would be longer than `longest` bytes, tables end early and say what they leave out."""
    clusters = night.clusters_by_case()
    counts = [(change.value, len(night.of(change))) for change in CaseChangeKind]
    sections = [(title, night.of(change)) for change, title in TITLES.items() if change is not CaseChangeKind.REGRESSED]
    step_rows = [
        (cluster.representative or cluster.cases[0], step)
        for cluster in night.clusters
        for step in cluster.steps
        if step.status in ("failed", "skipped")
    ]

    def render(shown: int) -> Markdown:
        def left_out(rows: Sequence[object], noun: str = "case") -> str:
            more = len(rows) - shown
            return f"{plural(more, noun)} more; nightly.json has {'it' if more == 1 else 'them'}"

        return render_markdown(
            "nightly.md.j2",
            night=night,
            clusters=clusters,
            total=len(night.cases),
            counts=[(name, count) for name, count in counts if count or name == CaseChangeKind.REGRESSED],
            regressed=night.of(CaseChangeKind.REGRESSED),
            sections=sections,
            collapsed=_COLLAPSED,
            untestable=night.of(CaseChangeKind.UNTESTABLE),
            steps=step_rows,
            shown=shown,
            left_out=left_out,
            effort=effort_text(night),
            investigated=investigated_text(night),
            compiles=[(row, "slower") for row in night.slower] + [(row, "too noisy") for row in night.maybe_slower],
            confidence=f"{CONFIDENCE:.1%}",
            interval=interval_text,
            run_name=run_name,
            run_verdict=run_verdict,
            slower_since=slower_since,
            time=time_text,
            old_new=old_new,
            partial=partial_text(night),
            plural=plural,
            failure=lambda case: case.either_failure,
            headline=headline_text,
            numbers=numbers_text,
            releases=releases_text,
            origin=origin_text,
            reason=reason_text,
            example_link=lambda cluster, name: _example_link(cluster, name, night),
            names=_names,
            culprit=_culprit,
            remedy=remedy_text,
            beside=_beside,
            stages=stage_rows(night),
            suites=suite_rows(night),
        )

    return Markdown(bounded(render, _ROWS, longest))


def _names(cluster: FailureCluster) -> str:
    more = len(cluster.cases) - _NAMES
    return ", ".join(cluster.cases[:_NAMES]) + (f" and {more} more" if more > 0 else "")


def _culprit(cluster: FailureCluster) -> str:
    bisection = cluster.culprit
    if bisection is None or bisection.before is None or bisection.after is None:
        return ""
    return span_text(bisection)


def _beside(path: str | None) -> Markdown:
    """Return a link to a file or folder that is beside the report."""
    if path is None:
        return Markdown("")
    return link(path, path if Path(path).suffix else f"{path}/README.md")


def _example_link(cluster: FailureCluster, name: str, night: Night) -> Markdown | None:
    """Return the example as Markdown; the link is relative to the report, which is beside the reproducers' folder."""
    text = example_text(cluster, name, night)
    if text is None or cluster.reproducer is None:
        return plain(text) if text else None
    path = path_text(night, cluster.reproducer)
    return Markdown(f"{plain(text.removesuffix(path))}{_beside(cluster.reproducer)}")
