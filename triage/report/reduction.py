"""A reduction on a terminal and as JSON. Renderables only; nothing is printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from triage.model.outcome import Compiled, Failed, Probe, Untestable
from triage.reduce.reproducer import Reproducer, span_around
from triage.reduce.state import NotReproducible, Size
from triage.report.reproducer import evidence_json, sizes_json, span_text
from triage.report.shapes import Json, failure_json, probe_json, revision_json
from triage.report.words import headline_text, numbers_text, revision_text

_SHOWN = 40  # lines of a program that are shown, longer ones are in the folder


def reduction_blocks(
    found: Reproducer | NotReproducible, folder: Path | None, met: Sequence[Path] = ()
) -> Iterable[RenderableType]:
    """The small program, the failure it keeps, over which versions, and what it took; or why there is none."""
    match found:
        case NotReproducible():
            yield from _not_reproducible(found)
        case Reproducer():
            yield from _reproducer(found, folder, met)


def reduction_json(found: Reproducer | NotReproducible, folder: Path | None, met: Sequence[Path] = ()) -> Json:
    """The answer of `triage reduce`. met: reproducers of other failures."""
    if isinstance(found, NotReproducible):
        nothing = {"before": None, "after": None}
        return {
            "status": "not-reproducible",
            "case": found.case.name,
            "reason": found.reason,
            "signature": None,
            "failure": None,
            "operations": nothing,
            "lines": nothing,
            "bytes": nothing,
            "oracle_calls": 0,
            "seconds": 0.0,
            "reproducer": None,
            "tried": [probe_json(probe) for probe in found.tried],
        }
    reduced, effort = found.reduced, found.reduced.effort
    return {
        "status": "reduced",
        "case": reduced.case.name,
        "reason": None,
        "signature": found.failure.signature,
        "failure": failure_json(found.failure),
        "bad": revision_json(found.bad.revision),
        "good": revision_json(found.good),
        **sizes_json(reduced),
        "oracle_calls": effort.calls,
        "cached": effort.cached,
        "invalid": effort.invalid,
        "seconds": round(effort.seconds, 2),
        "compile_seconds": round(effort.compile_seconds, 2),
        "program": found.text,
        "evidence": [evidence_json(probe) for probe in found.probes],
        "others": [failure_json(other) for other in reduced.others],
        "notes": list(reduced.notes),
        "reproducer": str(folder) if folder else None,
        "slipped": [str(one) for one in met],
    }


def _reproducer(found: Reproducer, folder: Path | None, met: Sequence[Path]) -> Iterable[RenderableType]:
    reduced, effort, failure = found.reduced, found.reduced.effort, found.failure
    before, after = reduced.before, reduced.after
    table = _table()
    table.add_row("failure", Text(f"{failure.failure_class}: {headline_text(failure, 400)}"))
    if failure.details:
        table.add_row("numbers", Text(numbers_text(failure)))
    table.add_row("signature", Text(failure.signature))
    table.add_row("bad", revision_text(found.bad.revision))
    table.add_row("versions", Text(span_text(span_around(found.probes, found.bad, failure.signature))))
    table.add_row("size", f"{_size(before)} -> {_size(after)}")
    for note in reduced.notes:
        table.add_row("note", Text(note))
    for other in reduced.others[:3]:
        table.add_row("met too", Text(f"{other.failure_class}: {headline_text(other)}"))
    known = f", {effort.cached} answers known before" if effort.cached else ""
    cost = f"{effort.calls} compiles, {effort.compile_seconds:.1f} s of them{known}; done in {effort.seconds:.1f} s"
    table.add_row("cost", cost)
    for path in ([folder] if folder else []) + list(met):
        table.add_row("written", Text(str(path)))
    lines = found.text.rstrip().splitlines()
    more = [f"... {len(lines) - _SHOWN} more lines"] if len(lines) > _SHOWN else []
    yield Text.assemble((reduced.case.name, "bold"), " is now ", (str(after), "bold"), "\n")
    # Not in a padding, which would cut lines that are longer than a pipe is said to be wide.
    yield Text("\n".join(f"  {line}" for line in [*lines[:_SHOWN], *more]) + "\n")
    yield Padding(table, (0, 0, 0, 2))


def _not_reproducible(found: NotReproducible) -> Iterable[RenderableType]:
    table = _table()
    table.add_row("why", Text(found.reason))
    for probe in found.tried[:12]:
        table.add_row("tried", Text(f"{probe.revision.name}: {_said(probe)}"))
    yield Text.assemble((found.case.name, "bold"), ": ", ("not reduced", "yellow"))
    yield Padding(table, (0, 0, 0, 2))


def _said(probe: Probe) -> str:
    match probe.outcome:
        case Compiled():
            return "compiles"
        case Failed(failure=failure):
            return f"{failure.failure_class}: {headline_text(failure)}"
        case Untestable(reason=reason):
            return f"untestable: {reason}"


def _table() -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _size(size: Size) -> str:
    lines = [] if size.unit == "line" else [f"{size.lines} lines"]
    return ", ".join([str(size), *lines, f"{size.bytes} bytes"])
