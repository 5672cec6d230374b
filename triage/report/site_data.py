"""The data of the site: JavaScript files that the pages load when they need them.
file:// allows no other way.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

import numpy as np

from triage.model.outcome import FAILING, PASSING, Failure, Status
from triage.nightly.failure_report import FailureLife, FailureReport, states_over_nights
from triage.nightly.history import STATUS_BITS, NightsHistory, StateRun
from triage.nightly.known_case import case_state
from triage.nightly.trends import MetricStep
from triage.report.elements import compare_url
from triage.report.night_text import state_sentence
from triage.report.printable import portable, visible

# the letter of each status in the data; a flaky state has the capital letter
LETTERS = {"passed": "p", "failed": "f", "untestable": "u", "xfail": "x", "xpass": "y"}
_CASES_IN_A_FILE = 50
_METRICS_OF_TIMES = {"run": "run_seconds", "compile": "cpu_seconds"}


@dataclass(frozen=True)
class ChartedMetric:
    """A metric that pages draw as a chart."""

    name: str
    title: str
    unit: str
    least_ratio: float
    """The smallest relative change that is marked as a step."""
    least_difference: float = 0.0
    """The smallest change that is marked as a step, in the unit of the metric."""


METRICS = (
    ChartedMetric("run_seconds", "Run time", "s", 0.05),
    ChartedMetric("cpu_seconds", "Compile time (CPU)", "s", 0.10, 0.1),
    ChartedMetric("dispatches", "Dispatches", "", 0.01),
    ChartedMetric("artifact_bytes", "Size", "bytes", 0.05),
)


def data_file(name: str, value: object) -> str:
    """Return a file that hands a value to the page that loads it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return f"triageData({json.dumps(name)},{text});\n"


def night_rows(history: NightsHistory) -> list[list[object]]:
    """Return for each night: number, begin in seconds, toolchain, commit, baseline,
    whether it is partial, kind of the toolchain.
    """
    return [
        [
            number,
            int(timestamp(night.started)),
            visible(night.toolchain.name),
            night.toolchain.commit or "",
            visible(night.baseline.name),
            int(night.partial),
            night.kind,
        ]
        for number, night in zip(history.numbers, history.nights, strict=True)
    ]


def track_rows(history: NightsHistory) -> list[list[object]]:
    """Return for each track: name, nights, the share of passing cases in percent by
    night, compiler. Cases that a night does not run count with their last result.
    """
    statuses = history.known_states & STATUS_BITS
    passes, fails = (
        np.array([False, *(status in group for status in Status)])[statuses]
        for group in (PASSING, FAILING)
    )
    rows: list[list[object]] = []
    for track, nights in history.tracks.items():
        part = np.ix_(history.rows_of[track], nights)
        passed, failed = (each[part].sum(axis=0).tolist() for each in (passes, fails))
        rates = [
            _rounded(100 * good / (good + bad)) if good + bad else None
            for good, bad in zip(passed, failed, strict=True)
        ]
        rows.append([visible(track.name), list(nights), rates, visible(track.compiler)])
    return rows


@dataclass
class FailureNumbers:
    """Numbers the failures for the data, in which a run names its own."""

    failures: list[list[str]] = field(default_factory=lambda: [["", "", ""]])
    """Signature, class and page. The first stands for none; what made a case untestable
    has no page.
    """
    of_rows: dict[int, dict[int, int]] = field(default_factory=dict)
    """For each row, the failures of its runs by their first nights."""

    @classmethod
    def of(cls, history: NightsHistory, lives: Sequence[FailureLife]) -> FailureNumbers:
        numbers = cls()
        for life in lives:
            number = numbers._add(life.failure, life.page)
            for row in life.rows:
                for run in history.runs[row]:
                    if run.failed and life.has(row, run.first):
                        numbers.of_rows.setdefault(row, {})[run.first] = number
        untested: dict[int, int] = {}
        for row, runs in enumerate(history.runs):
            for run in runs:
                failure = history.failure_of(row, run.last)
                if failure and not run.failed:
                    if run.signature not in untested:
                        untested[run.signature] = numbers._add(failure, "")
                    number = untested[run.signature]
                    numbers.of_rows.setdefault(row, {})[run.first] = number
        return numbers

    def _add(self, failure: Failure, page: str) -> int:
        texts = visible(failure.signature), visible(failure.failure_class)
        self.failures.append([*texts, page])
        return len(self.failures) - 1

    def flat_runs(self, row: int, runs: Sequence[StateRun]) -> list[object]:
        """Return first night, last night, letter and failure of each run, in one
        list.
        """
        values: list[object] = []
        own = self.of_rows.get(row, {})
        for run in runs:
            letter = LETTERS[run.status]
            if run.flaky:
                letter = letter.upper()
            values += [run.first, run.last, letter, own.get(run.first, 0)]
        return values


