"""Remedies on a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from triage.model.outcome import Compiled, Failed, Probe, Untestable
from triage.model.revision import Revision
from triage.remedy.change import CaseChange, Neighbour, RewrittenInput, SetOption
from triage.remedy.result import COST_METRICS, NothingToRemedy, Remedies, Remedy, RemedyCheck, cost_differences, cost_of
from triage.report.elements import headline_text
from triage.report.shapes import Json, failure_json, revision_json

_MAX_REMEDIES = 8  # on a terminal with all details


def remedy_json(found: Remedies | NothingToRemedy) -> Json:
    """Return the JSON answer of `triage remedy`."""
    if isinstance(found, NothingToRemedy):
        empty: Json = {"remedies": [], "tried": 0, "left": 0, "failure": None, "promising": [], "notes": []}
        return {**empty, "case": found.case.name, "toolchain": revision_json(found.revision), "reason": found.reason}
    return {
        "remedies": [_remedy_json(remedy) for remedy in found.found],
        "tried": found.tried,
        "left": found.left,
        "failure": failure_json(found.failure),
        "promising": [{**_change_json(change), "failure": failure_json(failure)} for change, failure in found.promising],
        "notes": list(found.notes),
        "case": found.case.name,
        "toolchain": revision_json(found.failing.revision),
        "reason": None if found.found else _none_found(found),
    }


def remedy_blocks(found: Remedies | NothingToRemedy) -> Iterable[RenderableType]:
    """Yield the failure, each remedy with its cost and effect elsewhere, and the number of candidates tried."""
    if isinstance(found, NothingToRemedy):
        yield Text.assemble((found.case.name, "bold"), ": ", ("nothing to remedy", "yellow"), f", {found.reason}")
        return
    on = found.failing.revision.name
    count = f"{len(found.found)} remed{'y' if len(found.found) == 1 else 'ies'}" if found.found else "no remedy"
    yield Text.assemble((found.case.name, "bold"), f" on {on}: ", (count, "green" if found.found else "yellow"))
    facts = _table()
    facts.add_row("failure", Text(f"{found.failure.failure_class}: {headline_text(found.failure, 400)}"))
    yield Padding(facts, (0, 0, 0, 2))
    for number, remedy in enumerate(found.found[:_MAX_REMEDIES], 1):
        yield Text.assemble(f"\n{number}  ", (remedy.change.text, "bold"))
        table = _table()
        table.add_row("effect", Text(explanation(remedy)))
        table.add_row("cost", cost_text(remedy.probe))
        if changes := cost_changes_text(remedy):
            table.add_row("changes", changes)
        for check in remedy.checks:
            table.add_row(check.remedied.revision.name, _check_text(check))
        yield Padding(table, (0, 0, 0, 3))
    yield from _closing(found)


def explanation(remedy: Remedy) -> str:
    """Return a few sentences: what the remedy does, how certain that is, and what it breaks."""
    change, on = remedy.change, remedy.probe.revision.name
    parts = [f"{change.why[:1].upper()}{change.why[1:]}."] if change.why else []
    parts.append(f"The case compiles on {on} with {'this change' if len(change.steps) == 1 else 'these changes together'}.")
    if remedy.smallest:
        parts.append("The next smaller value fails.")
    for step in change.steps:
        match step:
            case Neighbour():
                parts.append("This is a different program.")
            case SetOption():
                parts.append("The kernel must be launched with this option.")
            case RewrittenInput(path, caveat=caveat):
                parts += [caveat] if caveat else []
                parts.append(f"The changed program is {path}.")
            case _:
                pass
    if change.recomputes:
        parts.append("It computes in other types, so results change.")
    if isinstance(remedy.probe.outcome, Compiled) and remedy.probe.outcome.warnings:
        parts.append(f"The compiler still warns: {remedy.probe.outcome.warnings[0].headline}.")
    broken = [check.remedied for check in remedy.checks if check.breaks]
    parts += [f"It breaks {probe.revision.name}, where the case compiles without it and {_state(probe)}." for probe in broken]
    if not remedy.checks:
        parts.append("It was not tried on another compiler.")
    return " ".join(parts)


def cost_text(probe: Probe) -> str:
    """Return the cost of a compile: CPU seconds of one run, bytes written, and the cost metrics."""
    size = probe.measured.metrics.get("artifact_bytes")
    parts = [f"{probe.measured.cpu_seconds:.1f} s of CPU to compile"]
    if size is not None:
        parts.append(f"{size:.0f} bytes written")
    return ", ".join(
        [*parts, *(_metric(name, _number(name, value) + _spread(name, probe)) for name, value in cost_of(probe).items())]
    )


def cost_changes_text(remedy: Remedy) -> str:
    """Return how the remedy changes the cost compared with a compiler that needs none; empty if unknown."""
    check = next((check for check in remedy.checks if isinstance(check.without.outcome, Compiled)), None)
    if check is None or not cost_of(check.without):
        return ""
    there, here = check.without.revision.name, remedy.probe.revision.name
    parts = [f"from {there} without it to {here} with it: {_changes(check.without, remedy.probe)}"]
    if isinstance(check.remedied.outcome, Compiled):
        parts.append(f"on {there} alone: {_changes(check.without, check.remedied)}")
    return "; ".join(parts)


def _changes(before: Probe, after: Probe) -> str:
    changes = (
        _metric(name, f"{_number(name, old)} -> {_number(name, new)}")
        for name, (old, new) in cost_differences(before, after).items()
    )
    return ", ".join(changes) or "nothing"


def _number(name: str, value: float) -> str:
    return f"{value:.3g}" if name == "run_ms" and value < 100 else f"{value:.0f}"


def _spread(name: str, probe: Probe) -> str:
    """Return the range of a measured run time."""
    if name != "run_ms":
        return ""
    metrics = probe.measured.metrics
    return f" ({_number(name, metrics['run_ms_least'])} to {_number(name, metrics['run_ms_most'])})"


def _metric(name: str, value: str) -> str:
    label, unit = COST_METRICS[name]
    return f"{label} {value}{unit}"


def planned_lines(changes: Sequence[CaseChange], commands: Iterable[str]) -> Iterable[str]:
    """Yield the lines of a dry run: each change with its reason, then its command line."""
    for change, command in zip(changes, commands, strict=True):
        yield f"# {change.text}{f': {change.why}' if change.why else ''}"
        yield command


def _remedy_json(remedy: Remedy) -> Json:
    return {
        **_change_json(remedy.change),
        "verified_on": _revisions(remedy.verified_on),
        "breaks": _revisions(remedy.breaks),
        "explanation": explanation(remedy),
        "smallest": remedy.smallest,
        "only_silences_a_check": remedy.change.checks_less,
        "computes_in_other_types": remedy.change.recomputes,
        "cost": _cost_json(remedy.probe),
        "checks": [
            {
                "revision": revision_json(check.remedied.revision),
                "without": _state(check.without),
                "with": _state(check.remedied),
                "cost_without": _cost_json(check.without),
                "cost_with": _cost_json(check.remedied),
            }
            for check in remedy.checks
        ],
    }


def _cost_json(probe: Probe) -> Json | None:
    """Return the cost; None if the case does not compile. Metrics that were not measured are null."""
    if not isinstance(probe.outcome, Compiled):
        return None
    measured = probe.measured
    names = ("artifact_bytes", "binary_bytes", *COST_METRICS, "run_ms_least", "run_ms_most")
    return {
        "cpu_seconds": measured.cpu_seconds,
        "seconds": measured.seconds,
        "peak_rss_mb": measured.peak_rss_mb,
        **{name: measured.metrics.get(name) for name in names},
    }


def _change_json(change: CaseChange) -> Json:
    return {
        "flags": list(change.flags),
        "dropped_flags": list(change.dropped),
        "input_change": change.input_change,
        "input": next((str(step.path) for step in change.steps if isinstance(step, RewrittenInput)), None),
    }


def _revisions(revisions: Iterable[Revision]) -> list[Json | None]:
    return [revision_json(revision) for revision in revisions]


def _closing(found: Remedies) -> Iterable[RenderableType]:
    if len(found.found) > _MAX_REMEDIES:
        yield Text(f"\nand {len(found.found) - _MAX_REMEDIES} more:", style="dim")
        for remedy in found.found[_MAX_REMEDIES:]:
            yield Text(f"  {remedy.change.text}", style="dim")
    if not found.found:
        yield Text(f"\n{_none_found(found)}")
        for change, failure in found.promising[:_MAX_REMEDIES]:
            yield Text(f"  {change.text} leads to {failure.failure_class}: {headline_text(failure)}", style="dim")
    yield Text(f"\n{found.tried} candidate{'' if found.tried == 1 else 's'} tried", style="dim")
    for note in found.notes:
        yield Text(note, style="yellow")


def _none_found(found: Remedies) -> str:
    left = f"; {found.left} more exceed the budget (--budget)" if found.left else ""
    return f"None of {found.tried} candidates makes it compile{left}."


def _check_text(check: RemedyCheck) -> Text:
    if check.breaks:
        return Text(f"breaks: compiles without the remedy, {_state(check.remedied)} with it", style="red")
    return Text(f"{_state(check.without)} without the remedy, {_state(check.remedied)} with it")


def _state(probe: Probe) -> str:
    match probe.outcome:
        case Compiled():
            return "compiles"
        case Failed(failure):
            return f"fails: {failure.failure_class}"
        case Untestable(reason=reason):
            return reason if reason.startswith("does not") else f"untestable: {reason}"


def _table() -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table
