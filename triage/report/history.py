"""The report of `triage history`: each case's status across releases, and its changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from triage.bisect.history import History, HistoryState, StatusChange, plain_status
from triage.bisect.result import ReleaseBranch
from triage.git_history import Branch
from triage.model.outcome import Compiled, Failed, Probe, Untestable
from triage.model.revision import Revision
from triage.report.branches import branch_facts
from triage.report.document import Document
from triage.report.elements import facts_table, failure_text, plural
from triage.report.registry import Report
from triage.report.runs import GridRow, grid
from triage.report.shapes import FailureShape, Shape, failure_in, reason_in
from triage.report.terminal import terminal


@dataclass(frozen=True)
class StatusChangeShape(Shape):
    """Two neighbouring versions with different outcomes."""

    before: Revision
    after: Revision
    from_: str
    to: str
    from_failure: FailureShape | None
    to_failure: FailureShape | None


@dataclass(frozen=True)
class HistoryStateShape(Shape):
    """The first and the last of neighbouring probed versions with the same outcome. `reason`: why they are untestable."""

    first: str
    last: str
    status: str
    failure: FailureShape | None
    reason: str | None


@dataclass(frozen=True)
class CaseHistoryShape(Shape):
    """One case across versions. The mappings hold the versions that were probed."""

    case: str
    recipe: str
    changes: list[StatusChangeShape]
    failure_changes: list[StatusChangeShape]
    statuses: dict[str, str]
    failures: dict[str, FailureShape | None]
    reasons: dict[str, str]
    states: list[HistoryStateShape]
    compiles: int


@dataclass(frozen=True)
class HistoryShape(Shape):
    """JSON of `triage history`."""

    cases: list[CaseHistoryShape]
    branches: Sequence[ReleaseBranch] = ()


@dataclass(frozen=True, slots=True)
class HistoryReport(Report):
    """The histories of each compiler family's cases, with the family's versions.

    `branches` are those of releases where a status changes.
    """

    families: Sequence[tuple[Sequence[str], Sequence[History]]]
    branches: Sequence[Branch] = ()

    def shape(self) -> HistoryShape:
        cases = [_case_history(history) for _, histories in self.families for history in histories]
        return HistoryShape(cases, list(map(ReleaseBranch.of, self.branches)))

    def blocks(self) -> Iterable[RenderableType]:
        """Show the grid, each change, and how many compiles were needed."""
        for versions, histories in self.families:
            rows: list[GridRow] = []
            for history in histories:
                probed = {probe.revision.name: probe for probe in history.probes}
                rows.append((history.case.name, [probed.get(version) for version in versions]))
            yield from terminal(Document("", grid(rows, versions)))
            for history in histories:
                changes = (*history.changes, *history.failure_changes)
                failures = [state for state in history.states if isinstance(state.first.outcome, Failed)]
                if changes or failures:
                    yield Text(f"\n{history.case.name}", style="bold")
                for change in sorted(changes, key=lambda change: versions.index(change.after.revision.name)):
                    names = f"{change.before.revision.name} -> {change.after.revision.name}"
                    yield Text(f"  {names}: {_state(change.before)} -> {_state(change.after)}")
                if failures:
                    yield facts_table(map(_failing_state, failures))
            yield from _untestable(histories)
            compiles = sum(history.compiles for history in histories)
            probes = sum(len(history.probes) for history in histories)
            total = len(histories) * len(versions)
            yield Text(f"\nprobed {probes} of {plural(total, 'pair')} of case and version with {plural(compiles, 'compile')}")
        if self.branches:
            yield facts_table(branch_facts(map(ReleaseBranch.of, self.branches)))


def _case_history(history: History) -> CaseHistoryShape:
    outcomes = {probe.revision.name: probe.outcome for probe in history.probes}
    return CaseHistoryShape(
        case=history.case.name,
        recipe=history.case.recipe,
        changes=list(map(_change, history.changes)),
        failure_changes=list(map(_change, history.failure_changes)),
        statuses={name: plain_status(outcome) for name, outcome in outcomes.items()},
        failures={name: failure_in(outcome) for name, outcome in outcomes.items() if not isinstance(outcome, Compiled)},
        reasons={name: reason for name, outcome in outcomes.items() if (reason := reason_in(outcome)) is not None},
        states=list(map(_state_shape, history.states)),
        compiles=history.compiles,
    )


def _state_shape(state: HistoryState) -> HistoryStateShape:
    outcome = state.first.outcome
    return HistoryStateShape(
        first=state.first.revision.name,
        last=state.last.revision.name,
        status=plain_status(outcome),
        failure=failure_in(outcome),
        reason=reason_in(outcome),
    )


def _change(change: StatusChange) -> StatusChangeShape:
    before, after = change.before, change.after
    return StatusChangeShape(
        before=before.revision,
        after=after.revision,
        from_=plain_status(before.outcome),
        to=plain_status(after.outcome),
        from_failure=failure_in(before.outcome),
        to_failure=failure_in(after.outcome),
    )


def _state(probe: Probe) -> str:
    outcome = probe.outcome
    if isinstance(outcome, Compiled) or outcome.failure is None:
        return plain_status(outcome)
    return f"{plain_status(outcome)} ({outcome.failure.failure_class})"


def _span(state: HistoryState) -> str:
    first, last = state.first.revision.name, state.last.revision.name
    return first if first == last else f"{first} .. {last}"


def _failing_state(state: HistoryState) -> tuple[str, Text]:
    """Return the versions of a failure, with its headline and its signature."""
    outcome = state.first.outcome
    assert isinstance(outcome, Failed)
    text = Text(failure_text(outcome.failure))
    text.append(f"\n{outcome.failure.signature}", style="dim")
    return _span(state), text


def _untestable(histories: Sequence[History]) -> Iterable[RenderableType]:
    """Show each reason once, with the cases and versions that could not be tested."""
    reasons: dict[str, list[str]] = {}
    for history in histories:
        for state in history.states:
            if isinstance(state.first.outcome, Untestable):
                reasons.setdefault(state.first.outcome.reason, []).append(f"{history.case.name} on {_span(state)}")
    if reasons:
        yield Text("\nuntestable", style="bold")
    for reason, where in reasons.items():
        yield Text(f"  {reason}")
        yield Text(f"    {', '.join(where)}", style="dim")
