"""Results that are a table or a list with a few lines: one function each."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from triage.model.outcome import ProbeResult, Status
from triage.recipes.values import time_text
from triage.report.document import (
    Block,
    Bullets,
    Code,
    Details,
    Document,
    Fact,
    Heading,
    Inline,
    Phrase,
    Span,
    Table,
    TableRows,
    facts,
    junit_result,
    junit_text,
)
from triage.report.elements import (
    STYLES,
    compiler_title,
    failure_blocks,
    names_text,
    outcome_spans,
    outcome_text,
    plural,
)
from triage.toolchains.home import path_from_here

if TYPE_CHECKING:  # each command needs the classes of one of them
    from triage.classify import ClassifiedLog, ClassifiedLogs
    from triage.compilers.base import LintedCase
    from triage.execution.benchmark import Benchmark
    from triage.execution.judge import Forecast, RunResults
    from triage.lint.check import LintResult
    from triage.nightly.issues import IssueChanges
    from triage.nightly.result import Night
    from triage.nightly.store import BackendVerdict, NightSummary
    from triage.recipes.expectations import ExpectationUpdate
    from triage.reduce.result import Replays

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
    failing = TableRows()
    others = TableRows()
    passing = TableRows()
    for case, row in rows.items():
        statuses = {result.status for result in row.values()}
        group = others
        if Status.FAILED in statuses:
            group = failing
        elif statuses == {Status.PASSED} and len(rows) > 1:
            group = passing
        group.append([case, *(_outcome_text(row.get(version)) for version in versions)])
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


def _outcome_text(result: ProbeResult | None) -> Inline:
    if result is None:
        return ""
    words = outcome_spans(result, short=True)
    if result.warnings:
        words.append(Span(f"  warning: {result.warnings[0].headline}", "dim"))
    return words


def run_junit(run: RunResults) -> str:
    """Return a suite with a test case for each result."""
    cases = [
        junit_result(
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
    baseline = result.configurations[0]
    for series in sorted(result.series, key=lambda series: series.function):
        median = series.median
        verdict = Span("")
        program = series.program
        if series.configuration == baseline:
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
        f"Ratios to {baseline.name} have {result.confidence:.1%} intervals; "
        f"slower or faster: the whole interval is more than {least} off."
    )
    return Document("Run times", [*blocks, Span(legend, "dim")])


_LOG_STATUSES = {
    "unrecognised": "not recognised: no rule knows what seems to have failed",
    "no failures": "no failures",
}


def classify_document(result: ClassifiedLogs) -> Document:
    """Show each failure of each log with its line and how often it occurs."""
    blocks = [block for log in result.logs for block in log_blocks(log)]
    return Document("Failures", blocks)


def log_blocks(log: ClassifiedLog) -> list[Block]:
    """Return the failures in a log; without one, the lines that sound like one."""
    status = _LOG_STATUSES.get(log.status, plural(len(log.failures), "failure"))
    blocks: list[Block] = [Heading(f"{log.log}: {status}")]
    if log.likeliest:
        blocks.append(facts((f"line {line.line}", line.text) for line in log.likeliest))
    for failure in log.failures:
        times = ""
        if failure.count > 1:
            times = f", {failure.count} times"
        blocks += failure_blocks(failure, place=f"line {failure.line}{times}")
    return blocks


def update_document(result: ExpectationUpdate) -> Document:
    """Show what `triage expect update` changes, and the list to paste into a recipe;
    then the cases that were left, and a count.
    """
    blocks: list[Block] = []
    none = "no entry"
    count = 0
    for file in result.files:
        if file.changes:
            count += len(file.changes)
            changes = [
                f"{change.case}: {change.before or none} -> {change.after or none}"
                for change in file.changes
            ]
            blocks += [Heading(str(file.path)), Bullets(changes)]
            if file.paste:
                blocks.append(Code(file.paste))
    blocks += [
        Span(f"left as it is: {entry.case}: {entry.reason}", "warning")
        for entry in result.left
    ]
    total = f"{plural(count, 'known failure')} changed by {result.toolchain.name}"
    return Document("Known failures", [*blocks, total])


def forecast_document(forecast: Forecast) -> Document:
    """Show how many results a dry run knows."""
    cached = sum(probe.cached_status is not None for probe in forecast.probes)
    count = plural(len(forecast.probes), "probe")
    text = f"{count}, {cached} cached; nothing was compiled"
    return Document("Dry run", [text])


def issues_document(result: IssueChanges) -> Document:
    """Show the changes of a repository's issues."""
    rows: TableRows = [
        [
            change.action,
            f"#{change.issue}" if change.issue else "new",
            change.title,
            Span(plural(len(change.cases), "case"), "dim"),
        ]
        for change in result.changes
    ]
    blocks: list[Block] = []
    if rows:
        blocks.append(Table(("change", "issue", "title", "cases"), rows))
    total = f"{result.repository}: {plural(len(rows), 'change')}"
    if result.left:
        total += f", {len(result.left)} left for the next run"
    if rows and not result.applied:
        total += "; nothing was changed, pass --apply"
    return Document("Issues", [*blocks, total])


