"""What the first page of the site shows: what the last nights say, what is new, what is
open, and what to do about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from triage.investigate.result import FailureCluster
from triage.model.outcome import FAILING, PASSING, Status
from triage.nightly.failure_report import (
    FailingRun,
    FailureLife,
    FailureReport,
    toolchain_before,
)
from triage.nightly.history import NightsHistory, Track, status_in
from triage.nightly.verdict import (
    BackendVerdict,
    ToDo,
    flaky_to_do,
    unexpected_pass_to_do,
    with_failures,
)
from triage.report.document import Inline
from triage.report.elements import plural
from triage.report.failure import culprit_spans, range_spans, what_to_do
from triage.report.next_step import backend_sentence, to_do_spans
from triage.report.site_data import timestamp

_MOST_ROWS = 100  # of a table; the grid shows the rest
_MOST_OTHERS = 20  # of failures that are gone, and of flaky cases


@dataclass(frozen=True)
class OpenFailure:
    """A row of the table of open failures."""

    report: FailureReport
    rows: Sequence[int]
    """Of the cases in the history, the new ones where some are."""
    is_new: bool
    since: Inline
    age: str
    nights: int
    """Since when it is open, to sort by."""
    culprit: Inline
    to_do: Inline


def overview(
    history: NightsHistory,
    lives: Sequence[FailureLife],
    reports: Mapping[str, FailureReport],
) -> dict[str, Any]:
    """Return the values of the template. reports: by page."""
    new = {
        life.page: [
            each for each in life.open_runs if history.is_new_in_last_night(each.row)
        ]
        for life in lives
        if life.state == "open"
    }
    passing, flaky = _passing(history), _flaky(history)
    others: dict[Track, list[ToDo]] = {track: [] for track in history.tracks}
    for row, to_do in (*passing, *flaky):
        others[history.rows[row].track].append(to_do)
    of_tracks: dict[Track, list[FailureLife]] = {track: [] for track in others}
    for life in lives:
        of_tracks[life.track].append(life)
    verdicts = [
        _verdict(history, track, of_tracks[track], others[track], new, reports)
        for track in history.tracks
    ]
    still = [life for life in lives if life.state != "gone"]
    gone = sorted(
        (life for life in lives if life.state == "gone"),
        key=lambda life: -(life.gone or 0),
    )
    return {
        "verdicts": sorted(verdicts, key=lambda verdict: verdict[1] != "bad"),
        "new": [
            _row(history, life, reports[life.page], new[life.page])
            for life in still
            if new.get(life.page)
        ][:_MOST_ROWS],
        "open": [
            _row(history, life, reports[life.page], ())
            for life in still
            if not new.get(life.page)
        ][:_MOST_ROWS],
        "open_count": sum(not new.get(life.page) for life in still),
        "owners": owners_in(reports[life.page] for life in still),
        "others": [
            (row, to_do_spans(to_do))
            for row, to_do in (*passing, *flaky[:_MOST_OTHERS])
        ],
        "gone": gone[:_MOST_OTHERS],
        "cards": [_card(history, track, lives, new) for track in history.tracks],
    }


def owners_in(reports: Iterable[FailureReport]) -> list[str]:
    """Return the owners of failures by name."""
    return sorted({each.cluster.owner for each in reports if each.cluster.owner})


def _row(
    history: NightsHistory,
    life: FailureLife,
    report: FailureReport,
    new: Sequence[FailingRun],
) -> OpenFailure:
    runs = new or life.open_runs
    first = min(failing.run.first for failing in runs)
    before, after = report.before, report.came.toolchain
    if new:  # further cases of a failure may be new
        before, after = (
            toolchain_before(history, new[0]),
            history.nights[first].toolchain,
        )
    return OpenFailure(
        report=report,
        rows=[failing.row for failing in runs],
        is_new=bool(new),
        since=range_spans(report.compiler, before, after),
        age=_age(history, first),
        nights=len(history.nights) - first,
        culprit=culprit_spans(report.cluster),
        to_do=what_to_do(report),
    )


def _passing(history: NightsHistory) -> list[tuple[int, ToDo]]:
    """Return the rows that pass although a recipe expects a failure."""
    found = []
    for row, runs in enumerate(history.runs):
        if runs and runs[-1].status is Status.XPASS:
            version = history.nights[runs[-1].first].toolchain.name
            found.append((row, unexpected_pass_to_do(history.names[row], version)))
    return found


def _flaky(history: NightsHistory) -> list[tuple[int, ToDo]]:
    """Return the rows with most changes without a change of the compiler."""
    rows = sorted(history.flaky_changes, key=lambda row: -history.flaky_changes[row])
    return [(row, flaky_to_do(history.rows[row].case)) for row in rows]


def _verdict(
    history: NightsHistory,
    track: Track,
    own: Sequence[FailureLife],
    others: Sequence[ToDo],
    new: Mapping[str, Sequence[FailingRun]],
    reports: Mapping[str, FailureReport],
) -> tuple[str, str]:
    """Return what the last night of a track says, and its style.

    own: the failures of the track; others: what to do besides them.
    """
    last = history.last_night(track)
    night = history.nights[last]
    opened = [reports[life.page] for life in own if new.get(life.page)]
    clusters: list[FailureCluster] = [report.cluster for report in opened]
    to_dos = [report.to_do for report in opened if report.to_do]
    issues = {to_do.issue for to_do in to_dos}
    for life in own:
        report = reports[life.page]
        if life.state == "known" and report.to_do and report.issue not in issues:
            issues.add(report.issue)
            to_dos.append(report.to_do)
    to_dos += others
    day, name = night.started[:10], night.toolchain.name
    verdict = BackendVerdict(
        track.backend,
        cases=int((history.states[history.rows_of[track], last] != 0).sum()),
        broken=sum(len(new[life.page]) for life in own if new.get(life.page)),
        fixed=0,
    )
    verdict = with_failures(verdict, clusters, to_dos)
    title = track.name if day in name else f"{day} · {track.name}"
    sentence = backend_sentence(verdict, night, title)
    return sentence, "bad" if verdict.broken else "good"


def _card(
    history: NightsHistory,
    track: Track,
    all_lives: Sequence[FailureLife],
    new: Mapping[str, Sequence[FailingRun]],
) -> dict[str, object]:
    last = history.last_night(track)
    rows = history.rows_of[track]
    statuses = Counter(
        status_in(int(code)) for code in history.known_states[rows, last] if code
    )
    passed, failed = (
        sum(statuses[status] for status in group) for group in (PASSING, FAILING)
    )
    lives = [life for life in all_lives if life.track == track]
    return {
        "track": track,
        "night": history.nights[last],
        "rate": f"{100 * passed / (passed + failed):.2f} %" if passed + failed else "-",
        "passed": passed,
        "failed": statuses[Status.FAILED],
        "known": statuses[Status.XFAIL],
        "untestable": statuses[Status.UNTESTABLE],
        "new": sum(len(new.get(life.page, ())) for life in lives),
        "open": sum(len(life.open_runs) for life in lives if life.state == "open"),
        "not_run": int((history.states[rows, last] == 0).sum()),
    }


def _age(history: NightsHistory, night: int) -> str:
    """Return how long ago a night was, counted from the last one; empty where one of
    them has no valid time.
    """
    last, then = (timestamp(history.nights[number].started) for number in (-1, night))
    days = int((last - then) // 86400)
    if not (last and then):
        return ""
    return plural(days, "day") if days else "less than a day"
