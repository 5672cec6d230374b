"""Report of `triage bench`: text, JSON and Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from triage.execution.benchmark import BenchmarkResult, Configuration, Series
from triage.execution.statistics import CONFIDENCE, Pace
from triage.model.revision import Revision
from triage.report.document import Block, Document, Inline, Paragraph, Span, Style, Table
from triage.report.elements import plural
from triage.report.registry import DocumentReport
from triage.report.shapes import Shape

_STYLES: dict[Pace, Style] = {Pace.SLOWER: "bad", Pace.FASTER: "good", Pace.SAME: "plain", Pace.NOISY: "warning"}
_FACTS = ("dispatches", "size", "peak memory")
_PARTIAL = "Partial: the measurement was interrupted."
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


@dataclass(frozen=True)
class TimesShape(Shape):
    """The times of one function in one configuration, in seconds; `ratio`, `low` and `high` compare with the baseline.
    `peak_mb`: the most memory that a run used.
    """

    case: str
    toolchain: Revision
    function: str | None
    median: float | None
    samples: list[float]
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str | None
    peak_mb: float | None
    reason: str | None


@dataclass(frozen=True)
class SizeShape(Shape):
    """The size of one compiled program, and how many kernels its functions start."""

    case: str
    toolchain: Revision
    bytes: int
    dispatches: int | None


@dataclass(frozen=True)
class BenchmarkShape(Shape):
    """JSON of `triage bench`. `threshold`: the smallest change that counts; `confidence`: of the intervals; `partial`: the
    measurement was interrupted.
    """

    baseline: TimesShape | None
    threshold: float
    confidence: float
    results: list[TimesShape]
    sizes: list[SizeShape]
    seconds: float
    partial: bool


@dataclass(frozen=True, slots=True)
class BenchmarkReport(DocumentReport):
    """Times of configurations side by side."""

    result: BenchmarkResult

    def shape(self) -> BenchmarkShape:
        result = self.result
        rows = [times_shape(series) for series in result.series]
        baseline = next((row for row, series in zip(rows, result.series, strict=True) if _is_baseline(result, series)), None)
        sizes = [
            SizeShape(configuration.case.name, configuration.ref.revision, program.bytes, program.dispatches)
            for configuration in result.configurations
            if (program := result.program(configuration))
        ]
        return BenchmarkShape(baseline, result.threshold, CONFIDENCE, rows, sizes, result.seconds, result.stopped)

    def document(self) -> Document:
        """Show a row for each configuration and a column for each function, then what the verdicts mean."""
        result = self.result
        rows: list[list[Inline]] = [
            [
                configuration.name,
                *(_cell(result, result.of(configuration, function)) for function in result.functions),
                *_facts(result, configuration),
            ]
            for configuration in result.configurations
        ]
        blocks: list[Block] = [Paragraph(Span(_PARTIAL, "warning"))] if result.stopped else []
        blocks.append(Table(["configuration", *result.functions, *_FACTS], rows))
        blocks += [Paragraph(Span(line, "warning")) for line in self._reasons()]
        blocks.append(Paragraph(Span(self._legend(), "dim")))
        return Document("Run times", blocks)

    def _reasons(self) -> Iterator[str]:
        """Yield why cells are empty, once for each reason of a row."""
        rows: dict[tuple[str, str], list[str]] = {}
        for series in self.result.series:
            if series.reason is not None:
                rows.setdefault((series.configuration.name, series.reason), []).append(series.function)
        for (name, reason), functions in rows.items():
            yield f"{', '.join((name, *filter(None, functions)))}: not measured, {reason}"

    def _legend(self) -> str:
        result = self.result
        samples = [len(series.samples) for series in result.series if series.samples]
        counts = dict.fromkeys((min(samples), max(samples))) if samples else ()
        measured = f"{' to '.join(map(str, counts))} samples each, " if counts else ""
        return (
            f"Median times; ratios to {result.baseline.name} with their {CONFIDENCE:.1%} intervals. {measured}"
            f"slower or faster: the whole interval is more than {result.threshold:.0%} off."
        )


def times_shape(series: Series) -> TimesShape:
    """Return the times of a series as JSON."""
    compared = series.comparison
    return TimesShape(
        case=series.configuration.case.name,
        toolchain=series.configuration.ref.revision,
        function=series.function or None,
        median=series.median,
        samples=series.samples,
        ratio=compared.ratio if compared else None,
        low=compared.low if compared else None,
        high=compared.high if compared else None,
        verdict=compared.pace.value if compared else None,
        peak_mb=series.peak_mb,
        reason=series.reason,
    )


def _is_baseline(result: BenchmarkResult, series: Series) -> bool:
    return series.configuration == result.baseline


def _cell(result: BenchmarkResult, series: Series | None) -> Span:
    if series is None or series.median is None:
        return Span("-")
    text = time_text(series.median)
    if (compared := series.comparison) is None:
        return Span(f"{text}  baseline" if _is_baseline(result, series) else text)
    return Span(f"{text}  {compared} {compared.pace}", _STYLES[compared.pace])


def _facts(result: BenchmarkResult, configuration: Configuration) -> tuple[str, ...]:
    program = result.program(configuration)
    dispatches = "" if program is None or program.dispatches is None else str(program.dispatches)
    peaks = [row.peak_mb for row in result.rows(configuration) if row.peak_mb]
    return dispatches, size_text(program.bytes) if program else "", f"{max(peaks):.0f} MiB" if peaks else ""


def size_text(size: float) -> str:
    """Return a size in bytes or KiB."""
    return plural(int(size), "byte") if size < 4096 else f"{size / 1024:.0f} KiB"


def time_text(seconds: float) -> str:
    """Return a time with three digits: `2.84 ms`."""
    unit, name = next(((unit, name) for unit, name in _UNITS if seconds >= unit), _UNITS[-1])
    return f"{seconds / unit:.3g} {name}"
