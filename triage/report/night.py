"""A nightly on a terminal. Renderables only; nothing is printed."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from triage.bisect.result import BisectKind
from triage.nightly.compare import CaseChangeKind, Night, Pair
from triage.report.words import example_text, headline_text, numbers_text, revision_text


def night_blocks(night: Night) -> Iterable[RenderableType]:
    """A nightly: what regressed with its failure and origin, what was fixed, what changed, then the count."""
    count = f"{len(night.pairs)} case{'' if len(night.pairs) == 1 else 's'}"
    yield Text.from_markup(f"[bold]{night.toolchain.name}[/] against [bold]{night.baseline.name}[/]: {count}")
    titles = {
        CaseChangeKind.REGRESSED: ("Regressed", "bold red"),
        CaseChangeKind.CHANGED: ("Fails otherwise than before", "magenta"),
        CaseChangeKind.FIXED: ("Fixed", "green"),
        CaseChangeKind.KNOWN: ("Known failures", "cyan"),
    }
    for change, (title, style) in titles.items():
        if pairs := night.of(change):
            yield Text(f"\n{title} ({len(pairs)})", style=style)
            for pair in pairs:
                yield from _pair_lines(pair)
                if example := night.example_of(pair):
                    yield Text(f"      {example_text(example, pair.name)}")
    for pair in night.slower:
        old, new = pair.baseline.measured.cpu_seconds, pair.probe.measured.cpu_seconds
        yield Text(f"  slower: {pair.name}: {old:.1f} s -> {new:.1f} s of CPU time", style="yellow")
    counts = ", ".join(f"{len(night.of(change))} {change.value}" for change in CaseChangeKind)
    yield Text(f"\n{counts}. {night.compiles} compiles, {night.cached} answers known before, {night.seconds:.1f} s.")


def _pair_lines(pair: Pair) -> Iterable[RenderableType]:
    failure = pair.failure
    yield Text.assemble("  ", (pair.name, "bold"), f"  {failure.failure_class}: {headline_text(failure)}" if failure else "")
    if failure and failure.details:
        yield Text(f"      {numbers_text(failure)}", style="dim")
    for found in pair.bisections:
        verb = "came between" if found.kind is BisectKind.REGRESSION else "went away between"
        if found.before and found.after:
            sure = "" if found.confirmed else f" (one of {', '.join(one.name for one, _ in found.suspects)})"
            yield Text(f"      {verb} {revision_text(found.before)} and {revision_text(found.after)}{sure}")
        else:
            yield Text(f"      origin not found: {found.reason}")
