"""Where two compilers part, on a terminal and as JSON. Renderables only; nothing is printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from triage.attribute.excerpt import Mark, side_by_side
from triage.attribute.result import Attribution, ComparisonResult, Difference, PartedAt, PhaseComparison
from triage.report.shapes import failure_json, probe_json, revision_json
from triage.report.words import headline_text, revision_text

_ROWS = 60
_NAMES = 6
_UNBOUNDED = (1 << 63) - 1
_STYLES = {Mark.SAME: ("dim", "dim"), Mark.CHANGED: ("red", "green"), Mark.GOOD: ("red", ""), Mark.BAD: ("", "green")}


def attribution_blocks(found: Attribution) -> Iterable[RenderableType]:
    """The answer, what it rests on, the phases, and both sides' IR where they part."""
    yield Text.assemble((found.case.name, "bold"), " ", sentence(found))
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in facts(found):
        table.add_row(name, Text(text))
    yield Padding(table, (0, 0, 0, 2))
    if found.phases:
        yield Padding(_phase_table(found), (1, 0, 0, 2))
    if found.lasting and found.lasting.excerpt:
        yield Padding(_diff(found, found.lasting), (1, 0, 0, 0))


def sentence(found: Attribution) -> str:
    """The answer in one sentence, without the case's name."""
    good, bad = found.good.revision.name, found.bad.revision.name
    match found.finding:
        case ComparisonResult.PARTED:
            assert found.lasting is not None
            return f"parts after {found.lasting.by.pass_name.name}: {good} and {bad} are not the same again"
        case ComparisonResult.FAILING:
            name = found.passes[0] if found.passes else "the step that fails, which is no pass"
            return f"is the same on {good} and {bad} up to {name}: what changed is in there"
        case ComparisonResult.SAME:
            return f"is the same on {good} and {bad} after every pass"
        case ComparisonResult.INCONCLUSIVE:
            return f"cannot be compared: {found.reason}"


def facts(found: Attribution) -> Iterable[tuple[str, str]]:
    """Name and text of everything that is known beside the phases and the IR."""
    yield "good", revision_text(found.good.revision)
    yield "bad", revision_text(found.bad.revision)
    if found.failure:
        yield "failure", f"{found.failure.failure_class}: {headline_text(found.failure, 400)}"
        failing = found.failing.name if found.failing else found.failure.failing_pass
        where = ", ".join(part for part in (found.failure.phase, failing) if part)
        if where:
            yield "fails in", where
    if found.function[1]:
        yield "function", found.function[1]
    if found.first_phase:
        yield "phase", f"{found.first_phase} is the first whose output differs in meaning"
    for name, at in (("pass", found.lasting), ("then", found.decided), ("earlier", found.first)):
        if at:
            yield name, _told(at, found)
            yield from (("" if number else "differs", text) for number, text in enumerate(differences(at)))
    if found.files:
        yield "source", "\n".join(found.files)
    if any(found.shared):
        good, bad = (_bytes(one) for one in found.shared)
        yield "shared memory", f"{good} on {found.good.revision.name}, {bad} on {found.bad.revision.name}"
    yield from (("note", note) for note in found.notes)
    yield "cost", f"{found.compiles} compiles, {found.printed / (1 << 20):.1f} MiB of IR read, {found.seconds:.1f} s"


def differences(at: PartedAt) -> Iterable[str]:
    """What differs after a pass, a line each."""
    if at.choices:
        yield from (f"{one.name}: {one.good} -> {one.bad}" for one in at.choices[:_NAMES])
    if at.operations:
        more = f" and {len(at.operations) - _NAMES} more" if len(at.operations) > _NAMES else ""
        chosen = sorted(at.operations, key=lambda one: -abs(int(one.good) - int(one.bad)))[:_NAMES]
        yield ", ".join(f"{one.name} {one.good} -> {one.bad}" for one in chosen) + more
    if not at.choices and not at.operations:
        yield "the same operations, of other types or nested in another way"


