"""Reports of `triage run` and `triage bench`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from triage.execution.results import RunResults
from triage.model.outcome import Status
from triage.model.probe_result import ProbeResult
from triage.recipes.values import time_text
from triage.report.document import (
    Block,
    Details,
    Document,
    Heading,
    Inline,
    Paragraph,
    Span,
    Table,
    TableRows,
    styled,
)
from triage.report.elements import (
    STYLES,
    cases_text,
    compiler_title,
    failure_blocks,
    failure_text,
    joined,
    outcome_spans,
    plural,
)
from triage.report.formats import UNEXPECTED_PASS, SuiteCase, junit_text

if TYPE_CHECKING:  # `triage run` measures nothing
    from triage.execution.benchmark import Benchmark, Series

Row = Sequence[ProbeResult | None]


def run_document(result: RunResults) -> Document:
    """Show a row for each case, what fails and differs first, then each distinct
    failure once and the counts. Cases that pass everywhere are details.
    """
    blocks: list[Block] = []
    families: dict[str, list[ProbeResult]] = {}
    failures: dict[str, list[ProbeResult]] = {}
    for one in result.results:
        families.setdefault(result.cases[one.case].compiler, []).append(one)
        if one.failure and one.status is Status.FAILED:
            failures.setdefault(one.failure.signature, []).append(one)
    for compiler, results in families.items():
        if len(families) > 1:
            blocks.append(Heading(compiler_title(compiler)))
        blocks += _family_blocks(results)
    for group in failures.values():
        blocks += _shared_failure_blocks(result, group)
    counts = Counter(one.status for one in result.results)
    spans = (
        Span(f"{counts[status]} {status.value}", STYLES[status])
        for status in Status
        if counts[status]
    )
    blocks.append(Paragraph(joined(spans)))
    return Document("Results", blocks)


def _shared_failure_blocks(
    result: RunResults, group: Sequence[ProbeResult]
) -> list[Block]:
    """Return the cases and toolchains that have a failure, and the failure."""
    first, failure = result.cases[group[0].case], group[0].failure
    assert failure
    title = compiler_title(first.compiler)
    cases: dict[str, list[str]] = {}
    for one in group:
        cases.setdefault(one.toolchain.name, []).append(one.case)
    places = (f"{cases_text(names)} on {title} {name}" for name, names in cases.items())
    return [
        Heading("; ".join(places)),
        *failure_blocks(failure, first.input.path, first.compiler),
    ]


def _family_blocks(results: Sequence[ProbeResult]) -> list[Block]:
    """Return the table of the cases of one family, and how many pass everywhere."""
    versions = list(dict.fromkeys(one.toolchain.name for one in results))
    found = {(one.case, one.toolchain.name): one for one in results}
    rows = {
        name: [found.get((name, version)) for version in versions]
        for name in dict.fromkeys(one.case for one in results)
    }
    passing = [name for name, row in rows.items() if all(map(_passes, row))]
    if len(rows) == 1:
        passing = []
    shown = [name for name in rows if name not in passing]
    shown.sort(key=lambda name: not _has_failed(rows[name]))
    blocks: list[Block] = []
    if shown:
        blocks.append(_table({name: rows[name] for name in shown}, versions))
    if passing:
        where = f"all {len(versions)} toolchains"
        if len(versions) <= 2:
            where = " and ".join(versions)
        verb = plural(len(passing), "case passes", "cases pass")
        them = "it" if len(passing) == 1 else "them"
        table = _table({name: rows[name] for name in passing}, versions)
        blocks.append(Details(f"{verb} on {where}", [table]))
        note = f"{verb} on {where}; --verbose shows {them}"
        blocks.append(styled(note, "dim"))
    return blocks


def _has_failed(row: Row) -> bool:
    return any(one is not None and one.status is Status.FAILED for one in row)


def _passes(result: ProbeResult | None) -> bool:
    return result is not None and result.status is Status.PASSED and not result.warnings


def _table(rows: Mapping[str, Row], versions: Sequence[str]) -> Table:
    """Return a row for each case; of a single toolchain also what each compile cost."""
    columns, cells = ["case", *versions], TableRows()
    for name, row in rows.items():
        cells.append([name, *map(_words, row)])
        one = row[0]
        if one and len(versions) == 1:
            cost = f"{one.seconds:.1f} s  {one.peak_rss_mb:.0f} MiB"
            cells[-1].append(Span("cached" if one.cached else cost, "dim"))
    if len(versions) == 1:
        columns.append("cost")
    return Table(columns, cells)


def _words(result: ProbeResult | None) -> Inline:
    if result is None:
        return Span("not probed", "dim")
    words = outcome_spans(result, short=True)
    if result.warnings:
        words.append(Span(f"  warning: {result.warnings[0].headline}", "dim"))
    return words


def run_junit(result: RunResults) -> str:
    """Return a suite with a test case for each result."""
    cases = []
    for one in result.results:
        name = f"{one.case} on {one.toolchain.name}"
        failure = one.failure
        skipped = one.reason
        failed = None
        if failure and one.status is Status.FAILED:
            failed = (failure.headline, failure.failure_class, failure.signature)
        elif failure and skipped is None:
            skipped = f"expected failure: {failure_text(failure)}"
        elif one.status is Status.XPASS and result.strict:
            failed = UNEXPECTED_PASS
        cases.append(
            SuiteCase(name, one.recipe, one.seconds, failed=failed, skipped=skipped)
        )
    return junit_text("triage run", cases)


def benchmark_document(result: Benchmark) -> Document:
    """Show a row for each configuration and a column for each function, then what the
    verdicts mean.
    """
    rows: TableRows = []
    for configuration in result.configurations:
        series_of = result.rows(configuration)
        program = next((one.program for one in series_of.values()), None)
        times = [_cell(result, series_of.get(name)) for name in result.functions]
        dispatches, size = "", ""
        if program:
            size = size_text(program.bytes)
            if program.dispatches is not None:
                dispatches = str(program.dispatches)
        rows.append([configuration.name, *times, dispatches, size])
    blocks: list[Block] = []
    if result.stopped:
        note = Span("Partial: the measurement was interrupted.", "warning")
        blocks.append(Paragraph(note))
    columns = ["configuration", *result.functions, "dispatches", "size"]
    blocks.append(Table(columns, rows))
    unmeasured: dict[tuple[str, str], list[str]] = {}
    for series in result.series:
        if series.problem:
            where = (series.configuration.name, series.problem.reason)
            unmeasured.setdefault(where, []).append(series.function)
    for (name, reason), functions in unmeasured.items():
        text = f"{', '.join((name, *filter(None, functions)))}: not measured, {reason}"
        blocks.append(styled(text, "warning"))
    counts = sorted({len(series.samples) for series in result.series if series.samples})
    measured = ""
    if counts:
        least_and_most = dict.fromkeys((counts[0], counts[-1]))
        measured = f"{' to '.join(map(str, least_and_most))} samples each, "
    legend = (
        f"Median times; ratios to {result.baseline.name} with their "
        f"{result.confidence:.1%} intervals. {measured}"
        "slower or faster: the whole interval is more than "
        f"{result.smallest_change:.0%} off."
    )
    return Document("Run times", [*blocks, styled(legend, "dim")])


def _cell(result: Benchmark, series: Series | None) -> Span:
    if series is None or series.median is None:
        return Span("-")
    text = time_text(series.median)
    if series.ratio and series.verdict:
        style = STYLES[series.verdict]
        return Span(f"{text}  {series.ratio} {series.verdict}", style)
    if series.configuration == result.baseline:
        return Span(f"{text}  baseline")
    return Span(text)


def size_text(size: float) -> str:
    """Return a size in bytes or KiB."""
    if size < 4096:
        return plural(int(size), "byte")
    return f"{size / 1024:.0f} KiB"
