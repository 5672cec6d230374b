"""Results that are a table or a list with a few lines: one function each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from triage.report.document import (
    Block,
    Bullets,
    Code,
    Document,
    Fact,
    Facts,
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
    failure_blocks,
    failure_text,
    joined,
    outcome_spans,
    outcome_text,
    plural,
)

if TYPE_CHECKING:  # each command needs the classes of one of them
    from triage.classify import ClassifiedLog, ClassifiedLogs
    from triage.execution.results import Forecast
    from triage.nightly.issues import IssueChanges
    from triage.nightly.known_case import KnownCase, LogExcerpt
    from triage.recipes.expectations import ExpectationUpdate
    from triage.reduce.replay import Replays
    from triage.remedy.result import Remedies, Remedy
    from triage.remedy.variants import Variants

_REPLAY_STATES = ("reproduces", "fixed", "changed", "untestable")
_LOG_LINES = 6  # on each side of the root cause
_LOG_STATUSES = {
    "unrecognised": "not recognised: something failed that no rule knows",
    "no failures": "no failures",
}
_LOG_WIDTH = 200  # characters


def classify_document(result: ClassifiedLogs) -> Document:
    """Show each failure of each log with its line and how often it occurs."""
    blocks: list[Block] = []
    for log in result.logs:
        blocks += _log_blocks(log)
    return Document("Failures", blocks)


def _log_blocks(log: ClassifiedLog) -> list[Block]:
    found = _LOG_STATUSES.get(log.status, plural(len(log.failures), "failure"))
    blocks: list[Block] = [Heading(f"{log.log}: {found}")]
    if log.likeliest:
        lines = [(f"line {one.line}", one.text) for one in log.likeliest]
        blocks.append(Facts(lines))
    for failure in log.failures:
        times = f", {failure.count} times" if failure.count > 1 else ""
        blocks += failure_blocks(failure, place=f"line {failure.line}{times}")
    return blocks


def update_document(result: ExpectationUpdate) -> Document:
    """Show what `triage expect update` changes, and the list to paste into a recipe;
    then the cases that were left, and a count.
    """
    blocks: list[Block] = []
    none = "no entry"
    for file in result.files:
        if file.changes:
            changes = [
                f"{each.case}: {each.before or none} -> {each.after or none}"
                for each in file.changes
            ]
            blocks += [Heading(str(file.path)), Bullets(changes)]
            if file.paste:
                blocks.append(Code(file.paste))
    blocks += [
        styled(f"left as it is: {one.case}: {one.reason}", "warning")
        for one in result.left
    ]
    changed = plural(sum(len(file.changes) for file in result.files), "known failure")
    blocks.append(Paragraph(f"{changed} changed by {result.toolchain.name}"))
    return Document("Known failures", blocks)


def forecast_document(forecast: Forecast) -> Document:
    """Show what a dry run knows: for each case which toolchains have a result."""
    blocks: list[Block] = []
    for case, group in groupby(forecast.probes, key=lambda probe: probe.case):
        toolchains: dict[str, list[str]] = {}
        for probe in group:
            missing = "to compile" if probe.installed else "to install and compile"
            toolchains.setdefault(probe.cached_status or missing, []).append(
                probe.toolchain
            )
        facts = [(state, ", ".join(names)) for state, names in toolchains.items()]
        blocks += [styled(case, "strong"), Facts(facts)]
    cached = sum(probe.cached_status is not None for probe in forecast.probes)
    count = plural(len(forecast.probes), "probe")
    text = forecast.remark or f"{count}, {cached} cached"
    blocks.append(Paragraph(f"{text}; nothing was compiled"))
    return Document("What would be compiled", blocks)


def issues_document(result: IssueChanges) -> Document:
    """Show the changes of a repository's issues."""
    rows: TableRows = [
        [
            one.action,
            f"#{one.issue}" if one.issue else "new",
            one.title,
            Span(one.reason, "dim"),
        ]
        for one in result.changes
    ]
    blocks: list[Block] = []
    if rows:
        blocks.append(Table(("change", "issue", "title", "why"), rows))
    blocks += [styled(note, "warning") for note in result.notes]
    total = f"{result.repository}: {plural(len(rows), 'change')}"
    if result.left:
        total += f", {len(result.left)} left for the next run"
    if rows and not result.applied:
        total += "; nothing was changed, pass --apply"
    return Document("Issues", [*blocks, Paragraph(total)])


def replay_document(result: Replays) -> Document:
    """Show each reproducer with its state on every version, then why a state is not as
    recorded.
    """
    rows: TableRows = []
    reasons: list[Block] = []
    for replay in result.reproducers:
        versions = joined(
            Span(f"{name} {state.value}", STYLES[state])
            for name, state in replay.states.items()
        )
        status = Span(replay.status.value.upper(), STYLES[replay.status])
        rows.append([status, replay.reproducer, versions])
        if replay.holds is False:
            text = f"{replay.reproducer} no longer fails as recorded on {replay.bad}"
            reasons.append(styled(text, "bad"))
        for version in replay.versions:
            name = version.toolchain.name
            if replay.states[name] in ("changed", "untestable"):
                why = outcome_text(version)
                reasons.append(Paragraph(f"{replay.reproducer} on {name}: {why}"))
    counts = Counter(replay.status.value for replay in result.reproducers)
    total = ", ".join(
        f"{counts[state]} {state}" for state in _REPLAY_STATES if counts[state]
    )
    table = Table(("result", "reproducer", "versions"), rows)
    return Document("Reproducers", [table, *reasons, Paragraph(total)])


