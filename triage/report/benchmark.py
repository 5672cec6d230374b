"""Report of `triage bench`."""

from __future__ import annotations

from triage.execution.benchmark import Benchmark, Series
from triage.report.document import Block, Document, Inline, Paragraph, Span, Table
from triage.report.elements import STYLES, plural

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def benchmark_document(result: Benchmark) -> Document:
    """Show a row for each configuration and a column for each function, then what the verdicts mean."""
    rows: list[list[Inline]] = []
    for configuration in result.configurations:
        program, peak = result.program(configuration), result.peak_mb(configuration)
        times = [_cell(result, result.of(configuration, function)) for function in result.functions]
        dispatches = "" if program is None or program.dispatches is None else str(program.dispatches)
        size, memory = size_text(program.bytes) if program else "", f"{peak:.0f} MiB" if peak else ""
        rows.append([configuration.name, *times, dispatches, size, memory])
    blocks: list[Block] = []
    if result.stopped:
        blocks.append(Paragraph(Span("Partial: the measurement was interrupted.", "warning")))
    blocks.append(Table(["configuration", *result.functions, "dispatches", "size", "peak memory"], rows))
    unmeasured: dict[tuple[str, str], list[str]] = {}
    for series in result.series:
        if series.reason is not None:
            unmeasured.setdefault((series.configuration.name, series.reason), []).append(series.function)
    for (name, reason), functions in unmeasured.items():
        text = f"{', '.join((name, *filter(None, functions)))}: not measured, {reason}"
        blocks.append(Paragraph(Span(text, "warning")))
    counts = sorted({len(series.samples) for series in result.series if series.samples})
    measured = f"{' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} samples each, " if counts else ""
    legend = (
        f"Median times; ratios to {result.baseline.name} with their {result.confidence:.1%} intervals. {measured}"
        f"slower or faster: the whole interval is more than {result.threshold:.0%} off."
    )
    return Document("Run times", [*blocks, Paragraph(Span(legend, "dim"))])


def _cell(result: Benchmark, series: Series | None) -> Span:
    if series is None or series.median is None:
        return Span("-")
    text, compared = time_text(series.median), series.comparison
    if compared is None:
        return Span(f"{text}  baseline" if series.configuration == result.baseline else text)
    return Span(f"{text}  {compared} {compared.pace}", STYLES[compared.pace])


def size_text(size: float) -> str:
    """Return a size in bytes or KiB."""
    return plural(int(size), "byte") if size < 4096 else f"{size / 1024:.0f} KiB"


def time_text(seconds: float) -> str:
    """Return a time with three digits: `2.84 ms`."""
    unit, name = next(((unit, name) for unit, name in _UNITS if seconds >= unit), _UNITS[-1])
    return f"{seconds / unit:.3g} {name}"
