"""A night in a few lines, for a chat or an e-mail."""

from __future__ import annotations

from collections.abc import Mapping

from triage.nightly.compare import CaseChangeKind
from triage.report.elements import plural
from triage.report.night_phrases import partial_text
from triage.report.night_record import NightRecord
from triage.report.printable import visible

_FAILURES = 5  # that a message names


def message_of(night: NightRecord, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return title and text of a message, with the address of the workflow run where there is one."""
    kinds = (CaseChangeKind.REGRESSED, CaseChangeKind.CHANGED, CaseChangeKind.FIXED)
    counts = [f"{len(cases)} {kind.value}" for kind in kinds if (cases := night.of(kind))]
    title = f"{night.toolchain.name} against {night.baseline.name}: {', '.join(counts) or 'no change'}"
    lines = [f"{plural(len(night.cases), 'case')} compared"]
    lines += [partial_text(night)] if night.stopped else []
    for cluster in night.clusters[:_FAILURES]:
        headline = cluster.failure.headline if cluster.failure else cluster.signature
        lines.append(f"- {plural(len(cluster.cases), 'case')}: {' '.join(headline.split())[:200]}")
    if len(night.clusters) > _FAILURES:
        lines.append(f"- and {plural(len(night.clusters) - _FAILURES, 'more failure')}")
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    if all(environment.get(name) for name in names):
        server, repository, run = (environment[name] for name in names)
        lines.append(f"{server}/{repository}/actions/runs/{run}")
    return visible(title), visible("\n".join(lines))
