"""Report of `triage attribute`: text, JSON and an HTML page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from triage.attribute.excerpt import Mark, side_by_side
from triage.attribute.result import Attribution, ComparisonResult, Difference, DivergingPass, PhaseComparison
from triage.model.execution import Stage
from triage.model.revision import Revision
from triage.report.elements import facts_table, failure_text, plural, revision_text
from triage.report.markdown import html_templates
from triage.report.printable import visible
from triage.report.registry import HtmlReport
from triage.report.shapes import FailureShape, ProbeShape, Shape, optional_failure, probe_shape
from triage.toolchains.home import disk_errors, write_whole

_MAX_ROWS = 60  # on a terminal
_MAX_PAGE_ROWS = 4000
_MAX_NAMES = 6
_STYLES = {Mark.SAME: ("dim", "dim"), Mark.CHANGED: ("red", "green"), Mark.GOOD: ("red", ""), Mark.BAD: ("", "green")}


@dataclass(frozen=True)
class DivergingPassShape(Shape):
    """A pass after which the IR differs. `on`: the sides that it changed, `good`, `bad` or `both`."""

    name: str
    argument: str | None
    on: str
    function: str | None
    operations: list[Difference]
    choices: list[Difference]
    files: list[str]


@dataclass(frozen=True)
class AttributionShape(Shape):
    """JSON of `triage attribute`.

    `pass`: the pass after which the IR diverges; `decided`: a later one with other choices; `earlier`: one whose difference
    later passes undo. `function` and `shared_memory_bytes` have the keys `good` and `bad`.
    """

    case: str
    status: str
    reason: str | None
    good: Revision
    bad: Revision
    failure: FailureShape | None
    probes: dict[str, ProbeShape]
    failing_pass: str | None
    function: dict[str, str | None]
    first_phase: str | None
    pass_: DivergingPassShape | None
    decided: DivergingPassShape | None
    earlier: DivergingPassShape | None
    suspect_passes: list[str]
    suspect_files: list[str]
    shared_memory_bytes: dict[str, int | None]
    phases: list[PhaseComparison]
    notes: list[str]
    compiles: int
    printed_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class AttributionReport(HtmlReport):
    """Where two compilers diverge over a case."""

    found: Attribution

    def shape(self) -> AttributionShape:
        found = self.found
        return AttributionShape(
            case=found.case.name,
            status=found.status.value,
            reason=found.reason,
            good=found.good.revision,
            bad=found.bad.revision,
            failure=optional_failure(found.failure),
            probes={"good": probe_shape(found.good), "bad": probe_shape(found.bad)},
            failing_pass=found.failing.name if found.failing else None,
            function=dict(zip(("good", "bad"), found.function, strict=True)),
            first_phase=found.first_phase,
            pass_=_diverging_shape(found.persistent),
            decided=_diverging_shape(found.decided),
            earlier=_diverging_shape(found.first),
            suspect_passes=list(found.passes),
            suspect_files=list(found.files),
            shared_memory_bytes=dict(zip(("good", "bad"), found.shared, strict=True)),
            phases=list(found.phases),
            notes=list(found.notes),
            compiles=found.compiles,
            printed_bytes=found.printed,
            seconds=found.seconds,
        )

    def blocks(self) -> Iterable[RenderableType]:
        """Show the answer, the facts, the phases, and both sides' IR at the divergence."""
        found = self.found
        yield Text.assemble((found.case.name, "bold"), ": ", sentence(found))
        yield facts_table(facts(found))
        if found.phases:
            yield Padding(_phase_table(found), (1, 0, 0, 2))
        if found.persistent and found.persistent.excerpt:
            yield Padding(_diff(found, found.persistent), (1, 0, 0, 0))

    def html(self) -> str:
        """Return a self-contained page. Texts of compilers and recipes are escaped."""
        found = self.found
        environment = html_templates()
        excerpt = found.persistent.excerpt if found.persistent else None
        rows = list(islice(side_by_side(excerpt.good, excerpt.bad), _MAX_PAGE_ROWS + 1)) if excerpt else []
        page = environment.get_template("attribution.html.j2").render(
            found=found,
            sentence=sentence(found),
            facts=list(facts(found)),
            counts=_count_names(found),
            phase_state=phase_state,
            rows=rows[:_MAX_PAGE_ROWS],
            more=len(rows) > _MAX_PAGE_ROWS or (excerpt is not None and excerpt.cut),
        )
        return visible(page)

    def write_page(self, folder: Path) -> Path:
        """Write `attribution.html` into a folder and return its path."""
        path = folder / "attribution.html"
        with disk_errors(f"write the page to {folder}"):
            write_whole(path, self.html())
        return path


def _diverging_shape(diverging: DivergingPass | None) -> DivergingPassShape | None:
    if diverging is None:
        return None
    return DivergingPassShape(
        name=diverging.pass_name.name,
        argument=diverging.pass_name.argument,
        on="both" if diverging.good and diverging.bad else "bad" if diverging.bad else "good",
        function=diverging.function,
        operations=list(diverging.operations),
        choices=list(diverging.choices),
        files=list(diverging.files),
    )