def night_table(
    nights: Sequence[NightSummary], urls: Mapping[int, str] | None = None
) -> Table:
    """Return a row for each night. urls: of the pages of nights, by number."""
    rows: TableRows = []
    for night in nights:
        sentences = [backend_sentence(verdict, night) for verdict in night.verdict]
        if night.partial:
            sentences.insert(0, "Partial.")
        rows.append(
            [
                Span(str(night.number), url=(urls or {}).get(night.number)),
                night.started[:16].replace("T", " "),
                night_title(night),
                " ".join(sentences),
            ]
        )
    columns = ("night", "began", "toolchains", "what it said")
    return Table(columns, rows)


def backend_sentence(verdict: BackendVerdict, night: Night | NightSummary) -> str:
    """Return what a night says of one backend: `rocm: 3 of 41 cases newly fail on 3.3.0
    (2 failures); 1 with a culprit; 1 fixed.`
    """
    tested = verdict.cases - verdict.untestable
    sentence = f"nothing new fails in {plural(tested, 'case')}"
    if verdict.broken:
        verb = "fails" if verdict.broken == 1 else "fail"
        sentence = (
            f"{verdict.broken} of {plural(verdict.cases, 'case')} newly {verb} on "
            f"{night.toolchain.name} ({plural(verdict.failures, 'failure')})"
        )
    elif not tested:
        sentence = f"nothing could be tested in {plural(verdict.cases, 'case')}"
    more = {
        "with a culprit": verdict.with_culprit,
        "fixed": verdict.fixed,
        "slower": verdict.slower,
        "not tested": tested and verdict.untestable,
    }
    counts = [f"{count} {what}" for what, count in more.items() if count]
    text = "; ".join((sentence, *counts))
    return f"{verdict.backend}: {text}." if verdict.backend else f"{text}."


def night_title(night: Night | NightSummary) -> str:
    """Return `IREE 3.3.0 against 3.2.0`."""
    title = f"{night.title} {night.toolchain.name}".strip()
    return f"{title} against {night.baseline.name}"


def replay_document(result: Replays) -> Document:
    """Show each reproducer with its state on every version, then why a state is not as
    recorded.
    """
    rows: TableRows = []
    reasons: list[Block] = []
    for replay in result.reproducers:
        versions = [f"{name} {state}" for name, state in replay.states.items()]
        status = Span(replay.status.value.upper(), STYLES[replay.status])
        rows.append([status, replay.reproducer, ", ".join(versions)])
        if replay.holds is False:
            text = f"{replay.reproducer} no longer fails as recorded on {replay.bad}"
            reasons.append(Span(text, "bad"))
        for version in replay.versions:
            name = version.toolchain.name
            if replay.states[name] in ("changed", "untestable"):
                place = f"{replay.reproducer} on {name}"
                reasons.append(f"{place}: {outcome_text(version)}")
    counts = Counter(replay.status.value for replay in result.reproducers)
    order = ("reproduces", "fixed", "changed", "untestable")
    total = ", ".join(f"{counts[state]} {state}" for state in order if counts[state])
    table = Table(("result", "reproducer", "versions"), rows)
    return Document("Reproducers", [table, *reasons, total])


def lint_document(result: LintResult) -> Document:
    """Show each case with its findings and suggested flags, then the counts."""
    from triage.compilers.base import Severity

    blocks: list[Block] = []
    for linted in result.cases:
        if linted.findings or linted.notes:
            source = linted.source
            if linted.recipe:
                recipe = path_from_here(linted.recipe)
                source = f"{recipe} (positions in the generated program)"
            title: Phrase = [Span(linted.case, "strong"), "  ", source]
            blocks += [title, facts(_lint_rows(linted))]
    severities = (
        finding.severity for linted in result.cases for finding in linted.findings
    )
    counts = Counter(severities)
    several = {"advice": "advice"}
    texts = [
        plural(counts[kind], kind.value, several.get(kind.value)) for kind in Severity
    ]
    total = f"{', '.join(texts)} in {plural(len(result.cases), 'case')}"
    return Document("Lint", [*blocks, total])


def _lint_rows(linted: LintedCase) -> Iterator[Fact]:
    """Yield findings, flags and notes."""
    for finding in linted.findings:
        where = finding.location or ""
        if linted.recipe:
            where = where.removeprefix(f"{linted.source}:")
        label = Span(f"[{finding.rule}] ", "dim")
        text = Span(finding.message, STYLES[finding.severity])
        yield finding.severity.value, [f"{where}: " if where else "", label, text]
    yield "flags", shlex.join(linted.suggested_flags)
    for note in linted.notes:
        yield "note", note