def variants_document(result: Variants) -> Document:
    """Show the compared variants of a case."""
    rows: TableRows = []
    for variant in result.results:
        values = [variant.values.get(key, "") for key in result.keys]
        rows.append([*values, outcome_spans(variant, short=True, plain=True)])
    blocks: list[Block] = [
        Table((*result.keys, "result"), rows),
        styled(result.sentence, "strong"),
    ]
    if result.failure:
        blocks.append(Paragraph(failure_text(result.failure)))
    return Document("Variants", blocks)


def known_case_document(result: KnownCase) -> Document:
    """Show what is known of a case: the nights, the toolchains, each failure, and the
    output around the root cause.
    """
    from triage.report.failure import report_blocks  # slow to import
    from triage.report.night_text import state_sentence

    facts: list[Fact] = [
        (state.track, Span(state_sentence(state), STYLES[state.status]))
        for state in result.now
    ]
    blocks: list[Block] = [styled(result.case, "strong")]
    if facts:
        blocks.append(Facts(facts))
    nights: TableRows = []
    for run in result.runs:
        days = dict.fromkeys((run.first[:10], run.last[:10]))
        ends = dict.fromkeys((run.toolchain.name, run.last_toolchain.name))
        nights.append([" to ".join(days), " to ".join(ends), outcome_spans(run)])
    if nights:
        blocks += [Heading("Nights"), Table(("", "", ""), nights)]
    if result.states:
        states = [[one.toolchain.name, outcome_spans(one)] for one in result.states]
        blocks += [Heading("Toolchains"), Table(("", ""), states)]
    for report in result.failures:
        page = Facts([("page", f"failures/{report.page}.html")])
        title = f"{report.cluster.signature}, {report.state}"
        blocks += [Heading(title), page, *report_blocks(report)]
    log = result.log
    if log:
        blocks.append(Heading(f"Output on {log.toolchain}"))
        blocks.append(Code(_text_around_root(log)))
    return Document(result.case, blocks)


def _text_around_root(log: LogExcerpt) -> str:
    """Return the lines around the root cause, which is marked; without one the first
    lines.
    """
    first, last = 0, 2 * _LOG_LINES
    if log.root is not None:
        first, last = max(0, log.root - _LOG_LINES), log.root + _LOG_LINES
    return "\n".join(
        f"{'>' if number == log.root else ' '} {line[:_LOG_WIDTH]}"
        for number, line in enumerate(log.lines[first : last + 1], first)
    )


def remedy_document(result: Remedies) -> Document:
    """Show each remedy in a row with its cost, or why there is nothing to remedy."""
    from triage.remedy.result import COST_METRICS  # slow to import

    name = Span(result.case, "strong")
    if result.failure is None:
        nothing = Span("nothing to remedy", "warning")
        return Document(
            "Remedies", [Paragraph([name, ": ", nothing, f", {result.reason}"])]
        )
    labels = [label for label, _ in COST_METRICS.values()]
    rows = [_remedy_row(remedy, COST_METRICS) for remedy in result.remedies]
    weak = [remedy.weakness for remedy in result.remedies if remedy.weakness]
    tried = plural(result.tried, "candidate")
    if len(weak) < len(rows):
        summary = plural(len(rows), "remedy", "remedies")
        summary += f", {len(weak)} of them weak" if weak else ""
    elif weak:
        noun = plural(len(weak), "weak remedy", "weak remedies")
        summary = f"only {noun} among {tried}: {', '.join(dict.fromkeys(weak))}"
    elif result.upgrade:
        summary = "only an upgrade helps"
    else:
        summary = "no remedy"
    if result.upgrade:
        upgrade = Span(f"upgrade to {result.upgrade.name}", "strong")
        rows.insert(0, [upgrade, *[""] * (len(labels) + 1), result.upgrade.name, ""])
    verdict = Span(summary, "good" if len(weak) < len(rows) else "warning")
    blocks: list[Block] = [
        Paragraph([name, f" on {result.toolchain.name}: ", verdict]),
        Facts([("failure", failure_text(result.failure, 400))]),
    ]
    if rows:
        columns = ("change", "compile time", *labels, "holds on", "breaks")
        blocks.append(Table(columns, rows))
    if result.remedies:
        explained: list[Inline] = [
            [Span(remedy.text, "strong"), f": {remedy.explanation}"]
            for remedy in result.remedies
            if remedy.explanation
        ]
        blocks.append(Bullets(explained))
    else:
        blocks.append(Paragraph(result.reason or ""))
    blocks.append(styled(f"{tried} tried", "dim"))
    return Document("Remedies", blocks)


def _remedy_row(remedy: Remedy, metrics: Mapping[str, tuple[str, str]]) -> list[Inline]:
    """Return the remedy, its costs next to those of the program without it, and the
    revisions that it was tried on.
    """
    cost = remedy.cost
    without = next((one.without for one in remedy.checks if one.without.passed), None)
    seconds = f"{cost.get('cpu_seconds', 0):.1f} s"
    cells: list[Inline] = [Span(remedy.text, "strong"), seconds]
    for name, (_, unit) in metrics.items():
        cell = f"{cost[name]:.0f}{unit}" if name in cost else ""
        before = without.metrics.get(name) if without else None
        if cell and without and before is not None and before != cost[name]:
            cell += f" ({before:.0f} on {without.toolchain.name} without)"
        cells.append(cell)
    cells.append(", ".join(revision.name for revision in remedy.verified_on))
    return [*cells, Span(", ".join(revision.name for revision in remedy.breaks), "bad")]