def sentence(found: Attribution) -> str:
    """Return the answer in one sentence, without the case's name."""
    good, bad = found.good.revision.name, found.bad.revision.name
    match found.status:
        case ComparisonResult.DIVERGES:
            return f"{good} and {bad} diverge after {found.passes[0]}"
        case ComparisonResult.FAILING:
            if found.failure and found.failure.stage is not Stage.COMPILE:
                where = "after the last pass, in a large constant, or in the runtime"
                return f"{good} and {bad} produce the same IR after every pass; the change is {where}"
            name = found.passes[0] if found.passes else "the failing step, which is not a pass"
            return f"{good} and {bad} produce the same IR up to {name}; the change is in there"
        case ComparisonResult.SAME:
            return f"{good} and {bad} produce the same IR after every pass"
        case ComparisonResult.INCONCLUSIVE:
            return f"cannot compare: {found.reason}"


def facts(found: Attribution) -> Iterable[tuple[str, str | Text]]:
    """Yield the name and text of each fact except phases and IR."""
    yield "good", revision_text(found.good.revision)
    yield "bad", revision_text(found.bad.revision)
    if found.failure:
        yield "failure", failure_text(found.failure, 400)
        failing = found.failing.name if found.failing else found.failure.failing_pass
        if where := ", ".join(part for part in (found.failure.phase, failing) if part):
            yield "fails in", where
    if found.function[1]:
        yield "function", found.function[1]
    if found.first_phase:
        yield "phase", f"{found.first_phase} is the first whose output differs in meaning"
    for name, diverging in (("pass", found.persistent), ("then", found.decided), ("earlier", found.first)):
        if diverging:
            yield name, _pass_text(diverging, found)
            yield from (("" if number else "right after it", text) for number, text in enumerate(differences(diverging)))
    if found.files:
        yield "source", "\n".join(found.files)
    if any(found.shared):
        used = found.failure.details.get("bytes_used") if found.failure else None
        good, bad = _bytes(found.shared[0]), _bytes(used if isinstance(used, int) else found.shared[1])
        yield "shared memory", f"{good} on {found.good.revision.name}, {bad} on {found.bad.revision.name}"
    yield from (("note", note) for note in found.notes)
    yield "cost", f"{plural(found.compiles, 'compile')}, {found.printed / (1 << 20):.1f} MiB of IR read, {found.seconds:.1f} s"


def differences(diverging: DivergingPass) -> Iterable[str]:
    """Yield one line for each kind of difference after a pass."""
    yield from (f"{choice.name}: {choice.good} -> {choice.bad}" for choice in diverging.choices[:_MAX_NAMES])
    if diverging.operations:
        by_size = sorted(diverging.operations, key=lambda count: -abs(int(count.good) - int(count.bad)))
        more = f" and {len(by_size) - _MAX_NAMES} more" if len(by_size) > _MAX_NAMES else ""
        yield ", ".join(f"{count.name} {count.good} -> {count.bad}" for count in by_size[:_MAX_NAMES]) + more
    if not diverging.choices and not diverging.operations:
        yield "the same operations with other types or other nesting"


def _pass_text(diverging: DivergingPass, found: Attribution) -> str:
    name = diverging.pass_name
    text = f"{name.name}{f' ({name.argument})' if name.argument else ''}"
    if diverging.function and diverging.function != found.function[1]:
        text += f" on {diverging.function}"
    if diverging is found.first:
        text += " (later passes undo this difference)"
    for side, probe in ((diverging.good, found.good), (diverging.bad, found.bad)):
        if side is None:
            text += f"; on {probe.revision.name} it does not run here or changes nothing"
    return text


def _bytes(count: int | None) -> str:
    return "an unknown number of bytes" if count is None else f"{count} bytes"


def _phase_table(found: Attribution) -> Table:
    names = _count_names(found)
    table = Table("at the end of", "meaning", *names, box=None)
    for comparison in found.phases:
        cells = []
        for name in names:
            good, bad = ("-" if counts is None else str(counts.get(name, 0)) for counts in (comparison.good, comparison.bad))
            cells.append(good if good == bad else f"{good} | {bad}")
        table.add_row(comparison.phase, Text(phase_state(comparison), style="" if comparison.same else "yellow"), *cells)
    return table


def _count_names(found: Attribution) -> list[str]:
    return list((found.phases[0].good or found.phases[0].bad or {}) if found.phases else ())


def phase_state(comparison: PhaseComparison) -> str:
    """Return whether the program after a phase means the same."""
    return {True: "same", False: "differs", None: "not reached by both"}[comparison.same]


def _diff(found: Attribution, diverging: DivergingPass) -> Table:
    assert diverging.excerpt is not None
    headers = (
        f"{probe.revision.name} after {side.name if side else f'the pass before {diverging.pass_name.name}'}"
        for probe, side in ((found.good, diverging.good), (found.bad, diverging.bad))
    )
    table = Table(*headers, box=None, expand=True, padding=(0, 1))
    for column in table.columns:
        column.ratio, column.overflow, column.no_wrap = 1, "ellipsis", True
    rows = side_by_side(diverging.excerpt.good, diverging.excerpt.bad)
    for mark, left, right in islice(rows, _MAX_ROWS):
        if mark is Mark.SKIPPED:
            table.add_row(Text(f"... {left}", style="dim"), Text(f"... {right}", style="dim"))
        else:
            styles = _STYLES[mark]
            table.add_row(Text(left, style=styles[0]), Text(right, style=styles[1]))
    if next(rows, None):
        table.add_row(Text("... the rest is in the HTML page (--out)", style="dim"), "")
    return table