def grid(
    history: NightsHistory, numbers: FailureNumbers, owners: Mapping[str, str]
) -> dict[str, object]:
    """Return the grid: cases as [name, track, flaky], their runs as [first, last,
    letter, failure, ...], and the nights of the track that have no result of a case.

    owners: by page.
    """
    tracks = list(history.tracks)
    cases = [
        [
            visible(name),
            tracks.index(history.rows[row].track),
            int(row in history.flaky_changes),
        ]
        for row, name in enumerate(history.names)
    ]
    gaps = {row: _gaps(history, row) for row in range(len(history.rows))}
    return {
        "failures": numbers.failures,
        "cases": cases,
        "runs": [numbers.flat_runs(row, runs) for row, runs in enumerate(history.runs)],
        "gaps": {row: nights for row, nights in gaps.items() if nights},
        "owners": owners,
    }


def _gaps(history: NightsHistory, row: int) -> list[int]:
    """Return the nights of the track without a result of a case, since its first."""
    states = history.states[row]
    first = history.runs[row][0].first
    nights = history.tracks[history.rows[row].track]
    return [night for night in nights if night > first and not states[night]]


def failure_letters(history: NightsHistory, life: FailureLife) -> str:
    """Return a letter for each night of a failure's track: as in `LETTERS`, o where its
    cases fail in another way, - where none was run.
    """
    letters = []
    for status, otherwise in states_over_nights(history, life):
        letter = LETTERS[status] if status else "-"
        letters.append("o" if otherwise else letter)
    return "".join(letters)


def search_rows(
    history: NightsHistory, reports: Iterable[FailureReport]
) -> list[list[str]]:
    """Return what the search finds besides cases: kind, text and address of failures,
    flags and commits.
    """
    rows = []
    for report in reports:
        cluster, page = report.cluster, f"failures/{report.page}.html"
        failure = cluster.failure
        text = f"{failure.failure_class}: {failure.headline}" if failure else ""
        rows.append(("failure", f"{text} ({report.track}, {report.state})", page))
        flags = [flag for remedy in cluster.remedies for flag in remedy.flags]
        if cluster.draft:
            words = cluster.draft.command.split()
            flags += [word for word in words if word.startswith("--")]
        rows += [("flag", flag, page) for flag in flags]
        for suspect in cluster.culprit.suspects if cluster.culprit else ():
            name = f"{(suspect.commit or suspect.name)[:12]} {suspect.subject or ''}"
            rows.append(("commit", name.strip(), page))
    for track, nights in history.tracks.items():
        for number in nights:
            night = history.nights[number]
            name = f"{(night.toolchain.commit or '')[:12]} {night.toolchain.name}"
            place = f"grid.html?suite={quote(visible(track.name))}&night={number}"
            rows.append(("commit", f"{name.strip()}, {night.started[:10]}", place))
    return [list(map(visible, row)) for row in dict.fromkeys(rows)]


