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

from triage.investigate.result import text_id
from triage.model.errors import BadInput
from triage.model.outcome import Status
from triage.nightly.failure_life import FailureLife, failure_lives
from triage.nightly.history import TIMES, CaseHistory, NightsHistory, Track
from triage.nightly.known_case import case_runs, night_logs
from triage.nightly.result import Night
from triage.nightly.store import NightStore
from triage.nightly.trends import time_steps
from triage.report.document import facts
from triage.report.elements import compiler_title, plural
from triage.report.facts import (
    came_span,
    command_line,
    issue_span,
    known_facts,
    life_facts,
    range_span,
    run_command,
)
from triage.report.html import fragment, html_templates, inline_markup
from triage.report.issue import issue_markdown, night_issue
from triage.report.night import night_document, runs_table, times_text
from triage.report.printable import visible
from triage.report.tables import backend_sentence, night_table
from triage.toolchains.home import disk_errors, write_whole

_GRID_NIGHTS = 14
_MARK = "made-by-triage-site"  # a folder with this file may be written again
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
        self.history = history = self.store.history(self.tracks)
        if not history.cases:
            raise BadInput("no night with a result is stored; run `triage nightly`")
        self.lives = failure_lives(history, self.store.issues())
        slower = {row.case for night in history.nights for row in night.slower}
        self.pages = {
            case: f"cases/{text_id(f'{case.track.name} {case.case}')}"
            for case in history.cases
            if case.case in slower
            or any(run.status is not Status.PASSED for run in case.runs)
        }
        recent = history.numbers[-_GRID_NIGHTS:]
        self.urls = {number: f"nights/{number}.html" for number in recent}
        self.environment = _environment(history, self.pages, self.urls)
        with disk_errors(f"write {self.out}"):
            _remove_earlier_site(self.out)
            write_whole(
                self.out / _MARK, "`triage site` may write this folder again.\n"
            )
            assets = files("triage.report").joinpath("assets")
            for name in ("site.css", "site.js"):
                asset = assets.joinpath(name).read_bytes()
                write_whole(self.out / "assets" / name, asset)
            self._write_page("index", **_overview(history, self.lives))
            table = night_table(history.summaries[::-1], self.urls)
            self._write_page(
                "nights", "report", title="Nights", blocks=[table], logs={}
            )
            self._write_page("trends", steps=time_steps(history)[:_MOST_STEPS])
            self._write_page("search")
            logs = {
                case: dict(night_logs(self.store, history, case)) for case in self.pages
            }
            lives: dict[CaseHistory, list[FailureLife]] = {}
            for life in self.lives:
                for case in life.cases:
                    lives.setdefault(case, []).append(life)
            for case in self.pages:
                self._write_case(case, lives.get(case, []), logs[case])
            for life in self.lives:
                self._write_failure(life, logs)
            for number in self.urls:
                self._write_night(number)
            rows = json.dumps(list(self._search_entries()), separators=(",", ":"))
            write_whole(self.out / "data" / "search.js", f"triageSearch({rows});\n")
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

    def _write_case(
        self,
        case: CaseHistory,
        lives: Sequence[FailureLife],
        logs: Mapping[int, str],
    ) -> None:
        """Write what to do about a case, its results over the nights and the output of
        its failures.
        """
        failing = [run for run in case.runs if run.failed] or case.runs
        last = self.history.nights[failing[-1].last].toolchain.name
        self._write_page(
            self.pages[case],
            "case",
            title=case.case,
            case=case,
            lives=lives,
            command=run_command(case.source, case.case, last),
            blocks=[runs_table(case_runs(self.history, case))],
            logs=logs,
        )

    def _write_failure(
        self, life: FailureLife, logs: Mapping[CaseHistory, Mapping[int, str]]
    ) -> None:
        """Write when and where a failure was seen, then the text of its issue."""
        found_in = life.found_in or self.history.nights[life.current.first]
        self._write_page(
            f"failures/{life.page}",
            "failure",
            life=life,
            logs=logs,
            facts=[facts(life_facts(life))],
            issue=night_issue(life.cluster, found_in).blocks,
        )

    def _write_night(self, number: int) -> None:
        """Write the report of a night with the output of its failures."""
        night = self.store.night(number)
        if night is None:
            return
        document = night_document(night)
        title = f"{date_text(night)}: {document.title}"
        texts = {
            case.case: self.store.log(number, case.log or "") for case in night.cases
        }
        logs = {case: text for case, text in texts.items() if text}
        path, blocks = f"nights/{number}", document.blocks
        self._write_page(path, "report", title=title, blocks=blocks, logs=logs)

    def _search_entries(self) -> Iterator[tuple[str, str]]:
        """Yield text and address of what the search finds."""
        for life in self.lives:
            cluster = life.cluster
            suspects = cluster.culprit.suspects if cluster.culprit else ()
            words = [
                f"{life.failure.failure_class}: {life.failure.headline}",
                *(remedy.text for remedy in cluster.remedies),
                *(
                    f"{suspect.commit or suspect.name} {suspect.subject}"
                    for suspect in suspects
                ),
            ]
            yield visible(", ".join(words)), f"failures/{life.page}.html"
        for case, page in self.pages.items():
            yield visible(f"{case.case} ({case.track.name})"), f"{page}.html"


