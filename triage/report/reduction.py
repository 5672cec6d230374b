"""Renders a reduction as text blocks and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from triage.model.outcome import Compiled, Failed, Probe, Untestable
from triage.reduce.reproducer import Reproducer, span_around
from triage.reduce.state import NotReproducible, ProgramSize
from triage.report.elements import headline_text, numbers_text, revision_text
from triage.report.reproducer import evidence_json, sizes_json, span_text
from triage.report.shapes import Json, failure_json, probe_json, revision_json

_SHOWN = 40  # lines of the program; the folder has all of them


def reduction_blocks(
    result: Reproducer | NotReproducible, folder: Path | None, saved: Sequence[Path] = ()
) -> Iterable[RenderableType]:
    """Yield the small program, its failure, the failing versions and the cost; or why there is none.

    saved: folders of reproducers of other failures.
    """
    if isinstance(result, NotReproducible):
        yield from _not_reproducible(result)
    else:
        yield from _reproducer(result, folder, saved)


def reduction_json(result: Reproducer | NotReproducible, folder: Path | None, saved: Sequence[Path] = ()) -> Json:
    """Return the answer of `triage reduce`. saved: folders of reproducers of other failures."""
    if isinstance(result, NotReproducible):
        nothing = {"before": None, "after": None}
        return {
            "status": "not-reproducible",
            "case": result.case.name,
            "reason": result.reason,
            "signature": None,
            "failure": None,
            "operations": nothing,
            "lines": nothing,
            "bytes": nothing,
            "oracle_calls": 0,
            "seconds": 0.0,
            "reproducer": None,
            "tried": [probe_json(probe) for probe in result.tried],
        }
    reduced, effort = result.reduced, result.reduced.effort
    return {
        "status": "reduced",
        "case": reduced.case.name,
        "reason": None,
        "signature": result.failure.signature,
        "failure": failure_json(result.failure),
        "bad": revision_json(result.bad.revision),
        "good": revision_json(result.good),
        **sizes_json(reduced),
        "oracle_calls": effort.calls,
        "cached": effort.cached,
        "invalid": effort.invalid,
        "seconds": round(effort.seconds, 2),
        "compile_seconds": round(effort.compile_seconds, 2),
        "program": result.text,
        "evidence": [evidence_json(probe) for probe in result.probes],
        "others": [failure_json(other) for other in reduced.others],
        "notes": list(reduced.notes),
        "reproducer": str(folder) if folder else None,
        "other_reproducers": [str(path) for path in saved],
        "slipped": [str(path) for path in saved],  # the former name
    }


def _reproducer(result: Reproducer, folder: Path | None, saved: Sequence[Path]) -> Iterable[RenderableType]:
    reduced, effort, failure = result.reduced, result.reduced.effort, result.failure
    table = _table()
    table.add_row("failure", Text(f"{failure.failure_class}: {headline_text(failure, 400)}"))
    if failure.details:
        table.add_row("details", Text(numbers_text(failure)))
    table.add_row("signature", Text(failure.signature))
    table.add_row("bad", revision_text(result.bad.revision))
    table.add_row("versions", Text(span_text(span_around(result.probes, result.bad, failure.signature))))
    table.add_row("size", f"{_size(reduced.before)} -> {_size(reduced.after)}")
    for note in reduced.notes:
        table.add_row("note", Text(note))
    for other in reduced.others[:3]:
        table.add_row("other failure", Text(f"{other.failure_class}: {headline_text(other)}"))
    cached = f", {effort.cached} cache hits" if effort.cached else ""
    cost = f"{effort.calls} compiles in {effort.compile_seconds:.1f} s{cached}; {effort.seconds:.1f} s in total"
    table.add_row("cost", cost)
    for path in ([folder] if folder else []) + list(saved):
        table.add_row("written", Text(str(path)))
    lines = result.text.rstrip().splitlines()
    more = [f"... {len(lines) - _SHOWN} more lines"] if len(lines) > _SHOWN else []
    yield Text.assemble((reduced.case.name, "bold"), " is now ", (str(reduced.after), "bold"), "\n")
    # Not in a padding, which would cut lines that are longer than the width of a pipe.
    yield Text("\n".join(f"  {line}" for line in [*lines[:_SHOWN], *more]) + "\n")
    yield Padding(table, (0, 0, 0, 2))


def _not_reproducible(result: NotReproducible) -> Iterable[RenderableType]:
    table = _table()
    table.add_row("reason", Text(result.reason))
    for probe in result.tried[:12]:
        table.add_row("tried", Text(f"{probe.revision.name}: {_outcome_text(probe)}"))
    yield Text.assemble((result.case.name, "bold"), ": ", ("not reduced", "yellow"))
    yield Padding(table, (0, 0, 0, 2))


def _outcome_text(probe: Probe) -> str:
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


def _size(size: ProgramSize) -> str:
    lines = [] if size.unit == "line" else [f"{size.lines} lines"]
    return ", ".join([str(size), *lines, f"{size.bytes} bytes"])
