"""Remedies on a terminal and as JSON. Renderables only; nothing is printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from triage.model.outcome import Compiled, Failed, Probe, Untestable
from triage.model.revision import Revision
from triage.remedy.change import CaseChange, Neighbour, Rewritten, SetOption
from triage.remedy.cost import NUMBERS, differences, numbers
from triage.remedy.result import Check, NothingToRemedy, Remedies, Remedy
from triage.report.elements import headline_text
from triage.report.shapes import Json, failure_json, revision_json

_SHOWN = 8


def remedy_json(found: Remedies | NothingToRemedy) -> Json:
    """The answer of `triage remedy`."""
    if isinstance(found, NothingToRemedy):
        empty: Json = {"remedies": [], "tried": 0, "left": 0, "failure": None, "promising": [], "notes": []}
        return {**empty, "case": found.case.name, "toolchain": revision_json(found.revision), "reason": found.reason}
    return {
        "remedies": [_one_json(found, remedy) for remedy in found.found],
        "tried": found.tried,
        "left": found.left,
        "failure": failure_json(found.failure),
        "promising": [{**_change_json(change), "failure": failure_json(failure)} for change, failure in found.promising],
        "notes": list(found.notes),
        "case": found.case.name,
        "toolchain": revision_json(found.failing.revision),
        "reason": None if found.found else _nothing(found),
    }


def remedy_blocks(found: Remedies | NothingToRemedy) -> Iterable[RenderableType]:
    """The failure, each remedy with what it costs and breaks, and how much was tried; or why there is none."""
    if isinstance(found, NothingToRemedy):
        yield Text.assemble((found.case.name, "bold"), ": ", ("nothing to remedy", "yellow"), f", {found.reason}")
        return
    on = found.failing.revision.name
    count = f"{len(found.found)} remed{'y' if len(found.found) == 1 else 'ies'}" if found.found else "no remedy"
    yield Text.assemble((found.case.name, "bold"), f" on {on}: ", (count, "green" if found.found else "yellow"))
    facts = _table()
    facts.add_row("failure", Text(f"{found.failure.failure_class}: {headline_text(found.failure, 400)}"))
    yield Padding(facts, (0, 0, 0, 2))
    for number, remedy in enumerate(found.found[:_SHOWN], 1):
        yield Text.assemble(f"\n{number}  ", (remedy.change.text, "bold"))
        table = _table()
        table.add_row("what", Text(explanation(found, remedy)))
        table.add_row("cost", cost_text(remedy.probe))
        if price := price_text(remedy):
            table.add_row("price", price)
        for check in remedy.checks:
            table.add_row(check.remedied.revision.name, _check_text(check))
        yield Padding(table, (0, 0, 0, 3))
    yield from _endings(found)


def explanation(found: Remedies, remedy: Remedy) -> str:
    """One remedy in a sentence or two: what it does, how sure that is, and what it breaks."""
    change, on = remedy.change, remedy.probe.revision.name
    parts = [_sentence(change.why)] if change.why else []
    parts.append(f"It compiles on {on} with {'this' if len(change.steps) == 1 else 'these together'}.")
    if remedy.least:
        parts.append("A smaller value was seen to fail.")
    for step in change.steps:
        match step:
            case Neighbour():
                parts.append("It is another program that compiles, not the same one.")
            case SetOption():
                parts.append("The kernel has to be launched with it.")
            case Rewritten(path, another=another):
                parts += [another] if another else []
                parts.append(f"The changed program is {path}.")
            case _:
                pass
    if change.recomputes:
        parts.append("It computes in other types, so that results change.")
    if isinstance(remedy.probe.outcome, Compiled) and remedy.probe.outcome.warnings:
        parts.append(f"The compiler said all the same: {remedy.probe.outcome.warnings[0].headline}.")
    broken = [check.remedied for check in remedy.checks if check.breaks]
    parts += [f"It breaks {probe.revision.name}, which compiles without and {_state(probe)}." for probe in broken]
    if not remedy.checks and remedy in found.found:
        parts.append("It was tried on no other compiler.")
    return " ".join(parts)


def cost_text(probe: Probe) -> str:
    """What a compile took and left behind; CPU seconds of one run, which differ from run to run."""
    size = probe.measured.metrics.get("artifact_bytes")
    parts = [f"{probe.measured.cpu_seconds:.1f} s of CPU to compile"]
    if size is not None:
        parts.append(f"{size:.0f} bytes written")
    return ", ".join(
        [*parts, *(_number(name, _plain(name, value) + _spread(name, probe)) for name, value in numbers(probe).items())]
    )


def price_text(remedy: Remedy) -> str:
    """What the remedy changes beside a compiler that needs none; empty where there is none, or no number of it."""
    check = next((one for one in remedy.checks if isinstance(one.plain.outcome, Compiled)), None)
    if check is None or not numbers(check.plain):
        return ""
    there, here = check.plain.revision.name, remedy.probe.revision.name
    parts = [f"from {there} without it to {here} with it: {_changes(check.plain, remedy.probe)}"]
    if isinstance(check.remedied.outcome, Compiled):
        parts.append(f"on {there} alone: {_changes(check.plain, check.remedied)}")
    return "; ".join(parts)


def _changes(before: Probe, after: Probe) -> str:
    told = (
        _number(name, f"{_plain(name, old)} -> {_plain(name, new)}") for name, (old, new) in differences(before, after).items()
    )
    return ", ".join(told) or "nothing"


def _plain(name: str, value: float) -> str:
    return f"{value:.3g}" if name == "run_ms" and value < 100 else f"{value:.0f}"


def _spread(name: str, probe: Probe) -> str:
    """Within what bounds a measured number lay."""
    if name != "run_ms":
        return ""
    metrics = probe.measured.metrics
    return f" ({_plain(name, metrics['run_ms_least'])} to {_plain(name, metrics['run_ms_most'])})"


def _number(name: str, value: str) -> str:
    called, unit = NUMBERS[name]
    return f"{called} {value}{unit}"


def candidates_lines(found: Sequence[CaseChange], commands: Iterable[str]) -> Iterable[str]:
    """What a dry run prints: each candidate with its reason, and the command line below it."""
    for change, command in zip(found, commands, strict=True):
        yield f"# {change.text}{f': {change.why}' if change.why else ''}"
        yield command


def _one_json(found: Remedies, remedy: Remedy) -> Json:
    return {
        **_change_json(remedy.change),
        "verified_on": _revisions(remedy.verified_on),
        "breaks": _revisions(remedy.breaks),
        "explanation": explanation(found, remedy),
        "smallest": remedy.least,
        "only_silences_a_check": remedy.change.checks_less,
        "computes_in_other_types": remedy.change.recomputes,
        "cost": _cost_json(remedy.probe),
        "checks": [
            {
                "revision": revision_json(check.remedied.revision),
                "without": _state(check.plain),
                "with": _state(check.remedied),
                "cost_without": _cost_json(check.plain),
                "cost_with": _cost_json(check.remedied),
            }
            for check in remedy.checks
        ],
    }


def _cost_json(probe: Probe) -> Json | None:
    """None where it does not compile; a number that was not measured is null."""
    if not isinstance(probe.outcome, Compiled):
        return None
    measured = probe.measured
    return {
        "cpu_seconds": measured.cpu_seconds,
        "seconds": measured.seconds,
        "peak_rss_mb": measured.peak_rss_mb,
        **{
            name: measured.metrics.get(name)
            for name in ("artifact_bytes", "binary_bytes", *NUMBERS, "run_ms_least", "run_ms_most")
        },
    }


def _change_json(change: CaseChange) -> Json:
    return {
        "flags": list(change.flags),
        "dropped_flags": list(change.dropped),
        "input_change": change.input_change,
        "input": next((str(step.path) for step in change.steps if isinstance(step, Rewritten)), None),
    }


def _revisions(found: Iterable[Revision]) -> list[Json | None]:
    return [revision_json(one) for one in found]


def _endings(found: Remedies) -> Iterable[RenderableType]:
    if len(found.found) > _SHOWN:
        yield Text(f"\nand {len(found.found) - _SHOWN} more:", style="dim")
        for remedy in found.found[_SHOWN:]:
            yield Text(f"  {remedy.change.text}", style="dim")
    if not found.found:
        yield Text(f"\n{_nothing(found)}")
        for change, failure in found.promising[:_SHOWN]:
            yield Text(f"  {change.text} leads to {failure.failure_class}: {headline_text(failure)}", style="dim")
    yield Text(f"\n{found.tried} candidate{'' if found.tried == 1 else 's'} tried", style="dim")
    for note in found.notes:
        yield Text(note, style="yellow")


def _nothing(found: Remedies) -> str:
    left = f"; the budget left {found.left} untried" if found.left else ""
    return f"None of {found.tried} candidates makes it compile{left}."


def _check_text(check: Check) -> Text:
    before, after = _state(check.plain), _state(check.remedied)
    if check.breaks:
        return Text(f"breaks: without compiles, with the remedy {after}", style="red")
    return Text(f"without {before}, with the remedy {after}")


def _state(probe: Probe) -> str:
    match probe.outcome:
        case Compiled():
            return "compiles"
        case Failed(failure):
            return f"fails: {failure.failure_class}"
        case Untestable(reason=reason):
            return reason if reason.startswith("does not") else f"untestable: {reason}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _table() -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table
