"""The draft of an issue about a cluster, rendered from what a night knows: where it came from, and what works around it."""

from __future__ import annotations

from pathlib import Path

from triage.bisect.result import Bisection
from triage.nightly.result import CaseChangeKind, FailureCluster, Night
from triage.report.elements import headline_text, numbers_text
from triage.report.markdown import Markdown, bounded, render_markdown
from triage.report.night_phrases import origin_text

LONGEST = 64_000  # bytes; GitHub accepts texts of 65536 characters
_CASES = (1000, 100, 20, 5)
_LANGUAGES = {".mlir": "mlir", ".py": "python", ".c": "c", ".cpp": "cpp", ".cu": "cuda"}


def draft_path(cluster: FailureCluster) -> str:
    """Return the path of a draft, relative to the reports."""
    return f"issues/{cluster.id}.md"


def issue_text(cluster: FailureCluster, night: Night) -> Markdown:
    """Return the draft, within the size that GitHub accepts. It follows no path of the night."""
    failure, draft = cluster.failure, cluster.draft
    members = [case for case in night.cases if case.case in cluster.cases]

    def render(shown: int) -> Markdown:
        return render_markdown(
            "night_issue.md.j2",
            cluster=cluster,
            baseline=night.baseline,
            toolchain=night.toolchain,
            fails_before=bool(members) and all(case.change is CaseChangeKind.CHANGED for case in members),
            draft=draft,
            language=_LANGUAGES.get(Path(draft.file).suffix, "") if draft else "",
            explanation=failure.explanation if failure else "",
            headline=headline_text(failure, 400) if failure else cluster.signature,
            numbers=numbers_text(failure) if failure else "",
            origin=origin_text,
            culprit_links=_links,
            shown=shown,
        )

    return Markdown(bounded(render, _CASES, LONGEST))


def _links(bisection: Bisection) -> list[str]:
    """Return the pages of the suspected commits."""
    return [url for suspect in bisection.suspects if (url := getattr(suspect, "url", None))]
