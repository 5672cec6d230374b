"""What GitHub Actions shows of a night: annotations, the summary of the job, and
outputs for later steps.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

from triage.investigate.result import CaseChangeKind, FailureCluster
from triage.nightly.result import Night
from triage.report.document import Heading, plain_text
from triage.report.elements import names_text, plural
from triage.report.markdown import document_markdown
from triage.report.night import night_document
from triage.report.night_text import night_facts, partial_text
from triage.report.printable import PrintedStream, visible
from triage.toolchains.home import disk_errors

ANNOTATIONS = 10  # of each kind that GitHub shows of one step
SUMMARY_BYTES = 1 << 20  # of one step; GitHub shows nothing of a longer summary
_NAMES = 5  # cases that an annotation names
_LEAST = 1000  # bytes of a summary that is worth writing


def show_on_github(night: Night, environment: Mapping[str, str]) -> None:
    """Print annotations, and write the summary and the outputs to the files that GitHub
    Actions names.
    """
    # commands are escaped here
    stream = sys.stderr.raw if isinstance(sys.stderr, PrintedStream) else sys.stderr
    workspace = Path(environment.get("GITHUB_WORKSPACE") or Path.cwd())
    for line in annotation_lines(night, workspace):
        stream.write(f"{line}\n")
    stream.flush()
    with disk_errors("write for GitHub Actions"):
        path = environment.get("GITHUB_STEP_SUMMARY")
        if path:
            summary = Path(path)
            room = SUMMARY_BYTES - (summary.stat().st_size if summary.exists() else 0)
            with summary.open("a", encoding="utf-8") as file:
                file.write(visible(night_summary(night, room)) if room > _LEAST else "")
        path = environment.get("GITHUB_OUTPUT")
        if path:
            with Path(path).open("a", encoding="utf-8") as file:
                file.writelines(
                    _assignment(name, value) for name, value in outputs(night).items()
                )


def night_summary(night: Night, longest: int) -> str:
    """Return the report as Markdown of at most so many bytes."""
    document = night_document(night)
    return document_markdown([Heading(document.title, 1), *document.blocks], longest)


def outputs(night: Night) -> dict[str, str]:
    """Return the outputs of the step: numbers of cases, and the paths of the reports
    that were written.
    """
    regressed = len(night.cases_with(CaseChangeKind.REGRESSED))
    changed = len(night.cases_with(CaseChangeKind.CHANGED))
    return {
        "regressed": str(regressed),
        "changed": str(changed),
        "fixed": str(len(night.cases_with(CaseChangeKind.FIXED))),
        "failing": str(
            regressed + changed + len(night.cases_with(CaseChangeKind.FAILING))
        ),
        "report": night.reports.get("markdown", ""),
        "json": night.reports.get("json", ""),
    }


def annotation_lines(night: Night, workspace: Path) -> list[str]:
    """Return an error for each new failure, and a warning for a partial night and for
    slower code; at most 10 of each kind.
    """
    counting = {case.case for case in night.cases if case.is_new_failure}
    clusters = [
        cluster for cluster in night.clusters if counting.intersection(cluster.cases)
    ]
    shown = clusters if len(clusters) <= ANNOTATIONS else clusters[: ANNOTATIONS - 1]
    lines = [_error(night, cluster, workspace) for cluster in shown]
    rest = clusters[len(shown) :]
    if rest:
        text = (
            f"{plural(len(rest), 'more new failure')} in "
            f"{plural(sum(len(cluster.cases) for cluster in rest), 'case')}"
        )
        lines.append(
            workflow_command(
                "error", f"{text}; see the summary of the job", title="More failures"
            )
        )
    if night.stopped:
        lines.append(
            workflow_command("warning", partial_text(night), title="Partial night")
        )
    if night.slower:
        text = plural(len(night.slower), "compile or run", "compiles or runs")
        names = names_text([row.case for row in night.slower], _NAMES)
        lines.append(
            workflow_command("warning", f"{text} slower: {names}", title="Slower")
        )
    return lines


def _error(night: Night, cluster: FailureCluster, workspace: Path) -> str:
    lines = [
        cluster.failure.headline if cluster.failure else cluster.signature,
        names_text(cluster.cases, _NAMES),
    ]
    lines += [
        f"{name} {plain_text(text)}"
        for name, text in night_facts(cluster, night, [cluster.culprit])
    ]
    name = cluster.representative or cluster.cases[0]
    source = Path(next((case.source for case in night.cases if case.case == name), ""))
    # GitHub shows files by their paths in the checkout
    if source.absolute().is_relative_to(workspace):
        source = source.absolute().relative_to(workspace)
    title = cluster.failure.failure_class if cluster.failure else "new failure"
    return workflow_command(
        "error",
        "\n".join(lines),
        file="" if source == Path() else str(source),
        title=title,
    )


def workflow_command(name: str, message: str, **properties: str) -> str:
    """Return a workflow command. No text in it can end it or begin another one."""
    words = ",".join(
        f"{key}={_escaped(value, ',:')}" for key, value in properties.items() if value
    )
    return f"::{name}{f' {words}' if words else ''}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    """Escape what a workflow command would read as its own: percent signs and line
    ends, in properties also `more`.
    """
    escaped = "\n".join(
        visible(line) for line in text.replace("\r\n", "\n").split("\n")
    )
    for character in "%\r\n" + more:
        escaped = escaped.replace(character, f"%{ord(character):02X}")
    return escaped


def _assignment(name: str, value: str) -> str:
    """Return a line of GITHUB_OUTPUT. No value can end the block or assign anything
    else.
    """
    mark = f"end-{secrets.token_hex(16)}"
    return f"{name}<<{mark}\n{visible(value)}\n{mark}\n"
