"""Report of `triage reduce`."""

from __future__ import annotations

from collections.abc import Iterator

from triage.reduce.reproducer import Reproducer, span_around
from triage.reduce.result import Reduction
from triage.report.document import Block, Code, Document, Facts, Paragraph, Span
from triage.report.elements import failure_text, numbers_text, revision_text
from triage.report.reproducer import span_text

_SHOWN = 40  # lines of the program; the folder has all of them
_MOST_TRIED = 12  # versions that are shown when nothing was reduced


def reduction_document(result: Reduction, reproducer: Reproducer | None) -> Document:
    """Show the reduced program and what is known of its failure, or why there is none."""
    case = Span(result.case, "strong")
    if reproducer is None or result.program is None:
        tried = [
            ("tried", f"{one.version}: {one.status}{f': {one.headline or one.reason}' if one.status != 'passed' else ''}")
            for one in result.tried[:_MOST_TRIED]
        ]
        facts = Facts([("reason", result.reason or ""), *tried])
        return Document("Reduction", [Paragraph([case, ": ", Span("not reduced", "warning")]), facts])
    lines = result.program.rstrip().splitlines()
    more = [f"... {len(lines) - _SHOWN} more lines"] if len(lines) > _SHOWN else []
    blocks: list[Block] = [
        Paragraph([case, " is now ", Span(result.size, "strong")]),
        Code("\n".join([*lines[:_SHOWN], *more])),
        Facts(list(_facts(result, reproducer))),
    ]
    return Document("Reduction", blocks)


def _facts(result: Reduction, reproducer: Reproducer) -> Iterator[tuple[str, str]]:
    failure = reproducer.failure
    yield "failure", failure_text(failure, 400)
    if numbers := numbers_text(failure):
        yield "numbers", numbers
    yield "bad", revision_text(result.bad)
    yield "versions", span_text(span_around(result.probes, reproducer.bad))
    sizes = [(f"{result.unit}s", result.operations), ("lines", result.lines), ("bytes", result.bytes)]
    yield "size", ", ".join(f"{size.before} -> {size.after} {name}" for name, size in dict(sizes).items())
    yield from (("changed", change) for change in result.changes)
    yield from (("note", note) for note in result.notes)
    cached = f", {result.cached} cache hits" if result.cached else ""
    cost = f"{result.oracle_calls} compiles in {result.compile_seconds:.1f} s{cached}; {result.seconds:.1f} s in total"
    yield "cost", cost
    yield "written", result.reproducer or ""
