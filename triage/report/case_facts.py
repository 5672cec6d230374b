"""What is known of a case: its state on every toolchain that it ran on, its last output, its command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from triage.bisect.history import plain_status
from triage.classify import packaged_rules
from triage.execution.cache import Record, ResultCache
from triage.execution.judge import judge
from triage.model.outcome import FAILING, Failed, Failure, Outcome, Status
from triage.nightly.store import NightStore
from triage.reduce.reproducer import without_paths
from triage.report.shapes import FailureShape, Shape, failure_in

if TYPE_CHECKING:  # numpy is slow to import
    from triage.nightly.history import NightsHistory

_NO_NAMES: Mapping[Path, str] = {}
_HEAD, _TAIL = 120, 280  # lines of a log that are shown


@dataclass(frozen=True)
class ToolchainState(Shape):
    """A case on one toolchain, without what its recipe expects there."""

    toolchain: str
    status: str
    failure: FailureShape | None


@dataclass(frozen=True)
class LogExcerpt(Shape):
    """What a compiler printed. lines: beginning and end of it; root: index of the line with the root cause, None when it is
    not known; left_out: number of lines between beginning and end; command: the command line.
    """

    toolchain: str
    command: str
    lines: list[str]
    root: int | None
    left_out: int


def states_of(records: Sequence[Record], history: NightsHistory, rows: Sequence[int]) -> list[ToolchainState]:
    """Return the state on each toolchain that a case ran on, the newest release first. rows: of the case in the history.

    records: of compiles. A night also runs the program and compares its results, so its state comes before that of a compile.
    """
    ordered = sorted(records, key=lambda record: record.at)
    judged = ((record, _judged(record)) for record in ordered)
    states = {
        record.toolchain: ToolchainState(record.toolchain, plain_status(outcome), failure_in(outcome))
        for record, outcome in judged
    }
    for row in rows:
        newest = {night.toolchain.name: number for number, night in enumerate(history.nights) if history.states[row, number]}
        for name, number in newest.items():
            run = next(run for run in history.runs[row] if run.first <= number <= run.last)
            if run.status in FAILING and (name not in states or not states[name].failure):
                states[name] = ToolchainState(name, Status.FAILED, history.kind_of(row, number))
    return sorted(states.values(), key=lambda state: version_key(state.toolchain), reverse=True)


def version_key(name: str) -> tuple[bool, Version]:
    """Return a key that orders releases by version, before them everything else."""
    try:
        return True, Version(name)
    except InvalidVersion:
        return False, Version("0")


def log_of(records: Sequence[Record], toolchain: str) -> LogExcerpt | None:
    """Return the output of a failing case on a toolchain, or on the latest one where it fails; None where it is not known."""
    failing = [record for record in records if not record.execution.ok]
    record = next((record for record in failing if record.toolchain == toolchain), next(iter(failing), None))
    if record is None:
        return None
    outcome, clean = _judged(record), without_paths(_NO_NAMES, "input")
    stream = record.execution.stdout if record.execution.stderr.empty else record.execution.stderr
    command = shlex.join(clean(word) for word in record.execution.argv)
    failure: Failure | None = outcome.failure if isinstance(outcome, Failed) else None
    return excerpt(clean(stream.text), failure.line if failure else None, record.toolchain, command)


def stored_log(store: NightStore, history: NightsHistory, row: int) -> LogExcerpt | None:
    """Return the output of a case that was stored with the last or the first night of its last failure; None without one."""
    run = next((run for run in reversed(history.runs[row]) if run.failed), None)
    for number in dict.fromkeys((run.last, run.first)) if run else ():
        night, name = history.nights[number], history.rows[row][1]
        path = next((case.log for case in night.cases if case.case == name), None)
        content = store.log(history.numbers[number], path) if path else None
        kind = history.kind_of(row, number)
        if content is not None and kind:
            text = without_paths(_NO_NAMES, "input")(content)
            root = next((at for at, line in enumerate(text.splitlines(), 1) if kind.headline in line), None)
            return excerpt(text, root, night.toolchain.name, "")
    return None


def excerpt(text: str, line: int | None, toolchain: str, command: str) -> LogExcerpt:
    """Return the lines of a log to show, with those around the root cause. line: its number, from 1."""
    lines = text.rstrip().splitlines()
    root = None if line is None or line > len(lines) else line - 1
    if len(lines) <= _HEAD + _TAIL:
        return LogExcerpt(toolchain, command, lines, root, 0)
    start = 0 if root is None else max(0, root - 20)
    if root is not None and start > 0:
        lines, root = lines[start:], root - start
    shown = lines[:_HEAD] + lines[-_TAIL:] if len(lines) > _HEAD + _TAIL else lines
    return LogExcerpt(toolchain, command, shown, root, start + len(lines) - len(shown))


def records_of(evidence: ResultCache | None, case: str) -> tuple[Record, ...]:
    """Return the newest result of a case on each toolchain."""
    return evidence.newest_of(case) if evidence else ()


def _judged(record: Record) -> Outcome:
    flaky = bool(record.disagreements)
    return judge(record.execution, packaged_rules(), record.failing_pass, flaky=flaky)
