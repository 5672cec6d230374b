"""What a person sees on a terminal: one failure, a bisect's answer, a nightly's. Renderables only; nothing is printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from triage.bisect.result import Answer, Bisection, Kind
from triage.classify import rule_for
from triage.model.failure import Failure
from triage.model.outcome import Compiled, Failed, Status, Untestable
from triage.model.probe import Probe
from triage.nightly.compare import Change, Night, Pair
from triage.probe.judge import status_of
from triage.report.words import numbers_text, revision_text

STYLES = {
    Status.PASSED: "green",
    Status.FAILED: "bold red",
    Status.UNTESTABLE: "yellow",
    Status.XFAIL: "cyan",
    Status.XPASS: "bold magenta",
}
_LONGEST_LINE = 160


def failure_block(failure: Failure, source: Path | None = None) -> RenderableType:
    """One failure: class, headline, explanation, numbers, the line of the input with a caret, what usually helps."""
    rule = rule_for(failure.failure_class)
    lines: list[RenderableType] = [Text.assemble((failure.failure_class, "bold red"), "  ", failure.headline)]
    facts: list[tuple[str, str]] = []
    if rule:
        facts.append(("what", rule.explanation))
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
    for number, text in enumerate(rule.remedies if rule else ()):
        table.add_row("helps" if number == 0 else "", Text(text))
    lines.append(Padding(table, (0, 0, 0, 2)))
    if (excerpt := source_excerpt(failure, source)) is not None:
        lines.append(Padding(Text(excerpt, style="dim"), (0, 0, 0, 2)))
    return Group(*lines)


def source_excerpt(failure: Failure, source: Path | None) -> str | None:
    """The input's line that the location names, with a caret below the column; None where it cannot be shown."""
    found = re.search(r":(\d+):(\d+)$", failure.location or "")
    if found is None or source is None:
        return None
    number, column = int(found[1]), int(found[2])
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
                yield failure_block(failure, probe.case.input.path if probe.case.input.path.suffix == ".mlir" else None)


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


def bisection_block(found: Bisection) -> RenderableType:
    """The answer of a bisect with its certificate: the pair, the failure, what was met on the way, what it cost."""
    lines: list[RenderableType] = []
    old, new = ("last good", "first bad") if found.kind is Kind.REGRESSION else ("last bad", "first good")
    match found.answer:
        case Answer.CULPRIT:
            verb = "came with" if found.kind is Kind.REGRESSION else "was fixed in"
            lines.append(Text.from_markup(f"[bold]{escape(found.case.name)}[/] {verb} [bold]{revision_text(found.after)}[/]"))
        case Answer.SUSPECTS:
            names = ", ".join(revision.name for revision, _ in found.suspects)
            lines.append(Text.from_markup(f"[bold]{escape(found.case.name)}[/]: one of [bold]{names}[/]"))
        case Answer.INCONCLUSIVE:
            lines.append(Text.from_markup(f"[bold]{escape(found.case.name)}[/]: [yellow]inconclusive[/]"))
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    if found.reason:
        table.add_row("why", Text(found.reason))
    if found.before and found.after:
        table.add_row(old, revision_text(found.before))
        table.add_row(new, revision_text(found.after))
    if found.failure:
        numbers = numbers_text(found.failure)
        table.add_row("failure", Text(f"{found.failure.failure_class}: {found.failure.headline}"))
        if numbers:
            table.add_row("numbers", Text(numbers))
        table.add_row("signature", Text(found.failure.signature))
    for revision, failure in found.other_failures:
        table.add_row("another", Text(f"{revision.name} fails otherwise: {failure.failure_class}: {failure.headline}"))
    for revision, reason in found.untestable:
        table.add_row("untestable", Text(f"{revision.name}: {reason}"))
    checked = "both probed again, and agreed" if found.confirmed else "not confirmed"
    known = f", {found.cached} of them known before" if found.cached else ""
    table.add_row("certainty", f"{checked}; {found.probes} probes in {found.rounds} rounds{known}")
    lines.append(Padding(table, (0, 0, 0, 2)))
    lines.extend(Text(f"  {hint}", style="dim") for hint in hints(found))
    return Group(*lines)


def hints(found: Bisection) -> Iterable[str]:
    """What to do next where the answer is not one revision."""
    if found.answer is Answer.SUSPECTS and found.failure and found.other_failures:
        kin = {failure.family for _, failure in found.other_failures}
        if found.failure.family in kin:
            yield "The failure between has the same family: `--match family` follows it through its change of class."
        else:
            first = found.other_failures[0][0].name
            yield f"An older failure hides the change: `--bad {first}` bisects that one; `--match any` takes any for bad."


def night_blocks(night: Night) -> Iterable[RenderableType]:
    """A nightly: what regressed with its failure and origin, what was fixed, what changed, then the count."""
    yield Text.from_markup(f"[bold]{night.toolchain.name}[/] against [bold]{night.baseline.name}[/]: {len(night.pairs)} cases")
    titles = {
        Change.REGRESSED: ("Regressed", "bold red"),
        Change.CHANGED: ("Fails otherwise than before", "magenta"),
        Change.FIXED: ("Fixed", "green"),
        Change.KNOWN: ("Known failures", "cyan"),
    }
    for change, (title, style) in titles.items():
        if pairs := night.of(change):
            yield Text(f"\n{title} ({len(pairs)})", style=style)
            for pair in pairs:
                yield from _pair_lines(pair)
    for pair in night.slower:
        old, new = pair.baseline.measured.cpu_seconds, pair.probe.measured.cpu_seconds
        yield Text(f"  slower: {pair.name}: {old:.1f} s -> {new:.1f} s of CPU time", style="yellow")
    counts = ", ".join(f"{len(night.of(change))} {change.value}" for change in Change)
    yield Text(f"\n{counts}. {night.compiles} compiles, {night.cached} answers known before, {night.seconds:.1f} s.")


def _pair_lines(pair: Pair) -> Iterable[RenderableType]:
    failure = pair.failure
    yield Text.assemble("  ", (pair.name, "bold"), f"  {failure.failure_class}: {failure.headline}" if failure else "")
    if failure and failure.details:
        yield Text(f"      {numbers_text(failure)}", style="dim")
    for found in pair.bisections:
        verb = "came between" if found.kind is Kind.REGRESSION else "went away between"
        if found.before and found.after:
            sure = "" if found.confirmed else f" (one of {', '.join(one.name for one, _ in found.suspects)})"
            yield Text(f"      {verb} {revision_text(found.before)} and {revision_text(found.after)}{sure}")
        else:
            yield Text(f"      origin not found: {found.reason}")
