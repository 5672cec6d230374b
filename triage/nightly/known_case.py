"""Everything known of a case: its nights, its state on every toolchain that it ran on,
its last output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from packaging.version import Version

from triage.execution.cache import Record, ResultCache
from triage.execution.judge import compiler_rules, judge
from triage.model.errors import BadInput
from triage.model.outcome import ProbeResult, Status
from triage.model.revision import Revision
from triage.nightly.failure_life import FailureLife, failure_lives
from triage.nightly.history import CaseHistory, NightsHistory
from triage.nightly.store import NightStore
from triage.recipes.values import parse_version


@dataclass(frozen=True, kw_only=True)
class CaseRun(ProbeResult):
    """Nights in which a case had the same result: the first of them, and the last."""

    first: str
    last: str
    last_toolchain: Revision
    track: str
    is_edited: bool
    """The input changed just before this result."""


@dataclass(frozen=True)
class KnownCase:
    """Everything known of a case."""

    case: str
    runs: Sequence[CaseRun]
    """The newest of each track first."""
    flaky_changes: int
    """Changes of its state without a change of the compiler."""
    states: Sequence[ProbeResult]
    """The cached result on each toolchain, whatever the recipe expects, the newest
    release first.
    """
    failures: Sequence[FailureLife]
    log: str | None
    """The output of its last failure that a night kept."""


def known_case(
    name: str, store: NightStore, history: NightsHistory, results: ResultCache
) -> KnownCase:
    """Collect what is known of the case with a name. Raises BadInput if nothing is."""
    records = results.newest_of(name)
    cases = [case for case in history.cases if case.case == name]
    if not cases and not records:
        raise BadInput(
            f"nothing is known of a case {name!r}; `triage run` or `triage nightly` "
            "tests it"
        )
    lives = failure_lives(history, store.issues())
    logs = (log for case in cases for _, log in night_logs(store, history, case))
    oldest = Version("0")
    states = sorted(
        map(_state_of, records),
        key=lambda state: parse_version(state.toolchain.name) or oldest,
        reverse=True,
    )
    return KnownCase(
        case=name,
        runs=[run for case in cases for run in case_runs(history, case)],
        flaky_changes=sum(map(history.flaky_changes, cases)),
        states=states,
        failures=[life for life in lives if not set(cases).isdisjoint(life.cases)],
        log=next(logs, None),
    )


def case_runs(history: NightsHistory, case: CaseHistory) -> list[CaseRun]:
    """Return the runs of equal results of a case, the newest first."""
    runs = []
    for run in reversed(case.runs):
        first, last = (history.nights[night] for night in (run.first, run.last))
        case_run = CaseRun(
            case=case.case,
            recipe=case.case.partition("[")[0],
            toolchain=first.toolchain,
            status=run.status,
            failure=run.failure,
            first=first.started,
            last=last.started,
            last_toolchain=last.toolchain,
            track=case.track.name,
            is_edited=run.is_edited,
        )
        runs.append(case_run)
    return runs


def night_logs(
    store: NightStore, history: NightsHistory, case: CaseHistory
) -> Iterator[tuple[int, str]]:
    """Yield the output of each new failure of a case that was stored with its night,
    the newest first, and the night.
    """
    for run in reversed(case.runs):
        for number in (run.last, run.first) if run.failed else ():
            night = history.nights[number]
            results = [result for result in night.cases if result.case == case.case]
            text = None
            if results:
                text = store.log(history.numbers[number], results[0].log or "")
            if text is not None:
                yield number, text
                break


def _state_of(record: Record) -> ProbeResult:
    outcome = judge(record.execution, compiler_rules(), record.failing_pass)
    return ProbeResult(
        case=record.case_name,
        recipe=record.case_name.partition("[")[0],
        toolchain=Revision(record.toolchain),
        status=Status(outcome.plain_status),
        failure=outcome.failure,
        reason=outcome.reason,
        cause=outcome.cause,
        seconds=record.execution.seconds,
        metrics=record.execution.metrics,
    )
