"""The first page of the site: the verdicts of the last nights, new and open failures,
and what to do about them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from triage.model.outcome import FAILING, PASSING, Status
from triage.nightly.failure_report import (
    FailingRun,
    FailureLife,
    FailureReport,
    seen_at,
    toolchain_before,
)
from triage.nightly.history import (
    NightsHistory,
    Track,
    is_untested,
    row_of,
    status_in,
)
from triage.nightly.verdict import (
    BackendVerdict,
    ToDo,
    flaky_to_do,
    unexpected_pass_to_do,
    verdicts_of,
)
from triage.recipes.values import share_text
from triage.report.document import Inline
from triage.report.elements import plural
from triage.report.failure import (
    came_spans,
    culprit_spans,
    what_to_do,
)
from triage.report.night_text import backend_sentence, to_do_spans
from triage.report.site_data import timestamp

_MOST_ROWS = 100  # of a table; the grid shows the rest
_MOST_OTHERS = 20  # of failures that are gone, and of flaky cases


@dataclass(frozen=True)
class OpenFailure:
    """A row of the table of open failures."""

    report: FailureReport
    rows: Sequence[int]
    """Rows of the history: the new cases, or all that are open if none is new."""
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
    passing, flaky = _unexpected_passes(history), _flaky(history)
    parts = [
        _TrackPart(
            history,
            track,
            [life for life in lives if life.track == track],
            reports,
        )
        for track in history.tracks
    ]
    new = {page: runs for part in parts for page, runs in part.new_runs.items()}
    still = [life for life in lives if life.state != "gone"]
    gone = [(life, reports[life.page]) for life in lives if life.state == "gone"]
    gone.sort(key=lambda entry: entry[1].gone.day if entry[1].gone else "")
    open_rows = [
        _open_failure(history, life, reports[life.page], new) for life in still
    ]
    older = [row for row in open_rows if not row.is_new]
    verdicts = [part.verdict() for part in parts]
    return {
        "verdicts": sorted(verdicts, key=lambda verdict: verdict[1] != "bad"),
        "new": [row for row in open_rows if row.is_new][:_MOST_ROWS],
        "open": older[:_MOST_ROWS],
        "open_count": len(older),
        "owners": owners_in(reports[life.page] for life in still),
        "others": [
            (row, to_do_spans(to_do))
            for row, to_do in (*passing, *flaky[:_MOST_OTHERS])
        ],
        "gone": gone[: -_MOST_OTHERS - 1 : -1],
        "cards": [part.card() for part in parts],
    }


def owners_in(reports: Iterable[FailureReport]) -> list[str]:
    """Return the owners of failures by name."""
    return sorted({each.cluster.owner for each in reports if each.cluster.owner})


def _open_failure(
    history: NightsHistory,
    life: FailureLife,
    report: FailureReport,
    new: Mapping[str, Sequence[FailingRun]],
) -> OpenFailure:
    """Return a row of the table. new: the new runs of each failure, by page."""
    new_runs = new.get(life.page, ())
    runs = new_runs or life.open_runs
    first = min(failing.run.first for failing in runs)
    before, came = report.before, report.came
    if new_runs:  # further cases of a failure may be new
        before = toolchain_before(history, new_runs[0])
        came = seen_at(history, first, new_runs[0].is_edited)
    return OpenFailure(
        report=report,
        rows=[failing.row for failing in runs],
        is_new=bool(new_runs),
        since=came_spans(report.compiler, before, came),
        age=_age(history, first),
        nights=len(history.nights) - first,
        culprit=culprit_spans(report.cluster),
        to_do=what_to_do(report),
    )


def _unexpected_passes(history: NightsHistory) -> list[tuple[int, ToDo]]:
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


@dataclass(frozen=True)
class _TrackPart:
    """The part of the page about one track, by its last complete night."""

    history: NightsHistory
    track: Track
    lives: Sequence[FailureLife]
    """The failures of the track."""
    reports: Mapping[str, FailureReport]
    """The report on each page."""

    @cached_property
    def new_runs(self) -> dict[str, list[FailingRun]]:
        """The runs of each failure that began in the last night, by page."""
        new = {}
        for life in self.lives:
            if life.state == "open":
                is_new = self.history.is_new_in_last_night
                runs = [failing for failing in life.open_runs if is_new(failing.row)]
                if runs:
                    new[life.page] = runs
        return new

    def verdict(self) -> tuple[str, str]:
        """Return what the last night says of the track, as the list of nights does, and
        its style. What to do now stands next to each failure.
        """
        history, track = self.history, self.track
        last = history.last_night(track)
        night = history.nights[last]
        cases = [
            case for case in night.cases if row_of(case, night.kind).track == track
        ]
        names = {case.case for case in cases}
        clusters = [each for each in night.clusters if not names.isdisjoint(each.cases)]
        known = verdicts_of(cases, clusters)
        states = history.states[history.rows_of[track], last]
        verdict = replace(
            known[0] if known else BackendVerdict(track.backend, 0, 0, 0),
            cases=int((states != 0).sum()),
            untestable=int(is_untested(states).sum()),
            actions={},
        )
        title = f"{night.started[:10]} · {track.name}"
        sentence = backend_sentence(verdict, night, title)
        return sentence, "bad" if verdict.broken else "good"

    def card(self) -> dict[str, object]:
        """Return the counts of the track."""
        history, rows = self.history, self.history.rows_of[self.track]
        last = history.last_night(self.track)
        codes = history.known_states[rows, last].tolist()
        statuses = Counter(status_in(code) for code in codes if code)
        passed, failed = (
            sum(statuses[status] for status in group) for group in (PASSING, FAILING)
        )
        tested = passed + failed
        open_runs = [life.open_runs for life in self.lives if life.state == "open"]
        return {
            "track": self.track,
            "night": history.nights[last],
            "rate": share_text(passed / tested, 2) if tested else "-",
            "passed": passed,
            "failed": statuses[Status.FAILED],
            "known": statuses[Status.XFAIL],
            "untestable": statuses[Status.UNTESTABLE],
            "new": sum(map(len, self.new_runs.values())),
            "open": sum(map(len, open_runs)),
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