def case_files(
    history: NightsHistory,
    steps: Mapping[str, list[MetricStep]],
    more_values: Callable[[int], Mapping[str, Any]],
    numbers: FailureNumbers,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names and values of the files with everything about each case.

    steps: by metric; more_values: of the case in a row.
    """
    steps_of = _steps_by_row(history, steps)
    intervals, tracks = _intervals(history), list(history.tracks)
    count = case_file_count(history)
    files: dict[int, dict[str, Any]] = {number: {} for number in range(count)}
    for row, name in enumerate(map(visible, history.names)):
        track, case = history.rows[row]
        series = {metric.name: _series(history, metric.name, row) for metric in METRICS}
        files[_name_hash(name) % count][name] = {
            "runs": numbers.flat_runs(row, history.runs[row]),
            "failures": {
                number: _failure_values(
                    history.failure_of(row, first), numbers.failures[number][2]
                )
                for first, number in numbers.of_rows.get(row, {}).items()
            },
            "track": tracks.index(track),
            "gaps": _gaps(history, row),
            "source": portable(history.sources[row]),
            "case": visible(case),
            "said": visible(state_sentence(case_state(history, row))),
            "intervals": intervals.get(case, {}),
            "metrics": {metric: values for metric, values in series.items() if values},
            "steps": steps_of.get(row, []),
            **more_values(row),
        }
    for number, cases in files.items():
        yield f"cases-{number}", cases


def _steps_by_row(
    history: NightsHistory, steps: Mapping[str, list[MetricStep]]
) -> dict[int, list[list[object]]]:
    """Return by row the steps of its metrics: metric, night, old and new level, night
    before, page with the commits between.
    """
    by_row: dict[int, list[list[object]]] = {}
    for metric, of_metric in steps.items():
        for step in of_metric:
            before, after = (
                history.nights[number].toolchain for number in (step.before, step.at)
            )
            compiler = history.rows[step.row].track.compiler
            url = compare_url(compiler, before, after) or ""
            levels = _rounded(step.old), _rounded(step.new)
            values: list[object] = [metric, step.at, *levels, step.before, url]
            by_row.setdefault(step.row, []).append(values)
    return by_row


def _intervals(history: NightsHistory) -> dict[str, dict[str, list[list[object]]]]:
    """Return by case and metric the intervals of times: night, low, high. They come
    from the ratio to the baseline that ran in turn.
    """
    found: dict[str, dict[str, list[list[object]]]] = {}
    for number, night in enumerate(history.nights):
        for row in night.times:
            if row.ratio and row.baseline_seconds:
                low, high = (
                    _rounded(row.baseline_seconds * ratio)
                    for ratio in (row.ratio.low, row.ratio.high)
                )
                of_case = found.setdefault(row.case, {})
                metric = _METRICS_OF_TIMES[row.measured]
                of_case.setdefault(metric, []).append([number, low, high])
    return found


def case_file_count(history: NightsHistory) -> int:
    """Return the number of files with cases."""
    return max(1, math.ceil(len(history.rows) / _CASES_IN_A_FILE))


def _series(history: NightsHistory, metric: str, row: int) -> list[object]:
    """Return the first night with a value, then the values; null where a night has
    none.
    """
    if metric not in history.metrics:
        return []
    values = history.metrics[metric][row]
    measured = np.flatnonzero(np.isfinite(values))
    if not len(measured):
        return []
    first, last = int(measured[0]), int(measured[-1])
    return [first, *map(_rounded, values[first : last + 1].tolist())]


def _failure_values(failure: Failure | None, page: str) -> dict[str, object]:
    if failure is None:
        return {}
    return {
        "class": visible(failure.failure_class),
        "headline": visible(failure.headline),
        "id": page,
    }


def _rounded(value: float) -> float | int | None:
    """Return a number with four digits, which is exact enough for a chart; None for NaN
    and infinity.
    """
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded.is_integer() else rounded


def timestamp(at: str) -> float:
    """Return the seconds since the epoch, or 0 for a text that is not a time."""
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return 0.0


def _name_hash(name: str) -> int:
    """Return the FNV-1a hash of a name, which the page computes too, to know the file
    of a case.
    """
    value = 0x811C9DC5
    for byte in name.encode("utf-8", "replace"):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
