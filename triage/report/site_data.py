"""The data of the site: JavaScript files that the pages load when they need them.
file:// allows no other way.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
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
from triage.report.nights import state_sentence
from triage.report.printable import visible

# the letter of each status in the data; a flaky state has the capital letter
LETTERS = {"passed": "p", "failed": "f", "untestable": "u", "xfail": "x", "xpass": "y"}
_CASES_IN_A_FILE = 50
Facts = Callable[[int], Mapping[str, Any]]


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
    whether it is partial.
    """
    return [
        [
            number,
            int(timestamp(night.started)),
            visible(night.toolchain.name),
            night.toolchain.commit or "",
            visible(night.baseline.name),
            int(night.partial),
        ]
        for number, night in zip(history.numbers, history.nights, strict=True)
    ]


def track_rows(history: NightsHistory) -> list[list[object]]:
    """Return for each track: name, nights, the share of passing cases (of those not run
    by their last result), compiler.
    """
    rows: list[list[object]] = []
    weights = np.array(
        [0, *((status in PASSING) - (status in FAILING) for status in Status)], np.int8
    )[history.known_states & STATUS_BITS]
    of_row = np.array([track.name for track, _ in history.rows])
    for track, nights in history.tracks.items():
        own = weights[of_row == track.name][:, nights]
        passed, failed = ((own == value).sum(axis=0).tolist() for value in (1, -1))
        rates = [
            _short(100 * good / (good + bad)) if good + bad else None
            for good, bad in zip(passed, failed, strict=True)
        ]
        rows.append([visible(track.name), list(nights), rates, visible(track.compiler)])
    return rows


def grid(
    history: NightsHistory,
    pages: Mapping[tuple[int, int], str],
    owners: Mapping[str, str],
) -> dict[str, object]:
    """Return the grid: cases as [name, track, flaky], their runs as [first, last,
    letter, signature, ...], and the nights of the track that have no result of a case.

    pages: of failures by row and signature; owners: by page.
    """
    tracks = {track: number for number, track in enumerate(history.tracks)}
    classes = {one.signature: one.failure_class for one in history.failures if one}
    usual = {signature: page for (_, signature), page in reversed([*pages.items()])}
    signatures = enumerate(history.signatures)
    cases = zip(history.names, history.rows, strict=True)
    return {
        "signatures": [
            [visible(name), visible(classes.get(name, "")), usual.get(at, "")]
            for at, name in signatures
        ],
        "cases": [
            [visible(name), tracks[track], int(row in history.flaky_changes)]
            for row, (name, (track, _)) in enumerate(cases)
        ],
        "runs": [
            [value for run in runs for value in _run(run)] for runs in history.runs
        ],
        "pages": [[*key, page] for key, page in pages.items() if page != usual[key[1]]],
        "gaps": {
            row: gaps
            for row in range(len(history.rows))
            if (gaps := _gaps(history, row))
        },
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
    rows: dict[tuple[str, str, str], None] = {}
    for report in reports:
        cluster, page = report.cluster, f"failures/{report.page}.html"
        failure = cluster.failure
        text = f"{failure.failure_class}: {failure.headline}" if failure else ""
        rows["failure", f"{text} ({report.track}, {report.state})", page] = None
        flags = [flag for remedy in cluster.remedies for flag in remedy.flags]
        words = cluster.draft.command.split() if cluster.draft else []
        flags += [word for word in words if word.startswith("--")]
        for flag in flags:
            rows["flag", flag, page] = None
        for suspect in cluster.culprit.suspects if cluster.culprit else ():
            name = f"{(suspect.commit or suspect.name)[:12]} {suspect.subject or ''}"
            rows["commit", name.strip(), page] = None
    for track, nights in history.tracks.items():
        for number in nights:
            night = history.nights[number]
            name = f"{(night.toolchain.commit or '')[:12]} {night.toolchain.name}"
            place = f"grid.html?suite={quote(visible(track.name))}&night={number}"
            rows["commit", f"{name.strip()}, {night.started[:10]}", place] = None
    return [[visible(part) for part in row] for row in rows]


def case_files(
    history: NightsHistory,
    steps: Mapping[str, list[MetricStep]],
    facts: Facts,
    pages: Mapping[tuple[int, int], str],
) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the files with everything about each case. facts:
    further values of a case.
    """
    by_case: dict[int, list[list[object]]] = {}
    for metric, of_metric in steps.items():
        for step in of_metric:
            before, after = (
                history.nights[at].toolchain for at in (step.before, step.at)
            )
            compiler = history.rows[step.row].track.compiler
            url = compare_url(compiler, before, after) or ""
            levels = _short(step.old), _short(step.new)
            by_case.setdefault(step.row, []).append(
                [metric, step.at, *levels, step.before, url]
            )
    files: dict[int, dict[str, Any]] = {}
    count, intervals = case_file_count(history), _intervals(history)
    tracks = {track: number for number, track in enumerate(history.tracks)}
    for row, name in enumerate(history.names):
        metrics = {
            metric.name: series
            for metric in METRICS
            if (series := _series(history, metric.name, row))
        }
        files.setdefault(_hash(visible(name)) % count, {})[visible(name)] = {
            "runs": [value for run in history.runs[row] for value in _run(run)],
            "failures": {
                run.signature: _failure(
                    history.failure_of(row, run.last),
                    pages.get((row, run.signature), ""),
                )
                for run in history.runs[row]
                if run.signature
            },
            "track": tracks[history.rows[row].track],
            "gaps": _gaps(history, row),
            "source": visible(history.sources[row]),
            "case": visible(history.rows[row].case),
            "said": visible(state_sentence(case_state(history, row))),
            "intervals": intervals.get(history.rows[row].case, {}),
            "metrics": metrics,
            "steps": by_case.get(row, []),
            **facts(row),
        }
    for number in range(count):
        yield f"cases-{number}", data_file(f"cases-{number}", files.get(number, {}))


def _intervals(history: NightsHistory) -> dict[str, dict[str, list[list[object]]]]:
    """Return by case and metric the intervals of times: night, low, high. They come
    from the ratio to the baseline that ran in turn.
    """
    found: dict[str, dict[str, list[list[object]]]] = {}
    names = {"run": "run_seconds", "compile": "cpu_seconds"}
    for number, night in enumerate(history.nights):
        for row in night.times:
            if row.ratio and row.baseline_seconds:
                ends = (
                    _short(row.baseline_seconds * ratio)
                    for ratio in (row.ratio.low, row.ratio.high)
                )
                of_case = found.setdefault(row.case, {})
                of_case.setdefault(names[row.measured], []).append([number, *ends])
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
    return [first, *map(_short, values[first : last + 1].tolist())]


def _failure(kind: Failure | None, page: str) -> dict[str, object]:
    if kind:
        return {
            "class": visible(kind.failure_class),
            "headline": visible(kind.headline),
            "id": page,
        }
    return {}


def _run(run: StateRun) -> Iterable[object]:
    letter = LETTERS[run.status]
    return run.first, run.last, letter.upper() if run.flaky else letter, run.signature


def _short(value: float) -> float | int | None:
    """Return a number with four digits, which a chart cannot tell from the whole
    one.
    """
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.4g}")
    if rounded.is_integer():
        return int(rounded)
    return rounded


def timestamp(at: str) -> float:
    """Return the seconds since the epoch, or 0 for a text that is not a time."""
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return 0.0


def _hash(name: str) -> int:
    """Return the FNV-1a hash of a name, which the page computes too, to know the file
    of a case.
    """
    value = 0x811C9DC5
    for byte in name.encode("utf-8", "replace"):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
