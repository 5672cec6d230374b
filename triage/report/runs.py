"""Reports of `triage run` and `triage classify`, and the grid of cases by versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from triage.execution.judge import status_of
from triage.model.outcome import Compiled, Failed, Failure, Probe, Status, Untestable
from triage.report.elements import STATUS_STYLES, failure_block, failure_text, plural
from triage.report.registry import Report, SuiteCase, SuiteReport
from triage.report.shapes import (
    FailureShape,
    ProbeShape,
    Shape,
    failure_shape,
    probe_shape,
)

_CRASHES = ("segfault", "assertion", "llvm-error")
_LETTERS = {"timeout": "T", "out-of-memory": "M"} | dict.fromkeys(_CRASHES, "C")
_PALETTE = (
    "red",
    "magenta",
    "bright_red",
    "dark_orange",
    "blue",
    "cyan",
    "bright_magenta",
    "gold3",
    "purple",
    "deep_pink3",
)
_LEGEND = "P passed  F failed  C crashed  T timed out  M out of memory  U untestable  X unexpected pass  . not probed"

GridRow = tuple[str, Sequence[Probe | None]]


@dataclass(frozen=True)
class RunShape(Shape):
    """JSON of `triage run`."""

    results: list[ProbeShape]


@dataclass(frozen=True, slots=True)
class RunReport(SuiteReport):
    """The results of `triage run`: for each compiler family, its versions and a row of probes for each case."""

    families: Sequence[tuple[Sequence[str], Sequence[GridRow]]]

    @property
    def probes(self) -> list[Probe]:
        """All probes, in the order of families, cases and versions."""
        return [probe for _, rows in self.families for _, probes in rows for probe in probes if probe]

    def shape(self) -> RunShape:
        return RunShape([probe_shape(probe) for probe in self.probes])

    def blocks(self) -> Iterable[RenderableType]:
        """Show a line for each result, each distinct failure once, then the counts."""
        for versions, rows in self.families:
            if len(versions) > 2:
                yield CaseGrid(rows, versions)
        probes = self.probes
        table = Table.grid(padding=(0, 2))
        for _ in range(5):
            table.add_column(overflow="fold")
        for probe in probes:
            status = status_of(probe)
            cost = "cached" if probe.cached else f"{probe.measured.seconds:.1f} s  {probe.measured.peak_rss_mb:.0f} MiB"
            word = Text(status.value.upper(), style=STATUS_STYLES[status])
            table.add_row(word, Text(probe.case.name), probe.revision.name, _brief(probe), cost)
        yield table
        yield from _distinct_failures(probes)
        yield _count(probes)

    def suite(self) -> tuple[str, Iterable[SuiteCase]]:
        return "triage run", map(_suite_case, self.probes)


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


def _brief(probe: Probe) -> Text:
    match probe.outcome:
        case Compiled(warnings):
            return Text(f"compiled with warning: {warnings[0].headline}" if warnings else "", style="dim")
        case Failed(failure, flaky=flaky):
            return Text(failure.failure_class + (" (flaky)" if flaky else ""))
        case Untestable(reason=reason):
            return Text(reason, style="dim")


def _distinct_failures(probes: Sequence[Probe]) -> Iterable[RenderableType]:
    seen: set[str] = set()
    for probe in probes:
        if isinstance(probe.outcome, Failed) and status_of(probe) is Status.FAILED:
            failure = probe.outcome.failure
            if failure.signature not in seen:
                seen.add(failure.signature)
                yield Text("")
                yield Text(f"{probe.case.name} on {probe.revision.name}", style="underline")
                source = probe.case.input.path
                yield failure_block(failure, source if source.suffix == ".mlir" else None, probe.case.compiler)


def _count(probes: Sequence[Probe]) -> Text:
    statuses = [status_of(probe) for probe in probes]
    counts = [(f"{statuses.count(status)} {status.value}", STATUS_STYLES[status]) for status in Status if status in statuses]
    text = Text("\n")
    for number, (words, style) in enumerate(counts):
        text.append(", " if number else "").append(words, style=style)
    return text


@dataclass(frozen=True)
class LoggedFailureShape(FailureShape):
    """A failure in a log: the line of its first occurrence, and how often it occurs."""

    line: int | None
    count: int


@dataclass(frozen=True)
class LogShape(Shape):
    """One log with its failures, the root cause first."""

    log: str
    failures: list[LoggedFailureShape]


@dataclass(frozen=True)
class ClassifyShape(Shape):
    """JSON of `triage classify`."""

    logs: list[LogShape]


@dataclass(frozen=True, slots=True)
class ClassifyReport(Report):
    """The failures in each log by the log's name."""

    logs: Mapping[str, Sequence[Failure]]

    def shape(self) -> ClassifyShape:
        return ClassifyShape([LogShape(name, list(map(_logged, failures))) for name, failures in self.logs.items()])

    def blocks(self) -> Iterable[RenderableType]:
        """Show each failure with its line and how often it occurs."""
        for name, failures in self.logs.items():
            yield Text(f"{name}: {plural(len(failures), 'failure') if failures else 'no failures'}", style="underline")
            for failure in failures:
                times = f", {failure.count} times" if failure.count > 1 else ""
                yield Text(f"\nline {failure.line}{times}", style="dim")
                yield failure_block(failure)


