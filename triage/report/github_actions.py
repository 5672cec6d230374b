"""Show a night in GitHub Actions: an error for each new failure, the summary of the
job, and outputs for later steps.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

from triage.investigate.result import FailureCluster
from triage.nightly.result import Night
from triage.report.document import Heading
from triage.report.elements import failure_text, names_text
from triage.report.markdown import document_markdown
from triage.report.night import night_document
from triage.report.printable import PrintedStream, visible
from triage.toolchains.home import disk_errors

ERRORS = 10  # that GitHub shows of one step
SUMMARY_BYTES = 1 << 20  # of one step; GitHub shows nothing of a longer summary
_NAMES = 5  # cases that an error names


def show_on_github(night: Night, environment: Mapping[str, str]) -> None:
    """Print errors, and write the summary and the outputs to the files that GitHub
    Actions names.
    """
    # commands are escaped here
    stream = sys.stderr.raw if isinstance(sys.stderr, PrintedStream) else sys.stderr
    errors = [_error(night, cluster) for cluster in night.clusters[:ERRORS]]
    stream.writelines(f"{line}\n" for line in errors)
    stream.flush()
    texts = []
    for name, value in outputs(night).items():
        # no value can end its block or assign anything else
        mark = f"end-{secrets.token_hex(16)}"
        texts.append(f"{name}<<{mark}\n{visible(value)}\n{mark}\n")
    with disk_errors("write for GitHub Actions"):
        if "GITHUB_OUTPUT" in environment:
            with Path(environment["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
                file.writelines(texts)
        if "GITHUB_STEP_SUMMARY" in environment:
            path = Path(environment["GITHUB_STEP_SUMMARY"])
            with path.open("a", encoding="utf-8") as file:
                document, room = night_document(night), SUMMARY_BYTES - file.tell()
                title = Heading(document.title, 1)
                text = document_markdown([title, *document.blocks], room)
                file.write(visible(text))


def outputs(night: Night) -> dict[str, str]:
    """Return the outputs of the step: numbers of cases, and the paths of the reports
    that were written.
    """
    counts = {kind: str(count) for kind, count in night.changes.items()}
    kinds = ("regressed", "changed", "new-untested", "failing")
    failing = sum(night.changes[kind] for kind in kinds)
    return {
        **counts,
        "failing": str(failing),
        "report": night.reports.get("markdown", ""),
        "json": night.reports.get("json", ""),
    }


def _error(night: Night, cluster: FailureCluster) -> str:
    """Return a new failure as an error at the file of its recipe."""
    name = cluster.representative or cluster.cases[0]
    source = next((case.source for case in night.cases if case.case == name), "")
    cases = names_text(cluster.cases, _NAMES)
    message = f"{failure_text(cluster.failure)}\n{cases}"
    return workflow_command("error", message, file=source, title="new failure")


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
    lines = text.replace("\r\n", "\n").split("\n")
    escaped = "\n".join(map(visible, lines))
    for character in "%\r\n" + more:
        escaped = escaped.replace(character, f"%{ord(character):02X}")
    return escaped
