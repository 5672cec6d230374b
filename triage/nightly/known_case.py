"""Everything known of a case: its nights, its state on every toolchain that it ran on,
its last output, its command line.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from triage.classify import packaged_rules
from triage.compilers.invocation import readable_output
from triage.execution.cache import Record, ResultCache
from triage.execution.judge import judge, judge_mismatch
from triage.model.errors import BadInput
from triage.model.outcome import Outcome, Status
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
    """The toolchain of that night."""
    is_edited: bool
    """The input changed before this result."""
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
    failures: Sequence[FailureLife]
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
    cases = [case for case in history.cases if case.case == name]
    if not cases and not records:
        raise BadInput(
            f"nothing is known of a case {name!r}; `triage run` or `triage nightly` "
            "tests it"
        )
    suite, facts = "", dict[str, str]()
    if cases:
        track = cases[0].track
        suite, facts = track.suite, {"compiler": track.compiler, "target": track.target}
    failures = [
        life
        for life in failure_lives(history, store.issues())
        if not set(cases).isdisjoint(life.cases)
    ]
    runs = [run for case in cases for run in _runs_of(history, case)]
    log = log_of(records, next((run.toolchain.name for run in runs if run.failure), ""))
    for case in cases:
        log = log or stored_log(store, history, case)
    return KnownCase(
        case=name,
        suite=suite,
        facts=facts,
        now=[case_state(history, case) for case in cases],
        runs=runs,
        states=states_of(records, history, cases),
        failures=failures,
        tracked={each.cluster.id: each.issue for each in failures if each.issue},
        log=log,
    )


def _name_of(text: str, history: NightsHistory) -> str:
    """Return the name of the only case that a text fits, else the text."""
    names = list(dict.fromkeys(case.case for case in history.cases))
    if text in names:
        return text
    fitting = [name for name in names if text in name]
    if len(fitting) > 1:
        shown = ", ".join(fitting[:10])
        more = ", ..." if len(fitting) > 10 else ""
        raise BadInput(
            f"{len(fitting)} cases have {text!r} in their name; choose from "
            f"{shown}{more}"
        )
    return fitting[0] if fitting else text


def case_state(history: NightsHistory, case: CaseHistory) -> CaseState:
    """Return the last result of a case."""
    first = history.nights[case.now.first.night]
    last_number = history.tracks[case.track][-1]
    last = history.nights[last_number]
    is_missed = case.nights[-1] != last_number
    return CaseState(
        track=case.track.name,
        status=case.now.status,
        since=first.started[:10],
        toolchain=first.toolchain,
        is_edited=case.is_edited,
        missed=last.started[:10] if is_missed else None,
        flaky_changes=history.flaky_changes(case),
    )


def _runs_of(history: NightsHistory, case: CaseHistory) -> Iterator[CaseRun]:
    """Yield the runs of equal results of a case, the newest first."""
    for run in reversed(case.runs):
        failure = run.last.failure
        first, last = (history.nights[seen.night] for seen in (run.first, run.last))
        yield CaseRun(
            case=case.case,
            recipe=case.case.partition("[")[0],
            toolchain=first.toolchain,
            status=run.status,
            flaky=run.last.flaky,
            failure=failure,
            first=first.started,
            last=last.started,
            nights=run.count,
            last_toolchain=last.toolchain,
            track=case.track.name,
            cluster=case.track.key_of(failure).id if failure else None,
        )


def states_of(
    records: Sequence[Record], history: NightsHistory, cases: Sequence[CaseHistory]
) -> list[ProbeResult]:
    """Return the state on each toolchain that a case ran on, the newest release first.

    A night also runs the program, compares its results, and knows what the recipe
    expects, so its failures and unexpected passes come before what a compile alone
    shows.
    """
    states = {}
    for record in sorted(records, key=lambda record: record.at):
        states[record.toolchain] = _compiled_state(record)
    for case in cases:
        nights = {history.nights[night].toolchain.name: night for night in case.nights}
        for toolchain, number in nights.items():
            run = case.run_at(number)
            compiled = states.get(toolchain)
            failure = compiled.failure if compiled else None
            if run and (run.failed or (run.status is Status.XPASS and not failure)):
                states[toolchain] = ProbeResult(
                    case=case.case,
                    recipe=case.case.partition("[")[0],
                    toolchain=history.nights[number].toolchain,
                    status=run.status,
                    failure=failure or run.last.failure,
                )
    return sorted(states.values(), key=_release_order, reverse=True)


def _compiled_state(record: Record) -> ProbeResult:
    outcome = _judged(record)
    return ProbeResult(
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


def _release_order(state: ProbeResult) -> tuple[bool, Version]:
    """Return the key that sorts other toolchains before releases, these by version."""
    version = parse_version(state.toolchain.name)
    return version is not None, version or Version("0")


def log_of(records: Sequence[Record], toolchain: str) -> LogExcerpt | None:
    """Return the output of a failing case on a toolchain, or on the latest one where it
    fails.
    """
    failing = [record for record in records if not record.execution.ok]
    if not failing:
        return None
    record = min(failing, key=lambda record: record.toolchain != toolchain)
    execution, failure = record.execution, _judged(record).failure
    stream = execution.stdout if execution.stderr.empty else execution.stderr
    line = failure.line if failure else None
    text = readable_output(stream.text)
    return _excerpt(text, line, record.toolchain, execution.argv)


def stored_log(
    store: NightStore, history: NightsHistory, case: CaseHistory
) -> LogExcerpt | None:
    """Return the output of a case that was stored with the last or the first night of
    its last failure.
    """
    run = next((run for run in reversed(case.runs) if run.failed), None)
    for seen in (run.last, run.first) if run else ():
        night = history.nights[seen.night]
        logs = [one.log for one in night.cases if one.case == case.case]
        if seen.failure is None or not logs or not logs[0]:
            continue
        text = store.log(history.numbers[seen.night], logs[0])
        if text is not None:
            root = None
            for line, content in enumerate(text.splitlines(), 1):
                if seen.failure.headline in content:
                    root = line
                    break
            return _excerpt(text, root, night.toolchain.name, ())
    return None


def _excerpt(
    text: str, line: int | None, toolchain: str, command: Sequence[str]
) -> LogExcerpt:
    """Return the lines of a log from a little before its root cause on; without one,
    its end. line: its number, from 1.
    """
    clean = without_paths(_NO_NAMES, "input")
    lines = clean(text).rstrip().splitlines()
    root, start = None, len(lines)
    if line is not None and line <= len(lines):
        root, start = line - 1, line - 1 - _BEFORE
    start = max(0, min(len(lines) - _LINES, start))
    shown = lines[start : start + _LINES]
    return LogExcerpt(
        toolchain,
        shlex.join(map(clean, command)),
        shown,
        None if root is None else root - start,
        len(lines) - len(shown),
    )


def _judged(record: Record) -> Outcome:
    wrong = judge_mismatch(record.execution, packaged_rules(), record.metrics)
    return wrong or judge(
        record.execution,
        packaged_rules(),
        record.failing_pass,
        flaky=bool(record.disagreements),
    )
