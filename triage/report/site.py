"""Write the static site of all stored nights: an overview, a page for each failure and
for each of the last nights, trends and a search.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any

from triage.investigate.result import text_id
from triage.model.errors import BadInput
from triage.model.outcome import Status
from triage.nightly.history import (
    TIMES,
    CaseHistory,
    NightsHistory,
    PastNight,
    Track,
    time_steps,
)
from triage.nightly.lives import FailureLife, failure_lives, stored_logs
from triage.nightly.result import Night, TimeChange
from triage.nightly.store import BackendVerdict, NightStore, NightSummary
from triage.report.document import facts
from triage.report.elements import plural
from triage.report.facts import (
    came_span,
    command_line,
    command_to_run,
    issue_span,
    known_facts,
    life_facts,
    range_span,
)
from triage.report.issue import issue_markdown, night_issue
from triage.report.markup import fragment, html_templates, inline_markup
from triage.report.night import night_document, runs_table, times_text
from triage.report.printable import visible
from triage.report.tables import backend_sentence, night_table
from triage.toolchains.home import disk_errors, write_whole

_GRID_NIGHTS = 14
_MARK = "made-by-triage-site"  # a folder with this file may be written again
_FOLDERS = ("assets", "cases", "data", "failures", "nights")
_MOST_STEPS = 10  # the steepest


Page = tuple[str, str, dict[str, Any]]
"""The path of a page without `.html`, its template, and the values of that."""


def build_site(store: NightStore, out: Path, tracks: str = "*") -> dict[str, Any]:
    """Write all pages. Return the path of the index, and how many nights, cases and
    failures the site has. Raises BadInput when no night has a result, and when the
    folder has other files.

    tracks: a shell pattern of the names of the tracks to show.
    """
    history = store.history(tracks)
    if not history.cases:
        raise BadInput("no night with a result is stored; run `triage nightly`")
    lives = failure_lives(history)
    pages = _paths_of_cases(history)
    numbers = [night.summary.number for night in history.nights[-_GRID_NIGHTS:]]
    urls = {number: f"nights/{number}.html" for number in numbers}
    templates = html_templates()
    templates.filters.update(inline=inline_markup, fragment=fragment)
    templates.globals.update(_names_in_templates(history, pages, urls))
    with disk_errors(f"write {out}"):
        _remove_earlier_site(out)
        write_whole(out / _MARK, "`triage site` may write this folder again.\n")
        assets = files("triage.report").joinpath("assets")
        for name in ("site.css", "site.js"):
            write_whole(out / "assets" / name, assets.joinpath(name).read_text("utf-8"))
        for path, template, values in _pages(store, history, lives, pages, urls):
            page = templates.get_template(f"site/{template}.html.j2")
            root = "../" * path.count("/")
            text = page.render(root=root, here=path, **values)
            write_whole(out / f"{path}.html", text)
        rows = json.dumps(list(_search_entries(lives, pages)), separators=(",", ":"))
        write_whole(out / "data" / "search.js", f"triageSearch({rows});\n")
    return {
        "index": str(out / "index.html"),
        "nights": len(history.nights),
        "cases": len(history.cases),
        "failures": len(lives),
    }


def _paths_of_cases(history: NightsHistory) -> dict[CaseHistory, str]:
    """Return the page of each case that did not only pass, or that became slower."""
    slower = {row.case for night in history.nights for row in night.record.slower}
    return {
        case: f"cases/{text_id(f'{case.track.name} {case.case}')}"
        for case in history.cases
        if case.case in slower
        or any(run.status is not Status.PASSED for run in case.runs)
    }


def _names_in_templates(
    history: NightsHistory, pages: Mapping[CaseHistory, str], urls: Mapping[int, str]
) -> dict[str, object]:
    """Return what the templates of all pages call and show, by name."""
    called = (
        plural,
        issue_markdown,
        issue_span,
        date_text,
        known_facts,
        backend_sentence,
        came_span,
        range_span,
        times_text,
        command_to_run,
        failure_command,
    )
    return {
        **{function.__name__: function for function in called},
        "TIMES": TIMES,
        "history": history,
        "pages": pages,
        "urls": urls,
        "last": date_text(history.nights[-1].day),
        "labels": track_labels(history.tracks),
    }


def _pages(
    store: NightStore,
    history: NightsHistory,
    lives: Sequence[FailureLife],
    pages: Mapping[CaseHistory, str],
    urls: Mapping[int, str],
) -> Iterator[Page]:
    """Yield every page of the site. pages and urls: those of cases and nights."""
    yield "index", "index", _index_values(history, lives)
    summaries = [night.summary for night in reversed(history.nights)]
    table = night_table(summaries, urls)
    yield "nights", "report", {"title": "Nights", "blocks": [table], "logs": {}}
    yield "trends", "trends", {"steps": time_steps(history)[:_MOST_STEPS]}
    yield "search", "search", {}
    logs = {case: stored_logs(case, store) for case in pages}
    for case, path in pages.items():
        yield path, "case", _case_values(case, lives, logs[case])
    for life in lives:
        issue = night_issue(life.cluster, life.found_in or life.came.record).blocks
        rows = facts(life_facts(life))
        values = {"life": life, "logs": logs, "facts": [rows], "issue": issue}
        yield f"failures/{life.page}", "failure", values
    for number in urls:
        night = store.night(number)
        if night:
            yield f"nights/{number}", "report", _night_values(store, number, night)


def _case_values(
    case: CaseHistory, lives: Iterable[FailureLife], logs: Mapping[PastNight, str]
) -> dict[str, Any]:
    failing = [run for run in case.runs if run.failed] or case.runs
    version = failing[-1].last.toolchain.name
    return {
        "title": case.case,
        "case": case,
        "lives": [life for life in lives if case in life.cases],
        "command": command_to_run(case.source, case.case, version),
        "blocks": [runs_table(case.runs[::-1])],
        "logs": logs,
    }


def _night_values(store: NightStore, number: int, night: Night) -> dict[str, Any]:
    document = night_document(night)
    title = f"{date_text(night.started)}: {document.title}"
    logs = {case.case: store.log(number, case.log) for case in night.cases if case.log}
    shown = {case: text for case, text in logs.items() if text}
    return {"title": title, "blocks": document.blocks, "logs": shown}


def _search_entries(
    lives: Sequence[FailureLife], pages: Mapping[CaseHistory, str]
) -> Iterator[tuple[str, str]]:
    """Yield text and address of what the search finds."""
    for life in lives:
        cluster = life.cluster
        words = [f"{life.failure.failure_class}: {life.failure.headline}"]
        words += [remedy.text for remedy in cluster.remedies]
        for change in cluster.culprit.suspects if cluster.culprit else ():
            words.append(f"{change.commit or change.name} {change.subject}")
        yield visible(", ".join(words)), f"failures/{life.page}.html"
    for case, page in pages.items():
        yield visible(f"{case.case} ({case.track.name})"), f"{page}.html"


def _index_values(
    history: NightsHistory, lives: Sequence[FailureLife]
) -> dict[str, Any]:
    """Return the values of the template."""
    last = {history.last_night(track) for track in history.tracks}
    nights = sorted(last, key=lambda night: night.index)
    flaky = [(case, case.flaky_changes()) for case in history.cases]
    states: dict[str, list[FailureLife]] = {"open": [], "known": [], "gone": []}
    for life in lives:
        states[life.state].append(life)
    states["open"].sort(key=lambda life: not life.is_new)
    shown = history.nights[-_GRID_NIGHTS:]
    return {
        **states,
        "passing": [
            case
            for case in history.cases
            if case.runs and case.runs[-1].status is Status.XPASS
        ],
        "toolchains": dict.fromkeys(
            f"{night.summary.title} {night.toolchain.name}".strip() for night in nights
        ),
        "nights": nights,
        "verdicts": _verdicts(history, nights),
        "slower": list(_slower_runs(history, nights)),
        "flaky": [(case, count) for case, count in flaky if count],
        "grid": [
            (track, [(night, _count_new(lives, track, night)) for night in shown])
            for track in history.tracks
        ],
    }


def _verdicts(
    history: NightsHistory, nights: Iterable[PastNight]
) -> list[tuple[BackendVerdict, NightSummary]]:
    """Return what nights say of the backends that are shown, the broken ones first."""
    backends = {track.backend for track in history.tracks}
    verdicts = [
        (verdict, night.summary)
        for night in nights
        for verdict in night.summary.verdict
        if verdict.backend in backends
    ]
    return sorted(verdicts, key=lambda row: not row[0].broken)


def _slower_runs(
    history: NightsHistory, nights: Iterable[PastNight]
) -> Iterator[tuple[CaseHistory, PastNight, TimeChange]]:
    """Yield the runs that became slower, each with its case in the night's own
    track.
    """
    for night in nights:
        for row in night.record.slower:
            for case in history.cases:
                if case.case == row.case and night in history.tracks[case.track]:
                    yield case, night, row


def date_text(time: str) -> str:
    """Return the day of a time in ISO 8601: `Fri 27 Nov`."""
    return f"{date.fromisoformat(time[:10]):%a %d %b}".replace(" 0", " ")


def track_labels(tracks: Iterable[Track]) -> dict[Track, str]:
    """Return a short name for each track: its chip or backend, or where several have
    it, the whole name.
    """
    labels = {track: (track.target or track.compiler).split()[-1] for track in tracks}
    counts = Counter(labels.values())
    return {
        track: label if counts[label] == 1 else track.name
        for track, label in labels.items()
    }


def failure_command(
    life: FailureLife, command: str, options: Sequence[str], *more: str
) -> str | None:
    """Return a command on the case of a failure. options: those that name the last
    toolchain, and before it the one without the failure.
    """
    case = life.current.case
    night = life.current.last.record
    ends = [(life.before or night.baseline).name, night.toolchain.name]
    revisions = dict(zip(options, ends[-len(options) :], strict=True))
    return command_line(command, case.source, case.case, revisions, *more)


def _count_new(
    lives: Sequence[FailureLife], track: Track, night: PastNight
) -> int | None:
    """Return how many failures came to a track in a night; None if nothing fails."""
    failing = [
        life
        for life in lives
        if life.track == track and any(run.has(night) for run in life.runs)
    ]
    if failing:
        return sum(life.is_new_in(night) for life in failing)
    return None


def _remove_earlier_site(out: Path) -> None:
    """Remove an earlier site. Raises BadInput for a folder with other files."""
    if out.is_dir() and any(out.iterdir()):
        if not (out / _MARK).exists():
            raise BadInput(
                f"{out} has files that are not of a site; name another folder with "
                "--out"
            )
        for name in _FOLDERS:
            shutil.rmtree(out / name, ignore_errors=True)
