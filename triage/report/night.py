"""The report of `triage nightly`: its documents, and the files in a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from triage.execution.in_turn import CONFIDENCE, Pace
from triage.investigate.result import CaseChangeKind, CaseResult, FailureCluster
from triage.model.outcome import FAILING, Cause, Status
from triage.nightly.result import Night, TimeChange
from triage.nightly.store import NIGHT_FILE
from triage.nightly.verdict import ToDo
from triage.recipes.values import time_text
from triage.report import terminal
from triage.report.document import (
    Block,
    Details,
    Document,
    Facts,
    Heading,
    Inline,
    Paragraph,
    Phrase,
    Span,
    Style,
    Table,
    TableRows,
    plain_text,
    styled,
)
from triage.report.elements import (
    cases_text,
    failure_blocks,
    failure_text,
    headline_text,
    names_text,
    plural,
)
from triage.report.formats import (
    UNEXPECTED_PASS,
    SuiteCase,
    junit_text,
    rendered,
    write_report,
)
from triage.report.issue import issue_markdown
from triage.report.night_text import (
    backend_sentence,
    draft_path,
    night_facts,
    night_title,
    night_verdict,
    origin_text,
    pace_text,
    partial_text,
    rate_text,
    reason_text,
    time_name,
    times_text,
    to_do_spans,
    untested_text,
)
from triage.toolchains.home import disk_errors, write_whole

FILES = {"markdown": "nightly.md", "junit": "nightly.xml", "json": NIGHT_FILE}
_ROWS = 3000  # of a table on a page
_LINES = 40  # on a terminal
_WIDTH = 76  # characters of a line; on a terminal of 80, words are not broken
_BACKENDS = 5  # that a terminal names
_NAMES = 5  # cases of a failure on a terminal
_NAMES_ON_PAGE = 20
_SLOWEST = 10  # cases that a page names
_ON_PAGES = ("suspected commit", "tried")
_CHANGED: Mapping[CaseChangeKind, tuple[str, Style]] = {
    CaseChangeKind.REGRESSED: ("Regressed", "bad"),
    CaseChangeKind.CHANGED: ("Different failure", "bad"),
    CaseChangeKind.NEW_UNTESTED: ("Fails, not comparable", "bad"),
    CaseChangeKind.FIXED: ("Fixed", "good"),
    CaseChangeKind.FLAKY: ("Flaky", "warning"),
}
_LISTED = {
    CaseChangeKind.KNOWN: "Known failures",
    CaseChangeKind.FAILING: "Failing as before",
    CaseChangeKind.UNEXPECTED_PASS: "Unexpected passes",
    CaseChangeKind.UNTESTABLE: "Not tested",
}


def write_night(output: str, night: Night) -> None:
    """Write a night to stdout."""
    document = night_screen if output == "text" else night_document
    write_report(output, night, document, junit=night_junit)


def write_reports(night: Night, folder: Path) -> Night:
    """Write the reports and the drafts of issues below `folder`, each file atomically;
    return the night with their paths.
    """
    clusters = [
        replace(each, issue=draft_path(each) if each.is_investigated else None)
        for each in night.clusters
    ]
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


def night_screen(night: Night) -> Document:
    """Return what a terminal shows, at most 40 lines: regressions first, the verdict
    last. Each failure is named as far as they go, then with what is known.
    """
    groups = [
        (change, group)
        for change in _CHANGED
        for group in _groups(night.cases_with(change))
    ]
    sizes = [min(len(groups), 30), 16, 8, 4, 2, 1, 0]
    detailed = [(sizes[0], number) for number in sizes]
    for named, number in [*detailed, *((number, 0) for number in sizes)]:
        changes = _changes(night, groups[:named], number)
        if groups[named:]:
            changes.append(styled(_more_text(night, groups[named:]), "dim"))
        document = _screen(night, changes)
        lines = terminal.text(night, document).splitlines()
        if sum(1 + len(line) // _WIDTH for line in lines) <= _LINES:
            break
    return document


def _screen(night: Night, changes: Sequence[Block]) -> Document:
    tail = [styled(text, style) for text, style in _tail(night)]
    if "json" in night.reports:
        tail.append(Paragraph(f"written: {', '.join(night.reports.values())}"))
    verdict = styled(night_verdict(night), "strong")
    head = [_title(night), *_verdict_blocks(night, _BACKENDS)]
    blocks = [*head, *changes, Paragraph(""), *tail, verdict]
    return Document(night_title(night), blocks)


def _changes(
    night: Night,
    groups: Sequence[tuple[CaseChangeKind, list[CaseResult]]],
    detailed: int,
) -> list[Block]:
    """Return failures below headings. detailed: of how many to say what is known."""
    blocks: list[Block] = []
    to_dos, above = _to_dos(night), None
    for number, (change, group) in enumerate(groups):
        if change is not above:
            title, style = _CHANGED[change]
            count = len(night.cases_with(change))
            blocks.append(Heading(Span(f"{title} ({count})", style)))
        above = change
        name, *facts = _group_blocks(night, group, to_dos)
        blocks.append(name)
        if number < detailed:
            blocks += facts
    return blocks


def _more_text(
    night: Night, groups: Sequence[tuple[CaseChangeKind, list[CaseResult]]]
) -> str:
    names = names_text([group[0].case for _, group in groups], 2)
    listed = ""
    if "markdown" in night.reports:
        listed = f"; {night.reports['markdown']} lists all"
    return f"and {names}"[: _WIDTH - len(listed)] + listed


def _tail(night: Night) -> Iterator[tuple[str, Style]]:
    """Yield the lines below the cases, each with its style."""
    for row in night.times[:6]:
        yield f"{time_name(row)}: {times_text(row)}", "warning"
    passes = night.unexpected_passes
    if passes:
        count = plural(len(passes), "unexpected pass", "unexpected passes")
        hint = "`triage expect update` removes their known failures"
        yield f"{count}: {hint}", "warning"
    failing = [case.case for case in night.cases_with(CaseChangeKind.FAILING)]
    if failing:
        count = plural(len(failing), "case fails", "cases fail")
        names = names_text(failing, _NAMES)
        same = f"as with {night.baseline.name}, and no recipe expects it"
        yield f"{count} {same}: {names}", "warning"
    untestable = night.cases_with(CaseChangeKind.UNTESTABLE)
    if untestable:
        # a defect of this program comes first
        case = max(untestable, key=_is_internal)
        count = plural(len(untestable), "case was", "cases were")
        example = ""
        if len(untestable) > 1:
            example = "for example "
        style: Style = "bad" if _is_internal(case) else "warning"
        reason = reason_text(case, night)
        yield f"{count} not tested: {example}{case.case}: {reason}", style
    if night.left_steps:
        _, step = night.left_steps[0]
        count = plural(len(night.left_steps), "step")
        rest = f"of the investigation left: {step.reason}; the same command continues"
        yield f"{count} {rest}", "warning"
    if not night.sealed:
        yield _UNSEALED, "warning"


def _is_internal(case: CaseResult) -> bool:
    return Cause.INTERNAL in (case.cause, case.baseline.cause)


_SEALED = "compiles were sealed: they could read and write only what they needed"
_UNSEALED = "compiles were not sealed: they could read and write all that you can"


def night_document(night: Night) -> Document:
    """Return the page of a night. Paths are relative to it."""
    night = replace(night, reports={})
    ends = [
        [end.name, end.commit or "", end.date or ""]
        for end in (night.toolchain, night.baseline)
    ]
    to_dos = _to_dos(night)
    blocks = [
        *_verdict_blocks(night),
        Paragraph(night_verdict(night)),
        Table(("", "commit", "date"), ends),
        Paragraph(_SEALED if night.sealed else _UNSEALED),
    ]
    for change, (title, _) in _CHANGED.items():
        groups = _groups(night.cases_with(change))
        if groups:
            blocks.append(Heading(f"{title} ({sum(map(len, groups))})"))
        for group in groups:
            blocks += _group_blocks(night, group, to_dos, on_page=True)
            failure = group[0].failure
            if group[0].is_new_failure and failure:
                message = failure_blocks(failure, compiler=night.compiler)
                blocks.append(Details("Message", message))
    for change, title in _LISTED.items():
        listed = [
            [_code(case.case), _why(case, night)] for case in night.cases_with(change)
        ]
        blocks += _folded(f"{title} ({len(listed)})", ("case", "failure"), listed)
    steps = [
        [
            _code(cluster.representative or cluster.cases[0]),
            step.step,
            step.status,
            step.reason or "",
        ]
        for cluster in night.clusters
        for step in cluster.steps
        if step.status != "done"
    ]
    columns = ("case", "step", "status", "reason")
    blocks += _folded("Steps without a result", columns, steps)
    blocks += [*_time_table(night), *_slowest(night), *_pass_rates(night)]
    return Document(night_title(night), blocks)


def _slowest(night: Night) -> list[Block]:
    """Return the cases that took longest to compile and run on the new toolchain."""
    taken = {
        case.case: (case.seconds, case.metrics.get("run_seconds", 0.0))
        for case in night.cases
    }
    names = sorted(taken, key=lambda name: -sum(taken[name]))[:_SLOWEST]
    rows: TableRows = [
        [_code(name), *(time_text(seconds) for seconds in taken[name])]
        for name in names
        if sum(taken[name])
    ]
    return _folded(f"Slowest cases ({len(rows)})", ("case", "compile", "run"), rows)


def _pass_rates(night: Night) -> list[Block]:
    """Return how many cases pass by stage and by suite."""
    columns = ("passed", "failed", "not tested", "rate")
    stages, suites = (
        [
            [
                name,
                str(row["passed"]),
                str(row["failed"]),
                str(row.get("untestable", "")),
                rate_text(row["passed"], row["failed"]),
            ]
            for name, row in rows.items()
        ]
        for rows in (night.stages, night.suites)
    )
    return [
        Heading("Pass rate"),
        Table(("stage", *columns), stages),
        *_table(("stage or suite", *columns), suites),
    ]


def _title(night: Night) -> Block:
    return Paragraph(f"{night_title(night)}: {plural(len(night.cases), 'case')}")


def _verdict_blocks(night: Night, most: int | None = None) -> list[Block]:
    """Return what the night says of each backend, and what it did not do."""
    blocks: list[Block] = []
    verdicts = night.verdict
    for verdict in verdicts[:most]:
        style: Style = "bad" if verdict.broken else "good"
        blocks.append(styled(backend_sentence(verdict, night), style))
    if most and verdicts[most:]:
        left = plural(len(verdicts[most:]), "backend")
        blocks.append(styled(f"and {left} more", "dim"))
    if night.stopped:
        blocks.append(styled(f"Partial report. {partial_text(night)}", "bad"))
    if night.scope:
        scope = f"{night.scope[:1].upper()}{night.scope[1:]}."
        blocks.append(styled(scope, "dim"))
    return blocks


def _groups(cases: Sequence[CaseResult]) -> list[list[CaseResult]]:
    """Return the cases with the same failure that came and went with the same
    revisions, the most frequent first.
    """
    groups: dict[tuple[str, ...], list[CaseResult]] = {}
    for case in cases:
        key = case.key_of(case.either_failure).id if case.either_failure else ""
        groups.setdefault((key, *map(origin_text, case.bisections)), []).append(case)
    return sorted(groups.values(), key=lambda group: -len(group))


def _to_dos(night: Night) -> dict[str | None, ToDo]:
    """Return what to do about each new failure, by its id."""
    return {to_do.cluster: to_do for to_do in night.to_do if to_do.cluster}


def _group_blocks(
    night: Night,
    group: Sequence[CaseResult],
    to_dos: Mapping[str | None, ToDo],
    *,
    on_page: bool = False,
) -> list[Block]:
    """Return one failure with its cases in one line, and what was found out about it in
    at most five more. to_dos: by the id of the failure.
    """
    names, first = [case.case for case in group], group[0]
    most = _NAMES_ON_PAGE if on_page else _NAMES
    more = f" and {len(names) - most} more" if len(names) > most else ""
    title: Phrase = [Span(cases_text(names[:most]) + more, "strong")]
    if first.either_failure:
        title.append(f"  {failure_text(first.either_failure)}")
    cluster = None
    if first.is_new_failure:
        clusters = [each for each in night.clusters if first.case in each.cases]
        cluster = clusters[0] if clusters else None
    compiler = night.compiler if on_page else None
    facts = night_facts(cluster, night, first.bisections[:2], compiler)
    if not on_page:
        facts = [fact for fact in facts if fact[0] not in _ON_PAGES]
    if untested_text(first):
        facts.insert(0, ("baseline", untested_text(first)))
    if cluster and cluster.id in to_dos:
        facts.append(("to do", to_do_spans(to_dos[cluster.id])))
    return [Paragraph(title), Facts(facts)] if facts else [Paragraph(title)]


def _why(case: CaseResult, night: Night) -> str:
    if case.change is CaseChangeKind.UNTESTABLE:
        return reason_text(case, night)
    return failure_text(case.failure)


def _code(text: str | None) -> Inline:
    return Span(text, "code") if text else ""


def _table(columns: Sequence[str], rows: Sequence[Sequence[Inline]]) -> list[Block]:
    """Return a table of the first rows, and how many more there are; nothing without
    rows.
    """
    if not rows:
        return []
    table = Table(columns, rows[:_ROWS])
    if len(rows) <= _ROWS:
        return [table]
    return [table, Paragraph(f"{len(rows) - _ROWS} more; nightly.json has them")]


def _folded(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Inline]]
) -> list[Block]:
    return [Details(title, _table(columns, rows))] if rows else []


def _time_table(night: Night) -> list[Block]:
    rows: TableRows = []
    for row in night.times:
        times = [
            time_text(value) if value else "-"
            for value in (row.baseline_seconds, row.seconds)
        ]
        rows.append(
            [
                _code(time_name(row)),
                *times,
                str(row.ratio or ""),
                pace_text(row),
                origin_text(row.bisection) if row.bisection else "",
            ]
        )
    if not rows:
        return []
    ratio = f"ratio, {CONFIDENCE:.1%} interval"
    ends = (night.baseline.name, night.toolchain.name)
    columns = ("case", *ends, ratio, "verdict", "since")
    return [Heading("Times"), *_table(columns, rows)]


def night_junit(night: Night) -> str:
    """Return a suite with a test case for each case, and for each measured time."""
    clusters = {name: cluster for cluster in night.clusters for name in cluster.cases}
    cases = [_suite_case(night, case, clusters.get(case.case)) for case in night.cases]
    cases += [_time_case(row, strict=night.strict) for row in night.times]
    cases += [
        SuiteCase(name, name.partition("[")[0], 0.0, skipped=night.stopped)
        for name in night.not_compared
    ]
    title = f"triage {night.toolchain.name} against {night.baseline.name}"
    properties = {
        f"verdict {verdict.backend}".rstrip(): backend_sentence(verdict, night)
        for verdict in night.verdict
    }
    if night.stopped:
        properties["partial"] = night.stopped
    return junit_text(title, cases, properties)


def _suite_case(
    night: Night, case: CaseResult, cluster: FailureCluster | None
) -> SuiteCase:
    """Report regressions and different failures as failures, and other failures and
    untestable cases as skipped.
    """
    failure, failed, skipped, output = case.either_failure, None, None, None
    if case.is_new_failure and failure:
        lines = [f"signature: {failure.signature}", untested_text(case)]
        lines += [
            f"{name} {plain_text(text)}"
            for name, text in night_facts(cluster, night, case.bisections)
        ]
        failed = (
            failure.headline,
            failure.failure_class,
            "\n".join(filter(None, lines)),
        )
    elif case.status == Status.XPASS and night.strict:
        failed = UNEXPECTED_PASS
    elif case.status == Status.XPASS:
        output = UNEXPECTED_PASS[0]
    elif case.change == CaseChangeKind.UNTESTABLE:
        skipped = reason_text(case, night)
    elif case.status in FAILING and failure:
        words = {CaseChangeKind.KNOWN: "known failure", CaseChangeKind.FLAKY: "flaky"}
        kind = words.get(case.change, f"fails as with {night.baseline.name}")
        skipped = f"{kind}: {headline_text(failure)}"
    return SuiteCase(case.case, case.recipe, case.seconds, failed, skipped, output)


def _time_case(row: TimeChange, *, strict: bool) -> SuiteCase:
    name = f"run time of {time_name(row)}"
    group = row.case.partition("[")[0]
    text = times_text(row)
    if row.verdict is None and row.reason is not None:
        return SuiteCase(name, group, 0.0, skipped=row.reason)
    failed = None
    if strict and row.verdict == Pace.SLOWER:
        failed = ("the run is slower", "slower", text)
    return SuiteCase(name, group, row.seconds or 0.0, failed=failed, output=text)
