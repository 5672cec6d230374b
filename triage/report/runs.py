"""Report of `triage run`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from triage.execution.results import RunResult, RunResults
from triage.model.outcome import Failure, Status
from triage.report.document import Block, Document, Heading, Inline, Paragraph, Span, Table
from triage.report.elements import STYLES, cases_text, compiler_title, failure_blocks, joined, plural

Row = Sequence[RunResult | None]


def run_document(result: RunResults, *, show_all: bool = False) -> Document:
    """Show a row for each case, what fails and differs first, then each distinct failure once and the counts.

    show_all: also show the cases that pass everywhere.
    """
    blocks: list[Block] = []
    compilers = list(dict.fromkeys(one.about.compiler for one in result.results))
    for compiler in compilers:
        if len(compilers) > 1:
            blocks.append(Heading(compiler_title(compiler)))
        family = [one for one in result.results if one.about.compiler == compiler]
        versions = list(dict.fromkeys(one.toolchain.name for one in family))
        found = {(one.case, one.toolchain.name): one for one in family}
        names = dict.fromkeys(one.case for one in family)
        rows = {name: [found.get((name, version)) for version in versions] for name in names}
        plain = [name for name, row in rows.items() if all(map(_passes, row)) and not show_all and len(rows) > 1]
        shown = [name for name in rows if name not in plain]
        shown.sort(key=lambda name: all(one is None or one.status is not Status.FAILED for one in rows[name]))
        if shown:
            blocks.append(_table({name: rows[name] for name in shown}, versions))
        if plain:
            where = " and ".join(versions) if len(versions) <= 2 else f"all {len(versions)} toolchains"
            verb = plural(len(plain), "case passes", "cases pass")
            blocks.append(Paragraph(Span(f"{verb} on {where}; --all shows {'it' if len(plain) == 1 else 'them'}", "dim")))
    groups: dict[str, list[tuple[RunResult, Failure]]] = {}
    for one in result.results:
        if one.failure and one.status is Status.FAILED:
            groups.setdefault(one.failure.signature, []).append((one, one.failure))
    for group in groups.values():
        first, failure = group[0]
        cases: dict[str, list[str]] = {}
        for one, _ in group:
            cases.setdefault(one.toolchain.name, []).append(one.case)
        title = compiler_title(first.about.compiler)
        blocks.append(Heading("; ".join(f"{cases_text(names)} on {title} {name}" for name, names in cases.items())))
        blocks += failure_blocks(failure, first.about.input.path, first.about.compiler)
    counts = Counter(one.status for one in result.results)
    spans = (Span(f"{counts[status]} {status.value}", STYLES[status]) for status in Status if counts[status])
    blocks.append(Paragraph(joined(spans)))
    return Document("Results", blocks)


def _passes(result: RunResult | None) -> bool:
    return result is not None and result.status is Status.PASSED and not result.warnings


def _table(rows: Mapping[str, Row], versions: Sequence[str]) -> Table:
    cells: list[list[Inline]] = []
    for name, row in rows.items():
        cells.append([name, *map(_words, row)])
        if len(versions) == 1 and (one := row[0]):
            cost = "cached" if one.cached else f"{one.seconds:.1f} s  {one.peak_rss_mb:.0f} MiB"
            cells[-1].append(Span(cost, "dim"))
    return Table(["case", *versions, *(["cost"] if len(versions) == 1 else [])], cells)


def _words(result: RunResult | None) -> Inline:
    if result is None:
        return Span("not probed", "dim")
    words = [Span(result.status.value, STYLES[result.status])]
    if result.reason:
        words.append(Span(f"  {result.reason}", "dim"))
    elif result.failure:
        words.append(Span(f"  {result.failure.failure_class}{' (flaky)' if result.flaky else ''}"))
    if result.warnings:
        words.append(Span(f"  warning: {result.warnings[0].headline}", "dim"))
    return [*words, " (from another machine)" if result.foreign else ""]
