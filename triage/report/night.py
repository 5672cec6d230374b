"""The report of `triage nightly`: its document, its JUnit suite, the files in a folder,
and what GitHub Actions shows of it; and that of `triage show` on one case.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from triage.investigate.result import CaseChangeKind, CaseResult, FailureCluster
from triage.model.outcome import Status
from triage.nightly.result import Night, TimeChange, to_do_for_failure
from triage.nightly.store import NIGHT_FILE
from triage.recipes.values import time_text
from triage.report.document import (
    Block,
    Code,
    Details,
    Document,
    Fact,
    Facts,
    Heading,
    Phrase,
    Span,
    Style,
    Table,
    TableRows,
    facts,
    junit_case,
    junit_result,
    junit_text,
    plain_text,
    rendered,
)
from triage.report.elements import (
    STYLES,
    failure_text,
    names_text,
    outcome_spans,
    plural,
    range_text,
    revision_text,
)
from triage.report.facts import (
    baseline_text,
    known_facts,
    life_facts,
    to_do_spans,
    verdict_text,
)
from triage.report.issue import issue_markdown
from triage.report.markup import document_markdown
from triage.report.printable import PrintedStream, visible
from triage.report.tables import backend_sentence, night_title
from triage.toolchains.home import disk_errors, write_whole

if TYPE_CHECKING:
    from triage.nightly.history import StateRun
    from triage.nightly.lives import KnownCase

FILES = {"markdown": "nightly.md", "junit": "nightly.xml", "json": NIGHT_FILE}
_FAILURES = 6  # that are not folded
_SLOWEST = 10  # cases
_NAMES = 20  # cases that a line names
_LISTED = {
    CaseChangeKind.FIXED: "Fixed",
    CaseChangeKind.FLAKY: "Flaky",
    CaseChangeKind.KNOWN: "Known failures",
    CaseChangeKind.FAILING: "Failing as before, and no recipe expects it",
    CaseChangeKind.UNEXPECTED_PASS: "Unexpected passes",
    CaseChangeKind.UNTESTABLE: "Not tested",
}
_ERRORS = 10  # that GitHub shows of one step
SUMMARY_BYTES = 1 << 20  # of one step; GitHub shows nothing of a longer summary
_CASES_IN_ERROR = 5
_SEALED = "compiles were sealed: they could read and write only what they needed"
_UNSEALED = "compiles were not sealed: they could read and write all that you can"


def screen_document(night: Night) -> Document:
    """Return the report of a night and the paths of its files, from the current
    folder.
    """
    document = night_document(night)
    if not night.reports:
        return document
    written = f"written: {', '.join(night.reports.values())}"
    return replace(document, blocks=[*document.blocks, written])


def write_reports(night: Night, folder: Path) -> Night:
    """Write the reports and the drafts of issues below `folder`, each file atomically;
    return the night with their paths.
    """
    clusters = []
    for cluster in night.clusters:
        path = f"issues/{cluster.id}.md" if cluster.is_investigated else None
        clusters.append(replace(cluster, issue=path))
    paths = {name: str(folder / file) for name, file in FILES.items()}
    night = replace(night, reports=paths, clusters=clusters)
    with disk_errors(f"write the reports to {folder}"):
        for cluster in clusters:
            if cluster.issue:
                draft = issue_markdown(cluster, night, with_title=True)
                write_whole(folder / cluster.issue, draft)
        for name, file in FILES.items():
            text = rendered(name, night, night_document, junit=night_junit)
            write_whole(folder / file, text)
    return night


def night_document(night: Night) -> Document:
    """Return the report of a night: what each backend says, the new failures with what
    is known of them, what became slower; folded the other cases.
    """
    new = f"{night.title} {revision_text(night.toolchain)}".strip()
    ends = f"{new} against {revision_text(night.baseline)}"
    cases = plural(len(night.cases), "case")
    blocks: list[Block] = [f"{ends}: {cases}"]
    for verdict in night.verdict:
        style: Style = "bad" if verdict.broken else "good"
        blocks.append(Span(backend_sentence(verdict, night), style))
    if night.stopped:
        blocks.append(Span(f"Partial report: {partial_text(night)}", "bad"))
    if night.clusters:
        shown = night.clusters[:_FAILURES]
        more = night.clusters[_FAILURES:]
        blocks.append(Heading(Span("New failures", "bad")))
        blocks += _failure_blocks(night, shown)
        if more:
            title = plural(len(more), "more failure")
            blocks.append(Details(title, _failure_blocks(night, more)))
    if night.slower:
        times: TableRows = [[time_name(row), times_text(row)] for row in night.slower]
        heading = Span(f"Slower ({len(times)})", "warning")
        blocks += [Heading(heading), Table(("case", "time"), times)]
    blocks.append("")
    for change, title in _LISTED.items():
        reasons = {
            case.case: _why_not_new(case) or failure_text(case.baseline.failure)
            for case in night.cases_with(change)
        }
        blocks += _folded(f"{title} ({len(reasons)})", "failure", reasons)
    slowest = sorted(night.cases, key=lambda case: -case.seconds)[:_SLOWEST]
    seconds = {case.case: time_text(case.seconds) for case in slowest}
    blocks += _folded("Slowest", "time", seconds, 3)
    blocks.append(Span(_SEALED if night.sealed else _UNSEALED, "dim"))
    blocks.append(Span(night_verdict(night), "strong"))
    return Document(night_title(night), blocks)


def _folded(
    title: str, column: str, cases: Mapping[str, str], named: int = 5
) -> list[Block]:
    """Return what is said of cases below a title with the first names, if there are
    any.
    """
    if not cases:
        return []
    names = names_text(list(cases), named)
    rows = list(cases.items())
    return [Details(f"{title}: {names}", [Table(("case", column), rows)])]


def _failure_blocks(night: Night, clusters: Sequence[FailureCluster]) -> list[Block]:
    """Return new failures with what is known of each."""
    blocks: list[Block] = []
    for cluster in clusters:
        names = Span(names_text(cluster.cases, _NAMES), "strong")
        title: Phrase = [names, f"  {failure_text(cluster.failure)}"]
        blocks += [title, _failure_facts(night, cluster)]
    return blocks


def _failure_facts(night: Night, cluster: FailureCluster) -> Facts:
    """Return what is known of a failure, the files that were written for it, and what
    to do.
    """
    case = night.case_of(cluster)
    rows: list[Fact] = [("baseline", baseline_text(case) if case else None)]
    rows += known_facts(cluster)
    if cluster.reproducer:
        path = f"{cluster.reproducer}/README.md"
        rows.append(("reduced", [f"{cluster.size}: ", Span(path, url=path)]))
    if cluster.issue:
        rows.append(("issue draft", Span(cluster.issue, url=cluster.issue)))
    rows.append(("to do", to_do_spans(to_do_for_failure(cluster))))
    return facts(rows)


def night_junit(night: Night) -> str:
    """Return a suite with a test case for each case."""
    texts = {
        name: "\n".join(
            f"{fact} {plain_text(text)}"
            for fact, text in _failure_facts(night, cluster).rows
        )
        for cluster in night.clusters
        for name in cluster.cases
    }
    cases = []
    for case in night.cases:
        reason = _why_not_new(case)
        cases.append(
            junit_result(
                replace(case, reason=f"{case.change}: {reason}" if reason else None),
                case.case,
                is_failure=case.is_new_failure,
                strict=night.strict,
                text=texts.get(case.case, ""),
            )
        )
    for row in night.slower if night.strict else ():
        text = times_text(row)
        failed = (text, "slower", text)
        cases.append(junit_case(time_name(row), "slower", failed=failed))
    cases += [
        junit_case(name, name.partition("[")[0], skipped=night.stopped)
        for name in night.not_compared
    ]
    return junit_text(f"triage {night_title(night)}", cases)


def partial_text(night: Night) -> str:
    """Return why a nightly is partial, and how many cases it did not compare."""
    missing = len(night.not_compared)
    if not missing:
        return night.stopped or ""
    total = plural(len(night.cases) + missing, "case")
    return f"{night.stopped}; {missing} of {total} not compared"


def night_verdict(night: Night) -> str:
    """Return the counts of a night, and what it took."""
    counts = [f"{count} {change}" for change, count in night.changes.items() if count]
    compiles = plural(night.compiles, "compile")
    cached = plural(night.cached, "cache hit")
    effort = f"{compiles}, {cached}, {night.seconds:.0f} s"
    return f"{', '.join(counts) or 'no case'}; {effort}"


def _why_not_new(case: CaseResult) -> str:
    """Return why a case could not be tested, else how it fails; empty if it passes."""
    if case.change is CaseChangeKind.UNTESTABLE:
        for result in (case, case.baseline):
            if result.status is Status.UNTESTABLE:
                return f"{result.toolchain.name}: {result.reason}"
    return failure_text(case.failure)


def time_name(row: TimeChange) -> str:
    """Return the case, and the function that was measured."""
    return f"{row.case}, {row.function}" if row.function else row.case


def times_text(row: TimeChange) -> str:
    """Return both times, `2 s -> 9 s`, with ratio, verdict and origin, or why there is
    none.
    """
    if row.baseline_seconds is None or row.seconds is None:
        return f"not measured, {row.reason}"
    text = f"{time_text(row.baseline_seconds)} -> {time_text(row.seconds)}, "
    if row.ratio:
        text += f"{row.ratio} "
    text += row.verdict.value if row.verdict else f"no verdict, {row.reason}"
    if row.bisection:
        text += f"; {verdict_text(row.bisection, '')}"
    return text


def runs_table(runs: Sequence[StateRun]) -> Table:
    """Return a row for the nights in which a case had the same result."""
    rows: TableRows = []
    for run in runs:
        days = range_text((run.first.day, run.last.day))
        names = range_text((run.first.toolchain.name, run.last.toolchain.name))
        words: Phrase = [Span(run.status.value, STYLES[run.status])]
        if run.failure:
            words.append(f"  {failure_text(run.failure)}")
        note = "the input changed" if run.is_edited else ""
        rows.append([days, names, words, note])
    return Table(("nights", "toolchain", "result", ""), rows)


def known_case_document(result: KnownCase) -> Document:
    """Show what is known of a case: the nights, the toolchains, each failure, and the
    output of the last one.
    """
    blocks: list[Block] = [Span(result.case, "strong")]
    if result.flaky_changes:
        changes = plural(result.flaky_changes, "change")
        blocks.append(f"flaky: {changes} without a change of the compiler")
    states = [[state.toolchain.name, outcome_spans(state)] for state in result.states]
    for track, runs in groupby(result.runs, key=lambda run: run.track):
        blocks += [Heading(f"Nights of {track}"), runs_table(list(runs))]
    if states:
        blocks += [Heading("Toolchains"), Table(("toolchain", "result"), states)]
    for life in result.failures:
        blocks.append(Heading(f"{life.cluster.signature}, {life.state}"))
        blocks.append(facts([*life_facts(life), *known_facts(life.cluster)]))
    if result.log:
        blocks.append(Details("Output of the last failure", [Code(result.log)]))
    return Document(result.case, blocks)


def show_on_github(night: Night, environment: Mapping[str, str]) -> None:
    """Print errors, and write the summary and the outputs to the files that GitHub
    Actions names.
    """
    import secrets  # slow to import

    # commands are escaped here
    stream = sys.stderr.raw if isinstance(sys.stderr, PrintedStream) else sys.stderr
    errors = [_error_command(night, cluster) for cluster in night.clusters[:_ERRORS]]
    stream.writelines(f"{line}\n" for line in errors)
    stream.flush()
    texts = []
    for name, value in action_outputs(night).items():
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
                document = night_document(night)
                room = SUMMARY_BYTES - file.tell()
                title = Heading(document.title, 1)
                text = document_markdown([title, *document.blocks], room)
                file.write(visible(text))


def action_outputs(night: Night) -> dict[str, str]:
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


def _error_command(night: Night, cluster: FailureCluster) -> str:
    """Return a new failure as an error at the file of its recipe."""
    case = night.case_of(cluster)
    source = case.source if case else ""
    cases = names_text(cluster.cases, _CASES_IN_ERROR)
    message = f"{failure_text(cluster.failure)}\n{cases}"
    return workflow_error(message, file=source, title="new failure")


def workflow_error(message: str, **properties: str) -> str:
    """Return the workflow command that shows an error. No text in it can end it or
    begin another one.
    """
    words = ",".join(
        f"{key}={_escaped(value, ',:')}" for key, value in properties.items() if value
    )
    return f"::error {words}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    """Escape what a workflow command would read as its own: percent signs and line
    ends, in properties also `more`.
    """
    escaped = visible(text.replace("\r\n", "\n"))
    for character in "%\n" + more:
        escaped = escaped.replace(character, f"%{ord(character):02X}")
    return escaped
