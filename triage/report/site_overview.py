"""The first page of the site: what the last nights say, what needs a person, and which
nights brought new failures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from triage.model.outcome import Status
from triage.nightly.failure_life import FailureLife
from triage.nightly.history import CaseHistory, NightsHistory
from triage.nightly.result import Night
from triage.nightly.stored_night import Track, track_of
from triage.nightly.verdict import Action, BackendVerdict, verdicts_of
from triage.report.document import Inline, Span
from triage.report.elements import compiler_title, plural
from triage.report.failure import came_spans, culprit_spans, issue_span
from triage.report.issue import issue_markdown
from triage.report.night_text import backend_sentence

GRID_NIGHTS = 14
_MOST_ROWS = 100  # of a list; the search finds the others


@dataclass(frozen=True)
class Button:
    """The one thing to do about a failure: an address to open, or a text to copy."""

    text: str
    url: str | None = None
    copied: str | None = None


@dataclass(frozen=True)
class Row:
    """A failure that needs a person."""

    life: FailureLife
    is_new: bool
    cases: Sequence[CaseHistory]
    """The new ones, or all that are open if none is new."""
    where: str
    """The short name of its track."""
    nights: int
    """How many nights of the track it is open for."""
    since: Inline
    known: Inline
    """The culprit, or what works around it."""
    button: Button | None


@dataclass(frozen=True)
class Cell:
    """A track in a night."""

    kind: str
    """`bad` for new failures, `known` for older ones only, `good`, or `none`."""
    new: int
    """New failures."""
    number: int
    """Of the night."""
    about: str


def overview(history: NightsHistory, lives: Sequence[FailureLife]) -> dict[str, Any]:
    """Return the values of the template."""
    labels = track_labels(history.tracks)
    new = {life: _new_cases(history, life) for life in lives}
    rows = [
        _row(history, life, new[life], labels[life.track])
        for life in lives
        if life.state == "open"
    ]
    rows.sort(key=lambda row: not row.is_new)
    flaky = {case: history.flaky_changes(case) for case in history.cases}
    last = last_nights(history)
    verdicts = [_verdict(history, track) for track in history.tracks]
    ran = sum(verdict.cases - verdict.untestable for _, _, verdict in verdicts)
    nights = range(max(0, len(history.nights) - GRID_NIGHTS), len(history.nights))
    count = sum(row.is_new for row in rows)
    loud = {row.life.track for row in rows if row.is_new} or set(history.tracks)
    shown = [history.nights[history.last_night(track)] for track in sorted(loud)]
    return {
        "new": count,
        "toolchains": _joined(
            f"{compiler_title(night.compiler)} {night.toolchain.name}".strip()
            for night in shown
        ),
        "counts": [
            date_text(max(last, key=lambda night: night.started)),
            f"{len(rows) - count} open",
            f"{sum(map(bool, flaky.values()))} flaky",
            f"{sum(len(night.slower) for night in last_nights(history))} slower",
            f"{ran} of {plural(len(history.cases), 'case')} ran",
            f"against {_joined(night.baseline.name for night in shown)}",
        ],
        "verdicts": [
            (text, style)
            for text, style, _ in sorted(verdicts, key=lambda entry: entry[1] != "bad")
        ],
        "rows": rows[:_MOST_ROWS],
        "more": len(rows) - _MOST_ROWS,
        "passing": [case for case in history.cases if case.now.status is Status.XPASS],
        "flaky": sorted(
            ((count, case) for case, count in flaky.items() if count),
            key=lambda entry: -entry[0],
        )[:_MOST_ROWS],
        "known": [life for life in lives if life.state == "known"][:_MOST_ROWS],
        "gone": sorted(
            (life for life in lives if life.state == "gone"),
            key=lambda life: life.gone.day if life.gone else "",
            reverse=True,
        )[:_MOST_ROWS],
        "grid_nights": [history.nights[number] for number in nights],
        "grid": [
            (label, [_cell(history, lives, track, label, n) for n in nights])
            for track, label in labels.items()
        ],
    }


def date_text(night: Night) -> str:
    """Return the day of a night: `Fri 27 Nov`."""
    try:
        return f"{datetime.fromisoformat(night.started):%a %d %b}".replace(" 0", " ")
    except ValueError:
        return night.started[:10]


def track_labels(tracks: Iterable[Track]) -> dict[Track, str]:
    """Return a short name for each track: its chip or backend, or where several have
    it, the whole name.
    """
    short = {track: (track.target or track.compiler).split()[-1] for track in tracks}
    counts = Counter(short.values())
    shared = {track: track.name for track, name in short.items() if counts[name] > 1}
    return short | shared


def _joined(names: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return " and ".join(filter(None, (", ".join(distinct[:-1]), distinct[-1])))


def last_nights(history: NightsHistory) -> list[Night]:
    """Return the last complete night of each track; once where several share it."""
    numbers = dict.fromkeys(map(history.last_night, history.tracks))
    return [history.nights[number] for number in numbers]


def _new_cases(history: NightsHistory, life: FailureLife) -> list[CaseHistory]:
    """Return the cases that have a failure since the last night."""
    if life.state != "open":
        return []
    cases = (failing.case for failing in life.open_runs)
    return [case for case in cases if history.is_new_in_last_night(case)]


def _row(
    history: NightsHistory, life: FailureLife, new: Sequence[CaseHistory], label: str
) -> Row:
    runs = [each for each in life.open_runs if not new or each.case in new]
    before, came = life.before, life.came
    if new:  # further cases of a failure may be new
        before = life.toolchain_before(runs[0])
        came = life.seen_at(runs[0].first, runs[0].is_edited)
    nights = [n for n in history.tracks[life.track] if n >= life.current.first]
    known = culprit_spans(life.cluster)
    if not known and life.cluster.remedies:
        known = ["works with ", Span(life.cluster.remedies[0].text, "code")]
    return Row(
        life=life,
        is_new=bool(new),
        cases=[each.case for each in runs],
        where=label,
        nights=len(nights),
        since=came_spans(life.compiler, before, came),
        known=known,
        button=button_of(life),
    )


def button_of(life: FailureLife) -> Button | None:
    """Return the one thing to do about a failure."""
    to_do = life.to_do
    if to_do is None:
        return None
    match to_do.action:
        case Action.FILE:
            return Button("Copy issue", copied=issue_draft(life))
        case Action.WAIT:
            issue = issue_span(to_do.issue or "")
            return Button(f"Open {issue.text.rpartition('/')[2]}", url=issue.url)
        case Action.UPGRADE:
            return Button(f"Upgrade to {to_do.since}", copied=to_do.since)
    return None


def issue_draft(life: FailureLife) -> str | None:
    """Return the draft of an issue; None if no night investigated the failure."""
    if not (life.found_in and life.cluster.is_investigated):
        return None
    return issue_markdown(life.cluster, life.found_in, with_title=True)


def _verdict(history: NightsHistory, track: Track) -> tuple[str, str, BackendVerdict]:
    """Return what the last complete night says of a track, as the list of nights does,
    and its style. What to do now stands next to each failure.
    """
    last = history.last_night(track)
    night = history.nights[last]
    cases = [case for case in night.cases if track_of(case, night.kind) == track]
    names = {case.case for case in cases}
    clusters = [each for each in night.clusters if not names.isdisjoint(each.cases)]
    [known, *_] = [
        *verdicts_of(cases, clusters),
        BackendVerdict(track.backend, 0, 0, 0),
    ]
    runs = [case.run_at(last) for case in history.cases_of[track]]
    seen = [run.last if run.last.night == last else run.first for run in runs if run]
    verdict = replace(
        known,
        cases=len(seen),
        untestable=sum(not (each.is_compared or each.is_new) for each in seen),
        actions={},
    )
    title = f"{night.started[:10]} · {track.name}"
    style = ("good", "bad")[bool(verdict.broken)]
    return backend_sentence(verdict, night, title), style, verdict


def _cell(
    history: NightsHistory,
    lives: Sequence[FailureLife],
    track: Track,
    label: str,
    night: int,
) -> Cell:
    """Return what a night brought to a track. label: its short name."""
    number, day = history.numbers[night], date_text(history.nights[night])
    where = f"{label}, {day}"
    if night not in history.tracks[track]:
        return Cell("none", 0, number, f"{where}: did not run")
    failing = [
        (life, run)
        for life in lives
        if life.track == track
        for run in life.runs
        if run.has(night)
    ]
    new = {
        life
        for life, run in failing
        if run.first == night
        and run.run.first.status is Status.FAILED
        and (run.run.first.is_new or (run.before and not run.is_edited))
    }
    if new:
        what = plural(len(new), "new failure")
        return Cell("bad", len(new), number, f"{where}: {what}")
    if failing:
        return Cell("known", 0, number, f"{where}: only older failures")
    return Cell("good", 0, number, f"{where}: nothing fails")