def _logged(failure: Failure) -> LoggedFailureShape:
    return LoggedFailureShape(**vars(failure_shape(failure)), line=failure.line, count=failure.count)


@dataclass(frozen=True, slots=True)
class CaseGrid:
    """Lines with a letter for each case and version, below the versions written downwards, and a legend."""

    rows: Sequence[GridRow]
    versions: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[RenderableType]:
        """Draw the grid. Case names are shortened where a line would be wider than the console."""
        room = max(12, options.max_width - 2 * len(self.versions) - 2)
        width = min(room, max((len(name) for name, _ in self.rows), default=0))
        heads = _short_versions(self.versions)
        height = max(map(len, heads), default=0)
        for depth in range(height):
            yield Text(" " * (width + 2) + " ".join(head.rjust(height)[depth] for head in heads), style="dim")
        classes: dict[str, str] = {}
        for name, probes in self.rows:
            line = Text((name if len(name) <= width else name[: width - 1] + "…").ljust(width) + "  ")
            for number, probe in enumerate(probes):
                letter, style = _letter(probe)
                line.append((" " if number else "") + letter, style=style)
                if probe and isinstance(probe.outcome, Failed):
                    classes[probe.outcome.failure.failure_class] = style
            yield line
        yield Text(_LEGEND, style="dim")
        if classes:
            legend = Text("classes: ", style="dim")
            for number, (name, style) in enumerate(sorted(classes.items())):
                legend.append(", " if number else "").append(name, style=style)
            yield legend


def _letter(probe: Probe | None) -> tuple[str, str]:
    """Return the letter and the style of one probe; an expected failure has a lower-case letter."""
    if probe is None:
        return ".", "dim"
    status = status_of(probe)
    match probe.outcome:
        case Compiled():
            return ("X", "bold magenta") if status is Status.XPASS else ("P", "green")
        case Failed(failure=failure) | Untestable(failure=Failure() as failure) if (
            isinstance(probe.outcome, Failed) or status is Status.XFAIL
        ):
            text = _LETTERS.get(failure.failure_class, "F")
            colour = _PALETTE[crc32(failure.failure_class.encode()) % len(_PALETTE)]
            return (text.lower() if status is Status.XFAIL else text), colour
        case _:
            return "U", "yellow"


def _short_versions(versions: Sequence[str]) -> list[str]:
    """Return `3.10` for 3.10.0 where no other version has the same minor number."""
    minors = [".".join(name.split(".")[:2]) for name in versions]
    return [
        name if minors.count(minor) > 1 or name.count(".") < 2 else name.removesuffix(".0")
        for name, minor in zip(versions, minors, strict=True)
    ]
