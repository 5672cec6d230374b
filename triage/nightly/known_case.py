"""Everything known of a case: its nights, its state on every toolchain that it ran on,
its last output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from triage.classify import packaged_rules
from triage.compilers.invocation import readable_output
from triage.execution.cache import Record, ResultCache
from triage.execution.judge import judge, judge_mismatch
from triage.model.errors import BadInput
from triage.model.outcome import Failure, Outcome, Status
from triage.model.probe_result import ProbeResult
from triage.model.revision import Revision
from triage.nightly.failure_life import FailureLife, failure_lives
from triage.nightly.history import CaseHistory, NightsHistory
from triage.nightly.store import NightStore
from triage.recipes.values import parse_version
from triage.reduce.reproducer import without_paths

_NO_NAMES: Mapping[Path, str] = {}
# lines of a log that are shown, and those before the root cause
_LINES, _BEFORE = 400, 20


@dataclass(frozen=True)
class LogExcerpt:
    """A part of the output of a compiler."""

    toolchain: str
    lines: list[str]
    root: int | None
    """Index of the line with the root cause, if it is known."""


@dataclass(frozen=True, kw_only=True)
class CaseRun(ProbeResult):
    """Nights in which a case had the same result: the first of them, and the last."""

    first: str
    last: str
    nights: int
    last_toolchain: Revision
    track: str


@dataclass(frozen=True, slots=True)
class CaseState:
    """The last result of a case in a track."""

    track: str
    status: Status
    since: str
    """The day of the first night with this result."""
    toolchain: Revision
    """The toolchain of that night."""
    is_edited: bool
    """The input changed before this result."""
    flaky_changes: int
    """Changes without a change of the compiler."""


@dataclass(frozen=True)
class KnownCase:
    """Everything known of a case."""

    case: str
    now: Sequence[CaseState]
    """The last result in each track."""
    runs: Sequence[CaseRun]
    """The newest first."""
    states: Sequence[ProbeResult]
    """The cached result on each toolchain, whatever the recipe expects, the newest
    release first.
    """
    failures: Sequence[FailureLife]
    log: LogExcerpt | None


def known_case(
    text: str, store: NightStore, history: NightsHistory, results: ResultCache
) -> KnownCase:
    """Collect what is known of the case with a name or a part of it. Raises BadInput if
    nothing is, or several cases fit.
    """
    name = _name_of(text, history)
    records = results.newest_of(name)
    cases = [case for case in history.cases if case.case == name]
    if not cases and not records:
        raise BadInput(
            f"nothing is known of a case {name!r}; `triage run` or `triage nightly` "
            "tests it"
        )
    lives = failure_lives(history, store.issues())
    return KnownCase(
        case=name,
        now=[case_state(history, case) for case in cases],
        runs=[run for case in cases for run in _runs_of(history, case)],
        states=states_of(records),
        failures=[life for life in lives if not set(cases).isdisjoint(life.cases)],
        log=log_of(records, store, history, cases),
    )


def _name_of(text: str, history: NightsHistory) -> str:
    """Return the name of the only case that a text fits, else the text."""
    names = {case.case for case in history.cases}
    fitting = sorted(name for name in names if text in name)
    if text in names or not fitting:
        return text
    if len(fitting) > 1:
        raise BadInput(
            f"{len(fitting)} cases have {text!r} in their name; choose from "
            f"{', '.join(fitting[:10])}"
        )
    return fitting[0]


def case_state(history: NightsHistory, case: CaseHistory) -> CaseState:
    """Return the last result of a case."""
    first = history.nights[case.now.first.night]
    return CaseState(
        track=case.track.name,
        status=case.now.status,
        since=first.started[:10],
        toolchain=first.toolchain,
        is_edited=case.is_edited,
        flaky_changes=history.flaky_changes(case),
    )


def _runs_of(history: NightsHistory, case: CaseHistory) -> Iterator[CaseRun]:
    """Yield the runs of equal results of a case, the newest first."""
    for run in reversed(case.runs):
        first, last = (history.nights[seen.night] for seen in (run.first, run.last))
        yield CaseRun(
            case=case.case,
            recipe=case.case.partition("[")[0],
            toolchain=first.toolchain,
            status=run.status,
            failure=run.last.failure,
            first=first.started,
            last=last.started,
            nights=run.count,
            last_toolchain=last.toolchain,
            track=case.track.name,
        )


def states_of(records: Sequence[Record]) -> list[ProbeResult]:
    """Return the cached result on each toolchain, the newest release first."""
    states = []
    for record in records:
        outcome = _judged(record)
        state = ProbeResult(
            case=record.case_name,
            recipe=record.case_name.partition("[")[0],
            toolchain=Revision(record.toolchain),
            status=Status(outcome.plain_status),
            failure=outcome.failure,
            reason=outcome.reason,
            cause=outcome.cause,
            seconds=record.execution.seconds,
            metrics=record.metrics,
        )
        states.append(state)
    return sorted(states, key=_release_order, reverse=True)


def _release_order(state: ProbeResult) -> tuple[bool, Version]:
    """Return the key that sorts other toolchains before releases, these by version."""
    version = parse_version(state.toolchain.name)
    return version is not None, version or Version("0")


def log_of(
    records: Sequence[Record],
    store: NightStore,
    history: NightsHistory,
    cases: Sequence[CaseHistory],
) -> LogExcerpt | None:
    """Return the output of the last failure of a case: as it was stored with a night,
    else that of the latest compile that failed.
    """
    for case in cases:
        failing = [run for run in case.runs if run.failed]
        for seen in (failing[-1].last, failing[-1].first) if failing else ():
            night, number = history.nights[seen.night], history.numbers[seen.night]
            logs = [each.log for each in night.cases if each.case == case.case]
            text = store.log(number, logs[0]) if logs and logs[0] else None
            if text is not None:
                return _excerpt(text, seen.failure, night.toolchain.name)
    for record in records:
        if not record.execution.ok:
            execution, failure = record.execution, _judged(record).failure
            stream = execution.stderr
            if stream.empty:
                stream = execution.stdout
            text = readable_output(stream.text)
            return _excerpt(text, failure, record.toolchain)
    return None


def _excerpt(text: str, failure: Failure | None, toolchain: str) -> LogExcerpt:
    """Return the lines of a log from a little before its root cause on; without one,
    its end.
    """
    lines = without_paths(_NO_NAMES, "input")(text).rstrip().splitlines()
    start, root = max(0, len(lines) - _LINES), None
    for number, line in enumerate(lines):
        if failure and failure.headline in line:
            start = min(start, max(0, number - _BEFORE))
            root = number - start
            break
    return LogExcerpt(toolchain, lines[start : start + _LINES], root)


def _judged(record: Record) -> Outcome:
    wrong = judge_mismatch(record.execution, packaged_rules(), record.metrics)
    return wrong or judge(record.execution, packaged_rules(), record.failing_pass)