def _told(at: PartedAt, found: Attribution) -> str:
    name = at.by.pass_name
    alone = ""
    if at.by.good is None:
        alone = f"; on {found.good.revision.name} it does not run here, or changes nothing"
    if at.by.bad is None:
        alone = f"; on {found.bad.revision.name} it does not run here, or changes nothing"
    where = f" on {at.function}" if at.function and at.function != found.function[1] else ""
    undone = " (later passes undo this difference)" if at is found.first else ""
    return f"{name.name}{f' ({name.argument})' if name.argument else ''}{where}{undone}{alone}"


def _bytes(count: int | None) -> str:
    if count is None:
        return "an unknown number"
    return "without bound" if count >= _UNBOUNDED else f"{count} bytes"


def _phase_table(found: Attribution) -> Table:
    names = list(found.phases[0].good or found.phases[0].bad or {})
    table = Table("after phase", "meaning", *names, box=None)
    for one in found.phases:
        cells = [_pair(one, name) for name in names]
        words = {True: "same", False: "differs", None: "not reached by both"}[one.same]
        table.add_row(one.phase, Text(words, style="" if one.same else "yellow"), *cells)
    return table


def _pair(phase: PhaseComparison, name: str) -> str:
    good, bad = ("-" if side is None else str(side.get(name, 0)) for side in (phase.good, phase.bad))
    return good if good == bad else f"{good} | {bad}"


def _diff(found: Attribution, at: PartedAt) -> Table:
    assert at.excerpt is not None
    good, bad = found.good.revision.name, found.bad.revision.name
    table = Table(f"{good} after {_pass_of(at, 0)}", f"{bad} after {_pass_of(at, 1)}", box=None, expand=True, padding=(0, 1))
    for column in table.columns:
        column.ratio, column.overflow, column.no_wrap = 1, "ellipsis", True
    rows = side_by_side(at.excerpt.good, at.excerpt.bad)
    for mark, left, right in islice(rows, _ROWS):
        if mark is Mark.SKIPPED:
            table.add_row(Text(f"... {left}", style="dim"), Text(f"... {right}", style="dim"))
        else:
            styles = _STYLES[mark]
            table.add_row(Text(left, style=styles[0]), Text(right, style=styles[1]))
    if next(rows, None):
        table.add_row(Text("... the rest is in the HTML page (--out)", style="dim"), "")
    return table


def _pass_of(at: PartedAt, side: int) -> str:
    name = (at.by.good, at.by.bad)[side]
    return name.name if name else f"the pass before {at.by.pass_name.name}"


def attribution_json(found: Attribution) -> dict[str, Any]:
    """The answer of `triage attribute`."""
    return {
        "case": found.case.name,
        "status": found.finding.value,
        "reason": found.reason,
        "good": revision_json(found.good.revision),
        "bad": revision_json(found.bad.revision),
        "failure": failure_json(found.failure),
        "probes": {"good": probe_json(found.good), "bad": probe_json(found.bad)},
        "failing_pass": found.failing.name if found.failing else None,
        "function": dict(zip(("good", "bad"), found.function, strict=True)),
        "first_phase": found.first_phase,
        "pass": _parted_json(found.lasting),
        "decided": _parted_json(found.decided),
        "earlier": _parted_json(found.first),
        "suspect_passes": list(found.passes),
        "suspect_files": list(found.files),
        "shared_memory_bytes": dict(zip(("good", "bad"), found.shared, strict=True)),
        "phases": [
            {
                "phase": one.phase,
                "same": one.same,
                "good": None if one.good is None else dict(one.good),
                "bad": None if one.bad is None else dict(one.bad),
                "differences": _differences_json(one.differences),
            }
            for one in found.phases
        ],
        "notes": list(found.notes),
        "compiles": found.compiles,
        "printed_bytes": found.printed,
        "seconds": found.seconds,
    }


def _parted_json(at: PartedAt | None) -> dict[str, Any] | None:
    if at is None:
        return None
    name = at.by.pass_name
    return {
        "name": name.name,
        "argument": name.argument,
        "on": "both" if at.by.good and at.by.bad else "bad" if at.by.bad else "good",
        "function": at.function,
        "operations": _differences_json(at.operations),
        "choices": _differences_json(at.choices),
        "files": list(at.files),
    }


def _differences_json(found: Sequence[Difference]) -> list[dict[str, str]]:
    return [{"name": one.name, "good": one.good, "bad": one.bad} for one in found]
