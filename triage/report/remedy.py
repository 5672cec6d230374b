"""Report of `triage remedy`: text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from triage.model.outcome import Compiled, Failed, Probe, Untestable
from triage.model.revision import Revision
from triage.remedy.change import CaseChange, Neighbour, RewrittenInput, SetOption
from triage.remedy.result import COST_METRICS, NothingToRemedy, Remedies, Remedy, RemedyCheck, cost_differences, cost_of
from triage.report.elements import facts_table, failure_text, plural
from triage.report.registry import Report
from triage.report.shapes import FailureShape, Shape, failure_shape

_MAX_REMEDIES = 8  # on a terminal with all details


@dataclass(frozen=True)
class CostShape(Shape):
    """The cost of a compile; metrics that were not measured are null. `time_ratio`: of the metric, to the good toolchain."""

    cpu_seconds: float
    seconds: float
    peak_rss_mb: float
    artifact_bytes: float | None
    binary_bytes: float | None
    run_ms: float | None
    dispatches: float | None
    shared_bytes: float | None
    spill_bytes: float | None
    registers: float | None
    run_ms_least: float | None
    run_ms_most: float | None
    time_ratio: float | None
    time_ratio_low: float | None
    time_ratio_high: float | None


@dataclass(frozen=True)
class RemedyCheckShape(Shape):
    """A remedy on another revision; costs are null where the case does not compile."""

    revision: Revision
    without: str
    with_: str
    cost_without: CostShape | None
    cost_with: CostShape | None


@dataclass(frozen=True)
class PromisingShape(Shape):
    """A change that leads to another failure. `input`: the path of a rewritten input."""

    flags: list[str]
    dropped_flags: list[str]
    input_change: str | None
    input: str | None
    failure: FailureShape


@dataclass(frozen=True)
class RemedyShape(Shape):
    """A remedy. `smallest`: the next smaller value fails; `input`: the path of a rewritten input."""

    flags: list[str]
    dropped_flags: list[str]
    input_change: str | None
    input: str | None
    verified_on: list[Revision]
    breaks: list[Revision]
    explanation: str
    smallest: bool
    only_silences_a_check: bool
    computes_in_other_types: bool
    cost: CostShape | None
    checks: list[RemedyCheckShape]


@dataclass(frozen=True)
class RemediesShape(Shape):
    """JSON of `triage remedy`. `left`: candidates that the budget left untried; `reason`: why there is no remedy."""

    remedies: list[RemedyShape]
    tried: int
    left: int
    failure: FailureShape | None
    promising: list[PromisingShape]
    notes: list[str]
    case: str
    toolchain: Revision
    reason: str | None


@dataclass(frozen=True, slots=True)
class RemedyReport(Report):
    """The remedies of a case, or why there is nothing to remedy."""

    found: Remedies | NothingToRemedy

    def shape(self) -> RemediesShape:
        found = self.found
        if isinstance(found, NothingToRemedy):
            return RemediesShape([], 0, 0, None, [], [], found.case.name, found.revision, found.reason)
        return RemediesShape(
            [remedy_shape(remedy) for remedy in found.found],
            found.tried,
            found.left,
            failure_shape(found.failure),
            [
                PromisingShape(
                    list(change.flags),
                    list(change.dropped),
                    change.input_change,
                    _input_path(change),
                    failure_shape(failure),
                )
                for change, failure in found.promising
            ],
            list(found.notes),
            found.case.name,
            found.failing.revision,
            None if found.found else _none_found(found),
        )

    def blocks(self) -> Iterable[RenderableType]:
        """Show the failure, each remedy with its cost and effect elsewhere, and the number of candidates tried."""
        found = self.found
        if isinstance(found, NothingToRemedy):
            yield Text.assemble((found.case.name, "bold"), ": ", ("nothing to remedy", "yellow"), f", {found.reason}")
            return
        on = found.failing.revision.name
        count = plural(len(found.found), "remedy", "remedies") if found.found else "no remedy"
        yield Text.assemble((found.case.name, "bold"), f" on {on}: ", (count, "green" if found.found else "yellow"))
        yield facts_table([("failure", failure_text(found.failure, 400))])
        for number, remedy in enumerate(found.found[:_MAX_REMEDIES], 1):
            yield Text.assemble(f"\n{number}  ", (remedy.change.text, "bold"))
            facts: list[tuple[str, str | Text]] = [("effect", explanation(remedy)), ("cost", cost_text(remedy.probe))]
            if changes := cost_changes_text(remedy):
                facts.append(("changes", changes))
            facts += [(check.remedied.revision.name, _check_text(check)) for check in remedy.checks]
            yield Padding(facts_table(facts), (0, 0, 0, 1))
        yield from _closing(found)


def explanation(remedy: Remedy) -> str:
    """Return a few sentences: what the remedy does, how certain that is, and what it breaks."""
    change, on = remedy.change, remedy.probe.revision.name
    parts = [f"{change.why[:1].upper()}{change.why[1:]}."] if change.why else []
    does = "computes what it must" if remedy.probe.case.run else "compiles"
    parts.append(f"The case {does} on {on} with {'this change' if len(change.steps) == 1 else 'these changes together'}.")
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
    metrics = probe.measured.metrics
    parts = [f"{probe.measured.cpu_seconds:.1f} s of CPU to compile"]
    if "artifact_bytes" in metrics:
        parts.append(f"{metrics['artifact_bytes']:.0f} bytes written")
    for name, value in cost_of(probe).items():
        text = _number(name, value)
        if name == "run_ms":  # measured several times
            text += f" ({_number(name, metrics['run_ms_least'])} to {_number(name, metrics['run_ms_most'])})"
        parts.append(_metric(name, text))
    if "time_ratio" in metrics:
        ratio, low, high = (metrics[f"time_ratio{end}"] for end in ("", "_low", "_high"))
        parts.append(f"{ratio:.2f} [{low:.2f}, {high:.2f}] times as long as on the good toolchain")
    return ", ".join(parts)


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


def _metric(name: str, value: str) -> str:
    label, unit = COST_METRICS[name]
    return f"{label} {value}{unit}"


def planned_lines(changes: Sequence[CaseChange], commands: Iterable[str]) -> Iterable[str]:
    """Yield the lines of a dry run: each change with its reason, then its command line."""
    for change, command in zip(changes, commands, strict=True):
        yield f"# {change.text}{f': {change.why}' if change.why else ''}"
        yield command


def remedy_shape(remedy: Remedy) -> RemedyShape:
    """Convert a remedy."""
    change = remedy.change
    return RemedyShape(
        flags=list(change.flags),
        dropped_flags=list(change.dropped),
        input_change=change.input_change,
        input=_input_path(change),
        verified_on=list(remedy.verified_on),
        breaks=list(remedy.breaks),
        explanation=explanation(remedy),
        smallest=remedy.smallest,
        only_silences_a_check=change.checks_less,
        computes_in_other_types=change.recomputes,
        cost=_cost_shape(remedy.probe),
        checks=[
            RemedyCheckShape(
                check.remedied.revision,
                _state(check.without),
                _state(check.remedied),
                _cost_shape(check.without),
                _cost_shape(check.remedied),
            )
            for check in remedy.checks
        ],
    )


def _cost_shape(probe: Probe) -> CostShape | None:
    if not isinstance(probe.outcome, Compiled):
        return None
    measured = probe.measured
    ratios = ("time_ratio", "time_ratio_low", "time_ratio_high")
    names = ("artifact_bytes", "binary_bytes", *COST_METRICS, "run_ms_least", "run_ms_most", *ratios)
    metrics = {name: measured.metrics.get(name) for name in names}
    return CostShape(measured.cpu_seconds, measured.seconds, measured.peak_rss_mb, **metrics)


def _input_path(change: CaseChange) -> str | None:
    return next((str(step.path) for step in change.steps if isinstance(step, RewrittenInput)), None)


def _closing(found: Remedies) -> Iterable[RenderableType]:
    if len(found.found) > _MAX_REMEDIES:
        yield Text(f"\nand {len(found.found) - _MAX_REMEDIES} more:", style="dim")
        for remedy in found.found[_MAX_REMEDIES:]:
            yield Text(f"  {remedy.change.text}", style="dim")
    if not found.found:
        yield Text(f"\n{_none_found(found)}")
        for change, failure in found.promising[:_MAX_REMEDIES]:
            yield Text(f"  {change.text} leads to {failure_text(failure)}", style="dim")
    yield Text(f"\n{plural(found.tried, 'candidate')} tried", style="dim")
    for note in found.notes:
        yield Text(note, style="yellow")


def _none_found(found: Remedies) -> str:
    left = f"; {found.left} more exceed the budget (--budget)" if found.left else ""
    is_slow = found.failure.failure_class == "metric"
    does = "fast enough" if is_slow else "return the expected results" if found.case.run else "compile"
    return f"None of {found.tried} candidates makes it {does}{left}."


def _check_text(check: RemedyCheck) -> Text:
    if check.breaks:
        return Text(f"breaks: {_state(check.without)} without the remedy, {_state(check.remedied)} with it", style="red")
    return Text(f"{_state(check.without)} without the remedy, {_state(check.remedied)} with it")


def _state(probe: Probe) -> str:
    match probe.outcome:
        case Compiled():
            return "right" if probe.case.run else "compiles"
        case Failed(failure):
            return f"fails: {failure.failure_class}"
        case Untestable(reason=reason):
            return reason if reason.startswith("does not") else f"untestable: {reason}"
