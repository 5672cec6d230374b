"""Reports of `triage run` and `triage bench`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from triage.execution.judge import RunResults
from triage.model.outcome import ProbeResult, Status
from triage.recipes.values import time_text
from triage.report.document import (
    Block,
    Details,
    Document,
    Heading,
    Inline,
    Span,
    Table,
    TableRows,
)
from triage.report.elements import (
    STYLES,
    compiler_title,
    failure_blocks,
    names_text,
    outcome_spans,
    plural,
)
from triage.report.formats import junit_text, suite_case

if TYPE_CHECKING:  # `triage run` measures nothing
    from triage.execution.benchmark import Benchmark


_PLACES = 6  # where a failure was seen


def run_document(run: RunResults) -> Document:
    """Show a row for each case, what fails first, then each distinct failure once and
    the counts. Cases that pass everywhere are folded.
    """
    versions = list(dict.fromkeys(result.toolchain.name for result in run.results))
    rows: dict[str, dict[str, ProbeResult]] = {}
    failures: dict[tuple[str, str], list[ProbeResult]] = {}
    for result in run.results:
        rows.setdefault(result.case, {})[result.toolchain.name] = result
        if result.failure and result.status is Status.FAILED:
            key = run.cases[result.case].compiler, result.failure.signature
            failures.setdefault(key, []).append(result)
    failing, others, passing = TableRows(), TableRows(), TableRows()
    for case, row in rows.items():
        statuses = {result.status for result in row.values()}
        group = others
        if Status.FAILED in statuses:
            group = failing
        elif statuses == {Status.PASSED} and len(rows) > 1:
            group = passing
        words = {version: _outcome_text(result) for version, result in row.items()}
        group.append([case, *(words.get(version, "") for version in versions)])
    columns = ["case", *versions]
    blocks: list[Block] = []
    if failing or others:
        blocks.append(Table(columns, [*failing, *others]))
    if passing:
        title = plural(len(passing), "case passes", "cases pass")
        blocks.append(Details(title, [Table(columns, passing)]))
    for (compiler, _), alike in failures.items():
        failure = alike[0].failure
        title = compiler_title(compiler)
        places = [f"{row.case} on {title} {row.toolchain.name}" for row in alike]
        assert failure
        heading = Heading(names_text(places, _PLACES))
        blocks += [heading, *failure_blocks(failure, compiler)]
    counts = Counter(result.status for result in run.results)
    texts = [f"{counts[status]} {status}" for status in Status if counts[status]]
    blocks.append(", ".join(texts))
    return Document("Results", blocks)


def _outcome_text(result: ProbeResult) -> Inline:
    words = outcome_spans(result, short=True)
    if result.warnings:
        words.append(Span(f"  warning: {result.warnings[0].headline}", "dim"))
    return words


def run_junit(run: RunResults) -> str:
    """Return a suite with a test case for each result."""
    cases = [
        suite_case(
            result,
            f"{result.case} on {result.toolchain.name}",
            is_failure=result.status is Status.FAILED,
            strict=run.strict,
        )
        for result in run.results
    ]
    return junit_text("triage run", cases)


def benchmark_document(result: Benchmark) -> Document:
    """Show a row for each configuration and function, those of one function together,
    then what the verdicts mean.
    """
    rows: TableRows = []
    for series in sorted(result.series, key=lambda series: series.function):
        median, verdict, program = series.median, Span(""), series.program
        if series.configuration == result.baseline:
            verdict = Span("baseline")
        elif series.change and series.verdict:
            text = f"{series.change} {series.verdict}"
            verdict = Span(text, STYLES[series.verdict])
        rows.append(
            [
                series.configuration.name,
                series.function,
                "-" if median is None else time_text(median),
                verdict,
                str(program.dispatches or "") if program else "",
                f"{program.bytes / 1024:.1f} KiB" if program else "",
                series.problem.reason if series.problem else "",
            ]
        )
    columns = ("configuration", "function", "median", "ratio", "dispatches", "size")
    blocks: list[Block] = [Table((*columns, "not measured"), rows)]
    if result.stopped:
        blocks.append(Span("Partial: the measurement was interrupted.", "warning"))
    least = f"{result.smallest_change:.0%}"
    legend = (
        f"Ratios to {result.baseline.name} have {result.confidence:.1%} intervals; "
        f"slower or faster: the whole interval is more than {least} off."
    )
    return Document("Run times", [*blocks, Span(legend, "dim")])