def _overview(history: NightsHistory, lives: Sequence[FailureLife]) -> dict[str, Any]:
    """Return the values of the template."""
    last = sorted({history.last_night(track) for track in history.tracks})
    nights = [history.nights[number] for number in last]
    backends = {track.backend for track in history.tracks}
    cases = {case.case: case for case in history.cases}
    verdicts = [
        (verdict, history.nights[number])
        for number in last
        for verdict in history.summaries[number].verdict
        if verdict.backend in backends
    ]
    slower = [
        (cases[row.case], number, row)
        for number in last
        for row in history.nights[number].slower
        if row.case in cases  # its track is shown
    ]
    flaky = {case: history.flaky_changes(case) for case in history.cases}
    states: dict[str, list[FailureLife]] = {"open": [], "known": [], "gone": []}
    for life in lives:
        states[life.state].append(life)
    shown = range(len(history.nights))[-_GRID_NIGHTS:]
    return {
        **states,
        "passing": [
            case
            for case in history.cases
            if case.runs and case.runs[-1].status is Status.XPASS
        ],
        "open": sorted(states["open"], key=lambda life: not life.is_new),
        "toolchains": dict.fromkeys(
            f"{compiler_title(night.compiler)} {night.toolchain.name}".strip()
            for night in nights
        ),
        "nights": nights,
        "verdicts": sorted(verdicts, key=lambda row: not row[0].broken),
        "slower": slower,
        "flaky": [(case, count) for case, count in flaky.items() if count],
        "grid": [
            (track, [(night, _count_new(lives, track, night)) for night in shown])
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


def command_on(
    life: FailureLife, command: str, options: Sequence[str], *more: str
) -> str | None:
    """Return a command on the case of a failure. options: those that name the last
    toolchain, and before it the one without the failure.
    """
    case, night = life.current.case, life.history.nights[life.current.last]
    ends = [(life.before or night.baseline).name, night.toolchain.name]
    revisions = dict(zip(options, ends[-len(options) :], strict=True))
    return command_line(command, case.source, case.case, revisions, *more)


def _count_new(lives: Sequence[FailureLife], track: Track, night: int) -> int | None:
    """Return how many failures came to a track in a night; None if nothing fails."""
    failing = [
        (life, run)
        for life in lives
        if life.track == track
        for run in life.runs
        if run.first <= night <= run.last
    ]
    new = {life for life, run in failing if run.first == night and run.is_new}
    return len(new) if failing else None


def _remove_earlier_site(out: Path) -> None:
    """Remove an earlier site. Raises BadInput for a folder with other files."""
    if out.is_dir() and any(out.iterdir()):
        if not (out / _MARK).exists():
            raise BadInput(
                f"{out} has files that are not of a site; name another folder with "
                "--out"
            )
        for name in ("assets", "cases", "data", "failures", "nights"):
            shutil.rmtree(out / name, ignore_errors=True)


def _environment(
    history: NightsHistory, pages: Mapping[CaseHistory, str], urls: Mapping[int, str]
) -> Environment:
    environment = html_templates()
    environment.filters.update(inline=inline_markup, fragment=fragment)
    environment.globals.update(
        plural=plural,
        TIMES=TIMES,
        history=history,
        pages=pages,
        urls=urls,
        last=date_text(history.nights[-1]),
        labels=track_labels(history.tracks),
        issue_markdown=issue_markdown,
        issue_span=issue_span,
        date_text=date_text,
        known_facts=known_facts,
        backend_sentence=backend_sentence,
        came_span=came_span,
        range_span=range_span,
        times_text=times_text,
        run_command=run_command,
        command_on=command_on,
    )
    return environment
