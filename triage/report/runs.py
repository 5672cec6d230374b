"""Reports of `triage run` and `triage classify`, and the table of cases by versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from triage.execution.judge import status_of
from triage.model.case import Case
from triage.model.outcome import FAILING, Compiled, Failed, Failure, Probe, Status, Untestable
from triage.report.document import Block, Document, Facts, Heading, Inline, Paragraph, Span, Style, Table
from triage.report.elements import failure_blocks, failure_text, plural
from triage.report.registry import DocumentReport, SuiteCase, SuiteReport
from triage.report.shapes import ProbeShape, Shape, probe_shape

STYLES: dict[Status, Style] = {
    Status.PASSED: "good",
    Status.FAILED: "bad",
    Status.UNTESTABLE: "warning",
    Status.XFAIL: "dim",
    Status.XPASS: "warning",
}
_LETTERS = {"timeout": "T", "out-of-memory": "M"} | dict.fromkeys(("segfault", "assertion", "llvm-error"), "C")
_LEGEND = "P passed  F failed  C crashed  T timed out  M out of memory  U untestable  X unexpected pass  . not probed"
_WORDS_FIT = 4  # versions next to each other that leave room for words

GridRow = tuple[str, Sequence[Probe | None]]


@dataclass(frozen=True)
class RunShape(Shape):
    """JSON of `triage run`."""

    results: list[ProbeShape]


@dataclass(frozen=True, slots=True)
class RunReport(DocumentReport, SuiteReport):
    """The results of `triage run`: for each compiler family, its versions and a row of probes for each case."""

    families: Sequence[tuple[Sequence[str], Sequence[GridRow]]]
    show_all: bool = False
    """Show the cases that pass everywhere, too, instead of their number."""

    @property
    def probes(self) -> list[Probe]:
        """All probes, in the order of families, cases and versions."""
        return [probe for _, rows in self.families for _, probes in rows for probe in probes if probe]

    def shape(self) -> RunShape:
        return RunShape([probe_shape(probe) for probe in self.probes])

    def document(self) -> Document:
        """Show a row for each case, what fails and differs first, then each distinct failure once and the counts."""
        blocks: list[Block] = []
        for versions, rows in self.families:
            plain = [] if self.show_all or len(rows) == 1 else [row for row in rows if _passes(row[1])]
            shown = sorted((row for row in rows if row not in plain), key=lambda row: not _fails(row[1]))
            if shown:
                blocks += grid(shown, versions) if len(versions) > _WORDS_FIT else [_table(shown, versions)]
            if plain:
                where = " and ".join(versions) if len(versions) <= 2 else f"all {len(versions)} toolchains"
                verb = plural(len(plain), "case passes", "cases pass")
                blocks.append(Paragraph(Span(f"{verb} on {where}; --all shows {'it' if len(plain) == 1 else 'them'}", "dim")))
        blocks += _distinct_failures(self.probes)
        blocks.append(Paragraph(_count(self.probes)))
        return Document("Results", blocks)

    def suite(self) -> tuple[str, Iterable[SuiteCase]]:
        return "triage run", map(_suite_case, self.probes)


def _passes(probes: Sequence[Probe | None]) -> bool:
    """Return whether nothing about a case is worth a line: it passes everywhere and without a warning."""
    return all(probe and probe.outcome == Compiled() and status_of(probe) is Status.PASSED for probe in probes)


def _fails(probes: Sequence[Probe | None]) -> bool:
    return any(probe and status_of(probe) is Status.FAILED for probe in probes)


def _suite_case(probe: Probe) -> SuiteCase:
    status, outcome = status_of(probe), probe.outcome
    name, group, seconds = f"{probe.case.name} on {probe.revision.name}", probe.case.recipe, probe.measured.seconds
    if status is Status.FAILED and isinstance(outcome, Failed):
        failure = outcome.failure
        return SuiteCase(name, group, seconds, failed=(failure.headline, failure.failure_class, failure.signature))
    if isinstance(outcome, Untestable):
        return SuiteCase(name, group, seconds, skipped=outcome.reason)
    if isinstance(outcome, Failed):
        return SuiteCase(name, group, seconds, skipped=f"expected failure: {failure_text(outcome.failure)}")
    return SuiteCase(name, group, seconds)


def _table(rows: Sequence[GridRow], versions: Sequence[str]) -> Table:
    """Return one row for each case and one column for each version; for one version also what it cost."""
    single = len(versions) == 1
    cells: list[list[Inline]] = []
    for name, probes in rows:
        line: list[Inline] = [name, *(_word(probe) for probe in probes)]
        if single and (probe := probes[0]):
            cost = f"{probe.measured.seconds:.1f} s  {probe.measured.peak_rss_mb:.0f} MiB"
            line += [Span("cached" if probe.cached else cost, "dim")]
        cells.append(line)
    return Table(["case", *versions, *(["cost"] if single else [])], cells)


def _word(probe: Probe | None) -> Inline:
    if probe is None:
        return Span("not probed", "dim")
    status = status_of(probe)
    word = Span(status.value, STYLES[status])
    foreign = " (from another machine)" if probe.foreign else ""
    match probe.outcome:
        case Compiled(warnings):
            return [word, Span(f"  warning: {warnings[0].headline}" if warnings else "", "dim"), foreign]
        case Failed(failure, flaky=flaky):
            return [word, f"  {failure.failure_class}", " (flaky)" if flaky else "", foreign]
        case Untestable(reason=reason):
            return [word, Span(f"  {reason}", "dim"), foreign]


def grid(rows: Sequence[GridRow], versions: Sequence[str]) -> list[Block]:
    """Return a table with a letter for each case and version, and what the letters mean."""
    cells: list[list[Inline]] = [[name, *map(_letter, probes)] for name, probes in rows]
    return [Table(["case", *_short_versions(versions)], cells), Paragraph(Span(_LEGEND, "dim"))]


def _letter(probe: Probe | None) -> Span:
    """Return the letter of one probe; an expected failure has a lower-case letter."""
    if probe is None:
        return Span(".", "dim")
    status = status_of(probe)
    match probe.outcome:
        case Compiled():
            return Span("X" if status is Status.XPASS else "P", STYLES[status])
        case Failed(failure=failure) | Untestable(failure=Failure() as failure) if status in FAILING:
            letter = _LETTERS.get(failure.failure_class, "F")
            return Span(letter.lower() if status is Status.XFAIL else letter, STYLES[status])
        case _:
            return Span("U", "warning")


def _distinct_failures(probes: Sequence[Probe]) -> list[Block]:
    """Return each failure once, with the cases and toolchains that have it."""
    groups: dict[str, list[tuple[Probe, Failure]]] = {}
    for probe in probes:
        if isinstance(probe.outcome, Failed) and status_of(probe) is Status.FAILED:
            groups.setdefault(probe.outcome.failure.signature, []).append((probe, probe.outcome.failure))
    blocks: list[Block] = []
    for group in groups.values():
        first, failure = group[0]
        where: dict[str, list[Case]] = {}
        for probe, _ in group:
            where.setdefault(probe.revision.name, []).append(probe.case)
        blocks.append(Heading("; ".join(f"{cases_text(cases)} on {name}" for name, cases in where.items()), 3))
        blocks += failure_blocks(failure, first.case.input.path, first.case.compiler)
    return blocks


def cases_text(cases: Sequence[Case]) -> str:
    """Return the names of cases, those of one recipe together: `delta-rule[num_warps=8, 16]`."""
    recipes: dict[str, list[Case]] = {}
    for case in cases:
        recipes.setdefault(case.recipe, []).append(case)
    return ", ".join(_recipe_text(recipe, group) for recipe, group in recipes.items())


def _recipe_text(recipe: str, cases: Sequence[Case]) -> str:
    if len(cases) == 1 or not cases[0].matrix:
        return ", ".join(case.name for case in cases)
    values: dict[str, dict[str, None]] = {}
    for case in cases:
        for key, value in case.matrix:
            values.setdefault(key, {})[str(value)] = None
    if sum(len(options) > 1 for options in values.values()) > 1:  # not every combination of the values fails
        return ", ".join(case.name for case in cases)
    shown = ",".join(f"{key}={', '.join(options)}" for key, options in values.items())
    return f"{recipe}[{shown}]"


def _count(probes: Sequence[Probe]) -> list[str | Span]:
    statuses = [status_of(probe) for probe in probes]
    parts: list[str | Span] = []
    for status in Status:
        if status in statuses:
            parts += [", "] * bool(parts) + [Span(f"{statuses.count(status)} {status.value}", STYLES[status])]
    return parts


@dataclass(frozen=True)
class LogShape(Shape):
    """One log with its failures, the root cause first."""

    log: str
    failures: list[Failure]


@dataclass(frozen=True)
class ClassifyShape(Shape):
    """JSON of `triage classify`."""

    logs: list[LogShape]


@dataclass(frozen=True, slots=True)
class ClassifyReport(DocumentReport):
    """The failures in each log by the log's name."""

    logs: Mapping[str, Sequence[Failure]]

    def shape(self) -> ClassifyShape:
        return ClassifyShape([LogShape(name, list(failures)) for name, failures in self.logs.items()])

    def document(self) -> Document:
        """Show each failure with its line and how often it occurs."""
        blocks: list[Block] = []
        for name, failures in self.logs.items():
            blocks.append(Heading(f"{name}: {plural(len(failures), 'failure') if failures else 'no failures'}"))
            for failure in failures:
                times = f", {failure.count} times" if failure.count > 1 else ""
                blocks += [Facts([("line", f"{failure.line}{times}")]), *failure_blocks(failure)]
        return Document("Failures", blocks)


def _short_versions(versions: Sequence[str]) -> list[str]:
    """Return `3.10` for 3.10.0 where no other version has the same minor number."""
    minors = [".".join(name.split(".")[:2]) for name in versions]
    return [
        name if minors.count(minor) > 1 or name.count(".") < 2 else name.removesuffix(".0")
        for name, minor in zip(versions, minors, strict=True)
    ]
