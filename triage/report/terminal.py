"""What a person sees on a terminal: one failure, a bisect's answer, a nightly's. Renderables only; nothing is printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from triage.execution.judge import status_of
from triage.model.outcome import Compiled, Failed, Failure, Probe, Status, Untestable
from triage.report.words import headline_text, numbers_text

STYLES = {
    Status.PASSED: "green",
    Status.FAILED: "bold red",
    Status.UNTESTABLE: "yellow",
    Status.XFAIL: "cyan",
    Status.XPASS: "bold magenta",
}
_LONGEST_LINE = 160


def failure_block(failure: Failure, source: Path | None = None, compiler: str | None = None) -> RenderableType:
    """One failure: class, headline, explanation, numbers, the line of the input with a caret, what usually helps.

    compiler: the family it is of; None where that is not known, and then what helps with any is told.
    """
    lines: list[RenderableType] = [Text.assemble((failure.failure_class, "bold red"), "  ", headline_text(failure, 400))]
    facts: list[tuple[str, str]] = []
    if failure.explanation:
        facts.append(("what", failure.explanation))
    if failure.details:
        facts.append(("numbers", numbers_text(failure)))
    where = ", ".join(part for part in (failure.phase and f"phase {failure.phase}", failure.failing_pass) if part)
    if where:
        facts.append(("where", where))
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in facts:
        table.add_row(name, Text(text))
    for number, text in enumerate(failure.advice(compiler)):
        table.add_row("helps" if number == 0 else "", Text(text))
    lines.append(Padding(table, (0, 0, 0, 2)))
    if (excerpt := source_excerpt(failure, source)) is not None:
        lines.append(Padding(Text(excerpt, style="dim"), (0, 0, 0, 2)))
    return Group(*lines)


def source_excerpt(failure: Failure, source: Path | None) -> str | None:
    """The input's line that the location names, with a caret below the column; None where it cannot be shown."""
    found = re.fullmatch(r"(.*):(\d+):(\d+)", failure.location or "")
    if found is None:
        return None
    named = Path(found[1])  # of a generated or imported input too; recalled from another machine it is not here
    source = named if named.is_file() else source
    if source is None:
        return None
    number, column = int(found[2]), int(found[3])
    try:
        with source.open("rb") as lines:
            line = next((text for at, text in enumerate(lines, 1) if at == number), b"").decode("utf-8", "replace").rstrip("\n")
    except OSError:
        return None
    if not line.strip():
        return None
    start = max(0, column - _LONGEST_LINE // 2)
    shown, head = line[start : start + _LONGEST_LINE], f"{source.name}:{number}: "
    return f"{head}{shown}\n{' ' * (len(head) + column - 1 - start)}^"


def run_blocks(probes: Sequence[Probe]) -> Iterable[RenderableType]:
    """Each result in a line, then each distinct failure once, then the count."""
    table = Table.grid(padding=(0, 2))
    for _ in range(5):
        table.add_column(overflow="fold")
    for probe in probes:
        status = status_of(probe)
        cost = "cached" if probe.cached else f"{probe.measured.seconds:.1f} s  {probe.measured.peak_rss_mb:.0f} MiB"
        table.add_row(
            Text(status.value.upper(), style=STYLES[status]),
            Text(probe.case.name),
            probe.revision.name,
            _brief(probe),
            cost,
        )
    yield table
    yield from _distinct_failures(probes)
    yield _count(probes)


def _brief(probe: Probe) -> Text:
    match probe.outcome:
        case Compiled(warnings):
            return Text(f"compiled, but said: {warnings[0].headline}" if warnings else "", style="dim")
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
    parts = [(f"{statuses.count(status)} {status.value}", STYLES[status]) for status in Status if status in statuses]
    text = Text("\n")
    for number, (words, style) in enumerate(parts):
        text.append(", " if number else "").append(words, style=style)
    return text


def log_blocks(logs: Mapping[str, Sequence[Failure]]) -> Iterable[RenderableType]:
    """The failures of each log, where they stand and how often."""
    for name, failures in logs.items():
        yield Text(f"{name}: {len(failures) or 'no'} failure{'' if len(failures) == 1 else 's'}", style="underline")
        for failure in failures:
            times = f", {failure.count} times" if failure.count > 1 else ""
            yield Text(f"\nline {failure.line}{times}", style="dim")
            yield failure_block(failure)
