"""Write the static site of all stored nights: pages from templates, data in files that
the pages load when they need them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from jinja2 import Environment

from triage.execution.cache import ResultCache
from triage.model.errors import BadInput
from triage.model.json_form import as_json
from triage.model.outcome import Status
from triage.nightly.failure_report import (
    FailureLife,
    FailureReport,
    KnownFailure,
    failure_lives,
    failure_report,
    known_failures,
)
from triage.nightly.history import NightColumns, NightsHistory, history_of
from triage.nightly.known_case import log_of, states_of, stored_log
from triage.nightly.store import NightStore
from triage.nightly.trends import MetricStep, find_steps
from triage.report.document import (
    Block,
    Code,
    Details,
    Fact,
    Facts,
    Paragraph,
    Span,
    Table,
    TableRows,
)
from triage.report.elements import failure_text, plural
from triage.report.failure import range_spans, report_blocks, why_unknown
from triage.report.html import fragment, html_templates, inline_markup
from triage.report.issue import issue_markdown
from triage.report.night_text import night_table
from triage.report.printable import visible
from triage.report.site_data import (
    LETTERS,
    METRICS,
    ChartedMetric,
    FailureNumbers,
    case_file_count,
    case_files,
    data_file,
    failure_letters,
    grid,
    night_rows,
    search_rows,
    track_rows,
)
from triage.report.site_overview import overview, owners_in
from triage.toolchains.home import disk_errors, write_whole

_MARK = "made-by-triage-site"  # a folder with this file may be written again
_MOST_CASES = 500  # of a failure on its page
_MOST_STEPS = 1000
_OPEN_ROWS = 60  # of a table; a browser takes long to lay out hundreds
_CHART_FILES = ("uPlot.iife.js", "uPlot.min.css")
_HASH = re.compile(r"\b[0-9a-f]{32,}\b")


@dataclass
class Site:
    """A site that is being written."""

    store: NightStore
    out: Path
    cache: ResultCache | None = None
    """The results to take logs and older states from."""
    tracks: str = "*"
    """A shell pattern of the names of the tracks to show."""
    sizes: list[int] = field(default_factory=list)
    history: NightsHistory = field(init=False)
    steps: dict[str, list[MetricStep]] = field(init=False)
    lives: tuple[FailureLife, ...] = field(init=False)
    known: Mapping[str, KnownFailure] = field(init=False)
    """What nights found out about the failure on each page."""
    reports: Mapping[str, FailureReport] = field(init=False)
    """The report on each page."""

    def write(self) -> dict[str, Any]:
        """Write all pages. Return the path of the index, and how many nights, cases,
        failures, steps, files and bytes the site has.

        Raises BadInput when no night has a result, or the folder has other files.
        """
        columns = self.store.columns()
        history = history_of(columns)
        if not history.rows:
            raise BadInput("no night with a result is stored; run `triage nightly`")
        self.history = history = history.of_tracks(self.tracks)
        with disk_errors(f"write {self.out}"):
            _clear(self.out)
            self._write_assets()
            self.steps = self._find_steps()
            self.lives = failure_lives(history)
            self.known = known_failures(history, self.lives, self.store.issues())
            self.reports = {
                life.page: failure_report(history, life, self.known.get(life.page))
                for life in self.lives
            }
            self._write_data()
            shown = [entry for entry in columns if entry[0] in history.numbers]
            self._write_pages(shown)
        return {
            "index": str(self.out / "index.html"),
            "nights": len(history.nights),
            "cases": len(history.rows),
            "failures": len(self.lives),
            "steps": sum(map(len, self.steps.values())),
            "files": len(self.sizes),
            "bytes": sum(self.sizes),
        }

    def _write_file(self, name: str, content: str | bytes) -> None:
        data = content.encode() if isinstance(content, str) else content
        write_whole(self.out / name, data)
        self.sizes.append(len(data))

    def _write_data_file(self, name: str, value: object) -> None:
        self._write_file(f"data/{name}.js", data_file(name, value))

    def _write_assets(self) -> None:
        self._write_file(_MARK, "`triage site` may write this folder again.\n")
        own = files("triage.report").joinpath("assets")
        for name in ("site.css", "site.js"):
            self._write_file(f"assets/{name}", own.joinpath(name).read_bytes())
        # not imported, because it imports IPython
        charts = distribution("uplot-python")
        for name in _CHART_FILES:
            path = Path(str(charts.locate_file(f"uplot/static/{name}")))
            self._write_file(f"assets/{name}", path.read_bytes())

    def _find_steps(self) -> dict[str, list[MetricStep]]:
        """Return the steps of each metric that was measured."""
        steps = {}
        for metric in METRICS:
            values = self.history.metrics.get(metric.name)
            if values is not None:
                found = find_steps(values, metric.least_ratio, metric.least_difference)
                steps[metric.name] = [
                    step
                    for step in found
                    if not self.history.has_new_input(step.row, step.before, step.at)
                ]
        return steps

    def _write_data(self) -> None:
        history = self.history
        numbers = FailureNumbers.of(history, self.lives)
        owners = {page: one.cluster.owner or "" for page, one in self.reports.items()}
        self._write_data_file("nights", night_rows(history))
        self._write_data_file("tracks", track_rows(history))
        self._write_data_file("grid", grid(history, numbers, owners))
        self._write_data_file("search", search_rows(history, self.reports.values()))
        failing = {row for life in self.lives for row in life.rows}

        def values_of(row: int) -> Mapping[str, Any]:
            return self._states_and_log(row) if row in failing else {}

        for name, values in case_files(history, self.steps, values_of, numbers):
            self._write_data_file(name, values)

    def _states_and_log(self, row: int) -> dict[str, Any]:
        """Return the state on each toolchain, and the output, of a case that failed."""
        history = self.history
        records = self.cache.newest_of(history.rows[row].case) if self.cache else ()
        last = next(run.last for run in reversed(history.runs[row]) if run.failed)
        log = log_of(records, history.nights[last].toolchain.name)
        log = log or stored_log(self.store, history, row)
        states = [
            (
                visible(state.toolchain.name),
                LETTERS[state.status],
                visible(failure_text(state.failure)) if state.failure else "",
            )
            for state in states_of(records, history, [row])
        ]
        return {"states": states, "log": as_json(log) if log else None}

    def _write_pages(self, columns: Sequence[tuple[int, NightColumns]]) -> None:
        history, environment = self.history, _environment()
        common = {
            "title": "triage",
            "history": history,
            "night": lambda number: history.nights[number],
            "last": history.nights[-1],
            "case_name": lambda row: history.names[row],
            "files": case_file_count(history),
            "range": lambda row, old, new: inline_markup(
                range_spans(history.rows[row].track.compiler, old, new)
            ),
        }

        def write(name: str, template: str, **values: object) -> None:
            root = "../" * name.count("/")
            page = environment.get_template(f"site/{template}.html.j2")
            text = page.render({**common, "root": root, **values})
            self._write_file(f"{name}.html", text)

        write("index", "index", **overview(history, self.lives, self.reports))
        write("grid", "grid", owners=owners_in(self.reports.values()))
        write("search", "search")
        write("case", "case", metrics=METRICS)
        write("trends", "trends", rows=self._trends(), metrics=METRICS)
        nights = _folded(night_table(columns[::-1]), "older night")
        write("nights", "nights", content=fragment(nights))
        for life in self.lives:
            report = self.reports[life.page]
            write(
                f"failures/{life.page}",
                "failure",
                report=report,
                content=fragment(report_blocks(report)),
                draft=fragment(self._draft_blocks(life)),
                track=list(history.tracks).index(life.track),
                states=failure_letters(history, life),
                cases=fragment(_folded(self._case_table(life), "further case")),
                others=len(life.rows),
                details=fragment([Facts(list(self._details(life)))]),
            )

    def _draft_blocks(self, life: FailureLife) -> list[Block]:
        known = self.known.get(life.page)
        if known is None or not known.cluster.is_investigated:
            reason = why_unknown(self.reports[life.page].cluster, "reduce")
            return [Paragraph(f"No draft is written: {reason}.")]
        night = self.history.nights[known.night]
        draft = issue_markdown(known.cluster, night, with_title=True)
        return [Details("Draft of an issue in Markdown", [Code(draft)])]

    def _details(self, life: FailureLife) -> Iterator[Fact]:
        failure, cluster = life.failure, self.reports[life.page].cluster
        place = (failure.location or "").rpartition("/")[2]
        texts = {
            "track": life.track.name,
            "signature": life.signature,
            "stage": failure.stage.value,
            "phase": failure.phase,
            "where": _HASH.sub("input", place),
        }
        for name, text in texts.items():
            if text:
                yield name, text
        pages = {known.cluster.id: page for page, known in self.known.items()}
        for other in cluster.same_culprit:
            url = f"{pages[other]}.html" if other in pages else None
            yield "same culprit", Span(other, url=url)

    def _day(self, number: int) -> str:
        return self.history.nights[number].started[:10]

    def _case_table(self, life: FailureLife) -> Table:
        rows: TableRows = []
        for failing in life.runs[:_MOST_CASES]:
            name, run = visible(self.history.names[failing.row]), failing.run
            short = visible(self.history.rows[failing.row].case)
            if failing.after:
                now = f"gone since {self._day(failing.after.first)}"
            elif run.status is Status.XFAIL:
                now = "fails as expected"
            else:
                now = "fails"
            link = Span(short, url=f"../case.html#{quote(name, safe='')}")
            rows.append([link, self._day(run.first), self._day(run.last), now])
        return Table(("case", "since", "last seen", "now"), rows)

    def _trends(self) -> list[tuple[ChartedMetric, MetricStep]]:
        """Return the steps of all metrics, the latest and largest first."""
        rows = [
            (metric, step)
            for metric in METRICS
            for step in self.steps.get(metric.name, ())
        ]
        rows.sort(key=lambda row: (-row[1].at, -abs(float(np.log(row[1].ratio)))))
        return rows[:_MOST_STEPS]


def _folded(table: Table, what: str) -> list[Block]:
    """Return a table of the first rows, and one of the others, folded."""
    first, others = table.rows[:_OPEN_ROWS], table.rows[_OPEN_ROWS:]
    blocks: list[Block] = [replace(table, rows=first)]
    if others:
        title = plural(len(others), what)
        blocks.append(Details(title, [replace(table, rows=others)]))
    return blocks


def _clear(out: Path) -> None:
    """Remove an earlier site. Raises BadInput for a folder with other files."""
    if out.is_dir() and any(out.iterdir()):
        if not (out / _MARK).exists():
            raise BadInput(
                f"{out} has files that are not of a site; name another folder with "
                "--out"
            )
        for name in ("assets", "data", "failures"):
            shutil.rmtree(out / name, ignore_errors=True)


def _environment() -> Environment:
    environment = html_templates()
    environment.filters.update(
        inline=inline_markup, day=lambda at: str(at)[:10], number=_number
    )
    environment.globals.update(plural=plural)
    return environment


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
