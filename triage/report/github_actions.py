"""Show a night in GitHub Actions: annotations, the summary of the job, and
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
    stream.writelines(f"{line}\n" for line in annotation_lines(night, workspace))
    stream.flush()
    summary_path = environment.get("GITHUB_STEP_SUMMARY")
    output_path = environment.get("GITHUB_OUTPUT")
    with disk_errors("write for GitHub Actions"):
        if summary_path:
            with Path(summary_path).open("a", encoding="utf-8") as file:
                room = SUMMARY_BYTES - file.tell()
                if room > _LEAST:
                    file.write(visible(night_summary(night, room)))
        if output_path:
            with Path(output_path).open("a", encoding="utf-8") as file:
                file.writelines(map(_assignment, outputs(night).items()))


def night_summary(night: Night, longest: int) -> str:
    """Return the report as Markdown of at most so many bytes."""
    document = night_document(night)
    return document_markdown([Heading(document.title, 1), *document.blocks], longest)


def outputs(night: Night) -> dict[str, str]:
    """Return the outputs of the step: numbers of cases, and the paths of the reports
    that were written.
    """
    failing = [case for case in night.cases if case.is_new_failure]
    failing += night.cases_with(CaseChangeKind.FAILING)
    return {
        "regressed": str(len(night.regressed)),
        "changed": str(len(night.changed)),
        "fixed": str(len(night.fixed)),
        "failing": str(len(failing)),
        "report": night.reports.get("markdown", ""),
        "json": night.reports.get("json", ""),
    }


def annotation_lines(night: Night, workspace: Path) -> list[str]:
    """Return an error for each new failure, and a warning for a partial night and for
    slower code; at most 10 of each kind.
    """
    new = {case.case for case in night.cases if case.is_new_failure}
    clusters = [each for each in night.clusters if not new.isdisjoint(each.cases)]
    shown = clusters
    if len(clusters) > ANNOTATIONS:
        shown = clusters[: ANNOTATIONS - 1]
    lines = [_error(night, cluster, workspace) for cluster in shown]
    rest = clusters[len(shown) :]
    if rest:
        cases = plural(sum(len(cluster.cases) for cluster in rest), "case")
        text = f"{plural(len(rest), 'more new failure')} in {cases}"
        text += "; see the summary of the job"
        lines.append(workflow_command("error", text, title="More failures"))
    if night.stopped:
        text = partial_text(night)
        lines.append(workflow_command("warning", text, title="Partial night"))
    if night.slower:
        text = plural(len(night.slower), "compile or run", "compiles or runs")
        text += f" slower: {names_text([row.case for row in night.slower], _NAMES)}"
        lines.append(workflow_command("warning", text, title="Slower"))
    return lines


def _error(night: Night, cluster: FailureCluster, workspace: Path) -> str:
    headline, title = cluster.signature, "new failure"
    if cluster.failure:
        headline, title = cluster.failure.headline, cluster.failure.failure_class
    lines = [headline, names_text(cluster.cases, _NAMES)]
    for name, text in night_facts(cluster, night, [cluster.culprit]):
        lines.append(f"{name} {plain_text(text)}")
    name = cluster.representative or cluster.cases[0]
    sources = [case.source for case in night.cases if case.case == name]
    source = Path(sources[0]).absolute() if sources and sources[0] else None
    # GitHub shows files by their paths in the checkout
    if source and source.is_relative_to(workspace):
        file = str(source.relative_to(workspace))
    else:
        file = sources[0] if sources else ""
    return workflow_command("error", "\n".join(lines), file=file, title=title)


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


def _assignment(output: tuple[str, str]) -> str:
    """Return a line of GITHUB_OUTPUT. No value can end the block or assign anything
    else.
    """
    name, value = output
    mark = f"end-{secrets.token_hex(16)}"
    return f"{name}<<{mark}\n{visible(value)}\n{mark}\n"
