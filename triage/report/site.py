"""Write the static site of all stored nights: an overview, a page for each failure and
for each of the last nights, trends and a search.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from triage.model.errors import BadInput
from triage.model.outcome import Status
from triage.nightly.failure_life import FailureLife, failure_lives
from triage.nightly.history import NightsHistory, history_of
from triage.nightly.known_case import log_of
from triage.nightly.result import Night
from triage.nightly.store import NightStore
from triage.nightly.stored_night import StoredNight, Track
from triage.nightly.trends import metric_steps
from triage.report.document import (
    Code,
    Details,
    Facts,
    Heading,
    Table,
    TableRows,
)
from triage.report.elements import plural
from triage.report.facts import (
    came_span,
    issue_span,
    known_facts,
    life_facts,
    range_span,
)
from triage.report.html import fragment, html_templates, inline_markup
from triage.report.issue import issue_markdown, night_issue
from triage.report.night import (
    backend_sentence,
    night_document,
    night_table,
    night_title,
    time_name,
    times_text,
)
from triage.report.printable import visible
from triage.toolchains.home import disk_errors, write_whole

_GRID_NIGHTS = 14
_MARK = "made-by-triage-site"  # a folder with this file may be written again
_MOST_CASES = 500  # of a failure on its page
_MOST_LOGS = 5  # of a failure on its page
_MOST_STEPS = 10  # the steepest


@dataclass
class Site:
    """A site that is being written."""

    store: NightStore
    out: Path
    tracks: str = "*"
    """A shell pattern of the names of the tracks to show."""

    def write(self) -> dict[str, Any]:
        """Write all pages. Return the path of the index, and how many nights, cases and
        failures the site has.

        Raises BadInput when no night has a result, or the folder has other files.
        """
        stored = self.store.stored()
        self.history = history_of(stored, self.tracks)
        history = self.history
        if not history.cases:
            raise BadInput("no night with a result is stored; run `triage nightly`")
        self.lives = failure_lives(history, self.store.issues())
        self.environment = _environment(history)
        numbers = history.numbers[-_GRID_NIGHTS:]
        urls = {number: f"nights/{number}.html" for number in numbers}
        shown = [night for night in stored if night.number in history.numbers]
        with disk_errors(f"write {self.out}"):
            _clear(self.out)
            write_whole(
                self.out / _MARK, "`triage site` may write this folder again.\n"
            )
            assets = files("triage.report").joinpath("assets")
            for name in ("site.css", "site.js"):
                asset = assets.joinpath(name).read_bytes()
                write_whole(self.out / "assets" / name, asset)
            self._write_page("index", **_overview(history, self.lives, stored))
            table = night_table(shown[::-1], urls)
            self._write_page("nights", "report", title="Nights", blocks=[table])
            self._write_page("trends", rows=list(_steps(history)))
            self._write_page("search")
            for life in self.lives:
                self._write_failure(life)
            for number in numbers:
                self._write_night(number)
            rows = list(_searched(self.lives))
            index = json.dumps(rows, separators=(",", ":"))
            script = f"triageSearch({index});\n"
            write_whole(self.out / "data" / "search.js", script)
        return {
            "index": str(self.out / "index.html"),
            "nights": len(history.nights),
            "cases": len(history.cases),
            "failures": len(self.lives),
        }

    def _write_page(
        self, path: str, template: str | None = None, **values: object
    ) -> None:
        page = self.environment.get_template(f"site/{template or path}.html.j2")
        root = "../" * path.count("/")
        text = page.render(root=root, here=path, **values)
        write_whole(self.out / f"{path}.html", text)

    def _write_failure(self, life: FailureLife) -> None:
        """Write when and where a failure was seen, then the text of its issue."""
        rows: TableRows = [
            [
                failing.case.case,
                life.seen_at(failing.first).day,
                life.seen_at(failing.run.last.night).day,
            ]
            for failing in life.runs[:_MOST_CASES]
        ]
        found_in = life.found_in or self.history.nights[life.current.first]
        blocks = [
            Facts(list(life_facts(life))),
            Heading("Where it was seen"),
            Table(("case", "since", "last seen"), rows),
            *night_issue(life.cluster, found_in).blocks,
        ]
        for case in life.cases[:_MOST_LOGS]:
            log = log_of((), self.store, self.history, [case])
            if log:
                output = [Code("\n".join(log.lines))]
                blocks.append(Details(f"Output of {case.case}", output))
        title = life.failure.headline[:400]
        path = f"failures/{life.page}"
        self._write_page(path, "report", title=title, life=life, blocks=blocks)

    def _write_night(self, number: int) -> None:
        """Write the report of a night with the output of its failures."""
        night = self.store.night(number)
        if night is None:
            return
        document = night_document(night)
        blocks = [*document.blocks]
        for case in night.cases:
            text = self.store.log(number, case.log or "")
            if text:
                blocks.append(Details(f"Output of {case.case}", [Code(text)]))
        title = f"{date_text(night)}: {document.title}"
        self._write_page(f"nights/{number}", "report", title=title, blocks=blocks)


def _steps(history: NightsHistory) -> Iterator[dict[str, object]]:
    """Yield the steepest steps of all metrics, each with its line."""
    steps = [
        (step, metric, case)
        for case, metrics in metric_steps(history).items()
        for metric, of_metric in metrics.items()
        for step in of_metric
    ]
    steps.sort(key=lambda row: -max(row[0].ratio, 1 / row[0].ratio))
    for step, metric, case in steps[:_MOST_STEPS]:
        old, new = (history.nights[night] for night in (step.before, step.at))
        compiler = case.track.compiler
        yield {
            "case": case,
            "metric": metric,
            "step": step,
            "line": trend_line(case.metrics[metric.name], step.at),
            "day": new.started[:10],
            "commits": range_span(compiler, old.toolchain, new.toolchain),
        }


def trend_line(values: Mapping[int, float], step: int) -> Markup:
    """Return a line of values over the nights, with a mark at the night of a step."""
    first, low = min(values), min(values.values())
    span = (max(values.values()) - low) or 1
    points = " ".join(
        f"{night - first},{100 - 100 * (value - low) / span:.0f}"
        for night, value in values.items()
    )
    return Markup(
        '<svg class="trend" viewBox="0 -5 {} 110" preserveAspectRatio="none" '
        'aria-hidden="true"><path d="M{} -5V105"/><polyline points="{}"/></svg>'
    ).format(max(values) - first, step - first, points)


def _searched(lives: Sequence[FailureLife]) -> Iterator[tuple[str, str]]:
    """Yield text and address of what the search finds."""
    for life in lives:
        cluster = life.cluster
        suspects = cluster.culprit.suspects if cluster.culprit else ()
        words = [
            f"{life.failure.failure_class}: {life.failure.headline}",
            *(case.name for case in life.cases),
            *(remedy.text for remedy in cluster.remedies),
            *(f"{one.commit or one.name} {one.subject}" for one in suspects),
        ]
        yield visible(", ".join(words)), f"failures/{life.page}.html"


def _overview(
    history: NightsHistory, lives: Sequence[FailureLife], stored: Iterable[StoredNight]
) -> dict[str, Any]:
    """Return the values of the template."""
    by_number = {night.number: night for night in stored}
    last = sorted({history.last_night(track) for track in history.tracks})
    backends = {track.backend for track in history.tracks}
    verdicts, slower, names = [], [], []
    for number in last:
        night = history.nights[number]
        names.append(night_title(night).partition(" against ")[0])
        slower += [(time_name(row), times_text(row)) for row in night.slower]
        for verdict in by_number[history.numbers[number]].verdicts:
            if verdict.backend in backends:
                sentence = f"{date_text(night)}: {backend_sentence(verdict, night)}"
                verdicts.append((sentence, "bad" if verdict.broken else "good"))
    states: dict[str, list[FailureLife]] = {"open": [], "known": [], "gone": []}
    for life in lives:
        states[life.state].append(life)
    new = {
        life
        for life in states["open"]
        if any(history.is_new_in_last_night(run.case) for run in life.open_runs)
    }
    flaky = {case: history.flaky_changes(case) for case in history.cases}
    nights = range(len(history.nights))[-_GRID_NIGHTS:]
    return {
        "new": new,
        "toolchains": dict.fromkeys(names),
        "verdicts": sorted(verdicts, key=lambda verdict: verdict[1] != "bad"),
        "open": sorted(states["open"], key=lambda life: life not in new),
        "known": states["known"],
        "gone": states["gone"],
        "slower": slower,
        "passing": [case for case in history.cases if case.now.status is Status.XPASS],
        "flaky": [(case, count) for case, count in flaky.items() if count],
        "grid": [
            (track, [(night, _new_in(lives, track, night)) for night in nights])
            for track in history.tracks
        ],
    }


def date_text(night: Night) -> str:
    """Return the day of a night: `Fri 27 Nov`."""
    return f"{datetime.fromisoformat(night.started):%a %d %b}".replace(" 0", " ")


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


def issue_text(life: FailureLife) -> str:
    """Return the draft of the issue about an investigated failure."""
    assert life.found_in
    return issue_markdown(life.cluster, life.found_in, with_title=True)


def _new_in(lives: Sequence[FailureLife], track: Track, night: int) -> int | None:
    """Return how many failures came to a track in a night; None if nothing fails."""
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
    return len(new) if failing else None


def _clear(out: Path) -> None:
    """Remove an earlier site. Raises BadInput for a folder with other files."""
    if out.is_dir() and any(out.iterdir()):
        if not (out / _MARK).exists():
            raise BadInput(
                f"{out} has files that are not of a site; name another folder with "
                "--out"
            )
        for name in ("assets", "data", "failures", "nights"):
            shutil.rmtree(out / name, ignore_errors=True)


def _environment(history: NightsHistory) -> Environment:
    environment = html_templates()
    environment.filters.update(inline=inline_markup, fragment=fragment)
    environment.globals.update(
        plural=plural,
        history=history,
        last=date_text(history.nights[-1]),
        labels=track_labels(history.tracks),
        issue_text=issue_text,
        issue_span=issue_span,
        date_text=date_text,
        known_facts=known_facts,
        came_span=came_span,
        life=None,
    )
    return environment
