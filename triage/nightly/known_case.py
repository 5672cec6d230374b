"""What is known of a case: its nights, its state on every toolchain that it ran on, its
last output, its command line.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from triage.classify import packaged_rules
from triage.execution.cache import ResultCache
from triage.execution.judge import judge
from triage.execution.record import Record
from triage.model.errors import BadInput
from triage.model.outcome import FAILING, Outcome, Status
from triage.model.probe_result import ProbeResult
from triage.model.revision import Revision
from triage.nightly.failure_report import FailureReport, known_failures, report_of
from triage.nightly.history import NightsHistory, status_in
from triage.nightly.store import NightStore
from triage.nightly.trends import failure_lives
from triage.recipes.values import parse_version
from triage.reduce.reproducer import without_paths

_NO_NAMES: Mapping[Path, str] = {}
# lines of a log that are shown, and those before the root cause
_LINES, _BEFORE = 400, 20


@dataclass(frozen=True)
class LogExcerpt:
    """What a compiler printed."""

    toolchain: str
    command: str
    lines: list[str]
    root: int | None
    """Index of the line with the root cause, if it is known."""
    left_out: int
    """Number of lines before and after these."""


@dataclass(frozen=True, kw_only=True)
class CaseRun(ProbeResult):
    """Nights in which a case had the same result: the first of them, and the last."""

    first: str
    last: str
    nights: int
    last_toolchain: Revision
    track: str
    cluster: str | None
    """The id of the failure."""


@dataclass(frozen=True, slots=True)
class CaseState:
    """The last result of a case in a track."""

    track: str
    status: Status
    since: str
    """The day of the first night with this result."""
    toolchain: Revision
    """Of that night."""
    missed: str | None
    """The day of the last night of the track, if it has no result of the case."""
    flaky_changes: int
    """Changes without a change of the compiler."""


@dataclass(frozen=True)
class KnownCase:
    """Everything known of a case."""

    case: str
    suite: str
    facts: Mapping[str, str]
    """Its compiler and target."""
    now: Sequence[CaseState]
    """The last result in each track."""
    runs: Sequence[CaseRun]
    """The newest first."""
    states: Sequence[ProbeResult]
    """The last result on each toolchain, the newest release first. What the recipe
    expects is known from nights only.
    """
    failures: Sequence[FailureReport]
    """What nights know of its failures."""
    tracked: Mapping[str, str]
    """The issues of these failures, by id."""
    log: LogExcerpt | None


def known_case(
    text: str, store: NightStore, history: NightsHistory, results: ResultCache
) -> KnownCase:
    """Collect what is known of the case with a name or a part of it. Raises BadInput if
    nothing is, or several cases fit.
    """
    name = _name_of(text, history)
    records = results.newest_of(name)
    rows = [row for row, (_, own) in enumerate(history.rows) if own == name]
    if not rows and not records:
        raise BadInput(
            f"nothing is known of a case {name!r}; `triage run` or `triage nightly` "
            "tests it"
        )
    known = known_failures(history, store.issues())
    runs = [run for row in rows for run in _runs(name, history, row)]
    lives = [each for each in failure_lives(history) if {*each.rows} & {*rows}]
    found = [report_of(history, life, known.get(life.key)) for life in lives]
    failing = next((run.toolchain.name for run in runs if run.failure), "")
    logs = (
        log_of(records, failing),
        *(stored_log(store, history, row) for row in rows),
    )
    if rows:
        track = history.rows[rows[0]][0]
    else:
        track = None
    return KnownCase(
        case=name,
        suite=track.suite if track else "",
        facts={"compiler": track.compiler, "target": track.target} if track else {},
        now=[case_state(history, row) for row in rows],
        runs=runs,
        states=states_of(records, history, rows),
        failures=found,
        tracked={each.cluster.id: each.issue for each in found if each.issue},
        log=next(filter(None, logs), None),
    )


def _name_of(text: str, history: NightsHistory) -> str:
    """Return the name of the only case that a text fits, else the text."""
    names = list(dict.fromkeys(name for _, name in history.rows))
    if text in names:
        return text
    fitting = [name for name in names if text in name]
    if len(fitting) > 1:
        shown = ", ".join(fitting[:10])
        raise BadInput(
            f"{len(fitting)} cases have {text!r} in their name; choose from "
            f"{shown}{', ...' * (len(fitting) > 10)}"
        )
    return next(iter(fitting), text)


def case_state(history: NightsHistory, row: int) -> CaseState:
    """Return the last result of a case."""
    track, run = history.rows[row][0], history.runs[row][-1]
    last, first = history.nights[history.tracks[track][-1]], history.nights[run.first]
    is_missed = not history.states[row, history.tracks[track][-1]]
    return CaseState(
        track=track.name,
        status=run.status,
        since=first.started[:10],
        toolchain=first.toolchain,
        missed=last.started[:10] if is_missed else None,
        flaky_changes=history.flaky.get(row, 0),
    )


def _runs(name: str, history: NightsHistory, row: int) -> Iterator[CaseRun]:
    """Yield the runs of equal results in a row of the history, the newest first."""
    line = history.rows[row][0]
    for run in reversed(history.runs[row]):
        failure = history.kind_of(row, run.last)
        first, last = history.nights[run.first], history.nights[run.last]
        yield CaseRun(
            case=name,
            recipe=name.partition("[")[0],
            toolchain=first.toolchain,
            status=run.status,
            flaky=run.flaky,
            failure=failure,
            first=first.started,
            last=last.started,
            nights=run.count,
            last_toolchain=last.toolchain,
            track=line.name,
            cluster=line.key_of(failure).id if failure else None,
        )


def states_of(
    records: Sequence[Record], history: NightsHistory, rows: Sequence[int]
) -> list[ProbeResult]:
    """Return the state on each toolchain that a case ran on, the newest release first.

    A night also runs the program, compares its results, and knows what the recipe
    expects, so its failures and unexpected passes come before what a compile alone
    shows. rows: of the case in the history.
    """
    states = {}
    for record in sorted(records, key=lambda record: record.at):
        outcome = _judged(record)
        states[record.toolchain] = ProbeResult(
            case=record.case_name,
            recipe=record.case_name.partition("[")[0],
            toolchain=Revision(record.toolchain),
            status=Status(outcome.plain_status),
            failure=outcome.failure,
            reason=outcome.reason,
            cause=outcome.cause,
            seconds=record.execution.seconds,
            cpu_seconds=record.execution.cpu_seconds,
            peak_rss_mb=record.execution.peak_rss_mb,
            metrics=record.metrics,
        )
    for row in rows:
        newest = {
            night.toolchain.name: number
            for number, night in enumerate(history.nights)
            if history.states[row, number]
        }
        for name, number in newest.items():
            status, _ = status_in(int(history.states[row, number]))
            if name in states:
                compiled = states[name].failure
            else:
                compiled = None
            if status in FAILING or (status is Status.XPASS and not compiled):
                case = history.rows[row][1]
                states[name] = ProbeResult(
                    case=case,
                    recipe=case.partition("[")[0],
                    toolchain=history.nights[number].toolchain,
                    status=status,
                    failure=compiled or history.kind_of(row, number),
                )
    ordered = sorted(
        states.values(),
        key=lambda state: parse_version(state.toolchain.name) or Version("0"),
        reverse=True,
    )
    return sorted(
        ordered, key=lambda state: parse_version(state.toolchain.name) is None
    )


def log_of(records: Sequence[Record], toolchain: str) -> LogExcerpt | None:
    """Return the output of a failing case on a toolchain, or on the latest one where it
    fails.
    """
    failing = sorted(
        (record for record in records if not record.execution.ok),
        key=lambda it: it.toolchain != toolchain,
    )
    if not failing:
        return None
    execution, failure = failing[0].execution, _judged(failing[0]).failure
    if execution.stderr.empty:
        stream = execution.stdout
    else:
        stream = execution.stderr
    return _excerpt(
        stream.text,
        failure.line if failure else None,
        failing[0].toolchain,
        execution.argv,
    )


def stored_log(
    store: NightStore, history: NightsHistory, row: int
) -> LogExcerpt | None:
    """Return the output of a case that was stored with the last or the first night of
    its last failure.
    """
    run = next((run for run in reversed(history.runs[row]) if run.failed), None)
    for number in (run.last, run.first) if run else ():
        night, kind = history.nights[number], history.kind_of(row, number)
        path = next(
            (case.log for case in night.cases if case.case == history.rows[row][1]),
            None,
        )
        if path:
            content = store.log(history.numbers[number], path)
        else:
            content = None
        if content is not None and kind:
            root = next(
                (
                    at
                    for at, line in enumerate(content.splitlines(), 1)
                    if kind.headline in line
                ),
                None,
            )
            return _excerpt(content, root, night.toolchain.name, ())
    return None


def _excerpt(
    text: str, line: int | None, toolchain: str, command: Sequence[str]
) -> LogExcerpt:
    """Return the lines of a log from a little before its root cause on; without one,
    its end. line: its number, from 1.
    """
    clean = without_paths(_NO_NAMES, "input")
    lines = clean(text).rstrip().splitlines()
    if line is None or line > len(lines):
        root = None
    else:
        root = line - 1
    start = max(
        0, min(len(lines) - _LINES, len(lines) if root is None else root - _BEFORE)
    )
    shown = lines[start : start + _LINES]
    words = shlex.join(map(clean, command))
    return LogExcerpt(
        toolchain,
        words,
        shown,
        None if root is None else root - start,
        len(lines) - len(shown),
    )


def _judged(record: Record) -> Outcome:
    return judge(
        record.execution,
        packaged_rules(),
        record.failing_pass,
        flaky=bool(record.disagreements),
    )
